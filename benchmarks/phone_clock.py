"""What the clocks of a fleet's phones cost: control by signals against every fixed frequency.

A fleet runs once; what its workers did and signalled is recorded. Each phone then does this work
with every clock and base load: as it was, when trainings end within the radio's tail, and 10 to
100,000 times as much. Charges are modelled.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from unittest.mock import patch

from reporting import Report, main, progress

from dealfl.learners import cycles_of
from dealfl.power import (
    CLOCKS,
    PHONES,
    BaseLoad,
    Phone,
    PhoneClock,
    PhoneSpending,
    Training,
    phone_clock,
)
from dealfl.server import Ledger
from dealfl.settings import Document
from dealfl.simulate import FleetRun, read_fleet
from dealfl.simulate.devices import SimulatedDevice
from dealfl.worker import Cost, PhoneMeter

MAX_RATIO = 1.05
FACTORS = (1, 10, 100, 1000, 10_000, 100_000)
LEARNER = "naive_bayes"
JOB = f"""
[job]
dataset = "digits"
learner = "{LEARNER}"
forget_fraction = "0.1"
rounds = 20
workers_per_round = 10
[data]
rows = 300
[arrival]
pattern = "each_round"
initial_share = 0.5
examples_per_round = 1
[[devices]]
count = 10
phone = "honor"
"""


@dataclass(frozen=True)
class Recorded:
    """What a worker signalled and did in one training."""

    signals: tuple[int, ...]
    training: Training

    @property
    def agrees(self) -> bool:
        """Whether the signals are those of the work."""
        learned = bool(self.training.learned_operations)
        forgotten = bool(self.training.forgotten_operations)
        return self.signals == (*[+1] * learned, *[-1] * forgotten, 0)

    def scaled(self, factor: int) -> Training:
        """Return the same training with more work."""
        return Training(
            learned_operations=self.training.learned_operations * factor,
            forgotten_operations=self.training.forgotten_operations * factor,
            sent_bytes=self.training.sent_bytes,
        )


def record() -> list[Recorded]:
    """Run a fleet; return its trainings."""
    found: list[Recorded] = []
    with _listening(found):
        run = FleetRun(read_fleet(Document.parse(JOB, "fleet")), Ledger())
        run.start()
        run.pump()
        run.close()
    return found


@contextmanager
def _listening(found: list[Recorded]) -> Iterator[None]:
    """Note the signals and the work of all simulated devices."""
    signals: defaultdict[int, list[int]] = defaultdict(list)  # since the last training
    take, price = SimulatedDevice.signal, SimulatedDevice.cost

    def signal(device: SimulatedDevice, one: int) -> None:
        signals[id(device)].append(one)
        take(device, one)

    def cost(device: SimulatedDevice, training: Training) -> Cost:
        found.append(Recorded(tuple(signals.pop(id(device), ())), training))
        return price(device, training)

    with (
        patch.object(SimulatedDevice, "signal", signal),
        patch.object(SimulatedDevice, "cost", cost),
    ):
        yield


def charge_uah(
    phone: Phone, base: BaseLoad, clock: PhoneClock, trainings: list[Recorded], factor: int
) -> float:
    """Return what a phone with a clock draws for recorded trainings."""
    meter = PhoneMeter(PhoneSpending(phone, cycles_of(LEARNER).of_worker, base, clock))
    for one in trainings:
        meter.start()
        for signal in one.signals:
            meter.signal(signal)
        meter.cost(one.scaled(factor))
    return meter.spent.whole.charge_uah


def compare(
    report: Report, phone: Phone, base: BaseLoad, trainings: list[Recorded], factor: int
) -> tuple[float, float]:
    """Report one phone; return control's charge against the fastest and the best fixed clock."""

    def charges(clocks: dict[str, PhoneClock]) -> dict[str, float]:
        return {
            name: charge_uah(phone, base, clock, trainings, factor)
            for name, clock in clocks.items()
        }

    governed = charges({name: phone_clock(phone, name) for name in CLOCKS})
    table_hz = sorted({point.frequency_hz for point in phone.points})
    fixed = charges({f"{hz / 1e6:g} MHz": phone_clock(phone, "", hz) for hz in table_hz})
    deal, best = governed["deal"], min(fixed, key=lambda name: fixed[name])
    report.rows.append(
        {
            "phone": phone.name,
            "base load": base.value,
            "work": f"× {factor:,}",
            "deal µAh": deal,
            "best fixed": best,
            "deal / best fixed": deal / fixed[best],
            "fixed points that draw less": ", ".join(n for n in fixed if fixed[n] < deal) or "none",
            **{f"{name} / deal": one / deal for name, one in governed.items()},
        }
    )
    return deal / governed["performance"], deal / fixed[best]


def run(quick: bool) -> Report:
    """Run everything; quick takes fewer trainings."""
    report = Report("phone_clock")
    with progress("a fleet with recorded clocks"):
        recorded = record()
    wrong = sum(not one.agrees for one in recorded)
    report.check(
        "signals that recorded clocks saw equal what was learned and forgotten",
        f"all of {len(recorded)} trainings", f"{len(recorded) - wrong}", len(recorded) > wrong == 0,
    )  # fmt: skip
    trainings = recorded[:: len(recorded) // (5 if quick else 20)]
    for phone in PHONES.values():
        with progress(f"{phone.name} with every clock"):
            found = [
                compare(report, phone, base, trainings, factor)
                for base, factor in product(BaseLoad, FACTORS)
            ]
        fastest, best = (max(ratios) for ratios in zip(*found, strict=True))
        report.check(
            f"charge of control on {phone.name}, every base load and amount of work, "
            "against the fastest clock",
            "≤ 1", f"{fastest:.4f} at worst", fastest <= 1.0 + 1e-12,
        )  # fmt: skip
        report.check(
            f"the same against the best fixed clock of {phone.name}",
            f"≤ {MAX_RATIO}", f"{best:.4f} at worst", best <= MAX_RATIO,
        )  # fmt: skip
    return report


if __name__ == "__main__":
    main(run, __doc__ or "")
