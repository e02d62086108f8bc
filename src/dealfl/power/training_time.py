"""How long training takes: T = A·F/(c^α f^β) + B, and how A and B are followed as they change."""

import math
from dataclasses import dataclass, replace
from numbers import Real

from dealfl.errors import BadInput

__all__ = ["REFERENCE_HZ", "TimeEstimate", "TrainingTime"]

REFERENCE_HZ = 1e9  # A is said for this clock; it also stands for a clock that is not known

Information = tuple[float, float, float]

_FORGETTING = 0.98
_REMEMBERED_AFTER_CHANGE = 4  # observations
_CHANGE = 0.15  # persistent error (of the logarithm) that 10 % of noise reaches once in 10⁵ rounds
_PERSISTENCE = 0.2
_LEAST_SHARE = 1e-3  # of the time: nothing is expected of no operations without overhead
_LARGEST_ERROR = math.log(2)  # one wild time moves the estimate no further than one of twice T
_PRIOR_WEIGHT = 0.04  # of an observation: a profile may be wrong by half, times by a tenth
_LEAST_OVERHEAD_S = 1e-3  # how uncertain an overhead of 0 is


@dataclass(frozen=True, slots=True)
class TrainingTime:
    """The seconds that training takes on a device, from operations, cores and clock.

    Examples
    --------
    >>> time = TrainingTime(seconds_per_operation=2e-9, overhead_s=0.001)
    >>> round(time.predicted_s(1e6, cores=2, frequency_hz=2e9), 9)
    0.0015
    """

    seconds_per_operation: float  # A, on one core at REFERENCE_HZ
    overhead_s: float  # B
    core_exponent: float = 1.0  # α
    clock_exponent: float = 1.0  # β

    def __post_init__(self) -> None:
        """Refuse times that can not be: negative or without limit."""
        for name in ("seconds_per_operation", "overhead_s"):
            require_number(name, getattr(self, name), least=0.0)
        for name in ("core_exponent", "clock_exponent"):
            require_number(name, getattr(self, name), least=-math.inf)

    def scaled_operations(
        self, operations: float, cores: float = 1.0, frequency_hz: float = REFERENCE_HZ
    ) -> float:
        """Return F/(c^α f^β): what one core at REFERENCE_HZ would do in the same time."""
        require_number("operations", operations, least=0.0)
        require_above_zero("cores", cores)
        require_above_zero("frequency_hz", frequency_hz)
        speed: float = cores**self.core_exponent
        speed *= (frequency_hz / REFERENCE_HZ) ** self.clock_exponent
        return operations / speed

    def predicted_s(
        self, operations: float, cores: float = 1.0, frequency_hz: float = REFERENCE_HZ
    ) -> float:
        """Return how long training will take."""
        scaled = self.scaled_operations(operations, cores, frequency_hz)
        return self.seconds_per_operation * scaled + self.overhead_s


