"""Which clock frequency costs least, what control saves against each governor, what a step costs.

It also reports the cost of whole trainings, radio included, and the error of predicted times.
Everything about phones is modelled from their profiles; only the cost of a step is measured.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import random
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

from reporting import Report, main, progress

from dealfl.learners import cycles_of
from dealfl.power import (
    CLOCKS,
    GOVERNORS,
    PHONES,
    SPEED_BAND,
    BaseLoad,
    EnergyModel,
    FrequencyControl,
    Phone,
    PhoneSpending,
    Radio,
    Training,
    charge_per_cycle_c,
    efficient_frontier,
    governor,
    phone_clock,
)
from dealfl.settings import Document
from dealfl.simulate import read_fleet, run_fleet
from dealfl_paper.replay import Phase, replay

BASE_LOADS = (BaseLoad.AWAKE, BaseLoad.WIFI, BaseLoad.SCREEN)
EXPECTED = {  # the cheapest operating point in kHz, and % saved against the fastest
    "honor": ((1402000, 9.7), (2112000, 0.0), (2112000, 0.0)),
    "lenovo": ((819000, 11.6), (1040000, 0.0), (1040000, 0.0)),
    "zte": ((800000, 44.3), (800000, 11.1), (800000, 24.0)),
    "mi": ((787200, 72.1), (1440000, 40.8), (1440000, 50.7)),
    "nexus": ((883200, 12.6), (2649600, 0.0), (2649600, 0.0)),
}
TOLERANCE_POINTS = 0.5
STEP_LIMIT_US = 5.0
FORESEEN = 0.10  # median relative error of a training's time
LEARNERS = ("naive_bayes", "tikhonov_classifier", "neighbors")
FLEET = """
[job]
dataset = "digits"
learner = "{learner}"
rounds = {rounds}
workers_per_round = 6
[arrival]
pattern = "each_round"
initial_share = 0.3
examples_per_round = 2
"""
WORK = {
    "steady": [Phase(+1, 25e6)] * 8 + [Phase(-1, 25e6)] * 8,
    "with waits of 2 ms": [Phase(+1, 25e6, 0.002)] * 8 + [Phase(-1, 25e6, 0.002)] * 8,
}


def optimum(phone: Phone, base: BaseLoad, expected: tuple[int, float]) -> dict[str, Any]:
    """Compare the cheapest operating point with that of another computation."""
    point = efficient_frontier(phone, base)[0]
    costs_c = [charge_per_cycle_c(phone, one, base) for one in (point, phone.fastest)]
    saved = 100 * (1 - costs_c[0] / costs_c[1])
    same = point.frequency_hz == expected[0] * 1000
    return {
        "phone": phone.name,
        "base load": base.value,
        "cluster": phone.clusters[point.cluster].name,
        "optimum MHz": point.frequency_hz / 1e6,
        "expected MHz": expected[0] / 1e3,
        "saving %": saved,
        "expected %": expected[1],
        "agrees": same and abs(saved - expected[1]) <= TOLERANCE_POINTS,
    }


def compared(phone: Phone, base: BaseLoad, work: str, rounds: int) -> list[dict[str, Any]]:
    """Return what rounds of learning and forgetting cost under control and each governor."""
    phases = WORK[work] * rounds
    ways = {name: replay(phone, phases, phone_clock(phone, name), base) for name in CLOCKS}
    fixed = ways["performance"]
    return [
        {
            "phone": phone.name,
            "base load": base.value,
            "work": work,
            "clock": way,
            "charge µAh": spent.charge_uah,
            "saved against fastest %": round(100 * (1 - spent.charge_uah / fixed.charge_uah), 9),
            "added latency %": round(100 * (spent.elapsed_s / fixed.elapsed_s - 1), 9),
        }
        for way, spent in ways.items()
    ]


def worst_ratio(phone: Phone, base: BaseLoad, sequences: int) -> float:
    """Return the largest charge, over random signals, as a fraction of the fastest clock's."""
    rng = random.Random(7)
    worst = 0.0
    for _ in range(sequences):
        phases = [Phase(rng.choice((-1, -1, 0, 1)), rng.uniform(1e5, 1e9)) for _ in range(30)]
        spent, fixed = (
            replay(phone, phases, phone_clock(phone, name), base).charge_uah
            for name in ("deal", "performance")
        )
        worst = max(worst, spent / fixed)
    return worst


def worst_training(phone: Phone, base: BaseLoad, trainings: int) -> tuple[float, float]:
    """Return the largest charge of whole trainings against the fastest clock, and latency."""
    rng = random.Random(11)
    worst = latency = 0.0
    for _ in range(trainings):
        spending = PhoneSpending(phone, cycles_of(rng.choice(LEARNERS)), base)
        training = Training(
            learned_operations=int(10 ** rng.uniform(0, 9)) * rng.choice((0, 1)),
            forgotten_operations=int(10 ** rng.uniform(0, 9)) * rng.choice((0, 1)),
            fetched_bytes=rng.choice((0, 10**5)),
            sent_bytes=rng.choice((10**3, 10**6)),
        )
        spent = spending.of(training)
        worst = max(worst, spent.whole.charge_uah / spent.fastest.charge_uah)
        latency = max(latency, spent.added_latency)
    return worst, latency


