"""A fleet whose workers hibernate ends as one whose workers are all awake, bit for bit."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dealfl
from dealfl.erasure import owner_hash
from dealfl.runs import default_job
from dealfl.settings import Document
from dealfl.simulate import FleetSpec, Outcome, RunState, finish, read_fleet, start_run
from dealfl.simulate import crew as crews
from dealfl.worker import Journal, State
from tests.simulate.fleets import document, fleet
from tests.simulate.test_phone_fleets import phones
from tests.simulate.test_resumed_runs import CHAOS, COMING_AND_GOING, same, stopped_after

KEY = b"k" * 32
EVERYONE = 10_000
EVICTING: dict[str, Any] = {"job.forget_fraction": "0.3"}
PAGES = {"worker": {"model": "resident", "memory": {"frames": 4}}}
REVIEWING = {"worker": {"validation_share": 0.2, "recovery_tolerance": 0.0}}


def changed(sections: dict[str, Any], **keys: Any) -> FleetSpec:
    dotted = {name.replace("__", "."): value for name, value in keys.items()}
    return read_fleet(document(CHAOS | EVICTING | dotted, COMING_AND_GOING | sections))


def rows(learner: str) -> FleetSpec:
    """Return a fleet of phones that sleep, ride along and test their live models."""
    X = np.random.default_rng(7).uniform(0, 4, (240, 3))
    made = dealfl.Fleet.from_arrays(X, X @ [1.0, 2.0, 3.0], learner=learner, workers=9)
    settings = {"job.max_h": 4.0, "job.rounds": 30, "radio.uses_per_day": 40.0}
    return made.with_settings(settings | EVICTING).simulated


def histories() -> FleetSpec:
    generator = np.random.default_rng(8)
    many = [generator.choice(12, 5, replace=False).tolist() for _ in range(90)]
    made = dealfl.Fleet.from_histories(many, workers=7, n_items=12)
    return made.with_settings({"job.max_h": 4.0, "job.rounds": 12} | EVICTING).simulated


def day_of_phones() -> FleetSpec:
    """Return the beginning of the default job, with everything that it can do."""
    text = default_job().replace("max_h = 48.0", "max_h = 1.5").replace("at_h = 24.0", "at_h = 1.0")
    text = text.replace('forget_fraction = "0.03"', 'forget_fraction = "0.5"')
    return read_fleet(Document.parse(text, "digits.toml"))


FLEETS: dict[str, Callable[[], FleetSpec]] = {
    "naive bayes": lambda: changed({}),
    "naive bayes, phones": lambda: changed(phones(), job__sleep=True, job__min_waiting=2),
    "neighbors, resident": lambda: changed(
        {"worker": {"model": "resident"}}, job__learner="neighbors"
    ),
    "naive bayes, under masks": lambda: changed(
        {"privacy": {"keyholder": "keyholder", "cohort": 3}}, data__rows=300
    ),
    "naive bayes, paged": lambda: changed(PAGES),
    "ridge classifier, reviewed": lambda: changed(REVIEWING, job__learner="tikhonov_classifier"),
    "ridge, phones that ride": lambda: rows("tikhonov"),
    "histories": histories,
    "the default job": day_of_phones,
}


def outcome(made: FleetSpec, most_awake: int) -> Outcome:
    """Return the outcome of a run from which the owners of some examples are erased."""
    run = start_run(made, owners_key=KEY, most_awake=most_awake)
    stopped_after(run, 60)
    owners = [owner for stream in run.split.streams for owner, _ in stream[:1]]
    run.erase("some", sorted({owner_hash(KEY, owner) for owner in owners[:4]}), "tester")
    run.pump()
    done = finish(run)
    run.close()
    return done


@pytest.mark.parametrize("name", sorted(FLEETS))
def test_hibernating_workers_do_what_they_do_awake(name: str) -> None:
    awake, hibernating = (outcome(FLEETS[name](), most) for most in (EVERYONE, 2))
    assert awake.exact
    assert awake.learned > awake.evicted > 0, "nothing to compare"
    assert hibernating == awake


def test_few_are_in_memory_and_all_can_be_asked() -> None:
    opened: list[Journal] = []

    class Watched(Journal):
        def __init__(self, **keys: Any) -> None:
            super().__init__(**keys)
            opened.append(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(crews, "Journal", Watched)
        run = start_run(fleet(CHAOS, COMING_AND_GOING), most_awake=3)
        stopped_after(run, 150)
    assert len(opened) == 3
    crew = run.workers
    facts = [(m.waiting, m.is_asleep, m.model_version, m.has_outgoing, m.next_send_s)
             for m in crew.values()]  # fmt: skip
    total = crew.waiting
    asked = [
        (j.count(State.WAITING), m.is_asleep, m.model_version, bool(j.outgoing), j.next_send_s())
        for m, (_, j) in zip(crew.values(), crew.journals(), strict=True)
    ]
    assert facts == asked
    assert total == sum(waiting for waiting, *_ in asked) > 0
    assert len(opened) == 3


def test_workers_with_many_examples_stay_awake(monkeypatch: pytest.MonkeyPatch) -> None:
    made = changed({})
    whole = outcome(made, EVERYONE)
    monkeypatch.setattr(crews, "_LARGE_BYTES", 4_000)
    run = start_run(made, most_awake=2)
    stopped_after(run, 150)
    large = [name for name, journal in run.workers.journals() if len(journal.rows()) > 4_000]
    assert 0 < len(large) < len(run.workers)
    assert outcome(made, 2) == whole


def test_a_run_that_hibernates_is_resumed_by_one_that_does_not(tmp_path: Path) -> None:
    made = changed(phones(), job__sleep=True)
    ends = []
    for before, after in ((EVERYONE, EVERYONE), (2, EVERYONE), (EVERYONE, 2)):
        run = stopped_after(start_run(made, owners_key=KEY, most_awake=before), 200)
        run.state().write(tmp_path / "state")
        run = start_run(made, RunState.read(tmp_path / "state"), most_awake=after)
        run.pump()
        ends.append(finish(run))
    assert same(ends[0], ends[1])
    assert same(ends[0], ends[2])


def test_the_server_counts_all_workers_as_it_goes() -> None:
    run = start_run(fleet(CHAOS, COMING_AND_GOING))
    for _ in range(8):
        stopped_after(run, 40)
        rows = run.server.workers.values()
        tally = run.server.tally
        assert tally.training == sum(row.training for row in rows)
        assert tally.able == sum(row.fits and row.waiting > 0 for row in rows)
        assert (tally.learned, tally.evicted) == run.ledger.count_examples()
    assert tally.learned > 0


def count_statements(workers: int) -> int:
    """Return the statements of the ledger in five rounds of four among some workers."""
    keys = {
        "job.rounds": 9, "job.workers_per_round": 4, "job.selector": "fair_ucb",
        "data.rows": 4 * workers,
        "faults.announce_every_s": 1e6, "job.presence_timeout_s": 1e7,
    }  # fmt: skip
    made = fleet(keys, {
        "availability": {"kind": "always"}, "faults": {}, "arrival": {"pattern": "at_once"},
        "data": {"partition": "uniform"}, "devices": [{"count": workers}],
    })  # fmt: skip
    run = start_run(made)
    run.pump(stopped=lambda: len(run.rounds) >= 3)
    statements: list[str] = []
    run.ledger._db.set_trace_callback(statements.append)
    run.pump(stopped=lambda: len(run.rounds) >= 8)
    assert len(run.rounds) == 8
    return len(statements)


def test_a_round_takes_as_many_statements_among_many_workers_as_among_few() -> None:
    few, many = count_statements(40), count_statements(400)
    assert many <= few + 10, "workers of a round are in more parts of the selector's state"
