"""How good is a choice of workers, and what does it cost among millions of them?

Regrets are measured in the laboratory against the best policy that keeps all promises, with the
same random numbers for all policies. Times are compared with reading the same bytes once, and with
a plain vectorised implementation in numpy that draws, scores, partitions and updates everything.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import json
import math
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from reporting import Report, main, progress

from dealfl.server.selection import Candidate, FairUpperConfidence
from dealfl.server.selection.arms import Arms
from dealfl.server.selection.compiled import compiled_draw
from dealfl.server.selection.counters import round_keys, uniforms
from dealfl.simulate.laboratory import (
    Course,
    Laboratory,
    Policy,
    Result,
    bound,
    laboratory_of,
    read_laboratory,
    run_laboratory,
)
from dealfl.simulate.laboratory.wrong import verdict, wrong_choices

OPTIMA = {"three": 1.0380, "six": 1.7728}
REGRETS = {
    ("three", 1.0): 0.0286,
    ("three", 10.0): 0.0029,
    ("six", 1.0): 0.0687,
    ("six", 10.0): 0.0089,
}
REFERENCE_SEEDS = 48
MISSED = {"three": 0.10, "six": 0.21}
MILLION, PER_ROUND, ETA, AWAKE = 1_000_000, 1_000, 10.0, 0.7
FIRST = 1_000  # the round in the middle of a run from which on time is taken
WORKER_BYTES = 80
POLICIES = (
    Policy(kind="fair_ucb", eta=1.0),
    Policy(kind="fair_ucb", eta=10.0),
    Policy(kind="fair_ucb", eta=math.inf),
    Policy(kind="thompson", eta=1.0),
    Policy(kind="thompson", eta=10.0),
    Policy(kind="known", eta=10.0),
)

Floats = NDArray[np.float64]


# -- how good -----------------------------------------------------------------------------------


def setting(name: str, policies: tuple[Policy, ...], rounds: int = 20_000) -> Laboratory:
    """Return a preset with other policies."""
    one = laboratory_of(read_laboratory(name))
    return replace(one, plan=replace(one.plan, rounds=rounds), policies=policies)


def row(name: str, course: Course, result: Result) -> dict[str, Any]:
    """Return what a policy did in a setting."""
    regret = course.regret[:, -1]
    return {
        "setting": name,
        "policy": course.policy.label,
        "seeds": result.seeds,
        "rounds": result.setting.plan.rounds,
        "optimum": result.optimum.reward,
        "regret a round": float(regret.mean()),
        "standard error": float(regret.std(ddof=1) / math.sqrt(len(regret))),
        "below promise": float(course.shortfall.mean()),
    }


def regrets(report: Report, name: str, seeds: int) -> None:
    """Compare a published setting with its published figures."""
    result = run_laboratory(setting(name, POLICIES), seeds)
    report.rows += [row(name, course, result) for course in result.courses]
    report.check(
        f"{name}: optimum by linear programming", f"{OPTIMA[name]:.4f}",
        f"{result.optimum.reward:.4f}", round(result.optimum.reward, 4) == OPTIMA[name],
    )  # fmt: skip
    for course in result.courses[:2]:
        _published(report, name, course, result)
    missed = result.courses[2].shortfall.mean()
    report.check(
        f"{name}: below promise for an infinite eta", f"about {MISSED[name]:.2f}",
        f"{missed:.3f}", abs(missed - MISSED[name]) < 0.02,
    )  # fmt: skip


def _published(report: Report, name: str, course: Course, result: Result) -> None:
    eta, regret = course.policy.eta, course.regret[:, -1]
    reference = REGRETS[name, eta]
    own = regret.std(ddof=1) / math.sqrt(result.seeds)
    error = own * math.sqrt(1 + result.seeds / REFERENCE_SEEDS)
    distance = abs(regret.mean() - reference) / error
    report.check(
        f"{name}: regret a round, eta {eta:g}, {result.seeds} seeds",
        f"{reference:.4f} of {REFERENCE_SEEDS} seeds, within 3 standard errors of the difference",
        f"{regret.mean():.5f} ± {own:.5f}, {distance:.1f} standard errors away",
        distance <= 3,
    )
    worst = course.shortfall.max()
    report.check(
        f"{name}: below promise, eta {eta:g}, worst worker and seed", "0 (to 0.001)",
        f"{worst:.5f}", worst < 1e-3,
    )  # fmt: skip
    allowed = bound(result.setting, eta, result.points.astype(np.float64))
    share = float((course.regret.mean(axis=0) / allowed).max())
    report.check(
        f"{name}: regret below theory at {len(result.points)} times, eta {eta:g}",
        "≤ N / 2 eta + learning term", f"{share:.2f} of it at most", share <= 1,
    )  # fmt: skip


def batteries(report: Report, seeds: int) -> None:
    """Compare estimates that age with those that do not, when rewards drift."""
    policies = (
        Policy(kind="fair_ucb", eta=100.0),
        Policy(kind="discounted", eta=100.0, discount=0.99),
        Policy(kind="discounted", eta=100.0, discount=0.995),
        Policy(kind="thompson", eta=100.0),
        Policy(kind="uniform"),
    )
    result = run_laboratory(setting("batteries", policies), seeds)
    report.rows += [row("batteries", course, result) for course in result.courses]
    lasting, ageing = (course.regret[:, -1] for course in result.courses[:2])
    report.check(
        "batteries that drain within 2,000 rounds: regret, lasting : discounted .99 estimates",
        "≥ 4 with every seed", f"{(lasting / ageing).min():.1f} at least, "
        f"{lasting.mean() / ageing.mean():.1f} in the mean", bool((lasting >= 4 * ageing).all()),
    )  # fmt: skip


def wrong(report: Report, jobs: int) -> None:
    """Measure what wrong picks cost, and say whether it is the tail alone."""
    found = wrong_choices(jobs=jobs)
    for one in found:
        error = one.prediction_error
        found_row = {
            "chosen by": "learning" if error is None else f"predictions ± {error:.0%}",
            "round ends with": one.ends_with,
            "wrong picks": one.wrong_picks,
            "mean": one.mean,
            "median": one.median,
            "95th percentile": one.percentile_95,
        }
        report.rows.append(found_row)
    report.check(
        "wrong picks hurt the 95th percentile only",
        "measured, with a verdict",
        verdict(found),
        True,
    )


# -- how fast -----------------------------------------------------------------------------------


def grown(size: int) -> tuple[Arms, Floats, NDArray[np.bool_]]:
    """Return arms in the middle of a run, their weights, and who is awake."""
    draw = np.random.default_rng(1)
    arms = Arms(np.full(size, 1e-3), eta=ETA)
    for start in range(0, size, MILLION):
        part = slice(start, start + MILLION)
        number = len(arms.rate[part])
        arms.rate[part] = draw.random(number) * 2e-3
        arms.deficit[part] = draw.random(number)
        arms.since[part] = draw.integers(1, FIRST, number)
        arms.count[part] = draw.integers(1, 20, number)
        arms.mean[part] = draw.random(number)
        arms.spread[part] = np.sqrt(1.5 / arms.count[part])
    awake = np.concatenate([draw.random(min(size, MILLION)) < AWAKE] * -(-size // MILLION))
    return arms, np.ones(size), awake[:size]


def best_ms(calls: list[Callable[[], Any]], repeats: int) -> list[float]:
    """Return the shortest time of each call; they take turns, so that all meet the same noise."""
    times = np.full(len(calls), np.inf)
    for _ in range(repeats):
        for place, call in enumerate(calls):
            start = time.perf_counter()
            call()
            times[place] = min(times[place], time.perf_counter() - start)
    return [float(one) for one in times * 1e3]


def choices(report: Report, size: int, per_round: int, repeats: int) -> None:
    """Compare one choice with reading the same bytes once."""
    arms, weight, awake = grown(size)
    columns = arms.columns(weight)
    read = sum(column.nbytes for column in columns) + awake.nbytes
    flat = np.random.default_rng(2).random(read // 8)

    def chosen(compiled: bool) -> NDArray[np.int64]:
        return arms.choose(FIRST, awake, weight, per_round, compiled)

    assert (chosen(True) == chosen(False)).all(), "both ways choose the same"
    sum_ms, fast_ms, slow_ms = best_ms(
        [flat.sum, lambda: chosen(True), lambda: chosen(False)], repeats
    )
    report.rows.append(
        {
            "workers": size,
            "a round": per_round,
            "bytes read a worker": read / size,
            "np.sum ms": sum_ms,
            "numba ms": fast_ms,
            "numpy ms": slow_ms,
        }
    )
    if (size, per_round) == (MILLION, PER_ROUND):
        for how, asked, ms in (("numba", 3, fast_ms), ("numpy alone", 25, slow_ms)):
            report.check(
                f"a choice of {per_round:,} among {size:,} workers, {how}",
                f"≤ {asked} times np.sum over the same bytes",
                f"{ms / sum_ms:.1f} times ({ms:.2f} ms : {sum_ms:.2f} ms)", ms <= asked * sum_ms,
            )  # fmt: skip


class Plain:
    """The plain way: every array is walked several times, every round."""

    def __init__(self, arms: Arms, means: Floats) -> None:
        self._draw, self._means, self._rate = np.random.default_rng(3), means, arms.rate.copy()
        self._queue, self._tries = arms.queues(FIRST), arms.count.copy()
        self._gained = arms.mean * arms.count

    def play(self, number: int) -> None:
        awake = self._draw.random(len(self._means)) < AWAKE
        tries = np.maximum(self._tries, 1.0)
        bound = np.minimum(self._gained / tries + np.sqrt(1.5 * math.log(number) / tries), 1.0)
        bound[self._tries == 0] = 1.0
        scores = np.where(awake, self._queue + ETA * bound, -1.0)
        chosen = np.argpartition(scores, -PER_ROUND)[-PER_ROUND:]
        self._queue += self._rate
        self._queue[chosen] -= 1.0
        np.maximum(self._queue, 0.0, out=self._queue)
        self._tries[chosen] += 1
        self._gained[chosen] += self._draw.random(PER_ROUND) < self._means[chosen]


class Lazy:
    """The way of this package: one pass to draw, one to choose, and nothing else for all."""

    def __init__(self, arms: Arms, means: Floats, compiled: bool = True) -> None:
        size = len(means)
        self.arms, self._means, self._compiled = arms, means, compiled
        self._weight, self._awake = np.ones(size), np.zeros(size, np.bool_)
        self._limits = np.full(size, int(AWAKE * 2**32), np.uint32)

    @property
    def nbytes(self) -> int:
        columns = (self._weight, self._awake, self._limits, self._means)
        return self.arms.nbytes + sum(column.nbytes for column in columns)

    def play(self, number: int) -> None:
        first, second = round_keys(3, number)
        compiled_draw()(np.uint64(first), np.uint64(second), self._limits, self._awake)
        places = self.arms.choose(
            number, self._awake, self._weight, PER_ROUND, compiled=self._compiled
        )
        self.arms.pick(number, places)
        lots = uniforms(round_keys(3, number, 1), places.astype(np.uint64))
        self.arms.learn(places, (lots < self._means[places]).astype(np.float64))


def rounds(report: Report, number: int) -> None:
    """Compare whole rounds, from the middle of a run on: draw who wakes, choose, reward, update."""
    means = np.random.default_rng(4).random(MILLION)
    players: dict[str, Plain | Lazy] = {
        "plain numpy": Plain(grown(MILLION)[0], means),
        "this package, numba": Lazy(grown(MILLION)[0], means),
        "this package, choice by numpy": Lazy(grown(MILLION)[0], means, compiled=False),
    }
    spent = dict.fromkeys(players, 0.0)
    for one in range(FIRST, FIRST + number + 1):
        for name, player in players.items():
            start = time.perf_counter()
            player.play(one)
            spent[name] += (time.perf_counter() - start) * (one > FIRST)  # the first compiles
    for name, spent_s in spent.items():
        report.rows.append(
            {"whole rounds": name, "workers": MILLION, "rounds a second": number / spent_s}
        )
    faster = spent["plain numpy"] / spent["this package, numba"]
    report.check(
        f"whole rounds of {MILLION:,} workers", "≥ 3 times as fast as plain numpy",
        f"{faster:.1f} times", faster >= 3,
    )  # fmt: skip


def memory(report: Report, size: int) -> None:
    """Measure the memory of so many workers in a process of its own."""
    command = [sys.executable, __file__, "--memory", str(size)]
    found = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    report.rows.append(found)
    measured = max(found["bytes a worker, arrays"], found["bytes a worker, peak of the process"])
    report.check(
        f"memory of {size:,} workers, with their means and who is awake",
        f"≤ {WORKER_BYTES} bytes a worker", f"{measured:.1f}", measured <= WORKER_BYTES,
    )  # fmt: skip


def _status_bytes(key: str) -> int:
    with open("/proc/self/status") as file:  # noqa: PTH123
        return next(int(line.split()[1]) for line in file if line.startswith(key)) * 1024


def _memory(size: int) -> None:
    warm = Lazy(grown(2 * PER_ROUND)[0], np.ones(2 * PER_ROUND))
    warm.play(FIRST)
    with open("/proc/self/clear_refs", "w") as file:  # noqa: PTH123
        file.write("5")  # the peak begins anew: compiling had one of its own
    before = _status_bytes("VmRSS")
    lazy = Lazy(grown(size)[0], np.full(size, 0.5))
    start = time.perf_counter()
    for number in range(FIRST, FIRST + 5):
        lazy.play(number)
    elapsed_s = (time.perf_counter() - start) / 5
    found = {
        "workers": size,
        "bytes a worker, arrays": lazy.nbytes / size,
        "bytes a worker, peak of the process": (_status_bytes("VmHWM") - before) / size,
        "ms a whole round": elapsed_s * 1e3,
    }
    print(json.dumps(found))


def server_side(report: Report, workers: int) -> None:
    """Measure what the server's own calls cost."""
    one = FairUpperConfidence(fairness=1e-3)
    candidates = [Candidate(f"worker {number:05d}", 50.0) for number in range(workers)]
    chosen = one.select(1, candidates, 100)
    select_ms, state_ms = [], []
    for number in range(2, 12):
        for name in chosen:
            one.earned(number - 1, name, 0.5)
        start = time.perf_counter()
        chosen = one.select(number, candidates, 100)
        middle = time.perf_counter()
        one.state()
        state_ms.append((time.perf_counter() - middle) * 1e3)
        select_ms.append((middle - start) * 1e3)
    size = len(one.state())
    report.rows.append(
        {
            "candidates": workers,
            "select ms": min(select_ms),
            "state ms": min(state_ms),
            "state bytes a worker": size / workers,
        }
    )
    report.check(
        f"state of {workers:,} workers after a change", "≤ 3 ms", f"{min(state_ms):.2f} ms",
        min(state_ms) <= 3,
    )  # fmt: skip


def run(quick: bool) -> Report:
    """Run everything; quick plays fewer seeds and repeats less."""
    report = Report("selection")
    for name in OPTIMA:
        with progress(f"regrets in the setting {name}"):
            regrets(report, name, seeds=24 if quick else 200)
    with progress("batteries"):
        batteries(report, seeds=4 if quick else 50)
    with progress("wrong choices"):
        wrong(report, jobs=100 if quick else 1_000)
    with progress("choices"):
        choices(report, MILLION, PER_ROUND, repeats=20 if quick else 100)
        for per_round in (10, 10_000):
            choices(report, MILLION, per_round, repeats=5 if quick else 30)
        if not quick:
            choices(report, 10 * MILLION, PER_ROUND, repeats=10)
    with progress("whole rounds"):
        rounds(report, number=20 if quick else 200)
    with progress("memory"):
        memory(report, 2 * MILLION if quick else 10 * MILLION)
    server_side(report, 10_000)
    return report


if __name__ == "__main__":
    if sys.argv[1:2] == ["--memory"]:
        _memory(int(sys.argv[2]))
    else:
        main(run, __doc__ or "")
