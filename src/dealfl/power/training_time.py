"""The law of training time: T = A·F/(c^α f^β) + B."""

import math
from dataclasses import dataclass
from numbers import Real

from dealfl.errors import BadInput

__all__ = ["REFERENCE_HZ", "TrainingTime", "require_above_zero", "require_number"]

REFERENCE_HZ = 1e9  # A refers to this clock; also used if the clock is unknown


@dataclass(frozen=True, slots=True)
class TrainingTime:
    """The law of training time on a device: T = A·F/(c^α f^β) + B.

    Parameters
    ----------
    seconds_per_operation : float
        A: seconds per operation on one core at `REFERENCE_HZ`.
    overhead_s : float
        B: seconds per call, independent of the operations.
    core_exponent : float, default 1
        α: exponent of the number of cores.
    clock_exponent : float, default 1
        β: exponent of the frequency.

    Raises
    ------
    BadInput
        If a value is not finite, or A or B is negative.

    Examples
    --------
    >>> time = TrainingTime(seconds_per_operation=2e-9, overhead_s=0.001)
    >>> round(time.predicted_s(1e6, cores=2, frequency_hz=2e9), 9)
    0.0015
    """

    seconds_per_operation: float
    overhead_s: float
    core_exponent: float = 1.0
    clock_exponent: float = 1.0

    def __post_init__(self) -> None:
        """Reject negative and infinite values."""
        for name in ("seconds_per_operation", "overhead_s"):
            require_number(name, getattr(self, name), minimum=0.0)
        for name in ("core_exponent", "clock_exponent"):
            require_number(name, getattr(self, name), minimum=-math.inf)

    def scaled_operations(
        self, operations: float, cores: float = 1.0, frequency_hz: float = REFERENCE_HZ
    ) -> float:
        """Return F/(c^α f^β): the operations of one core at `REFERENCE_HZ` in the same time.

        Parameters
        ----------
        operations : float
            F: number of operations.
        cores : float, default 1
            c: number of cores.
        frequency_hz : float, default 1e9
            f: clock frequency, in hertz.

        Returns
        -------
        float
            Scaled operations.

        Raises
        ------
        BadInput
            If `operations` is negative, or `cores` or `frequency_hz` is not above 0.
        """
        require_number("operations", operations, minimum=0.0)
        require_above_zero("cores", cores)
        require_above_zero("frequency_hz", frequency_hz)
        speed: float = cores**self.core_exponent
        speed *= (frequency_hz / REFERENCE_HZ) ** self.clock_exponent
        return operations / speed

    def predicted_s(
        self, operations: float, cores: float = 1.0, frequency_hz: float = REFERENCE_HZ
    ) -> float:
        """Return the expected training time.

        Parameters
        ----------
        operations : float
            Number of operations.
        cores : float, default 1
            Number of cores.
        frequency_hz : float, default 1e9
            Clock frequency, in hertz.

        Returns
        -------
        float
            Time, in seconds.
        """
        scaled = self.scaled_operations(operations, cores, frequency_hz)
        return self.seconds_per_operation * scaled + self.overhead_s


def require_number(name: str, value: object, minimum: float) -> float:
    """Return a finite number ≥ `minimum`, or raise BadInput."""
    number = float(value) if isinstance(value, Real) else math.nan
    if not (math.isfinite(number) and number >= minimum):
        limit = "" if minimum == -math.inf else f" ≥ {minimum:g}"
        raise BadInput(f"{name} is {value!r}; it must be a finite number{limit}")
    return number


def require_above_zero(name: str, value: object) -> float:
    """Return a finite number above 0, or raise BadInput."""
    number = require_number(name, value, minimum=-math.inf)
    if number <= 0.0:
        raise BadInput(f"{name} is {value!r}; it must be a number above 0")
    return number
