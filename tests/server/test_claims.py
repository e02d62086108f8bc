"""What an update claims is held against its delta and the predictions; lies earn nothing."""

import random
from collections import Counter
from typing import Any

import msgspec
import pytest

from dealfl.erasure import owner_hash
from dealfl.errors import BadInput
from dealfl.exact import Statistics
from dealfl.protocol.messages import (
    Assignment,
    Erase,
    Message,
    Receipt,
    Refusal,
    Update,
    Verdict,
    Withdraw,
)
from dealfl.server import Ledger, Rules, Server
from dealfl.server.selection import SELECTORS, make_selector
from dealfl.worker import SCHEMES, WorkerKeys
from tests.federation.parts import (
    KEY,
    FixedMeter,
    announce,
    assignment,
    bayes,
    delta_of,
    examples,
    item,
    joined,
    pagerank,
    row,
    update,
    updates,
    welcomed,
)

FIVE = examples(5)
NOTHING = Statistics.zero(bayes().schema)
FIT: dict[str, Any] = {"learned": 5, "operations": 500, "elapsed_s": 0.5, "energy_j": 0.3}
LIES: dict[str, dict[str, Any]] = {
    "empty": {"delta": NOTHING, "learned": 10**6},
    "empty-and-evicted": {"delta": NOTHING, "learned": 10**6, "evicted": 10**6},
    "replayed": {"learned": 10**6},
    "replayed-and-evicted": {"learned": 10**6, "evicted": 10**6 - 5},
    "free-of-charge": {"learned": 10**6, "energy_j": 1e-9, "elapsed_s": 1e-9},
}
LIES |= {f"{name}-announced": lie for name, lie in LIES.items()}
HONEST = [f"honest-{number}" for number in range(6)]


class Fleet:
    """Honest workers that learn five examples at a time, and liars; all reply promptly."""

    def __init__(self, selector: str) -> None:
        names = [*HONEST, *LIES]
        self.sequences = dict.fromkeys(names, 0)
        rules = Rules(rounds=10**6, workers_per_round=1, presence_timeout_s=1e9)
        self.server = Server("job", bayes, Ledger(), rules, make_selector(selector, {}))
        self.opened = self.handled([self.announced(name, 0) for name in names], 0.0)

    def announced(self, name: str, incarnation: int = 1) -> Message:
        waiting = 10**9 if name.endswith("announced") else 5
        return announce(name, incarnation, waiting=waiting, device="honor", capacity_j=4e4)

    def handled(self, messages: list[Message], now_s: float) -> list[str]:
        replies = self.server.handle(messages, now_s).messages
        return [one.worker for one in replies if isinstance(one, Assignment)]

    def select(self, rounds: int) -> Counter[str]:
        times: Counter[str] = Counter()
        for number in range(1, rounds + 1):
            times.update(self.opened)
            replies: list[Message] = []
            for name in self.opened:
                self.sequences[name] += 1
                figures = FIT | LIES.get(name, {})
                sequence = self.sequences[name]
                delta = figures.pop("delta", FIVE)
                replies.append(update(sequence, name=name, round=number, delta=delta, **figures))
            again = [self.announced(name) for name in self.opened]
            self.opened = self.handled([*replies, *again], 10.0 * number)
        return times


@pytest.mark.parametrize("selector", sorted(set(SELECTORS) - {"uniform", "everyone"}))
def test_a_liar_wins_no_more_than_its_share_of_selections(selector: str) -> None:
    fleet = Fleet(selector)
    times = fleet.select(300)
    assert times.total() == 300
    for name in LIES:
        assert times[name] <= 300 / (len(HONEST) + len(LIES)), times
    flags = {name for name, row in fleet.server.workers.items() if row.flag}
    assert flags == set(times) - set(HONEST)


def replied(*figures: dict[str, Any], **rules: Any) -> Server:
    """Return a server after two workers replied, the second with other figures."""
    one = joined("honest", "w", **rules)
    one.handle([update(1, 5, name="honest", round=1, **FIT)], 0.5)
    for sequence, claims in enumerate(figures, 1):
        one.handle([update(sequence, 5, round=1, **(FIT | claims))], 1.0)
    return one


def test_claims_that_fit_earn_and_others_do_not() -> None:
    fits, lies = replied({}), replied({"learned": 6})
    (rewarded,) = fits.reader.selections("w")
    (lied,) = lies.reader.selections("w")
    assert rewarded.reward > 0.3
    assert rewarded.learned == 5
    assert (lied.reward, lied.learned, lied.energy_j) == (0.0, 0, 0.0)
    assert lies.workers["w"].flag == "update claims 6 more examples; its delta has 5"
    assert fits.workers["w"].flag == lies.workers["honest"].flag == ""
    assert lies.model.statistics == fits.model.statistics, "the examples themselves count"
    assert [(one.workers["w"].learned, one.workers["w"].evicted) for one in (fits, lies)] == [
        (5, 0), (0, 0),
    ]  # fmt: skip


@pytest.mark.parametrize("claim", [{"energy_j": 1e-6}, {"elapsed_s": 1e-8}])
def test_time_and_energy_far_below_what_a_phone_needs_do_not_fit(claim: dict[str, Any]) -> None:
    for device, flagged in (("honor", True), ("unknown", False)):
        one = joined("honest", "w")
        one.handle([announce(device=device), announce("honest", device="honor")], 0.5)
        honest = update(1, 5, name="honest", round=1, **FIT)
        one.handle([update(1, 5, round=1, **(FIT | claim)), honest], 1.0)
        assert ("its device needs" in one.workers["w"].flag) == flagged
        assert one.workers["honest"].flag == ""


