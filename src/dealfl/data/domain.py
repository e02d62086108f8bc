"""The limits of each feature, known before any example is seen."""

from dataclasses import dataclass

from dealfl.errors import BadInput

__all__ = ["Domain"]

Bound = float | tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Domain:
    """The lowest and the highest value of each feature, as facts and not as measurements.

    Parameters
    ----------
    low : tuple of float
        Lowest value of each feature.
    high : tuple of float
        Highest value of each feature.
    typical : tuple of float, optional
        Published typical value of each feature; by default the middle between low and high.

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
        """Check that low < high and that typical values lie between them."""
        for feature, (low, high) in enumerate(zip(self.low, self.high, strict=True)):
            if not low < high:
                raise BadInput(f"feature {feature}: low is {low}; it must be below high, {high}")
        known = zip(self.low, self._centres(), self.high, strict=True)
        for feature, (low, value, high) in enumerate(known):
            if not low <= value <= high:
                raise BadInput(f"feature {feature}: typical is {value}, outside [{low}, {high}]")

    @classmethod
    def of(cls, *limits: tuple[float, float]) -> "Domain":
        """Create a domain from pairs of limits.

        Parameters
        ----------
        *limits : tuple of (float, float)
            Low and high, one pair per feature.

        Returns
        -------
        Domain
            The domain.
        """
        lows, highs = zip(*limits, strict=True)
        return cls(tuple(map(float, lows)), tuple(map(float, highs)))

    @classmethod
    def alike(cls, n_features: int, low: float, high: float) -> "Domain":
        """Create a domain in which all features have the same limits.

        Parameters
        ----------
        n_features : int
            Number of features.
        low : float
            Lowest value of every feature.
        high : float
            Highest value of every feature.

        Returns
        -------
        Domain
            The domain.
        """
        return cls((float(low),) * n_features, (float(high),) * n_features)

    @property
    def n_features(self) -> int:
        """The number of features."""
        return len(self.low)

    @property
    def magnitude(self) -> Bound:
        """The largest absolute value of each feature; one number if all are equal."""
        return _shortest(tuple(max(abs(a), abs(b)) for a, b in self._limits()))

    @property
    def lowest(self) -> Bound:
        """The low limits; one number if all are equal."""
        return _shortest(self.low)

    @property
    def span(self) -> Bound:
        """The distance from low to high; one number if all are equal."""
        return _shortest(tuple(high - low for low, high in self._limits()))

    @property
    def centre(self) -> Bound:
        """The typical value of each feature, or its middle; one number if all are equal."""
        return _shortest(self._centres())

    @property
    def radius(self) -> Bound:
        """The largest distance from the centre; one number if all are equal."""
        limits = zip(self._limits(), self._centres(), strict=True)
        return _shortest(tuple(max(high - mid, mid - low) for (low, high), mid in limits))

    def _centres(self) -> tuple[float, ...]:
        return self.typical or tuple((low + high) / 2 for low, high in self._limits())

    def _limits(self) -> tuple[tuple[float, float], ...]:
        return tuple(zip(self.low, self.high, strict=True))


def _shortest(values: tuple[float, ...]) -> Bound:
    return values[0] if len(set(values)) == 1 else values
