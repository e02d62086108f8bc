"""Whole systems: what DEAL, traditional federated learning and plain thresholds cost a fleet.

All systems see the same phones, data, arrivals, absences and ticks; forgetting is on, and every
burst of the radios is priced. Energy is that of whole devices, modelled. Settings were chosen with
seeds below 50; the seeds here are others. A range is the 95 % confidence
interval over seeds; a limit must hold for its end, except that of the quality, which is for the
mean. `--part` runs one part; all of them take about ten minutes.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from msgspec.structs import replace
from reporting import Report, main, progress

from dealfl.settings import Document
from dealfl.simulate import Estimate, FleetSpec, Outcome, read_fleet, run_fleet, start_run

SEEDS = range(50, 55)
FULL_WAITING = 10
MAX_DELAY_H = 3.0
ERASED_S, PLACE_S = 5 * 3600.0, 3600.0
LIMITS = {"original": 0.15, "incremental": 0.25, "uniform, 10 waiting": 1.0}
OWN_BURSTS, DOWN_SHARE, POINTS, FETCH_POINTS = 0.3, 0.3, 0.01, 0.003

Keys = dict[str, object] | None


@dataclass(frozen=True)
class Task:
    """A dataset and the keys in which its fleet differs from the default job."""

    name: str
    keys: dict[str, object]


DIGITS = Task("digits", {})
PHISHING = Task(
    "phishing", {"job.dataset": "phishing", "job.learner": "naive_bayes", "data.rows": 2000}
)
MOVIELENS = Task(
    "movielens",
    {
        "job.dataset": "movielens", "job.learner": "personalized_pagerank", "data.rows": 300,
        "data.partition": "by_owner", "arrival.examples_per_hour": 20.0, "job.min_waiting": 20,
        "job.workers_per_round": 6, "job.evaluate_every": 1000, "data.test_share": 0.4,
    },
)  # fmt: skip
PARTS = [
    part for task in (DIGITS, PHISHING, MOVIELENS) for part in (task.name, f"{task.name}-connected")
] + ["fetch", "sleepers"]
CONNECTED: dict[str, object] = {"radio.keep_alive_s": 900.0, "radio.handshake_bytes": 5000}


def read_task(task: Task, seed: int, keys: Keys = None, without: Sequence[str] = ()) -> FleetSpec:
    """Return the fleet of the default job with other data."""
    from dealfl.runs import default_job

    document = Document.parse(default_job(), "digits.toml")
    dropped = {*without, *(["features"] if task.keys else [])}
    tables = {name: one for name, one in document.tables.items() if name not in dropped}
    document = dataclasses.replace(document, tables=tables)
    for key, value in {**task.keys, **(keys or {}), "job.seed": seed}.items():
        document = document.replaced(key, value)
    return read_fleet(document)


def fill_up(fleet: FleetSpec) -> FleetSpec:
    """Return the same workers, chosen at random when ten examples wait; they sleep, too."""
    rules = replace(fleet.job.rules, min_waiting=FULL_WAITING)
    job = replace(fleet.job, selector="uniform", rules=rules)
    return replace(fleet, job=job, selection={"seed": job.seed})


SYSTEMS: dict[str, Callable[[FleetSpec], FleetSpec]] = {
    "deal": lambda fleet: fleet,
    "original": lambda fleet: fleet.as_system("original"),
    "incremental": lambda fleet: fleet.as_system("incremental"),
    "uniform, 10 waiting": fill_up,
}


def compare(
    report: Report, task: Task, seeds: Sequence[int], keys: Keys = None
) -> dict[str, list[Outcome]]:
    """Run all systems on all seeds, and add their rows."""
    found: dict[str, list[Outcome]] = {}
    mode = "keep-alives and handshakes priced" if keys else "push channel shared"
    for name, system in SYSTEMS.items():
        with progress(f"{task.name}, {mode}: {name}, {len(seeds)} seeds"):
            found[name] = [run_fleet(system(read_task(task, seed, keys))) for seed in seeds]
    for name, outcomes in found.items():
        report.rows.append(
            {
                "task": task.name,
                "radio": mode,
                "system": name,
                "J (modelled)": _shown([one.energy_j for one in outcomes]),
                "deal, % of it": _percent(found["deal"], outcomes),
                "quality": _shown([one.quality or 0.0 for one in outcomes], 3),
                "median delay h": _shown([(one.median_delay_s or 0.0) / 3600 for one in outcomes]),
                "candidates a place": _shown([one.candidates_per_place for one in outcomes]),
                "own bursts per training": _shown([_announced(one) for one in outcomes], 2),
                "MB down": _shown([one.energy.down_bytes / 1e6 for one in outcomes], 2),
                "Jain": _shown([one.jain for one in outcomes], 2),
                "exact": sum(one.exact for one in outcomes),
            }
        )
    return found


def check(report: Report, task: Task, found: dict[str, list[Outcome]]) -> None:
    """Add the claims about one task."""
    ours = found["deal"]
    for name, limit in LIMITS.items():
        ratio = _ratio(ours, found[name])
        measured = f"{_percent(ours, found[name])} %"
        what = f"{task.name}: whole devices against {name}"
        report.check(what, f"≤ {limit:.0%}", measured, _high(ratio) <= limit)
    pairs = list(zip(ours, found["original"], strict=True))
    lost = Estimate.of([(b.quality or 0.0) - (a.quality or 0.0) for a, b in pairs])
    every = [one for outcomes in found.values() for one in outcomes]
    what = f"{task.name}: quality lost against original, on average"
    report.check(what, f"≤ {POINTS}", _range(lost, 4), lost.mean <= POINTS)
    for what, target, most, estimate in (
        ("median delay of an example, h", "≤ 3", MAX_DELAY_H,
         Estimate.of([(one.median_delay_s or math.inf) / 3600 for one in ours])),
        ("announcements, receipts and keep-alives in bursts of their own, per training",
         f"≤ {OWN_BURSTS}", OWN_BURSTS, Estimate.of([_announced(one) for one in ours])),
    ):  # fmt: skip
        report.check(f"{task.name}: {what}", target, _range(estimate, 3), _high(estimate) <= most)
    exact = sum(one.exact for one in every)
    what = f"{task.name}: digests equal to central training"
    report.check(what, f"{len(every)} runs", str(exact), exact == len(every))


def check_fetch(report: Report, seeds: Sequence[int]) -> None:
    """Compare a lazy fetch of the model with one at every assignment."""
    made: dict[str, list[Outcome]] = {}
    for fetch in ("lazy", "eager"):
        with progress(f"fetch: {fetch}"):
            made[fetch] = [
                run_fleet(read_task(DIGITS, seed, {"radio.fetch": fetch})) for seed in seeds
            ]
    pairs = list(zip(made["lazy"], made["eager"], strict=True))
    down = Estimate.of([a.energy.down_bytes / b.energy.down_bytes for a, b in pairs])
    report.check(
        "bytes down, lazy and differential against every assignment", f"≤ {DOWN_SHARE:.0%}",
        _range(down, 3), _high(down) <= DOWN_SHARE,
    )  # fmt: skip
    lost = Estimate.of([(b.quality or 0.0) - (a.quality or 0.0) for a, b in pairs])
    report.check(
        "quality lost by lazy and differential fetch", "≤ 0.003", _range(lost, 4),
        _high(lost) <= FETCH_POINTS,
    )  # fmt: skip


def check_sleepers(report: Report, seeds: Sequence[int]) -> None:
    """Measure the longest wait of an example, and of an erasure for the last answer.

    The phones never lose power or network here, so that nothing but sleeping delays them.
    """
    waited_s, reached, workers = [], 0, 0
    keys: dict[str, object] = {"faults.dropout_share": 0.0}
    for seed in seeds:
        with progress(f"sleepers: seed {seed}"):
            run = start_run(read_task(DIGITS, seed, keys, without=["availability"]))
            rules = run.fleet.job.rules
            run.simulation.run(ERASED_S)
            run.erase("benchmark", [b"nobody" * 5], "benchmark")
            run.simulation.run(ERASED_S + rules.max_wait_s + rules.ttl_s)
            reached += sum(row.forgotten > 0 for row in run.server.workers.values())
            workers += run.fleet.workers
            delays = run.simulation.traffic.state.delays.values()
            waited_s.append(max(delay_s for listed in delays for delay_s, _ in listed))
            run.close()
    limit_s = rules.max_wait_s + PLACE_S
    report.check(
        "longest time from the arrival of an example until its update leaves",
        f"≤ {limit_s / 3600:.2f} h (max_wait_s, and an hour for a place)",
        f"{max(waited_s) / 3600:.2f} h",
        max(waited_s) <= limit_s,
    )  # fmt: skip
    report.check(
        "workers that heard of an erasure within max_wait_s", f"{workers} of {workers}",
        str(reached), reached == workers,
    )  # fmt: skip


def run(quick: bool, parts: Sequence[str]) -> Report:
    """Run the parts; quick takes one seed, and of the comparisons the first."""
    report = Report("system")
    seeds = SEEDS[: 1 if quick else None]
    for task in (DIGITS, PHISHING, MOVIELENS)[: 1 if quick else None]:
        if task.name in parts:
            check(report, task, compare(report, task, seeds))
        if f"{task.name}-connected" in parts and not quick:
            compare(report, task, seeds, CONNECTED)
    if "fetch" in parts:
        check_fetch(report, seeds)
    if "sleepers" in parts:
        check_sleepers(report, seeds)
    return report


def _announced(outcome: Outcome) -> float:
    """Return bursts for announcements, receipts and keep-alives, for each training."""
    bursts = outcome.energy.bursts
    own = sum(bursts.get(cause, 0) for cause in ("announcement", "receipt", "keep-alive"))
    return own / max(bursts.get("training", 0), 1)


def _ratio(ones: Sequence[Outcome], others: Sequence[Outcome]) -> Estimate:
    """Return the ratio of energies, seed by seed."""
    return Estimate.of([a.energy_j / b.energy_j for a, b in zip(ones, others, strict=True)])


def _high(estimate: Estimate) -> float:
    return estimate.mean if estimate.high is None else estimate.high


def _percent(ones: Sequence[Outcome], others: Sequence[Outcome]) -> str:
    ratios = [100 * a.energy_j / b.energy_j for a, b in zip(ones, others, strict=True)]
    return _shown(ratios)


def _range(estimate: Estimate, digits: int) -> str:
    spread = "" if estimate.half_width is None else f" ± {estimate.half_width:.{digits}f}"
    return f"{estimate.mean:.{digits}f}{spread}"


def _shown(values: Sequence[float], digits: int = 1) -> str:
    return _range(Estimate.of(list(values)), digits)


if __name__ == "__main__":
    main(run, __doc__ or "", PARTS)
