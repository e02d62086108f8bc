"""Control of a clock along its efficient operating points by a worker's signals."""

import math
from collections.abc import Callable, Iterable
from functools import lru_cache

from dealfl.errors import BadInput
from dealfl.power.clocks import Clock, SimulatedClock
from dealfl.power.frontier import Demand, Ladder, Setting, frontier_ladder, plain_ladder
from dealfl.power.hardware import BaseLoad, OperatingPoint, Phone

__all__ = ["END", "FORGET", "LEARN", "FrequencyControl"]

LEARN, FORGET, END = 1, -1, 0


class FrequencyControl:
    """Steps a clock up when its worker learns and down when it forgets.

    The steps are the points of the efficient frontier that draw at most 3 % more charge per cycle
    than its first, the critical operating point. No sequence of signals therefore draws more than
    the fastest clock, or 3 % more than the best fixed clock, for the same work and base load.
    Control starts from the fastest step. Before and after it, the clock is free.

    A radio that stays on until the work ends favours a faster clock, but only if the work ends
    within the radio's tail. The worker knows its work before it starts (`load`), so all steps are
    on the same side of the tail's end.

    Parameters
    ----------
    clock : Clock
        Clock to set.
    ladder : callable
        Function from a `Demand` to the steps.
    base : BaseLoad, default AWAKE
        Parts of the device that draw current beside the CPU.

    Examples
    --------
    >>> from dealfl.power import phone
    >>> control = FrequencyControl.for_phone(phone("honor"))
    >>> setting = control.signal(FORGET)
    >>> setting.frequency_hz, round(setting.added_latency, 2), round(setting.charge_ratio, 2)
    (1402000000, 0.51, 0.9)
    >>> control.signal(LEARN).frequency_hz
    1805000000
    """

    def __init__(
        self,
        clock: Clock,
        ladder: Callable[[Demand], Ladder],
        base: BaseLoad = BaseLoad.AWAKE,
    ) -> None:
        self._clock = clock
        self._ladder_of = lru_cache(maxsize=64)(ladder)
        self._ladder = self._ladder_of(Demand(base))
        self._free, self._position = True, self._top  # without a limit

    @classmethod
    def for_phone(
        cls,
        phone: Phone,
        clock: Clock | None = None,
        base: BaseLoad = BaseLoad.AWAKE,
        among: Iterable[OperatingPoint] | None = None,
    ) -> "FrequencyControl":
        """Return the control of a phone, along the efficient frontier of its clock.

        The frontier can contain points of several clusters. A step then also selects the cluster
        to run on (`setting.point.cluster`).

        Parameters
        ----------
        phone : Phone
            Profile of the phone.
        clock : Clock, optional
            Clock to set; by default a `SimulatedClock` with all frequencies of the phone.
        base : BaseLoad, default AWAKE
            Parts of the device that draw current beside the CPU.
        among : iterable of OperatingPoint, optional
            Points to use, for example of one cluster if work cannot be moved; by default all.

        Returns
        -------
        FrequencyControl
            A control that starts from the fastest step.
        """
        clock = clock or SimulatedClock(point.frequency_hz for point in phone.points)
        offered = set(clock.frequencies_hz)
        wanted = phone.points if among is None else among
        points = [point for point in wanted if point.frequency_hz in offered]
        return cls(clock, lambda demand: frontier_ladder(phone, points, demand), base)

    @classmethod
    def for_clock(cls, clock: Clock) -> "FrequencyControl":
        """Return the control of a clock without a profile: every frequency is a step.

        The currents are unknown, so the settings have no `charge_ratio`.

        Parameters
        ----------
        clock : Clock
            Clock to set.

        Returns
        -------
        FrequencyControl
            A control that starts at the fastest frequency.
        """
        return cls(clock, lambda _: plain_ladder(clock.frequencies_hz))

    @property
    def setting(self) -> Setting:
        """The current setting of the clock."""
        return self._ladder.free if self._free else self._ladder.steps[self._position]

    @property
    def _top(self) -> int:
        return len(self._ladder.steps) - 1

    def signal(self, signal: int) -> Setting:
        """Apply a worker's signal.

        Parameters
        ----------
        signal : {1, -1, 0}
            `LEARN` (+1), `FORGET` (-1) or `END` (0).

        Returns
        -------
        Setting
            The new setting of the clock.

        Raises
        ------
        BadInput
            If the signal is another value.
        """
        if signal == 1:
            position = min(self._position + 1, self._top)
        elif signal == -1:
            position = max(self._position - 1, 0)
        elif signal == 0:
            return self._end()
        else:
            raise BadInput(f"signal is {signal!r}; use +1 (learn), -1 (forget) or 0 (end)")
        if self._free or position != self._position:
            self._move(position)
        return self.setting

    def load(self, base: BaseLoad, tail_s: float = 0.0, cycles: float = math.inf) -> Setting:
        """Change the base load and the expected work.

        If the current point is no longer a step, the clock moves to the next faster step.

        Parameters
        ----------
        base : BaseLoad
            Parts of the device that draw current beside the CPU.
        tail_s : float, default 0
            Seconds for which wifi stays on if the work does not end before.
        cycles : float, default inf
            Cycles of the work until its end.

        Returns
        -------
        Setting
            The new setting of the clock.
        """
        present = self.setting.frequency_hz or 0
        self._ladder = self._ladder_of(
            Demand(base, tail_s, cycles if tail_s and cycles else math.inf)
        )
        steps = enumerate(self._ladder.steps)
        fast_enough = (place for place, step in steps if (step.frequency_hz or 0) >= present)
        self._position = next(fast_enough, self._top)
        if self.setting.frequency_hz not in (None, present):
            self._move(self._position)
        return self.setting

    def _move(self, position: int) -> None:
        self._position, self._free = position, False
        if self.setting.frequency_hz is not None:
            self._clock.set_frequency(self.setting.frequency_hz)

    def _end(self) -> Setting:
        self._free, self._position = True, self._top
        self._clock.release()
        return self.setting