@dataclass(frozen=True, slots=True)
class TimeEstimate:
    """What is known of one learner's training time on one device; every observed time improves it.

    Recursive least squares on relative errors, for noise grows with the time. Old knowledge fades
    only where new knowledge comes in: what a constant F says nothing of stays known, and nothing
    winds up. After a persistent error, all that was known counts as little as a few observations.

    Examples
    --------
    >>> estimate = TimeEstimate.prior(TrainingTime(2e-9, 0.0))
    >>> for _ in range(30):
    ...     estimate = estimate.observed(1e6, elapsed_s=0.004)
    >>> round(estimate.predicted_s(1e6), 4)
    0.004
    """

    time: TrainingTime
    information: Information  # of A, of A and B together, of B
    persistent_error: float = 0.0  # of the logarithm of the time
    observations: int = 0

    @classmethod
    def prior(cls, time: TrainingTime, weight: float = _PRIOR_WEIGHT) -> "TimeEstimate":
        """Start from a profile that counts as much as `weight` observations."""
        require_above_zero("weight", weight)
        require_above_zero("seconds_per_operation", time.seconds_per_operation)
        overhead_s = max(time.overhead_s, _LEAST_OVERHEAD_S)
        of_slope = weight / time.seconds_per_operation**2
        return cls(time, (of_slope, 0.0, weight / overhead_s**2))

    def predicted_s(
        self, operations: float, cores: float = 1.0, frequency_hz: float = REFERENCE_HZ
    ) -> float:
        """Return how long training will take."""
        return self.time.predicted_s(operations, cores, frequency_hz)

    def observed(
        self,
        operations: float,
        elapsed_s: float,
        cores: float = 1.0,
        frequency_hz: float = REFERENCE_HZ,
    ) -> "TimeEstimate":
        """Return what is known after training took `elapsed_s`."""
        require_above_zero("elapsed_s", elapsed_s)
        scaled = self.time.scaled_operations(operations, cores, frequency_hz)
        expected_s = self.time.seconds_per_operation * scaled + self.time.overhead_s
        expected_s = max(expected_s, _LEAST_SHARE * elapsed_s)
        error = math.log(elapsed_s / expected_s)
        error = min(max(error, -_LARGEST_ERROR), _LARGEST_ERROR)
        persistent = self.persistent_error + _PERSISTENCE * (error - self.persistent_error)
        regressor = (scaled / expected_s, 1.0 / expected_s)
        information = _updated(self.information, regressor, changed=abs(persistent) > _CHANGE)
        return replace(
            self,
            time=_corrected(self.time, information, regressor, math.expm1(error)),
            information=information,
            persistent_error=persistent,
            observations=self.observations + 1,
        )

    @property
    def is_sound(self) -> bool:
        """Whether A and B are known at all; anything may stand in a damaged file."""
        aa, ab, bb = self.information
        return aa > 0.0 and aa * bb > ab * ab and self.observations >= 0


def require_number(name: str, value: object, least: float) -> float:
    """Return a finite number of at least `least`, or refuse it by name."""
    number = float(value) if isinstance(value, Real) else math.nan
    if not (math.isfinite(number) and number >= least):
        limit = "" if least == -math.inf else f" from {least:g} on"
        raise BadInput(f"{name}={value!r}: give a finite number{limit}")
    return number


def require_above_zero(name: str, value: object) -> float:
    """Return a finite number above 0, or refuse it by name."""
    number = require_number(name, value, least=-math.inf)
    if number <= 0.0:
        raise BadInput(f"{name}={value!r}: give a number above 0")
    return number


def _updated(
    information: Information, regressor: tuple[float, float], *, changed: bool
) -> Information:
    """Forget some of what is known of times like this one, after a change of all; then add it."""
    aa, ab, bb = information
    x, y = regressor
    uncertainty = (bb * x * x - 2.0 * ab * x * y + aa * y * y) / (aa * bb - ab * ab)
    if changed:
        kept = min(1.0, _REMEMBERED_AFTER_CHANGE * uncertainty)
        least = (1.0 - kept) * _PRIOR_WEIGHT  # never less than is known of a new device
        aa, ab, bb = kept * aa + least * x * x, kept * ab, kept * bb + least * y * y
        added = 1.0
    else:
        added = 1.0 - (1.0 - _FORGETTING) / uncertainty
    return aa + added * x * x, ab + added * x * y, bb + added * y * y


def _corrected(
    time: TrainingTime,
    information: Information,
    regressor: tuple[float, float],
    relative_error: float,
) -> TrainingTime:
    aa, ab, bb = information
    x, y = regressor
    step = relative_error / (aa * bb - ab * ab)
    slope = time.seconds_per_operation + step * (bb * x - ab * y)
    overhead_s = time.overhead_s + step * (aa * y - ab * x)
    # neither can be negative: what is likeliest with the offender at 0
    if slope < 0.0:
        slope, overhead_s = 0.0, overhead_s + slope * ab / bb
    elif overhead_s < 0.0:
        slope, overhead_s = slope + overhead_s * ab / aa, 0.0
    return replace(time, seconds_per_operation=max(slope, 0.0), overhead_s=max(overhead_s, 0.0))
