"""The law of training time, T = A·F/(c^α f^β) + B, and an estimate that tracks A and B."""

import math
from dataclasses import dataclass, replace
from numbers import Real

from dealfl.errors import BadInput

REFERENCE_HZ = 1e9  # A refers to this clock; also used if the clock is unknown

Information = tuple[float, float, float]

_FORGETTING = 0.98
_REMEMBERED_AFTER_CHANGE = 4  # observations
_CHANGE = 0.15  # persistent log error that 10 % noise reaches once in 10⁵ rounds
_PERSISTENCE = 0.2
_MIN_SHARE = 1e-3  # of the elapsed time: keeps the expected time above 0
_MAX_ERROR = math.log(2)  # limits the effect of an outlier to that of twice the expected time
_PRIOR_WEIGHT = 0.04  # of an observation: a profile may be wrong by half, times by a tenth
_MIN_OVERHEAD_S = 1e-3  # uncertainty of an overhead of 0


@dataclass(frozen=True, slots=True)
class TrainingTime:
    """The law of training time on a device: T = A·F/(c^α f^β) + B.

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

    def scaled_operations(self, operations: float, cores: float, frequency_hz: float) -> float:
        """Return F/(c^α f^β): the operations of one core at `REFERENCE_HZ` in the same time."""
        require_number("operations", operations, minimum=0.0)
        require_above_zero("cores", cores)
        require_above_zero("frequency_hz", frequency_hz)
        speed: float = cores**self.core_exponent
        speed *= (frequency_hz / REFERENCE_HZ) ** self.clock_exponent
        return operations / speed

    def predicted_s(
        self, operations: float, cores: float = 1.0, frequency_hz: float = REFERENCE_HZ
    ) -> float:
        """Return the expected training time."""
        scaled = self.scaled_operations(operations, cores, frequency_hz)
        return self.seconds_per_operation * scaled + self.overhead_s


@dataclass(frozen=True, slots=True)
class TimeEstimate:
    """An estimate of one learner's training time on one device, improved by every observation.

    The estimate uses recursive least squares on relative errors, because noise grows with the
    time. Directional forgetting fades old information only in the direction of new observations,
    so a constant F does not destroy what is known about the overhead. After a persistent error,
    the old information counts as much as a few observations.

    Examples
    --------
    >>> estimate = TimeEstimate.prior(TrainingTime(2e-9, 0.0))
    >>> for _ in range(30):
    ...     estimate = estimate.with_measurement(1e6, elapsed_s=0.004)
    >>> round(estimate.time.predicted_s(1e6), 4)
    0.004
    """

    time: TrainingTime
    information: Information
    persistent_error: float = 0.0
    observations: int = 0

    @classmethod
    def prior(cls, time: TrainingTime) -> "TimeEstimate":
        """Return an estimate before any observation."""
        require_above_zero("seconds_per_operation", time.seconds_per_operation)
        overhead_s = max(time.overhead_s, _MIN_OVERHEAD_S)
        of_slope = _PRIOR_WEIGHT / time.seconds_per_operation**2
        return cls(time, (of_slope, 0.0, _PRIOR_WEIGHT / overhead_s**2))

    def with_measurement(
        self,
        operations: float,
        elapsed_s: float,
        cores: float = 1.0,
        frequency_hz: float = REFERENCE_HZ,
    ) -> "TimeEstimate":
        """Return the estimate after one more observation."""
        require_above_zero("elapsed_s", elapsed_s)
        scaled = self.time.scaled_operations(operations, cores, frequency_hz)
        expected_s = self.time.seconds_per_operation * scaled + self.time.overhead_s
        expected_s = max(expected_s, _MIN_SHARE * elapsed_s)
        error = math.log(elapsed_s / expected_s)
        error = min(max(error, -_MAX_ERROR), _MAX_ERROR)
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
        """Whether the information matrix is valid; a damaged file can hold any values."""
        aa, ab, bb = self.information
        return aa > 0.0 and aa * bb > ab * ab and self.observations >= 0


def _updated(
    information: Information, regressor: tuple[float, float], *, changed: bool
) -> Information:
    """Fade the information in the direction of an observation, or all after a change; add it."""
    aa, ab, bb = information
    x, y = regressor
    uncertainty = (bb * x * x - 2.0 * ab * x * y + aa * y * y) / (aa * bb - ab * ab)
    if changed:
        kept = min(1.0, _REMEMBERED_AFTER_CHANGE * uncertainty)
        minimum = (1.0 - kept) * _PRIOR_WEIGHT  # at least the information of a new device
        aa, ab, bb = kept * aa + minimum * x * x, kept * ab, kept * bb + minimum * y * y
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
    # neither may be negative: use the best fit with the negative one at 0
    if slope < 0.0:
        slope, overhead_s = 0.0, overhead_s + slope * ab / bb
    elif overhead_s < 0.0:
        slope, overhead_s = slope + overhead_s * ab / aa, 0.0
    return replace(time, seconds_per_operation=max(slope, 0.0), overhead_s=max(overhead_s, 0.0))


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
