"""Whole systems: what DEAL costs a fleet beside a baseline that may do everything cheap, too.

The fair baseline (`incremental`, uniform) sleeps, waits for examples, announces itself at most once
a round and fetches the model as rarely. Its joules per learned example are interpolated, along its
own thresholds, to DEAL's mean delay, if it then learns at most 2 % more examples. Energy is that of
whole devices, modelled: every connection pays its round trips, every byte is priced as it is sent,
and a transfer costs what it adds to the phone's own traffic. Seeds and settings are in system.toml,
which was committed before they ran. `--part` runs one part.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import dataclasses
import hashlib
import random
import tomllib
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from itertools import product
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory

from msgspec.structs import replace
from reporting import Report, main, progress

from dealfl import Fleet
from dealfl.learners import StoredRecord, cycles_of, statistics_of
from dealfl.power import PHONES, RADIOS, PhoneSpending, Spent, Training, phone, phone_clock
from dealfl.protocol import pack
from dealfl.runs import FAIR, Threshold, default_job
from dealfl.runs.result import find_at_delay
from dealfl.settings import Document
from dealfl.simulate import Estimate, FleetSpec, Outcome, read_fleet, run_fleet, start_run
from dealfl.simulate.fleet_run import split_fleet
from dealfl.simulate.split import load_examples
from dealfl_paper.laboratory import measure_wrong_choices

SETTINGS = Path(__file__).with_name("system.toml")
_GIVEN = tomllib.loads(SETTINGS.read_text("utf-8"))
SEEDS: list[int] = _GIVEN["seeds"]
TASKS: dict[str, dict[str, object]] = _GIVEN["tasks"]
MIDDLE = 15.0  # own activations an hour
COMPARED = {
    f"lte-{task}-{rate:g}": ("lte", task, rate) for task in TASKS for rate in _GIVEN["rates"][task]
} | {f"{radio}-{task}": (radio, task, MIDDLE) for radio in ("wifi", "mixed") for task in TASKS}
AS_MANY = 0.98
ERASED_S = 5 * 3600.0

Keys = dict[str, object]
Made = Callable[[FleetSpec], FleetSpec]


def read_task(task: str, seed: int, radio: str = "", keys: Keys | None = None) -> FleetSpec:
    """Return the fleet of the default job with the keys of a task, on one radio or as it is."""
    document = Document.parse(default_job(), "digits.toml")
    given = {**TASKS[task], **(keys or {}), "job.seed": seed}
    dropped = {"learner"} if "job.learner" in given else set()
    tables = {name: table for name, table in document.tables.items() if name not in dropped}
    count = {"count": _GIVEN["phones_of_a_kind"]}
    over = {"radio": radio} if radio else {}
    tables["devices"] = [{**group, **count, **over} for group in tables["devices"]]
    document = dataclasses.replace(document, tables=tables)
    for key, value in given.items():
        document = document.replaced(key, value)
    return read_fleet(document)


def with_rides(fleet: FleetSpec, rides: bool) -> FleetSpec:
    """Return the same fleet, whose phones wait for other traffic to ride along with, or do not."""
    rules = replace(fleet.job.rules, ride_along=rides)
    return replace(fleet, job=replace(fleet.job, rules=rules))


def baseline(waiting: int, *, rides: bool = False) -> Made:
    """Return the fair baseline with a threshold; it may ride along, too."""

    def make(fleet: FleetSpec) -> FleetSpec:
        return with_rides(fleet.as_system(f"{FAIR}@{waiting}"), rides)

    return make


def curve(fleet: FleetSpec, *, rides: bool = False) -> list[Threshold]:
    """Return what the baseline costs along its thresholds."""
    return [
        Threshold.of(run_fleet(baseline(waiting, rides=rides)(fleet)))
        for waiting in fleet.thresholds
    ]


def ratio(ours: Outcome, points: Sequence[Threshold]) -> float | None:
    """Return DEAL's joules per example as a share of the baseline's at the same mean delay."""
    theirs = find_at_delay(points, ours.delays.mean_s) if ours.delays else None
    if theirs is None or ours.learned < AS_MANY * theirs.learned:
        return None
    return ours.example_j / theirs.example_j


def compare(report: Report, part: str, task: str, seeds: Sequence[int], keys: Keys) -> None:
    """Compare DEAL with the baseline, and with the baseline that rides along, on one radio."""
    radio = "" if part == "mixed" else part
    shares: dict[str, list[float | None]] = {"riding": [], "both ride": [], "neither rides": []}
    outcomes: list[Outcome] = []
    still: list[Outcome] = []  # without rides
    curves = []
    for seed in seeds:
        rate = keys.get("radio.own_per_hour", "")
        with progress(f"{part}: {task}, {rate} an hour, seed {seed}"):
            fleet = read_task(task, seed, radio, keys)
            ours = run_fleet(fleet)
            fair = curve(fleet)
            outcomes.append(ours)
            curves.append(fair)
            shares["riding"].append(ratio(ours, fair))
            if part != "wifi" and rate in ("", MIDDLE):
                shares["both ride"].append(ratio(ours, curve(fleet, rides=True)))
            if part == "mixed":
                still.append(run_fleet(with_rides(fleet, False)))
                shares["neither rides"].append(ratio(still[-1], fair))
    for what, found in shares.items():
        if not found:
            continue
        ours_all = still if what == "neither rides" else outcomes
        known = [share for share in found if share is not None]
        report.rows.append(
            {
                "part": part, "task": task,
                "own traffic an hour": keys.get("radio.own_per_hour", MIDDLE),
                "DEAL against the baseline": what,
                "% of it at equal mean delay": _shown(known, 100),
                "worst seed %": 100 * max(known, default=float("nan")),
                "seeds without a bracket": len(found) - len(known),
                "mJ an example": fmean(1e3 * one.example_j for one in ours_all),
                "median, mean, p90 delay h": _delays(ours_all),
                "learned": fmean(one.learned for one in ours_all),
                "quality": fmean(one.quality or 0.0 for one in ours_all),
                "rides, % of bursts": fmean(
                    100 * one.energy.rides / max(sum(one.energy.bursts.values()), 1)
                    for one in ours_all
                ),
                "exact": sum(one.exact for one in ours_all),
            }
        )  # fmt: skip
        name = f"{task} over {part}, {keys.get('radio.own_per_hour', MIDDLE):g} an hour, {what}"
        _check(report, (part, what), name, known, len(found))
    for points in zip(*curves, strict=True):
        report.rows.append(
            {
                "curve of the baseline over": part, "task": task,
                "own traffic an hour": keys.get("radio.own_per_hour", MIDDLE),
                "it waits for": points[0].waiting,
                "baseline: mJ an example": fmean(1e3 * point.example_j for point in points),
                "its mean delay h": fmean(point.delay_s for point in points) / 3600,
                "it learned": fmean(point.learned for point in points),
            }
        )  # fmt: skip


def _check(
    report: Report, kind: tuple[str, str], name: str, known: Sequence[float], count: int
) -> None:
    limits = {
        ("lte", "riding"): 0.20, ("lte", "both ride"): 1.02, ("wifi", "both ride"): 1.02,
        ("mixed", "neither rides"): 0.75,
    }  # fmt: skip
    limit = limits.get(kind)
    if limit is None:
        return
    mean = fmean(known) if known else float("inf")
    holds = len(known) == count and mean <= limit
    if kind == ("lte", "riding"):
        holds &= max(known, default=1.0) <= 0.30
    report.check(
        f"{name}: DEAL's joules per example at equal mean delay",
        f"mean ≤ {limit:.0%}" + (", every seed ≤ 30 %" if limit == 0.2 else ""),
        f"{_shown(known, 100)} %, worst {100 * max(known):.0f} %, {len(known)} of {count} seeds"
        if known
        else f"0 of {count} seeds can be compared",
        holds,
    )


# -- a change of the world -------------------------------------------------------------------------


def follow(outcome: Outcome) -> list[tuple[float, float]]:
    """Return hours since the change, and the quality then."""
    return [
        ((row.closed_at_s - outcome.changed_at_s) / 3600, row.quality)
        for row in outcome.rounds
        if row.quality is not None
    ]


def change(report: Report, seeds: Sequence[int], what: str) -> None:
    """Change the world after two days: how long until the model is as good as a new one?"""
    for task in ("digits",) if what == "half" else ("phishing",):  # phishing has two classes
        keys = {**_GIVEN["change"], "change.what": what}
        hours: dict[str, list[tuple[float | None, float | None]]]
        hours = {"deal": [], "original": [], FAIR: []}
        alarms = []
        for seed in seeds:
            with progress(f"{what}: {task}, seed {seed}"):
                fleet = read_task(task, seed, keys=keys)
                oracle = run_fleet(read_task(task, seed, keys=keys | _fresh(keys)))
                begun = [(h + 1e-9, quality) for h, quality in follow(oracle)]
                for system in hours:
                    outcome = run_fleet(fleet.as_system(system))
                    hours[system].append(_recovered(follow(outcome), begun))
                still = run_fleet(read_task(task, seed, keys=keys | {"change.at_h": 0.0}))
                alarms.append(still.alarms / still.workers / (still.virtual_s / 604_800.0))
        for system, found in hours.items():
            known, stays = (
                [hour for hour in each if hour is not None] for each in zip(*found, strict=True)
            )
            report.rows.append(
                {
                    "change of": what, "task": task, "system": system,
                    "hours until within 3 points of a fleet that begins at the change":
                    _shown(known) if known else "not within 48",
                    "seeds that recover": f"{len(known)} of {len(found)}",
                    "hours until it stays there": _shown(stays) if stays else "not within 48",
                    "seeds that stay there": f"{len(stays)} of {len(found)}",
                    "false alarms a phone and week, without a change": fmean(alarms),
                }
            )  # fmt: skip
        if what == "labels":
            worst = max(float("inf") if hour is None else hour for hour, _ in hours["deal"])
            report.check(
                f"{task}, all labels inverted: hours until DEAL is within 3 points, worst seed",
                "≤ 24", f"{worst:.1f}", worst <= 24,
            )  # fmt: skip
        report.check(
            f"{task}: false alarms a phone and week on stationary data", "≤ 1",
            f"{fmean(alarms):.2f}", fmean(alarms) <= 1,
        )  # fmt: skip


def change_labels(report: Report, seeds: Sequence[int]) -> None:
    """Invert all labels."""
    change(report, seeds, "labels")


def change_half(report: Report, seeds: Sequence[int]) -> None:
    """Permute half of the classes."""
    change(report, seeds, "half")


def change_features(report: Report, seeds: Sequence[int]) -> None:
    """Mirror the features."""
    change(report, seeds, "features")


def _fresh(keys: Keys) -> Keys:
    """Return the keys of a fleet that begins at the change, so that it has nothing to forget."""
    left_h = float(str(keys["job.max_h"])) - float(str(keys["change.at_h"]))
    return {"change.at_h": 1e-9, "job.max_h": left_h, "worker.drift": False}


def _recovered(
    ours: Sequence[tuple[float, float]], oracle: Sequence[tuple[float, float]]
) -> tuple[float | None, float | None]:
    """Return the hours since the change until it is right again for the first time, and for good.

    Right is within 3 points of the oracle's best test so far. At first the oracle has learned
    little, and an old model may be better: what counts is after it was not right. Three tests in a
    row count together, because a test has an error of a point or two.
    """
    later = [(hour, quality) for hour, quality in ours if hour > 0]
    first = good = None
    was_wrong = False
    for rows in zip(later, later[1:], later[2:], strict=False):
        hour = rows[0][0]
        best = max((value for at, value in oracle if at <= hour), default=0.0)
        if fmean(quality for _, quality in rows) < best - 0.03:
            was_wrong, good = True, None
        elif was_wrong:
            first = hour if first is None else first
            good = hour if good is None else good
    return first, good


# -- computing -------------------------------------------------------------------------------------

EXAMPLES = Path(__file__).parents[1] / "examples"
LIMITS = {"tikhonov-covtype": 0.25, "neighbors-covtype": 0.35, "pagerank-jester": 0.65}
CALLS = {"tikhonov_classifier": 0.25, "neighbors": 0.35, "personalized_pagerank": 0.65}
FEW = 20  # examples in a call
MOST = 10**9  # rows, beyond which nobody asks


_TRIPS = 5  # of a call as it is priced: TCP, TLS, CONNECT, assignment, receipt


@dataclasses.dataclass(frozen=True)
class Call:
    """Another way to call: with fewer round trips, or on a ride."""

    trips: int = _TRIPS
    rides: bool = False


CALL_KINDS = {
    "as it is": Call(), "on a ride": Call(rides=True), "four round trips": Call(4),
    "both": Call(4, rides=True),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Retraining:
    """The work of a learner on the real records of a job, and the bytes of its updates."""

    job: str
    learner: str
    row_operations: float
    few_operations: int
    few_bytes: int

    @classmethod
    def read(cls, path: Path | None) -> "Retraining":
        """Count the operations of a job's records; of the default job without a path."""
        document = Document.read(path) if path else Document.parse(default_job(), "digits.toml")
        fleet = read_fleet(document)
        split = split_fleet(fleet)
        stream = max(split.streams, key=len)
        records = [StoredRecord(owner.encode(), body) for owner, body in stream]
        work = statistics_of(split.make, records)[1]
        few, few_work = statistics_of(split.make, records[:FEW])
        return cls(
            job=path.stem if path else "digits", learner=fleet.learner,
            row_operations=work.operations / len(records), few_operations=few_work.operations,
            few_bytes=len(pack(few.to_bytes())),
        )  # fmt: skip

    def original(self, name: str, radio: str, rows: int, call: "Call | None" = None) -> Spent:
        """Return what a call costs that learns all rows from scratch."""
        operations = round(self.row_operations * rows)
        return self._spend(name, radio, "interactive", operations, call=call)

    def incremental(self, name: str, radio: str) -> Spent:
        """Return what a call costs that learns the new rows."""
        return self._spend(name, radio, "interactive", self.few_operations)

    def deal(self, name: str, radio: str, call: "Call | None" = None) -> Spent:
        """Return what a call costs that learns the new rows, and forgets as many."""
        few = self.few_operations
        return self._spend(name, radio, "deal", few, few, call=call)

    def _spend(
        self, name: str, radio: str, clock: str, learned: int, forgotten: int = 0,
        call: "Call | None" = None,
    ) -> Spent:  # fmt: skip
        one = phone(name).over(radio)
        if call:
            one = one.over(rtt_s=one.link.rtt_s * call.trips / _TRIPS)
        laws = cycles_of(self.learner).of_worker
        spending = PhoneSpending(one, laws, clock=phone_clock(one, clock))
        training = Training(
            learned_operations=learned, forgotten_operations=forgotten, sent_bytes=self.few_bytes,
            rides=bool(call and call.rides),
        )  # fmt: skip
        return spending.of(training)

    def break_even(self, name: str, radio: str) -> int:
        """Return from how many rows on retraining costs more than the radio of its call."""
        low, high = 0, 1
        while high < MOST and not self._computes_more(name, radio, high):
            low, high = high, 4 * high
        while high - low > max(low // 100, 1):
            middle = (low + high) // 2
            if self._computes_more(name, radio, middle):
                high = middle
            else:
                low = middle
        return high

    def _computes_more(self, name: str, radio: str, rows: int) -> bool:
        spent = self.original(name, radio, rows)
        return spent.compute.total_j > spent.radio.total_j


def list_rows(report: Report, seeds: Sequence[int]) -> None:
    """List from how many local rows on retraining costs more than the radio."""
    del seeds  # the laws and prices of a call depend on none
    names = list(PHONES.usable())
    jobs = [None, *sorted((EXAMPLES / "jobs").glob("*.toml"))]
    for path in jobs:
        with progress(f"rows: {path.stem if path else 'digits'}"):
            work = Retraining.read(path)
        for radio in RADIOS:
            rows: Keys = {"job": work.job, "learner": work.learner, "radio": radio}
            rows |= {f"rows, {name}": work.break_even(name, radio) for name in names}
            deal_j = sum(work.deal(name, radio).whole.total_j for name in names)
            few_j = sum(work.incremental(name, radio).whole.total_j for name in names)
            for held in (1_000, 10_000, 100_000):
                all_j = sum(work.original(name, radio, held).whole.total_j for name in names)
                rows[f"DEAL, incremental: % of original with {held:,} rows"] = (
                    f"{100 * deal_j / all_j:.1f}, {100 * few_j / all_j:.1f}"
                )
                if (held, radio) == (10_000, "wifi") and work.learner in CALLS:
                    limit = CALLS[work.learner]
                    report.check(
                        f"{work.job}, a call over wifi, 10,000 local rows, mean of the phones",
                        f"≤ {limit:.0%} of original", f"{100 * deal_j / all_j:.1f} %",
                        deal_j / all_j <= limit,
                    )  # fmt: skip
            report.rows.append(rows)
        if work.learner in CALLS:
            report.rows.append(_split_call(work, names))


def _split_call(work: Retraining, names: Sequence[str]) -> Keys:
    """Return the parts of a call over wifi, and what other calls would cost with 10,000 rows."""
    deal = [work.deal(name, "wifi") for name in names]
    whole_j = sum(spent.whole.total_j for spent in deal)
    waits_j = sum(
        spent.radio.total_j - work.deal(name, "wifi", Call(0)).radio.total_j
        for name, spent in zip(names, deal, strict=True)
    )
    tail_j = sum(spent.radio.radio_tail_j for spent in deal)
    compute_j = sum(spent.compute.total_j for spent in deal)
    row: Keys = {"call of": work.job, "learner": work.learner}
    row |= {
        f"{part} %": 100 * joules / whole_j
        for part, joules in (
            ("round trips", waits_j), ("tail", tail_j), ("computing", compute_j),
            ("bytes", whole_j - waits_j - tail_j - compute_j),
        )
    }  # fmt: skip
    for kind, call in CALL_KINDS.items():
        ours_j = sum(work.deal(name, "wifi", call).whole.total_j for name in names)
        all_j = sum(work.original(name, "wifi", 10_000, call).whole.total_j for name in names)
        row[f"{kind}: % of original"] = 100 * ours_j / all_j
    return row


def compute(report: Report, seeds: Sequence[int]) -> None:
    """Compare whole devices that hold 10,000 rows: DEAL and incremental against original."""
    given: dict[str, Keys] = _GIVEN["compute"]
    for name, limit in LIMITS.items():
        document = Document.read(EXAMPLES / "large" / f"{name}.toml")
        for key, value in (given["all"] | given[name]).items():
            document = document.replaced(key, value)
        reading = load_examples(read_fleet(document).plan)
        for rides in (False, True):
            shares: dict[str, list[float]] = {"deal": [], "incremental": []}
            held, exact = [], 0
            own = document.replaced("radio.own_per_hour", MIDDLE) if rides else document
            for seed in seeds:
                with progress(f"compute: {name}, seed {seed}{', riding' * rides}"):
                    fleet = read_fleet(own.replaced("job.seed", seed))
                    split = split_fleet(fleet, reading)
                    outcomes = {
                        scheme: run_fleet(with_rides(fleet.as_system(scheme), rides), split=split)
                        for scheme in ("deal", "incremental", "original")
                    }
                original = outcomes["original"]
                for scheme, known in shares.items():
                    known.append(_later_j(outcomes[scheme]) / _later_j(original))
                held += [one.held for one in original.participants]
                exact += sum(one.exact for one in outcomes.values())
            report.rows.append(
                {
                    "part": "compute", "job": name, "rows held": fmean(held),
                    "who rides": "all" if rides else "nobody",
                    "DEAL, % of original": _shown(shares["deal"], 100),
                    "incremental, % of original": _shown(shares["incremental"], 100),
                    "exact runs": f"{exact} of {3 * len(seeds)}",
                }
            )  # fmt: skip
            if not rides:
                report.check(
                    f"{name}, wifi, {fmean(held):,.0f} local rows: DEAL's joules per example",
                    f"≤ {limit:.0%} of original", f"{_shown(shares['deal'], 100)} %",
                    fmean(shares["deal"]) <= limit,
                )  # fmt: skip


def _later_j(outcome: Outcome) -> float:
    """Return joules per example after every phone has learned the rows that it begins with."""
    first, last = outcome.rounds[0], outcome.rounds[-1]
    learned = 0
    for row in outcome.rounds:
        learned += row.learned
        first = row
        if learned >= 0.94 * outcome.learned:
            break
    whole_j = last.compute_j + last.radio_j - first.compute_j - first.radio_j
    return whole_j / max(outcome.learned - learned, 1)


# -- other parts -----------------------------------------------------------------------------------


def notice(report: Report, seeds: Sequence[int]) -> None:
    """Vary how soon own traffic is noticed and how long it is, the tail and the round trip."""
    seeds = seeds[:1]
    for radio, scale in product(RADIOS, (0.2, 1.0, 5.0)):
        keys: Keys = {"radio.own_scale": scale}
        points = [curve(read_task("phishing", seed, radio, keys)) for seed in seeds]
        for notice_s in (0.1, 0.3, 1.0, 5.0):
            varied = keys | {"radio.notice_s": notice_s}
            _vary(report, radio, varied, seeds, points)
    for radio in RADIOS:
        tails = [{"radio.tail_s": tail_s} for tail_s in (1.0, 3.0, 6.0, 11.6)]
        trips = [{"radio.rtt_s": rtt_s} for rtt_s in (0.0, 0.3, 0.5, 1.0)]
        for varied in (*(tails if radio == "lte" else ()), *trips):
            points = [curve(read_task("phishing", seed, radio, varied)) for seed in seeds]
            _vary(report, radio, varied, seeds, points)


def _vary(
    report: Report, radio: str, keys: Keys, seeds: Sequence[int], points: Sequence[list[Threshold]]
) -> None:
    with progress(f"notice: {radio}, {keys}"):
        shares = [
            ratio(run_fleet(read_task("phishing", seed, radio, keys)), curved)
            for seed, curved in zip(seeds, points, strict=True)
        ]
    known = [share for share in shares if share is not None]
    report.rows.append(
        {
            "part": "notice", "radio": radio,
            "own traffic noticed after s": keys.get("radio.notice_s", 0.1),
            "its lengths ×": keys.get("radio.own_scale", 1.0),
            "tail s": keys.get("radio.tail_s", "its own"),
            "round trip s": keys.get("radio.rtt_s", "its own"),
            "% of the fair baseline": _shown(known, 100),
            "seeds with a bracket": f"{len(known)} of {len(seeds)}",
        }
    )  # fmt: skip


def review(report: Report, seeds: Sequence[int]) -> None:
    """Measure what held-back records cost, and what recovery saves, with a θ that is too high."""
    document = Document.read(EXAMPLES / "fleets" / "recovery.toml")
    for share in (0.1, 0.0):
        held_back = document.replaced("worker.validation_share", share)
        with progress(f"review: {share} held back"):
            outcomes = [run_fleet(read_fleet(held_back.replaced("job.seed", s))) for s in seeds]
        report.rows.append(
            {
                "held back %": 100 * share,
                "accuracy": _shown([one.quality or 0.0 for one in outcomes], 100),
                "examples learned": fmean(one.learned - one.recovered for one in outcomes),
                "learned back": fmean(one.recovered for one in outcomes),
                "J of computing": fmean(one.energy.compute_j for one in outcomes),
                "J of reviews": fmean(one.energy.review_j for one in outcomes),
                "J of whole devices": _shown([one.energy_j for one in outcomes]),
            }
        )  # fmt: skip


def forecasts(report: Report, seeds: Sequence[int]) -> None:
    """Measure what it costs to choose 150 of 300 devices by wrong forecasts of their times."""
    del seeds
    with progress("forecasts"):
        found = measure_wrong_choices(jobs=100, workers=300, per_round=150)
    report.rows += [
        {
            "forecasts off by %": "learned" if one.prediction_error is None
            else round(100 * one.prediction_error),
            "time of": one.ends_with, "wrong picks %": 100 * one.wrong_picks,
            "mean": f"{100 * one.mean - 100:+.1f}", "median": f"{100 * one.median - 100:+.1f}",
            "95th percentile": f"{100 * one.percentile_95 - 100:+.1f}",
        }
        for one in found
    ]  # fmt: skip


def check_sleepers(report: Report, seeds: Sequence[int]) -> None:
    """Count the workers that hear of an erasure within `max_wait_s`; nothing else delays them."""
    reached = workers = 0
    for seed in seeds:
        with progress(f"sleepers: seed {seed}"):
            fleet = read_task("digits", seed, keys={"faults.dropout_share": 0.0})
            fleet = replace(fleet, availability=_always())
            run = start_run(fleet)
            rules = run.fleet.job.rules
            run.simulation.run(ERASED_S)
            run.erase("benchmark", [b"nobody" * 5], "benchmark")
            run.simulation.run(ERASED_S + rules.max_wait_s + rules.ttl_s)
            reached += sum(row.forgotten > 0 for row in run.server.workers.values())
            workers += run.fleet.workers
            run.close()
    report.check(
        "workers that heard of an erasure within max_wait_s", f"{workers} of {workers}",
        str(reached), reached == workers,
    )  # fmt: skip


def _always() -> object:
    from dealfl.simulate.schedules import Always

    return Always()


# -- the file of a stranger -----------------------------------------------------------------------


def write_stranger(path: Path, seed: int) -> None:
    """Write the CSV of a stranger: 20 persons with two kinds of readings, over three days."""
    draw = random.Random(f"{seed}/stranger")
    begin = datetime(2024, 3, 1, 8)
    rows = []
    for person in range(20):
        rate, hour = draw.lognormvariate(1.2, 0.6), 0.0
        while (hour := hour + draw.expovariate(rate)) < 72.0:
            label = draw.choice(["rest", "walk"])
            values = [draw.gauss(1.2 if label == "walk" else -0.2, 1.0) for _ in range(4)]
            moment = (begin + timedelta(hours=hour)).isoformat(sep=" ", timespec="seconds")
            rows.append([moment, f"person {person}", *(f"{value:.3f}" for value in values), label])
    lines = [["time", "person", "a", "b", "c", "d", "label"], *sorted(rows)]
    path.write_text("\n".join(map(",".join, lines)), "utf-8")


def measure_stranger(report: Report, seeds: Sequence[int]) -> None:
    """Propose a job for the file of a stranger, and compare it with the same fair baseline."""
    keys = ("sleep", "selector", "wait_j", "ride_along", "ride_wait_s", "max_wait_s")
    default = Document.parse(default_job(), "digits.toml").tables["job"]
    shares, outcomes = [], []
    for seed in seeds:
        with progress(f"stranger: seed {seed}"), TemporaryDirectory() as folder:
            write_stranger(Path(folder) / "data.csv", seed)
            fleet = Fleet.from_file(Path(folder) / "data.csv", settings={"job.seed": seed})
            spec = fleet.simulated
            outcomes.append(run_fleet(spec))
            shares.append(ratio(outcomes[-1], curve(spec)))
            proposed = fleet.document.tables["job"]
    known = [share for share in shares if share is not None]
    differ = [key for key in keys if proposed[key] != default[key]]
    report.rows.append(
        {
            "part": "stranger", "% of the fair baseline at equal mean delay": _shown(known, 100),
            "worst seed %": 100 * max(known, default=float("nan")),
            "seeds without a bracket": len(shares) - len(known),
            "mJ an example": fmean(1e3 * one.example_j for one in outcomes),
            "median, mean, p90 delay h": _delays(outcomes),
            "learned": fmean(one.learned for one in outcomes),
            "quality": fmean(one.quality or 0.0 for one in outcomes),
            "exact": sum(one.exact for one in outcomes),
        }
    )  # fmt: skip
    report.check(
        "keys of a stranger's job that differ from the default",
        "none", ", ".join(differ) or "none",
        not differ,
    )  # fmt: skip


MEASURES: dict[str, Callable[[Report, Sequence[int]], None]] = {
    "labels": change_labels, "half": change_half, "features": change_features, "notice": notice,
    "sleepers": check_sleepers, "review": review, "rows": list_rows, "compute": compute,
    "forecasts": forecasts, "stranger": measure_stranger,
}  # fmt: skip
PARTS = [*COMPARED, *MEASURES]


def run(quick: bool, parts: Sequence[str]) -> Report:
    """Run the parts; quick takes one seed of two parts."""
    report = Report("system")
    seeds = SEEDS[: 1 if quick else None]
    digest = hashlib.sha256(SETTINGS.read_bytes() + default_job().encode()).hexdigest()[:16]
    settings = f"{SETTINGS.name} and the default job"
    report.rows.append({"settings": settings, "sha256": digest, "seeds": str(seeds)})
    if quick:
        compare(report, "lte", "digits", seeds, {"radio.own_per_hour": MIDDLE})
        return report
    for radio, task, rate in (COMPARED[part] for part in parts if part in COMPARED):
        compare(report, radio, task, seeds, {"radio.own_per_hour": rate})
    for part in parts:
        if part in MEASURES:
            MEASURES[part](report, seeds)
    return report


def _delays(outcomes: Sequence[Outcome]) -> str:
    listed = [one.delays for one in outcomes if one.delays]
    parts = zip(*listed, strict=True)
    return ", ".join(f"{fmean(part) / 3600:.2f}" for part in parts)


def _shown(values: Sequence[float], scale: float = 1.0) -> str:
    if not values:
        return "–"
    estimate = Estimate.of([scale * value for value in values])
    spread = "" if estimate.half_width is None else f" ± {estimate.half_width:.1f}"
    return f"{estimate.mean:.1f}{spread}"


if __name__ == "__main__":
    main(run, __doc__ or "", PARTS)
