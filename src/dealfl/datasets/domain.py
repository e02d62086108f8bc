"""What is known of features before any example is seen: the limits of each one."""

from dataclasses import dataclass, replace

from dealfl.errors import BadInput

__all__ = ["Bound", "Domain"]

Bound = float | tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Domain:
    """The lowest and the highest value each feature can take, as facts and not as measurements.

    `typical` values may be known, too, from what was published of the domain; without them the
    centre is half way between the limits.

    Examples
    --------
    >>> degrees_and_flag = Domain.of((0, 360), (0, 1))
    >>> degrees_and_flag.centre, degrees_and_flag.span
    ((180.0, 0.5), (360.0, 1.0))
    """

    low: tuple[float, ...]
    high: tuple[float, ...]
    typical: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        """Refuse limits that leave no room for a value."""
        for feature, (low, high) in enumerate(zip(self.low, self.high, strict=True)):
            if not low < high:
                raise BadInput(f"feature {feature}: limits {low} and {high} leave no room between")
        for feature, (low, value, high) in enumerate(self._known()):
            if not low <= value <= high:
                raise BadInput(f"feature {feature}: {value} is not typical of [{low}, {high}]")

    @classmethod
    def of(cls, *limits: tuple[float, float]) -> "Domain":
        """Return the domain with these (low, high) limits, one pair for each feature."""
        lows, highs = zip(*limits, strict=True)
        return cls(tuple(map(float, lows)), tuple(map(float, highs)))

    @classmethod
    def alike(cls, n_features: int, low: float, high: float) -> "Domain":
        """Return the domain in which all features share the same limits."""
        return cls((float(low),) * n_features, (float(high),) * n_features)

    @classmethod
    def symmetric(cls, bounds: tuple[float, ...]) -> "Domain":
        """Return the domain in which feature i lies between -bounds[i] and bounds[i]."""
        return cls(tuple(-float(bound) for bound in bounds), tuple(map(float, bounds)))

    def around(self, *typical: float) -> "Domain":
        """Return the same domain with a typical value for each feature."""
        return replace(self, typical=tuple(map(float, typical)))

    def __add__(self, other: "Domain") -> "Domain":
        typical = (*self._centres(), *other._centres()) if self.typical or other.typical else ()
        return Domain(self.low + other.low, self.high + other.high, typical)

    @property
    def n_features(self) -> int:
        """How many features there are."""
        return len(self.low)

    @property
    def magnitude(self) -> Bound:
        """The largest absolute value of each feature; one number when all agree."""
        return _shortest(tuple(max(abs(a), abs(b)) for a, b in self._limits()))

    @property
    def lowest(self) -> Bound:
        """The low limits; one number when all agree."""
        return _shortest(self.low)

    @property
    def span(self) -> Bound:
        """The distance from low to high; one number when all agree."""
        return _shortest(tuple(high - low for low, high in self._limits()))

    @property
    def centre(self) -> Bound:
        """The typical value of each feature, or its middle; one number when all agree."""
        return _shortest(self._centres())

    @property
    def radius(self) -> Bound:
        """The largest distance from the centre; one number when all agree."""
        limits = zip(self._limits(), self._centres(), strict=True)
        return _shortest(tuple(max(high - mid, mid - low) for (low, high), mid in limits))

    def _centres(self) -> tuple[float, ...]:
        return self.typical or tuple((low + high) / 2 for low, high in self._limits())

    def _known(self) -> tuple[tuple[float, float, float], ...]:
        typical = self._centres()
        return tuple(zip(self.low, typical, self.high, strict=True))

    def _limits(self) -> tuple[tuple[float, float], ...]:
        return tuple(zip(self.low, self.high, strict=True))


def _shortest(values: tuple[float, ...]) -> Bound:
    return values[0] if len(set(values)) == 1 else values
