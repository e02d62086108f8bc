"""A world that changes in the middle of a run, examples that recur, and phones that follow."""

from typing import Any

import numpy as np
import pytest

from dealfl.data import load
from dealfl.data.sources import Quarantine, Reading
from dealfl.errors import BadInput
from dealfl.simulate import Outcome, RunState, finish, read_fleet, run_fleet, start_run
from dealfl.simulate.split import Change
from tests.simulate.fleets import document
from tests.simulate.test_phone_fleets import phones
from tests.simulate.test_resumed_runs import stopped_after

COMING = {"pattern": "poisson", "initial_share": 0.0, "examples_per_hour": 6.0, "recurs": True}


def ran(keys: dict[str, Any] | None = None, **sections: Any) -> Outcome:
    return run_fleet(made(keys, **sections))


def made(keys: dict[str, Any] | None = None, **sections: Any) -> Any:
    job = {
        "job.rounds": 1000, "job.round_every_s": 1800, "job.max_h": 36.0, "job.sleep": True,
        "job.min_waiting": 8, "job.evaluate_every": 4, "change.at_h": 18.0, "data.rows": 600,
    }  # fmt: skip
    return read_fleet(document(job | (keys or {}), phones() | {"arrival": COMING} | sections))


def test_with_drift_phones_forget_the_old_world_and_without_they_do_not() -> None:
    follows, stays = (ran(worker={"drift": drift}) for drift in (True, False))
    assert follows.exact
    assert stays.exact
    assert follows.alarms >= 10, "of 15 phones"
    assert stays.alarms == 0
    assert follows.recovery_s is not None
    assert stays.recovery_s is None or stays.recovery_s > follows.recovery_s
    assert follows.evicted > stays.evicted


def test_a_run_with_a_change_goes_on_after_a_stop_as_without(tmp_path: Any) -> None:
    fleet = made(worker={"drift": True})
    whole = run_fleet(fleet)
    run = stopped_after(start_run(fleet), 700)
    run.state().write(tmp_path / "state")
    run = start_run(fleet, RunState.read(tmp_path / "state"))
    run.pump()
    again = finish(run)
    assert again.digest == whole.digest
    assert again.rounds == whole.rounds


def test_examples_recur_until_the_time_is_over() -> None:
    outcome = ran({"change.at_h": 0.0})
    assert outcome.ended == "max_h reached"
    assert outcome.learned > 1000, "although 480 are there"


@pytest.mark.parametrize(("what", "moved"), [("labels", 10), ("half", 4)])
def test_labels_change_for_all_or_half_of_the_classes(what: str, moved: int) -> None:
    examples = load("digits")
    changed = Change(at_h=1.0, what=what).apply(Reading(examples, Quarantine("digits"))).examples
    assert examples.targets is not None
    assert changed.targets is not None
    pairs = set(zip(examples.targets.tolist(), changed.targets.tolist(), strict=True))
    assert len(pairs) == 10, "each class becomes one class"
    assert sum(before != after for before, after in pairs) == moved


def test_features_are_mirrored_within_their_bounds() -> None:
    examples = load("digits")
    change = Change(at_h=1.0, what="features")
    changed = change.apply(Reading(examples, Quarantine("digits"))).examples
    before, after = np.asarray(examples.features), np.asarray(changed.features)
    assert np.array_equal(after.min(axis=0), before.min(axis=0))
    assert np.array_equal(after.max(axis=0), before.max(axis=0))
    assert not np.array_equal(after, before)


def test_a_change_needs_classes() -> None:
    with pytest.raises(BadInput, match=r"change\.at_h is 5, but housing has no classes"):
        read_fleet(
            document(
                {"job.dataset": "housing", "job.learner": "tikhonov", "change.at_h": 5.0},
                {"data": {"partition": "uniform"}},
            )
        )
