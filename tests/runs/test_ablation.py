"""`dealfl run --ablate`: the fair baseline with each lever, and the job without it."""

import json

import pytest
from msgspec.structs import replace

from dealfl.cli import main
from dealfl.runs import Threshold, default_job
from dealfl.runs.ablation import LEVERS, list_systems
from dealfl.runs.result import find_at_delay
from dealfl.settings import Document
from dealfl.simulate import FleetSpec, read_fleet

SMALL = {
    "job.learner": "naive_bayes",
    "job.max_h": "1.0",
    "job.min_waiting": "2",
    "job.min_examples_per_update": "2",
    "change.at_h": "0.0",
    "data.rows": "100",
    **{f"devices.{group}.count": "1" for group in range(1, 6)},
}


def _default() -> FleetSpec:
    return read_fleet(Document.parse(default_job(), "digits.toml"))


def test_every_lever_of_the_default_job_is_alone_once_and_left_out_once() -> None:
    fleet = _default()
    systems = list_systems(fleet)
    assert systems["DEAL"] == fleet
    assert not systems["no lever"].job.sleep
    fair = systems["fair baseline"]
    assert fair.job.sleep, "sleep and batching alone are the fair baseline"
    assert not fair.job.rules.ride_along
    for lever in set(LEVERS) - {"sleep and batching"}:
        assert systems[f"fair baseline + {lever}"] != fair
        assert systems[f"DEAL − {lever}"] != fleet
    assert systems["fair baseline + riding along"].job.rules.ride_along
    assert systems["DEAL − θ"].job.forget_fraction == "0"
    assert systems["DEAL − DVFS"].devices == fair.devices


def test_a_lever_that_the_job_does_not_use_has_no_row() -> None:
    fleet = _default()
    rules = replace(fleet.job.rules, ride_along=False)
    systems = list_systems(replace(fleet, job=replace(fleet.job, rules=rules)))
    assert not any("riding" in name for name in systems)


def test_the_command_prints_every_system(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    few = {name: LEVERS[name] for name in ("riding along", "sleep and batching")}
    monkeypatch.setattr("dealfl.runs.ablation.LEVERS", few)
    monkeypatch.setattr("dealfl.simulate.fleet._STEPS", (1, 3))
    values = [word for key, value in SMALL.items() for word in ("--set", f"{key}={value}")]
    assert main(["run", "--ablate", "--json", "--processes", "1", *values]) == 0
    told = json.loads(capsys.readouterr().out)
    systems = {row["system"]: row for row in told["systems"]}
    assert {"no lever", "fair baseline", "DEAL", "DEAL − riding along"} <= set(systems)
    assert all(row["exact"] for row in told["systems"])
    assert [point["waiting"] for point in told["curve"]] == [2, 6]
    assert len(told["riding_curve"]) == 2
    assert systems["fair baseline"]["energy_j"] < systems["no lever"]["energy_j"]


def test_an_ablation_writes_no_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--ablate", "--out", "here"]) == 2
    assert "--ablate writes no folder" in capsys.readouterr().err


def test_a_baseline_without_delay_is_no_end_of_a_bracket() -> None:
    curve = [Threshold(1, 0.4, 0.0, 100), Threshold(5, 0.2, 3600.0, 100)]
    assert find_at_delay(curve, 60.0) is None
