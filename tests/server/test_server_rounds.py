"""Rounds: who takes part, when they close, what is earned, when the job ends."""

from collections.abc import Sequence

import pytest

from dealfl.errors import BadInput
from dealfl.protocol.messages import (
    Asleep,
    Assignment,
    Declined,
)
from dealfl.server import (
    Ledger,
    RewardWeights,
    Rules,
    Server,
    compute_reward,
)
from dealfl.server.selection import Everyone
from tests.federation.parts import announce, bayes, examples, joined, kinds, server, update


class Remembering(Everyone):
    """Wakes everyone, and remembers what they earned."""

    def __init__(self) -> None:
        self.earnings: list[tuple[int, str, float]] = []

    def record_reward(self, round_number: int, worker: str, reward: float) -> None:
        self.earnings.append((round_number, worker, reward))


def closings(one: Server) -> list[tuple[int, str]]:
    return [(closed.number, closed.reason) for closed in one.reader.closed_rounds()]


def assigned(messages: Sequence[object]) -> list[str]:
    return [message.worker for message in messages if isinstance(message, Assignment)]


def test_whoever_arrives_during_a_round_waits_for_the_next() -> None:
    one = joined("a", "b", "c")
    assert assigned(one.handle([announce("d", 0)], 1.0).messages) == []
    one.handle([update(1, name="a", round=1), announce("a", waiting=0)], 2.0)
    step = one.handle([announce("b", waiting=0), update(1, name="b", round=1)], 3.0)
    assert assigned(step.messages) == ["d"], "the others have nothing waiting or are training"
    assert closings(one) == [(1, "majority")]


def test_a_worker_that_never_heard_of_its_assignment_gets_it_again() -> None:
    one = joined("a", "b", "c")
    told = {
        "a": announce("a", epoch=one.epoch),
        "b": announce("b", epoch=one.epoch, round=1),
    }

    def back(name: str, now_s: float) -> list[tuple[str, int]]:
        one.handle([Asleep(job="job", worker=name)], now_s)
        step = one.handle([told[name]], now_s)
        return [(m.worker, m.round) for m in step.messages if isinstance(m, Assignment)]

    assert back("a", 1.0) == [("a", 1)]
    assert back("b", 1.0) == [], "it knows of the round"
    one.handle([update(1, name="a", round=1)], 2.0)
    assert back("a", 3.0) == [], "it has answered"


@pytest.mark.parametrize(("workers", "needed"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3)])
def test_a_round_closes_when_more_than_half_have_replied(workers: int, needed: int) -> None:
    names = [f"w{n}" for n in range(workers)]
    one = joined(*names)
    for count, name in enumerate(names[:needed], 1):
        assert not one.reader.closed_rounds()
        one.handle([update(1, name=name, round=1)], float(count))
    assert closings(one) == [(1, "majority")]
    assert one.reader.closed_rounds()[0].duration_s == needed


def test_a_round_without_a_majority_closes_by_its_time_to_live() -> None:
    one = joined("a", "b", ttl_s=60.0)
    assert one.handle([update(1, name="a", round=1)], 1.0).wake_at_s == 60.0
    one.handle([], 59.9)
    assert not one.reader.closed_rounds()
    one.handle([], 60.0)
    assert closings(one) == [(1, "time to live")]
    assert one.model.statistics == examples(1), "what came in time counts"


def declined(name: str) -> Declined:
    return Declined(job="job", worker=name, round=1, reason="hot")


def test_a_round_that_everybody_declined_does_not_wait_for_its_time_to_live() -> None:
    one = joined("a", "b")
    one.handle([declined("a")], 1.0)
    assert not one.reader.closed_rounds()
    one.handle([declined("b")], 2.0)
    (closed,) = one.reader.closed_rounds()
    assert (closed.number, closed.duration_s) == (1, 2.0)


def test_a_worker_that_has_just_trained_is_not_woken_for_what_it_has_learned() -> None:
    one = joined()
    messages = one.handle([update(1, 1, round=1)], 1.0).messages  # its announcement got lost
    assert assigned(messages) == []


def test_a_round_does_not_open_for_fewer_than_the_least() -> None:
    one = joined("a", "b", min_workers=3)
    assert one.reader.open_round() is None
    assert assigned(one.handle([announce("c", 0)], 1.0).messages) == ["a", "b", "c"]


def test_a_late_update_counts_in_the_open_round_and_earns_nothing() -> None:
    selector = Remembering()
    ledger = Ledger()
    one = Server("job", bayes, ledger, Rules(rounds=9, ttl_s=60.0), selector)
    one.handle([announce("a", 0), announce("b", 0)], 0.0)
    one.handle([announce("b", 1)], 60.0)  # the first round is over, the second one open for b
    assert ledger.rounds.find_open() is not None
    late = one.handle([update(1, 2, name="a", round=1)], 70.0)
    assert "Receipt" in kinds(late.messages)
    assert selector.earnings == [(1, "a", 0.0)]
    one.handle([update(1, 3, name="b", round=2)], 71.0)
    assert one.model.statistics == examples(5)
    assert selector.earnings[1][2] > 0