def foreseen(learner: str, rounds: int) -> dict[str, Any]:
    """Let the five phones learn; return what it cost and how well the server foresaw the time."""
    devices = "".join(f'[[devices]]\ncount = 3\nphone = "{name}"\n' for name in PHONES)
    text = FLEET.format(learner=learner, rounds=rounds) + devices
    outcome = run_fleet(read_fleet(Document.parse(text, "fleet")))
    energy = outcome.energy
    return {
        "learner": learner,
        "rounds": len(outcome.rounds),
        "compute J (modelled)": energy.compute_j,
        "radio J (modelled)": energy.radio_j,
        "wake-ups": energy.wake_ups,
        "median error of time": outcome.prediction_error,
    }


def step_cost_us(step: Callable[[int], object], count: int) -> float:
    """Return the best of five means: what others on the machine do is not what a step costs."""
    means = []
    for repeat in range(5):
        start = time.perf_counter()
        for number in range(repeat * count, repeat * count + count):
            step(number)
        means.append((time.perf_counter() - start) / count * 1e6)
    return min(means)


def governor_steps(name: str) -> Callable[[int], object]:
    """Return a governor's step under a load that varies."""
    made = governor(name, [point.frequency_hz for point in PHONES["nexus"].points])
    loads = [random.Random(3).random() for _ in range(64)] + [1.0] * 32 + [0.0] * 32
    return lambda number: made.step(loads[number & 127], number * 0.02)


def control_steps() -> Callable[[int], object]:
    """Return the steps of a control that moves at each signal."""
    control = FrequencyControl(PHONES["nexus"])
    depth = len(efficient_frontier(PHONES["nexus"]))
    return lambda number: control.signal(-1 if number // depth % 2 else 1)


def _radio_uah(phone: Phone) -> float:
    radio = Radio(phone)
    radio.transfer(0.0, "training", sent=250_000)
    return radio.energy.charge_uah


def small_round(phone: Phone) -> dict[str, Any]:
    """Return a small round's compute, with its band, beside what the radio adds."""
    compute = []
    for factor in (1 / SPEED_BAND, 1.0, SPEED_BAND):
        model = EnergyModel(replace(phone, cycle_factor=phone.cycle_factor * factor))
        cycles = model.cycles(operations=10**7, cycles_per_operation=1.0)
        compute.append(model.compute(cycles, phone.fastest).charge_uah)
    return {
        "phone": phone.name,
        "operations": 10**7,
        "compute µAh (modelled)": compute[1],
        "band of a factor 3": f"{compute[0]:.3g} to {compute[2]:.3g}",
        "radio µAh (250 kB, tail)": _radio_uah(phone),
    }


def run(quick: bool) -> Report:
    """Run everything; quick replays fewer rounds and measures fewer steps."""
    report = Report("energy")
    _optima(report)
    with progress("control against governors"):
        for phone, base, work in product(PHONES.values(), BASE_LOADS, WORK):
            report.rows += compared(phone, base, work, rounds=2 if quick else 20)
    with progress("random signals"):
        _never_dearer(report, sequences=20 if quick else 400)
    with progress("whole trainings"):
        _trainings(report, count=50 if quick else 1000, rounds=15 if quick else 40)
    with progress("step costs"):
        _steps(report, count=20_000 if quick else 200_000)
    report.rows += [small_round(phone) for phone in PHONES.values()]
    return report


def _optima(report: Report) -> None:
    for name, expected in EXPECTED.items():
        for base, one in zip(BASE_LOADS, expected, strict=True):
            row = optimum(PHONES[name], base, one)
            report.rows.append(row)
            report.check(
                f"cheapest operating point of {name}, {base.value}",
                f"{one[0] / 1e3:g} MHz, {one[1]} % ± {TOLERANCE_POINTS} saved",
                f"{row['optimum MHz']:g} MHz, {row['saving %']:.1f} %",
                row["agrees"],
            )


def _never_dearer(report: Report, sequences: int) -> None:
    for phone in PHONES.values():
        worst = max(worst_ratio(phone, base, sequences) for base in BASE_LOADS)
        report.check(
            f"control on {phone.name}, {sequences} random sequences of signals a base load",
            "charge ≤ that of the fastest clock",
            f"{worst:.4f} of it at worst",
            worst <= 1.0 + 1e-12,
        )


def _trainings(report: Report, count: int, rounds: int) -> None:
    for phone in PHONES.values():
        found = [worst_training(phone, base, count) for base in BASE_LOADS]
        worst, latency = (max(figures) for figures in zip(*found, strict=True))
        report.check(
            f"{count} whole trainings on {phone.name} a base load, radio included",
            "charge ≤ that of the fastest clock",
            f"{worst:.4f} of it at worst; latency up to +{latency:.0%}",
            worst <= 1.0 + 1e-12,
        )
    for learner in LEARNERS:
        row = foreseen(learner, rounds)
        report.rows.append(row)
        error = row["median error of time"]
        report.check(
            f"training times of {learner} as a server predicts them, {rounds} simulated rounds",
            f"median error ≤ {FORESEEN:.0%}",
            f"{error:.1%}",
            error <= FORESEEN,
        )


def _steps(report: Report, count: int) -> None:
    steps = {f"governor {name}": governor_steps(name) for name in GOVERNORS}
    steps["FrequencyControl"] = control_steps()
    for what, step in steps.items():
        cost_us = step_cost_us(step, count)
        report.rows.append({"step": what, "µs": cost_us})
        report.check(
            f"a step of {what}", f"≤ {STEP_LIMIT_US:g} µs", f"{cost_us:.2f} µs",
            cost_us <= STEP_LIMIT_US,
        )  # fmt: skip


if __name__ == "__main__":
    main(run, __doc__ or "")
