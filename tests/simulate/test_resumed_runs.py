"""A run that was written down and read again ends as one that never stopped, bit for bit."""

from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from dealfl.errors import BadBytes, BadInput, WriteFailed
from dealfl.exact import Statistics
from dealfl.learners import statistics_of
from dealfl.simulate import FleetRun, Outcome, RunState, Split, finish, run_fleet, start_run
from dealfl.worker import Record
from tests.simulate.fleets import fleet
from tests.simulate.test_phone_fleets import phone_fleet

CHAOS = {
    "job.rounds": 8,
    "faults.loss": 0.2,
    "faults.repetition": 0.1,
    "faults.dropout_share": 0.2,
    "faults.straggler_share": 0.3,
    "faults.max_delay_s": 5,
}
COMING_AND_GOING = {
    "availability": {"kind": "markov", "up_s": 300, "down_s": 100},
    "arrival": {"pattern": "poisson", "examples_per_hour": 200},
}


def stopped_after(run: FleetRun, events: int) -> FleetRun:
    """Stop it after about so many events."""
    left = iter(range(events))
    run.pump(stopped=lambda: next(left, None) is None)
    return run


def same(first: Outcome, second: Outcome) -> bool:
    """Compare all but how well the server predicted since its start, which is another one."""
    first = replace(first, prediction_error=None, law_error=None)
    return first == replace(second, prediction_error=None, law_error=None)


def finished(run: FleetRun) -> Outcome:
    run.pump()
    return finish(run)


@pytest.mark.parametrize("selector", ["uniform", "fair_ucb", "thompson", "discounted", "oort"])
def test_interrupted_again_and_again_it_ends_the_same(tmp_path: Path, selector: str) -> None:
    made = fleet(CHAOS | {"job.selector": selector}, sections=COMING_AND_GOING)
    whole = run_fleet(made)
    assert whole.exact
    run = start_run(made)
    for stop in (1, 7, 40, 133, 250):
        stopped_after(run, stop).state().write(tmp_path / "state")
        run = start_run(made, RunState.read(tmp_path / "state"))
    assert same(finished(run), whole)


def test_phones_continue_with_what_they_spent_and_have_left(tmp_path: Path) -> None:
    made = phone_fleet({"job.rounds": 6, "faults.straggler_share": 0.3})
    whole = run_fleet(made)
    assert whole.energy.whole_j > 0
    state = stopped_after(start_run(made), 300).state()
    assert sum(device.spent.wake_ups for device in state.devices.values()) > 0
    state.write(tmp_path / "state")
    assert same(finished(start_run(made, RunState.read(tmp_path / "state"))), whole)


def test_another_job_or_other_data_cannot_continue(tmp_path: Path) -> None:
    run = stopped_after(start_run(fleet()), 20)
    for other in (fleet({"job.forget_fraction": "0.5"}), fleet({"data.rows": 50})):
        with pytest.raises(BadInput, match="changed since the run was interrupted"):
            start_run(other, run.state())


def test_a_run_continues_from_the_model_it_began_with_or_not_at_all() -> None:
    split = start_run(fleet()).split
    model = split.make()
    first = model.statistics
    model.merge(_some(split))
    run = stopped_after(start_run(fleet(), base=model.statistics), 20)
    for wrong in (None, first):
        with pytest.raises(BadInput, match="its base model changed"):
            start_run(fleet(), run.state(), base=wrong)
    assert finished(start_run(fleet(), run.state(), base=model.statistics)).exact


def _some(split: Split) -> Statistics:
    rows = islice(split.streams[0], 3)
    records = [Record(place, b"", body) for place, (_, body) in enumerate(rows)]
    return statistics_of(split.make, records)[0]


@pytest.mark.parametrize("place", [0, 9, 45, -1])
def test_a_damaged_state_is_found_out(tmp_path: Path, place: int) -> None:
    path = tmp_path / "state"
    stopped_after(start_run(fleet()), 20).state().write(path)
    damaged = bytearray(path.read_bytes())
    damaged[place] ^= 1
    path.write_bytes(bytes(damaged))
    with pytest.raises(BadBytes, match="start again with restart=True"):
        RunState.read(path)
    with pytest.raises(BadInput, match="start again with restart=True"):
        RunState.read(tmp_path / "nothing")


def test_a_state_that_cannot_be_written_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "state"
    state = stopped_after(start_run(fleet()), 20).state()
    state.write(path)
    before = path.read_bytes()

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(WriteFailed, match="No space left"):
        state.write(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