def test_a_prompt_update_is_rewarded_also_when_the_majority_closed_the_round() -> None:
    selector = Remembering()
    one = Server("job", bayes, Ledger(), Rules(rounds=9, ttl_s=60.0), selector)
    one.handle([announce(name, 0) for name in "abc"], 0.0)
    one.handle([update(1, name="a", round=1), update(1, name="b", round=1)], 5.0)
    one.handle([update(1, name="c", round=1)], 30.0)
    assert [name for _, name, earned in selector.earnings if earned > 0] == ["a", "b", "c"]
    one.handle([update(1, name="c", round=1)], 31.0)
    assert len(selector.earnings) == 3, "nobody earns twice"


def test_after_the_last_round_late_updates_still_count() -> None:
    one = joined("a", "b", rounds=1)
    one.handle([update(1, name="a", round=1)], 1.0)
    one.handle([], 60.0)
    assert one.finished
    one.handle([update(1, 2, name="b", round=1), announce("a", 1)], 61.0)
    assert one.model.statistics == examples(3)
    assert one.reader.open_round() is None


def test_a_restarted_server_has_the_same_digest_and_open_round() -> None:
    ledger = Ledger()
    one = joined("a", "b", "c", ledger=ledger)
    one.handle([update(1, 2, name="a", round=1), update(1, 3, name="b", round=1)], 1.0)
    one.handle([announce("a"), announce("b")], 2.0)
    again = server(ledger)
    assert again.model.digest() == one.model.digest()
    assert again.workers == one.workers
    again.handle([update(2, 1, name="a", round=2), update(2, 1, name="b", round=2)], 3.0)
    assert again.model.statistics == examples(7)


# -- the clock ----------------------------------------------------------------------------------


def test_a_clock_that_jumps_back_makes_no_round_longer_than_its_time_to_live() -> None:
    one = server(ttl_s=60.0)
    one.handle([announce("a", 0), announce("b", 0)], 1e9)
    step = one.handle([update(1, name="a", round=1), announce("a")], 1000.0)
    assert step.wake_at_s == 1060.0
    assert assigned(one.handle([], 1060.0).messages) == ["a"], "the next round begins"
    assert closings(one) == [(1, "time to live")]


# -- rewards and convergence --------------------------------------------------------------------


def test_prompt_much_and_cheap_earns_one_and_late_earns_nothing() -> None:
    weights = RewardWeights(half_time=0.0)
    best = compute_reward(weights, elapsed_s=0, ttl_s=60, learned=10**12, energy_j=0.0)
    assert best == pytest.approx(1.0)
    assert compute_reward(weights, elapsed_s=60.1, ttl_s=60, learned=10, energy_j=0.0) == 0.0
    assert compute_reward(weights, elapsed_s=60, ttl_s=60, learned=0, energy_j=1e12) < 1e-9
    only_speed = RewardWeights(volume=0, energy=0, half_time=0.0)
    assert compute_reward(only_speed, elapsed_s=15, ttl_s=60, learned=0, energy_j=99.0) == 0.75
    back = compute_reward(only_speed, elapsed_s=-1e9, ttl_s=60, learned=0, energy_j=0.0)
    assert back == 1.0, "a clock that jumped back earns no more than the best"


@pytest.mark.parametrize("bad", [{"speed": -1.0}, {"half_energy_j": 0.0}])
def test_weights_that_cannot_be_averaged_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(BadInput, match="it takes a number"):
        RewardWeights(**bad)


@pytest.mark.parametrize(
    "bad", [{"ttl_s": 0.0}, {"workers_per_round": 0}, {"over_select": 0.5}, {"patience": 0}]
)
def test_terms_under_which_no_round_could_close_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(BadInput):
        Rules(**bad)  # type: ignore[arg-type]


def test_rounds_without_a_majority_say_nothing_about_convergence() -> None:
    one = joined("a", "b", "c", tolerance=2.0, patience=2)  # every change is below it
    number = 1

    def close(*names: str) -> None:
        nonlocal number
        now_s = 100.0 * number
        one.handle([update(number, name=name, round=number) for name in names], now_s)
        one.handle([], now_s + 90.0)
        one.handle([announce(name, waiting=9) for name in "abc"], now_s + 91.0)
        number += 1

    close("a", "b", "c")
    assert not one.finished
    close()
    close()
    assert [reason for _, reason in closings(one)] == ["majority", "time to live", "time to live"]
    assert not one.finished, "two rounds without a majority do not count as quiet"


def test_a_model_that_hardly_changes_ends_the_job_also_across_a_restart() -> None:
    ledger = Ledger()
    one = joined(ledger=ledger, tolerance=0.05, patience=2)
    for number in range(1, 40):
        one = server(ledger, tolerance=0.05, patience=2)
        one.handle([update(number, round=number), announce(waiting=5)], float(number))
        if one.finished:
            break
    assert one.finished
    assert 2 < len(one.reader.closed_rounds()) < 39
    assert server(ledger).finished
