"""Federated runs through the front door: real server and workers, modelled phones."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import as_file, files
from typing import Any

from dealfl.api import Fleet, run
from dealfl.simulate import Outcome

__all__ = ["run_fleet", "summarize_outcome"]


def run_fleet(
    dataset: str, learner: str, seed: int = 0, keys: Mapping[str, object] | None = None
) -> Outcome:
    """Run the fleet of fleet.toml on a dataset, with other values of keys of the job."""
    owned = learner == "personalized_pagerank"
    changes = {
        "job.dataset": dataset,
        "job.learner": learner,
        "job.seed": seed,
        "data.partition": "by_owner" if owned else "uniform",
        **(keys or {}),
    }
    with as_file(files("dealfl.reproduce").joinpath("fleet.toml")) as path:
        return run(Fleet.from_job(path, changes), verbose=False).outcome


def summarize_outcome(outcome: Outcome) -> dict[str, Any]:
    """Return the figures of a run as a row; energy and time of phones are modelled."""
    energy = outcome.energy
    return {
        "quality": outcome.quality,
        "metric": outcome.metric,
        "exact": outcome.exact,
        "learned": outcome.learned,
        "evicted": outcome.evicted,
        "wake_ups": energy.wake_ups,
        "compute_s": energy.compute_s,
        "operations": energy.operations,
        "compute_j": energy.compute_j,
        "whole_j": energy.whole_j,
        "band_j": list(energy.band_j),
        "saved_j": energy.as_dict()["saved_j"],
    }
