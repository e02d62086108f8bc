"""Whole systems: what DEAL, traditional federated learning and plain thresholds cost a fleet.

All systems see the same phones, data, arrivals, absences and ticks; forgetting is on, and every
burst of the radios is priced. Energy is that of whole devices, modelled. Settings were chosen with
seeds 0, 1 and 5; the seeds here are others.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from msgspec.structs import replace
from reporting import Report, main, progress

from dealfl.settings import Document
from dealfl.simulate import Estimate, Fleet, Outcome, read_fleet, run_fleet

SEEDS = range(10, 15)
FULL_WAITING = 10
MAX_DELAY_S = 3 * 3600.0
LIMITS = {"original": 0.15, "incremental": 0.25, "uniform, 10 waiting": 1.0}
OWN_BURSTS, DOWN_SHARE, POINTS = 0.3, 0.3, 0.01


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
        "data.partition": "by_owner", "arrival.examples_per_hour": 20.0, "job.evaluate_every": 1000,
    },
)  # fmt: skip
CONNECTED: dict[str, object] = {"radio.keep_alive_s": 900.0, "radio.handshake_bytes": 5000}


def read_task(task: Task, seed: int, keys: dict[str, object] | None = None) -> Fleet:
    """Return the fleet of the default job with other data."""
    from dealfl.runs import default_job

    document = Document.parse(default_job(), "digits.toml")
    if task.keys:
        tables = {name: one for name, one in document.tables.items() if name != "features"}
        document = dataclasses.replace(document, tables=tables)
    for key, value in {**task.keys, **(keys or {}), "job.seed": seed}.items():
        document = document.replaced(key, value)
    return read_fleet(document)


def fill_up(fleet: Fleet) -> Fleet:
    """Return the same workers, chosen at random when ten examples wait; they sleep, too."""
    terms = replace(fleet.job.terms, min_waiting=FULL_WAITING)
    job = replace(fleet.job, selector="uniform", terms=terms)
    return replace(fleet, job=job, selection={"seed": job.seed})


SYSTEMS: dict[str, Callable[[Fleet], Fleet]] = {
    "deal": lambda fleet: fleet,
    "original": lambda fleet: fleet.as_system("original"),
    "incremental": lambda fleet: fleet.as_system("incremental"),
    "uniform, 10 waiting": fill_up,
}


def compare(
    report: Report, task: Task, seeds: Sequence[int], keys: dict[str, object] | None = None
) -> dict[str, list[Outcome]]:
    """Run all systems on all seeds, and add their rows."""
    found: dict[str, list[Outcome]] = {}
    mode = "keep-alives and handshakes priced" if keys else "push channel shared"
    for name, system in SYSTEMS.items():
        with progress(f"{task.name}, {mode}: {name}, {len(seeds)} seeds"):
            found[name] = [run_fleet(system(read_task(task, seed, keys))) for seed in seeds]
        outcomes = found[name]
        report.rows.append(
            {
                "task": task.name,
                "radio": mode,
                "system": name,
                "J (modelled)": _shown([one.energy_j for one in outcomes]),
                "% of original": _percent(outcomes, found.get("original", outcomes)),
                "quality": _shown([one.quality or 0.0 for one in outcomes], 3),
                "median delay h": _shown([(one.median_delay_s or 0.0) / 3600 for one in outcomes]),
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
        worst = ratio.mean if ratio.high is None else ratio.high
        report.check(
            f"{task.name}: whole devices against {name}",
            f"≤ {limit:.0%}",
            f"{_percent(ours, found[name])} %",
            worst <= limit,
        )
    lost = _mean(
        [(b.quality or 0) - (a.quality or 0) for a, b in zip(ours, found["original"], strict=True)]
    )
    report.check(
        f"{task.name}: quality lost against original", f"≤ {POINTS}", f"{lost:.4f}", lost <= POINTS
    )
    delay_s = _mean([one.median_delay_s or 0.0 for one in ours])
    report.check(
        f"{task.name}: median delay of an example", "≤ 3 h", f"{delay_s / 3600:.2f} h",
        delay_s <= MAX_DELAY_S,
    )  # fmt: skip
    own = _mean([_announced(one) for one in ours])
    report.check(
        f"{task.name}: announcements, receipts and keep-alives of their own per training",
        f"≤ {OWN_BURSTS}", f"{own:.2f}", own <= OWN_BURSTS,
    )  # fmt: skip
    every = [one for outcomes in found.values() for one in outcomes]
    exact = sum(one.exact for one in every)
    report.check(
        f"{task.name}: digests equal to central training", f"{len(every)} runs", str(exact),
        exact == len(every),
    )  # fmt: skip


def check_fetch(report: Report, seeds: Sequence[int]) -> None:
    """Compare a lazy fetch of the model with one at every assignment."""
    down: dict[str, float] = {}
    for fetch in ("lazy", "eager"):
        with progress(f"fetch: {fetch}"):
            made = [run_fleet(read_task(DIGITS, seed, {"radio.fetch": fetch})) for seed in seeds]
        down[fetch] = _mean([float(one.energy.down_bytes) for one in made])
    report.check(
        "bytes down, lazy and differential against every assignment", f"≤ {DOWN_SHARE:.0%}",
        f"{down['lazy'] / down['eager']:.0%}", down["lazy"] <= DOWN_SHARE * down["eager"],
    )  # fmt: skip


def run(quick: bool) -> Report:
    """Run everything; quick takes one task and one seed."""
    report = Report("system")
    seeds = SEEDS[: 1 if quick else None]
    for task in (DIGITS,) if quick else (DIGITS, PHISHING, MOVIELENS):
        check(report, task, compare(report, task, seeds))
    if not quick:
        compare(report, DIGITS, seeds, CONNECTED)
    check_fetch(report, seeds)
    return report


def _announced(outcome: Outcome) -> float:
    """Return bursts for announcements, receipts and keep-alives, for each training."""
    bursts = outcome.energy.bursts
    own = sum(bursts.get(cause, 0) for cause in ("announcement", "receipt", "keep-alive"))
    return own / max(bursts.get("training", 0), 1)


def _ratio(ones: Sequence[Outcome], others: Sequence[Outcome]) -> Estimate:
    """Return the ratio of energies, seed by seed."""
    return Estimate.of([a.energy_j / b.energy_j for a, b in zip(ones, others, strict=True)])


def _percent(ones: Sequence[Outcome], others: Sequence[Outcome]) -> str:
    found = _ratio(ones, others)
    spread = "" if found.half_width is None else f" ± {100 * found.half_width:.1f}"
    return f"{100 * found.mean:.1f}{spread}"


def _shown(values: Sequence[float], digits: int = 1) -> str:
    found = Estimate.of(list(values))
    spread = "" if found.half_width is None else f" ± {found.half_width:.{digits}f}"
    return f"{found.mean:.{digits}f}{spread}"


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


if __name__ == "__main__":
    main(run, __doc__ or "")
