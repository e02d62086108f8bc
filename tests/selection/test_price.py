"""A price of waking: who is not worth it sleeps on, until it is owed its share of the rounds."""

import pytest

from dealfl.errors import BadInput
from dealfl.server.selection import Candidate, make_selector
from dealfl.server.selection.bandit import Bandit, unpack
from tests.selection.playing import save

PRICED = ("fair_ucb", "thompson", "discounted")


def made(name: str, **settings: object) -> Bandit:
    one = make_selector(name, settings)
    assert isinstance(one, Bandit)
    return one


@pytest.mark.parametrize("name", PRICED)
def test_fewer_than_asked_for_are_woken_if_the_others_are_not_worth_it(name: str) -> None:
    workers = [Candidate("full", 90.0), Candidate("fuller", 95.0), Candidate("empty", 1.0)]
    assert made(name).select(1, workers, 3) == ["full", "fuller", "empty"]
    priced = made(name, price=0.02)
    chosen = {one for number in range(1, 9) for one in priced.select(number, workers, 3)}
    assert chosen == {"full", "fuller"}


@pytest.mark.parametrize("name", PRICED)
def test_a_promise_is_kept_also_to_those_who_are_not_worth_it(name: str) -> None:
    one = made(name, price=0.5, fairness={"empty": 0.1}, eta=2.0)
    workers = [Candidate("full", 100.0), Candidate("empty", 1.0)]
    served = 0
    for number in range(1, 401):
        chosen = one.select(number, workers, 2)
        served += "empty" in chosen
        for worker in chosen:
            one.record_reward(number, worker, 0.9)
    # what is owed never exceeds what the price asks for, and one pick
    assert 40 - (2.0 * 0.5 + 1) <= served <= 41


@pytest.mark.parametrize("name", PRICED)
def test_a_round_for_which_nobody_is_worth_it_does_not_take_place(name: str) -> None:
    one = made(name, price=0.3, fairness=0.1, eta=1.0)
    one.select(1, [Candidate("a", 100.0), Candidate("b", 100.0)], 1)
    few = [Candidate(worker, 1.0) for worker in "abc"]
    owed = one.arms.queues(2)[:2].tolist()
    parts: dict[str, bytes] = {}
    for _ in range(30):
        assert one.select(2, few, 2) == []
        parts = save(one, parts)
        one = made(name, price=0.3, fairness=0.1, eta=1.0)
        one.restore(parts)
    assert one.arms.queues(2)[:2].tolist() == owed, "what does not take place is not owed"
    assert unpack(parts).columns["awake"].tolist() == [1, 1, 0]
    assert one.select(2, [Candidate("c", 100.0)], 2) == ["c"]
    with pytest.raises(BadInput, match="rounds must increase"):
        one.select(2, few, 2)


@pytest.mark.parametrize("name", PRICED)
def test_a_silent_worker_is_blamed_once_however_often_nobody_is_worth_it(name: str) -> None:
    one = made(name, price=0.5)
    one.select(1, [Candidate("silent", 100.0)], 1)
    for _ in range(5):
        assert one.select(2, [Candidate("few", 1.0)], 1) == []
    assert one.arms.count[one.names.index("silent")] == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize("name", [*PRICED, "oort"])
def test_who_is_overdue_is_woken_whatever_it_is_worth(name: str) -> None:
    one = made(name, price=0.9)
    workers = [Candidate("few", 1.0), Candidate("old", 1.0, overdue=True), Candidate("less", 2.0)]
    assert one.select(1, workers, 2) == ["old"]


@pytest.mark.parametrize("price", [-0.1, 1.1, "dear", True])
def test_a_price_is_a_share(price: object) -> None:
    with pytest.raises(BadInput, match="price is"):
        made("fair_ucb", price=price)


def test_what_cannot_be_kept_even_for_those_always_awake_is_reported_at_once() -> None:
    one = made("fair_ucb", fairness={"a": 0.9, "b": 0.9, "c": 0.1})
    one.select(1, [Candidate(worker) for worker in "abc"], 1)
    found = one.over_promised()
    assert found is not None
    assert (found.workers, round(found.promised, 3), found.possible) == (("a", "b", "c"), 1.9, 1.0)
    modest = made("fair_ucb", fairness=0.3)
    modest.select(1, [Candidate(worker) for worker in "abc"], 1)
    assert modest.over_promised() is None
