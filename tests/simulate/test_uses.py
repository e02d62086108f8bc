"""Uses: owners who ask for predictions keep their examples; the others are evicted first."""

from collections import Counter

import pytest

from dealfl.protocol.messages import Published
from dealfl.simulate import read_fleet, run_fleet
from dealfl.simulate.traffic import Askers
from dealfl.worker import Journal, State
from tests.federation.parts import assignment, bayes, row, welcomed
from tests.simulate.fleets import document

OWNERS = [f"owner {n}" for n in range(8)]


def evicted_after(*uses: str) -> set[int]:
    """Learn from eight owners, let some be used, evict half; return the places of who left."""
    journal = Journal()
    one = welcomed(journal=journal, forget_fraction="0.5")
    one.ingest([(owner, row(0.0, 0.5, 1.0)) for owner in OWNERS])
    one.handle([assignment(1)], 0.0)
    for owner in uses:
        one.note_use(owner)
    one.ingest([("new", row(0.0, 0.5, 1.0))])
    one.handle([assignment(2)], 1.0)
    held = {record.id for record in journal.records(State.LEARNED)}
    return {place for place in range(8) if place + 1 not in held}


def test_without_uses_the_first_to_arrive_are_evicted_first() -> None:
    assert evicted_after() == {0, 1, 2, 3}


def test_the_examples_of_an_owner_who_asks_stay() -> None:
    assert evicted_after("owner 1", "owner 2") == {0, 3, 4, 5}
    assert evicted_after("nobody") == {0, 1, 2, 3}


def test_a_prediction_is_a_use_of_its_owners_examples() -> None:
    journal = Journal()
    one = welcomed(journal=journal)
    one.ingest([(owner, row(0.0, 0.5, 1.0)) for owner in OWNERS])
    one.handle([assignment(1)], 0.0)
    model = bayes()
    model.learn([[0.0, 0.5, 1.0]], ["a"])
    statistics = model.statistics.to_bytes()
    one.handle([Published(job="job", worker="", version=1, digest="", statistics=statistics)], 1.0)
    one.predict([[0.0, 0.5, 1.0]])
    assert [record.id for record in journal.records(State.LEARNED)][-1] == 8
    one.predict([[0.0, 0.5, 1.0]], owner="owner 3")
    assert [record.id for record in journal.records(State.LEARNED)][-1] == 4


@pytest.mark.parametrize(("exponent", "least", "most"), [(0.0, 70, 130), (1.0, 250, 400)])
def test_by_zipfs_law_few_owners_ask_often(exponent: float, least: int, most: int) -> None:
    askers = Askers([f"o{n}" for n in range(10)], exponent, "seed")
    asked = Counter(askers.draw(float(moment)) for moment in range(1000))
    assert len(asked) == 10
    assert least <= asked.most_common(1)[0][1] <= most


def test_uses_change_what_a_fleet_evicts_and_nothing_is_inexact() -> None:
    keys = {"job.rounds": 12, "data.rows": 400, "job.forget_fraction": "0.2"}
    plain, used = (
        run_fleet(read_fleet(document(keys, {"radio": {"uses_per_day": per_day}})))
        for per_day in (0.0, 2000.0)
    )
    assert plain.exact
    assert used.exact
    assert plain.digest != used.digest
    assert used.level_of_forgetness == used.evicted / used.learned > 0
    assert used.recovered == 0
    assert {one.forget_fraction for one in used.participants} == {0.2}
