"""How good is a selection of workers, and what does it cost among millions of them?

Regrets are measured in the laboratory against the best policy that keeps all promises, with the
same random numbers for all policies. Times are compared with reading the same bytes once, and with
a plain vectorised implementation in numpy that draws, scores, partitions and updates everything.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import math
from typing import Any

import numpy as np
from choosing import MILLION, PER_ROUND, choices, memory, rounds, server_side
from msgspec.structs import replace
from reporting import Report, main, progress

from dealfl_paper.laboratory import (
    Course,
    Laboratory,
    Policy,
    Result,
    compute_bound,
    judge_wrong_choices,
    measure_wrong_choices,
    read_laboratory,
    read_setting,
    run_laboratory,
)

OPTIMA = {"three": 1.0380, "six": 1.7728}
REGRETS = {
    ("three", 1.0): 0.0286,
    ("three", 10.0): 0.0029,
    ("six", 1.0): 0.0687,
    ("six", 10.0): 0.0089,
}
REFERENCE_SEEDS = 48
MISSED = {"three": 0.10, "six": 0.21}
POLICIES = (
    Policy(kind="fair_ucb", eta=1.0),
    Policy(kind="fair_ucb", eta=10.0),
    Policy(kind="fair_ucb", eta=math.inf),
    Policy(kind="thompson", eta=1.0),
    Policy(kind="thompson", eta=10.0),
    Policy(kind="known", eta=10.0),
)


# -- how good -----------------------------------------------------------------------------------


def setting(name: str, policies: tuple[Policy, ...], rounds: int = 20_000) -> Laboratory:
    """Return a preset with other policies."""
    one = read_laboratory(read_setting(name))
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
    """Compare a setting of the literature with an earlier simulation of it."""
    result = run_laboratory(setting(name, POLICIES), seeds)
    report.rows += [row(name, course, result) for course in result.courses]
    report.check(
        f"{name}: optimum by linear programming", f"{OPTIMA[name]:.4f}",
        f"{result.optimum.reward:.4f}", round(result.optimum.reward, 4) == OPTIMA[name],
    )  # fmt: skip
    for course in result.courses[:2]:
        _compare_with_reference(report, name, course, result)
    missed = result.courses[2].shortfall.mean()
    report.check(
        f"{name}: below promise for an infinite eta", f"about {MISSED[name]:.2f}",
        f"{missed:.3f}", abs(missed - MISSED[name]) < 0.02,
    )  # fmt: skip


def _compare_with_reference(report: Report, name: str, course: Course, result: Result) -> None:
    eta, regret = course.policy.eta, course.regret[:, -1]
    reference = REGRETS[name, eta]
    own = regret.std(ddof=1) / math.sqrt(result.seeds)
    error = own * math.sqrt(1 + result.seeds / REFERENCE_SEEDS)
    distance = abs(regret.mean() - reference) / error
    report.check(
        f"{name}: regret a round, eta {eta:g}, {result.seeds} seeds",
        f"{reference:.4f} of {REFERENCE_SEEDS} seeds, within 3 standard errors of the difference",
        f"{regret.mean():.5f} ± {own:.5f}, {distance:.1f} of them away "
        f"({abs(regret.mean() - reference) / own:.1f} of its own standard errors)",
        distance <= 3,
    )
    worst = course.shortfall.max()
    report.check(
        f"{name}: below promise, eta {eta:g}, worst worker and seed", "0 (to 0.001)",
        f"{worst:.5f}", worst < 1e-3,
    )  # fmt: skip
    allowed = compute_bound(result.setting, eta, result.points.astype(np.float64))
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
    found = measure_wrong_choices(jobs=jobs)
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
    only_tail = judge_wrong_choices(found)
    report.rows.append({"claim": "wrong picks hurt the 95th percentile only", "verdict": only_tail})


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
    main(run, __doc__ or "")
