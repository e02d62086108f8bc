"""An eviction that makes the model worse is taken back, and θ lowered until all is well."""

from fractions import Fraction
from typing import Any

import pytest

from dealfl.erasure import owner_hash
from dealfl.errors import BadInput
from dealfl.exact import Statistics
from dealfl.learners import Histories, NaiveBayes, PersonalizedPageRank, Rows, statistics_of
from dealfl.power import Training
from dealfl.protocol.messages import Assignment, Erase, Message, Receipt, Update
from dealfl.worker import Cost, Journal, State, Worker, WorkerKeys
from dealfl.worker.models import Recovery
from tests.federation.parts import welcome

KEY = b"key"
GOOD = [([1.0, 0.0], "a"), ([0.0, 1.0], "b")] * 20
BAD = [([0.0, 1.0], "a"), ([1.0, 0.0], "b")] * 6


class FreeMeter:
    def start(self) -> None:
        pass

    def cost(self, training: Training) -> Cost:
        return Cost(0.0, 0.0)


def make() -> NaiveBayes:
    return NaiveBayes(2, ["a", "b"], feature_bound=1.0, fraction_bits=4)


def worker(journal: Journal, **other: Any) -> Worker:
    settings: dict[str, Any] = {"forget_fraction": "1", "keys": WorkerKeys(validation_share=0.3)}
    meter = other.pop("meter", FreeMeter())
    name = other.pop("name", "w")
    made = Worker("job", name, make, journal, meter, key=KEY, **(settings | other))
    made.handle([welcome(journal)], 0.0)
    return made


def ingest(made: Worker, examples: list[tuple[list[float], str]], owner: str = "ann") -> None:
    made.ingest([(owner, Rows.encode(features, label)) for features, label in examples])


def train(made: Worker, number: int, fraction: str | None = None) -> list[Update]:
    assignment = Assignment(
        job="job", worker="w", round=number, deadline_s=1e9, forget_fraction=fraction
    )
    return sent(made, float(number), assignment)


def sent(made: Worker, now_s: float, *messages: Message) -> list[Update]:
    step = made.handle(messages, now_s)
    return [message for message in step.messages if isinstance(message, Update)]


def erasure(owner: str) -> Erase:
    return Erase(job="job", worker="", request="r", owners=(owner_hash(KEY, owner),))


def total(updates: list[Update]) -> Statistics:
    whole = Statistics.zero(make().schema)
    for update in updates:
        whole = whole + Statistics.from_bytes(update.delta)
    return whole


def held(journal: Journal) -> Statistics:
    learner = make()
    learner.learn(*learner.rows_of(journal.records(State.LEARNED)))
    return learner.statistics


def test_a_bad_eviction_is_learned_back_by_an_ordinary_update() -> None:
    journal = Journal()
    made = worker(journal)
    ingest(made, GOOD)
    updates = train(made, 1)
    good = journal.count(State.LEARNED)
    ingest(made, BAD)
    updates += train(made, 2)
    assert [(u.learned, u.evicted) for u in updates[1:]] == [
        (updates[1].learned, good),
        (good, 0),
    ]
    assert journal.count(State.LEARNED) == good + updates[1].learned
    assert total(updates) == held(journal)
    assert journal.state.theta == Fraction(1, 2)


def test_theta_returns_when_all_is_well() -> None:
    journal = Journal()
    made = worker(journal)
    for number, examples in enumerate((GOOD, BAD, GOOD, GOOD, GOOD), start=1):
        ingest(made, examples)
        train(made, number)
    assert journal.state.theta == 1


def test_a_low_theta_that_was_assigned_once_does_not_lower_later_ones() -> None:
    journal = Journal()
    made = worker(journal)
    ingest(made, GOOD)
    train(made, 1)
    for number, fraction in enumerate(("0.1", "0.5"), start=2):
        ingest(made, GOOD)
        before = journal.count(State.LEARNED)
        (update,) = train(made, number, fraction)
        assert update.evicted == int(Fraction(fraction) * before)
        assert journal.state.theta == Fraction(fraction)


def test_a_good_eviction_stays_and_waits_in_the_grace_area() -> None:
    journal = Journal()
    made = worker(journal)
    ingest(made, BAD)
    updates = train(made, 1)
    ingest(made, GOOD)
    updates += train(made, 2)
    assert len(updates) == 2
    assert journal.count(State.GRACE) == updates[0].learned
    assert total(updates) == held(journal)
    ingest(made, GOOD[:4])
    train(made, 3)
    assert updates[0].learned not in (journal.count(State.GRACE), 0)


def test_an_erasure_reaches_grace_area_and_validation_slice() -> None:
    journal = Journal()
    made = worker(journal)
    ingest(made, BAD, owner="bob")
    train(made, 1)
    ingest(made, GOOD)
    train(made, 2)
    assert journal.count(State.GRACE)
    made.handle([erasure("bob")], 3.0)
    assert journal.count(State.GRACE) == 0
    assert not any(journal.records_of([owner_hash(KEY, "bob")]).values())


