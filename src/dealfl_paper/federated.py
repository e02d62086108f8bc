"""Federated runs through the front door: real server and workers, modelled phones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import as_file, files
from typing import Any

from dealfl.api import Fleet, run
from dealfl.server import Selection
from dealfl.simulate import Outcome, Round, finish, split_fleet, start_run
from dealfl.simulate import run_fleet as simulate
from dealfl_paper.figure import Row, Setting
from dealfl_paper.one_user import change_models
from dealfl_paper.problems import count_examples

STAYS = 3  # rounds for which a quality must stay
_STREAMED: dict[str, object] = {  # a few phones receive many examples, most receive few
    "data.rows": 4_000,
    "job.round_every_s": 600,
    "job.workers_per_round": 5,
    "job.max_wait_s": 21_600.0,
    "arrival.pattern": "poisson",
    "arrival.initial_share": 0.005,
    "arrival.examples_per_hour": 6,
    "arrival.batch": None,
    "arrival.spread": 1.0,
}


def run_fleet(
    dataset: str, learner: str, seed: int = 0, keys: Mapping[str, object] | None = None
) -> Outcome:
    """Run the fleet of fleet.toml on a dataset, with other values of keys of the job."""
    return run(_fleet(dataset, learner, seed, keys or {}), verbose=False).outcome


def run_panel(setting: Setting) -> Sequence[Row]:
    """Change a model that was trained on a whole dataset by one user, or run a fleet."""
    if setting["panel"] == "one user":
        return change_models(setting)
    keys = {
        "job.scheme": setting["scheme"],
        "job.rounds": setting["rounds"],
        "data.rows": min(setting["rows"], count_examples(setting["dataset"])),
    }
    outcome = run_fleet(setting["dataset"], setting["learner"], setting["seed"], keys)
    return [summarize_outcome(outcome)]


def compare_systems(setting: Setting) -> Sequence[Row]:
    """Run a fleet as DEAL and as traditional federated learning; split what is saved by lever."""
    keys = {
        "job.rounds": setting["rounds"],
        "data.rows": min(setting["rows"], count_examples(setting["dataset"])),
    }
    fleet = _fleet(setting["dataset"], setting["learner"], setting["seed"], keys).simulated
    split = split_fleet(fleet)
    deal, other = (
        simulate(fleet.as_system(scheme), split=split).energy for scheme in ("deal", "original")
    )
    return [
        {
            "whole_j": deal.whole_j,
            "traditional_j": other.whole_j,
            "levers_j": deal.split_saving(other),
        }
    ]


def _fleet(dataset: str, learner: str, seed: int, keys: Mapping[str, object]) -> Fleet:
    changes = {
        "job.dataset": dataset,
        "job.learner": learner,
        "job.seed": seed,
        "data.partition": "by_owner" if learner == "personalized_pagerank" else "uniform",
        **keys,
    }
    with as_file(files("dealfl_paper").joinpath("fleet.toml")) as path:
        return Fleet.from_job(path, changes)


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
    }


# -- until a quality is reached -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reached:
    """What a fleet spent until it reached a quality that stays, or all it spent without."""

    reached: bool
    last: Round
    selections: Sequence[Selection]
    workers: int
    outcome: Outcome

    def as_row(self) -> dict[str, Any]:
        """Return energy (modelled), time, wake-ups and fairness."""
        picks = Counter(selection.worker for selection in self.selections)
        counts = [*picks.values(), *[0] * (self.workers - len(picks))]
        wake_ups = sum(counts)
        return {
            "reached": self.reached,
            "energy_j": self.last.compute_j + self.last.radio_j,
            "hours": self.last.closed_at_s / 3600,
            "wake_ups": wake_ups,
            "fullness": sum(selection.learned for selection in self.selections) / max(wake_ups, 1),
            "min_share": min(counts) / self.last.number,
            "jain": wake_ups**2 / (len(counts) * sum(count * count for count in counts)),
        }


def play_fleet(target: float, rounds: int, seed: int, keys: Mapping[str, object]) -> Reached:
    """Let 20 phones classify phishing sites until the accuracy is reached and stays."""
    job = {**_STREAMED, "job.rounds": rounds, **keys}
    playing = start_run(_fleet("phishing", "tikhonov_classifier", seed, job).simulated)
    try:
        while not _first(playing.rounds, target) and not playing.reason_to_end():
            playing.advance()
        reached = _first(playing.rounds, target)
        last = reached or playing.rounds[-1]
        chosen = [
            selection
            for selection in playing.ledger.reader.selections()
            if selection.round <= last.number
        ]
        return Reached(reached is not None, last, chosen, playing.fleet.workers, finish(playing))
    finally:
        playing.close()


def _first(rounds: Sequence[Round], target: float) -> Round | None:
    """Return the first round from which on the quality stays."""
    for start in range(len(rounds) - STAYS + 1):
        if all((row.quality or 0.0) >= target for row in rounds[start : start + STAYS]):
            return rounds[start]
    return None
