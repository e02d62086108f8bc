"""Work replayed on the clock of a simulated phone, to compare the energy of several governors."""

from collections.abc import Iterable
from dataclasses import dataclass

from dealfl.power import BaseLoad, Energy, EnergyModel, Phone, PhoneClock


@dataclass(frozen=True, slots=True)
class Phase:
    """A piece of work, the worker's signal before it, and an idle pause after it."""

    signal: int
    cycles: float
    pause_s: float = 0.0


def replay(
    phone: Phone, phases: Iterable[Phase], clock: PhoneClock, base: BaseLoad = BaseLoad.AWAKE
) -> Energy:
    """Return the energy of phases of work; their signals go to the clock.

    Examples
    --------
    >>> from dealfl.power import phone, phone_clock
    >>> honor = phone("honor")
    >>> forgetting = [Phase(-1, 1e9), Phase(-1, 1e9)]
    >>> spent = replay(honor, forgetting, phone_clock(honor))
    >>> fixed = replay(honor, forgetting, phone_clock(honor, "performance"))
    >>> round(spent.charge_uah, 2), round(fixed.charge_uah, 2)
    (33.72, 37.34)
    >>> round(spent.elapsed_s - fixed.elapsed_s, 2)  # added latency
    0.48
    """
    model = EnergyModel(phone)
    total = Energy()
    clock.wake(base)
    for phase in phases:
        clock.signal(phase.signal)
        for cycles, point in clock.run(phase.cycles):
            total += model.compute(cycles, point, base)
        total += model.wait(phase.pause_s, base)
        _pause(clock, phase.pause_s)
    clock.signal(0)  # the end
    return total


def _pause(clock: PhoneClock, pause_s: float) -> None:
    while pause_s > 0.0:
        passed_s = min(pause_s, clock.wait_s)
        clock.spend(passed_s, busy=False)
        pause_s -= passed_s