def test_the_model_that_judges_an_eviction_forgets_the_erased_too() -> None:
    journal = Journal()
    made = worker(journal, forget_fraction="0.5")
    ingest(made, GOOD)
    train(made, 1)
    ingest(made, GOOD, owner="bob")
    assert train(made, 2)[0].evicted, "so the worker has a model of its own"
    counted = [
        Receipt(
            job="job", worker="w", session=journal.state.session, incarnation=1, sequence=number
        )
        for number in (1, 2)
    ]
    made.handle([*counted, erasure("bob")], 3.0)
    ingest(made, BAD)
    left = journal.count(State.LEARNED)
    updates = train(made, 4)
    assert left / 2 < updates[0].learned < left, "bad ones are more than what would stay"
    assert len(updates) == 2, "without bob's examples the evicted ones are missed"
    assert updates[1].learned == updates[0].evicted


class WorkMeter(FreeMeter):
    """Operations cost a joule each, every piece of work a second."""

    def cost(self, training: Training) -> Cost:
        return Cost(1.0, float(training.operations))


def test_learning_back_costs_what_it_costs_and_comes_after_the_training() -> None:
    journal = Journal()
    made = worker(journal, meter=WorkMeter())
    ingest(made, GOOD)
    train(made, 10)
    made.handle([], 20.0)
    ingest(made, BAD)
    good = journal.records(State.LEARNED)
    assert train(made, 30) == []
    (trained,) = sent(made, 31.0)
    (back,) = sent(made, 32.0)
    operations = statistics_of(make, good)[1].operations
    assert (back.operations, back.energy_j, back.elapsed_s) == (operations, operations, 1.0)
    assert trained.operations > operations, "it learned the new ones and forgot these"


def test_a_recommender_is_judged_by_what_it_recommends_to_owners_it_knows() -> None:
    journal = Journal()
    ann, bob = b"a" * 32, b"b" * 32
    journal.add([(ann, Histories.encode(0)), (bob, Histories.encode(0))], State.LEARNED)
    journal.add([(ann, Histories.encode(2)), (bob, Histories.encode(4))], State.VALIDATION)
    recovery = Recovery(journal, secret=b"s", validation_share=0.3, tolerance=0.0)
    model = PersonalizedPageRank(5)
    model.learn([[0, 2], [0, 2], [0, 1]])
    assert recovery.score(model) == 0.5, "item 2 is recommended with item 0, and item 4 is not"


def test_a_record_held_back_is_learned_when_a_newer_one_takes_its_place() -> None:
    journal = Journal()
    made = worker(journal)
    held_back: set[int] = set()
    for number in range(1, 30):
        ingest(made, GOOD)
        held_back |= {record.id for record in journal.records(State.VALIDATION)}
        train(made, number, "0.5")
    learned = journal.state.learned - journal.state.recovered
    assert learned == 29 * len(GOOD) - journal.count(State.VALIDATION), "all the others"
    assert len(held_back) > 5 * journal.count(State.VALIDATION)
    assert min(record.id for record in journal.records(State.VALIDATION)) > 20 * len(GOOD)


@pytest.mark.parametrize("share", [0.05, 0.3])
def test_every_worker_holds_back_its_share_of_other_records(share: float) -> None:
    held_back = []
    for name in ("ann", "bob", "eve"):
        journal = Journal()
        made = worker(journal, name=name, keys=WorkerKeys(validation_share=share))
        for _ in range(25):
            ingest(made, GOOD)
        held_back.append({record.id for record in journal.records(State.VALIDATION)})
        assert abs(len(held_back[-1]) / 1000 - share) < 0.01
    assert not held_back[0] == held_back[1] == held_back[2]
    common = len(held_back[0] & held_back[1]) / len(held_back[0])
    assert common < share + 0.15, "as many as by chance"


def test_a_worker_with_too_few_records_for_a_verdict_holds_none_back() -> None:
    journal = Journal()
    made = worker(journal, keys=WorkerKeys(validation_share=0.05))
    ingest(made, GOOD)
    assert journal.count(State.VALIDATION) == 0
    train(made, 1)
    ingest(made, GOOD)
    assert journal.count(State.VALIDATION) > 0


def test_without_a_slice_nothing_is_recovered() -> None:
    journal = Journal()
    made = worker(journal, keys=WorkerKeys())
    ingest(made, GOOD)
    train(made, 1)
    ingest(made, BAD)
    assert len(train(made, 2)) == 1
    assert journal.count(State.LEARNED) == len(BAD)
    assert journal.count(State.GRACE) == 0


@pytest.mark.parametrize("share", [-0.1, 1.0])
def test_a_slice_of_everything_makes_no_sense(share: float) -> None:
    with pytest.raises(BadInput, match="validation_share"):
        worker(Journal(), keys=WorkerKeys(validation_share=share))
