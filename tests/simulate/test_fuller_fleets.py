"""Fleets that are woken seldom and for much: what comes when, what is saved, what is promised."""

import json
import random
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from dealfl.cli import main
from dealfl.settings import Document
from dealfl.simulate import FleetSpec, Outcome, RunState, read_fleet, run_fleet, start_run
from dealfl.simulate.schedules import Poisson, Steady
from tests.simulate.fleets import TEXT, document
from tests.simulate.test_phone_fleets import phones
from tests.simulate.test_resumed_runs import finished, same, stopped_after

COMING: dict[str, Any] = {"pattern": "poisson", "initial_share": 0.0, "examples_per_hour": 60}
EXAMPLE = Path("examples/fleets/fuller.toml")


def fuller(keys: dict[str, Any] | None = None, **sections: Any) -> FleetSpec:
    """Return phones to which examples come one by one, woken every minute at most."""
    job = {"job.rounds": 30, "job.scheme": "incremental", "job.round_every_s": 60}
    return read_fleet(document(job | (keys or {}), phones() | {"arrival": COMING} | sections))


def hours(pattern: type[Poisson | Steady], spread: float, worker: int) -> float:
    """Return when a worker's hundredth example comes, where one an hour is usual."""
    times = pattern(spread=spread).times(random.Random(f"worker {worker}"))
    return [moment_s for moment_s, _ in islice(times, 100)][-1] / 3600


@pytest.mark.parametrize("pattern", [Poisson, Steady])
def test_workers_differ_in_how_much_comes_to_them(pattern: type[Poisson | Steady]) -> None:
    alike = [100 / hours(pattern, 0.0, worker) for worker in range(400)]
    apart = [100 / hours(pattern, 1.0, worker) for worker in range(400)]
    assert max(alike) / min(alike) < 2.5
    assert max(apart) / min(apart) > 50
    assert fmean(alike) == pytest.approx(1.0, abs=0.05)
    assert fmean(apart) == pytest.approx(1.0, abs=0.3), "the mean stays"


def test_without_a_spread_arrivals_are_what_they_were() -> None:
    draw = random.Random(7)
    expected = draw.expovariate(1 / 3600.0)
    ((moment_s, count),) = islice(Poisson().times(random.Random(7)), 1)
    assert (moment_s, count) == (expected, 1)


def test_fuller_wake_ups_cost_less_for_the_same_examples() -> None:
    few = run_fleet(fuller())
    full = run_fleet(fuller({"job.min_waiting": 8, "job.sleep": True}))
    assert few.exact
    assert full.exact

    def example_j(outcome: Outcome) -> float:
        return outcome.energy_j / outcome.learned

    assert example_j(full) < 0.4 * example_j(few)
    assert full.learned / full.energy.wake_ups > 7


@pytest.mark.parametrize("selector", ["uniform", "fair_ucb", "thompson", "discounted", "oort"])
def test_ticks_and_waits_continue_where_they_were(tmp_path: Path, selector: str) -> None:
    keys = {
        "job.rounds": 12, "job.selector": selector, "job.round_every_s": 45,
        "job.min_waiting": 3, "job.max_wait_s": 400, "arrival.spread": 1.0,
    }  # fmt: skip
    sections = {"rewards": {"half_example_j": 0.02}, "faults": {"dropout_share": 0.2}}
    if selector != "uniform":
        sections["selection"] = {"fairness": 0.05}
    made = fuller(keys, **sections)
    whole = run_fleet(made)
    assert whole.exact
    assert len(whole.rounds) == 12
    run = start_run(made)
    for stop in (3, 50, 177, 400):
        stopped_after(run, stop).state().write(tmp_path / "state")
        run = start_run(made, RunState.read(tmp_path / "state"))
    assert same(finished(run), whole)


def test_promises_that_cannot_be_kept_are_in_the_outcome_and_on_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "fleet.toml"
    text = TEXT.replace("rounds = 8", 'rounds = 8\nselector = "fair_ucb"')
    path.write_text(text + "\n[selection]\nfairness = 0.9\n")
    outcome = run_fleet(read_fleet(Document.read(path)))
    found = outcome.unmet_guarantees
    assert found is not None
    assert len(found.workers) >= 12
    assert found.promised == pytest.approx(0.9 * len(found.workers))
    assert found.possible == 6.0
    assert main(["simulate", str(path)]) == 0
    told = capsys.readouterr().out
    assert "fairness not met" in told
    assert f"{found.promised:.2f} picks a round, 6.00 possible: {found.workers[0]}, " in told
    assert main(["simulate", str(path), "--json"]) == 0
    (setting,) = json.loads(capsys.readouterr().out)["settings"]
    assert setting["outcomes"][0]["unmet_guarantees"]["possible"] == 6.0
    assert main(["simulate", str(path), "--set", "selection.fairness=0.1"]) == 0
    assert "fairness not met" not in capsys.readouterr().out


def test_the_example_is_a_fleet_that_is_woken_for_much() -> None:
    made = read_fleet(Document.read(EXAMPLE))
    assert made.workers == 30
    assert made.job.sleep
    assert made.job.rules.wait_j > 0
    assert made.job.rules.rewards.half_example_j > 0
    assert made.job.rules.round_every_s > 0


def test_no_phone_is_left_out_for_its_dear_radio() -> None:
    """A class that only phones with LTE hold is learned, too: each of them calls in time."""
    kinds = [{"count": 4, "phone": "nexus", "radio": radio} for radio in ("wifi", "lte")]
    longest_s = 4 * 3600.0
    fleet = fuller(
        {
            "job.max_h": 24.0, "job.rounds": 1000, "job.sleep": True, "job.wait_j": 0.3,
            "job.max_wait_s": longest_s, "job.selector": "fair_ucb",
        },
        devices=kinds, radio={"rtt_s": 0.3},
    )  # fmt: skip
    outcome = run_fleet(fleet)
    assert outcome.exact
    delays = {radio: [p.delay_s for p in outcome.participants if p.radio == radio]
              for radio in ("wifi", "lte")}  # fmt: skip
    assert all(delay_s is not None and delay_s <= longest_s for delay_s in delays["lte"])
    assert all(phone.learned > 0 for phone in outcome.participants)
    assert sum(filter(None, delays["lte"])) > sum(filter(None, delays["wifi"])), "they wait longer"


def test_own_traffic_that_never_comes_delays_no_phone_beyond_its_wait() -> None:
    keys = {"job.max_h": 8.0, "job.rounds": 1000, "job.sleep": True, "job.max_wait_s": 7_200.0}
    never = run_fleet(fuller(keys | {"job.ride_along": True}, radio={"own_per_hour": 0.0}))
    without = run_fleet(fuller(keys | {"job.ride_along": False}, radio={"own_per_hour": 0.0}))
    assert never.exact
    assert never.learned == without.learned
    assert never.delays == without.delays