def test_who_measures_no_energy_is_assumed_to_need_what_others_need() -> None:
    one = joined("metered", "w")
    replies = [
        update(1, 5, name="metered", round=1, **FIT),
        update(1, 5, round=1, **(FIT | {"energy_j": 0.0})),
    ]
    one.handle(replies, 1.0)
    metered, free = (one.reader.selections(name)[0] for name in ("metered", "w"))
    assert free.reward == pytest.approx(metered.reward, rel=0.2)


@pytest.mark.parametrize("field", ["learned", "evicted", "operations", "elapsed_s", "energy_j"])
def test_the_same_key_with_other_figures_is_another_update(field: str) -> None:
    one = joined("w", "honest")
    first = update(1, 3, round=1, elapsed_s=1.0, energy_j=1.0)
    one.handle([first], 0.5)
    assert not [m for m in one.handle([first], 0.6).messages if isinstance(m, Refusal)]
    replies = one.handle([msgspec.structs.replace(first, **{field: 7})], 1.0).messages
    reasons = [m.reason for m in replies if isinstance(m, Refusal)]
    assert reasons == ["another update with this sequence exists"]
    assert one.workers["w"].incarnation == 2


def many(count: int) -> Statistics:
    """Return the statistics of a power of two of examples."""
    found = examples(1)
    while count > 1:
        found, count = found + found, count // 2
    return found


def test_no_worker_can_fill_the_total() -> None:
    one = joined("w", "honest", max_examples=1000)
    for sequence in (1, 2):
        one.handle([update(sequence, delta=many(512))], 1.0)
        one.handle([update(sequence, 2, name="honest", round=1)], 2.0)
        one.handle([], 100.0 * sequence)
    assert "1,024 of max_examples = 1,000" in one.workers["w"].flag
    assert one.workers["honest"].flag == ""
    assert one.model.statistics == examples(4)
    generous = joined("w", "honest")
    generous.handle([update(1, delta=many(2**30)), update(1, name="honest", round=1)], 1.0)
    generous.handle([], 100.0)
    assert generous.model.statistics == examples(1)
    assert generous.workers["honest"].flag == ""


def test_no_worker_can_fill_the_memory() -> None:
    one = joined("w", max_cells=2)
    one.handle([update(1, 2, round=1)], 1.0)
    assert "of max_cells = 2" in one.workers["w"].flag
    with pytest.raises(BadInput, match="max_cells"):
        Rules(max_cells=0)


def erase(request: str, owner: str) -> Erase:
    return Erase(job="job", worker="", request=request, owners=(owner_hash(KEY, owner),))


def answer(message: Message, draw: random.Random) -> list[Message]:
    """Return what a server may answer to an update or a withdrawal, if anything arrives."""
    if draw.random() < 0.3 or not isinstance(message, Update | Withdraw):
        return []
    key: dict[str, Any] = {"job": "job", "worker": "w", "incarnation": 1}
    key |= {"session": message.session, "sequence": message.sequence}
    if isinstance(message, Withdraw):
        return [Verdict(**key, withdrawn=draw.random() < 0.7)]
    return [Receipt(**key)]


def history(make: Any, place: int) -> bytes:
    return item(place % 5) if make is pagerank else row(0.0, 0.5, (place % 3) / 2)


@pytest.mark.parametrize("scheme_name", sorted(SCHEMES))
@pytest.mark.parametrize("make", [bayes, pagerank])
def test_the_claims_of_an_honest_worker_always_fit(make: Any, scheme_name: str) -> None:
    """Repeated items, evictions, erasures of unsent and sent updates, and recovery."""
    seen = 0
    for seed in range(4):
        draw, now_s = random.Random(seed), 0.0
        one = welcomed(
            make, scheme_name=scheme_name, forget_fraction="0.3", meter=FixedMeter(5.0, 1.0),
            keys=WorkerKeys(validation_share=0.2 if seed % 2 else 0.0),
        )  # fmt: skip
        incoming: list[Message] = []
        for number in range(1, 25):
            now_s += 3.0
            owners = [f"owner {draw.randrange(number, number + 3)}" for _ in range(3)]
            one.ingest([(owner, history(make, draw.randrange(9))) for owner in owners])
            incoming.append(assignment(number))
            if draw.random() < 0.2:
                incoming.append(erase(f"r{number}", f"owner {number}"))
            outgoing = one.handle(incoming, now_s).messages
            for message in updates(outgoing):
                net = make().count_records(delta_of(message))
                if message.round is not None:
                    assert message.learned - message.evicted == net
                    seen += 1
            incoming = [reply for message in outgoing for reply in answer(message, draw)]
    assert seen > 40


def test_a_worker_that_learns_two_thirds_of_what_it_announced_is_not_doubted() -> None:
    one = joined()
    one.handle([announce(waiting=15), update(1, 1, round=1)], 1.0)
    one.handle([announce(waiting=15)], 2.0)
    one.handle([update(2, 10, round=2)], 3.0)
    assert one.workers["w"].doubts == 0
    one.handle([update(3, 1, round=3)], 5.0)
    assert one.workers["w"].doubts == 1, "of the five others it learned one"
