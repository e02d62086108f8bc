"""The rounds of an outcome are those of the ledger: none is lost, none is repeated."""

from contextlib import closing

import pytest

from dealfl.simulate import Outcome, finish, read_fleet, start_run
from tests.simulate.fleets import document

SLEEPERS = {
    "job.sleep": True,
    "job.min_waiting": 3,
    "job.round_every_s": 300.0,
    "job.rounds": 1000,
    "job.max_h": 2.0,
}
STREAM = {"arrival": {"pattern": "poisson", "initial_share": 0.1, "examples_per_hour": 6.0}}
TIMES_TO_LIVE = {"faults.dropout_share": 0.5, "job.ttl_s": 20.0, "job.rounds": 15}
LATE = {"faults.max_delay_s": 30.0, "job.ttl_s": 15.0, "job.rounds": 15}


@pytest.mark.parametrize(
    ("keys", "reason"),
    [(SLEEPERS, "booked"), (TIMES_TO_LIVE, "time to live"), (LATE, "time to live")],
    ids=["sleepers", "times to live", "late updates"],
)
@pytest.mark.parametrize("seed", [0, 1])
def test_the_rounds_are_those_of_the_ledger(
    keys: dict[str, object], reason: str, seed: int
) -> None:
    sections = STREAM if keys is SLEEPERS else {}
    fleet = read_fleet(document({**keys, "job.seed": seed}, sections))
    with closing(start_run(fleet)) as run:
        run.pump()
        outcome: Outcome = finish(run)
        reader = run.ledger.reader
        closed = [(row.number, row.reason, row.closed_s) for row in reader.closed_rounds()]
        replies = [reader.round_figures(row.number).replied for row in reader.closed_rounds()]
        learned, evicted = run.ledger.count_examples()
    assert reason in [row.reason for row in outcome.rounds], "a run without such rounds is no test"
    assert [(row.number, row.reason, row.closed_at_s) for row in outcome.rounds] == closed
    assert [row.replied for row in outcome.rounds] == replies
    assert sum(row.learned for row in outcome.rounds) <= learned
    assert sum(row.evicted for row in outcome.rounds) <= evicted
