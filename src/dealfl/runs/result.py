"""The result of a run: the outcomes of all schemes, and their comparison."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from dealfl.simulate import Outcome

__all__ = ["Comparison", "Result"]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The scheme of the job compared with another scheme on the same fleet; energy is modelled.

    Savings are fractions of the other scheme's value, negative if the job's scheme uses more, and
    None if the other value is 0.

    Parameters
    ----------
    scheme : str
        Name of the other scheme.
    quality_points : float or None
        Difference of the quality, in hundredths; positive if the job's scheme is better.
    operating_saved : float or None
        Saving of the energy that is proportional to the operations.
    compute_saved : float or None
        Saving of the energy of computing, with per-call overhead.
    whole_saved : float or None
        Saving of the energy of whole devices.
    time_saved : float or None
        Saving of virtual time.
    """

    scheme: str
    quality_points: float | None
    operating_saved: float | None
    compute_saved: float | None
    whole_saved: float | None
    time_saved: float | None

    def as_dict(self) -> dict[str, float | None]:
        """Return the values by name, without the scheme, for JSON."""
        return {name: one for name, one in dataclasses.asdict(self).items() if name != "scheme"}


@dataclass(frozen=True, slots=True)
class Result:
    """The outcomes of all schemes.

    Parameters
    ----------
    job : str
        Name of the job.
    outcomes : tuple of Outcome
        Outcomes; the scheme of the job is first.
    settings : str, default ""
        TOML text of the job.
    started_from : str, default ""
        Path of the model that the server started with.
    """

    job: str
    outcomes: tuple[Outcome, ...]
    settings: str = ""
    started_from: str = ""

    @property
    def main(self) -> Outcome:
        """The outcome of the job's scheme."""
        return self.outcomes[0]

    @property
    def exact(self) -> bool:
        """Whether every digest equals that of central training."""
        return all(outcome.exact for outcome in self.outcomes)

    def against(self, scheme: str) -> Comparison | None:
        """Return the comparison with another scheme.

        Parameters
        ----------
        scheme : str
            Name of the other scheme.

        Returns
        -------
        Comparison or None
            The comparison; None if that scheme was not run.
        """
        return next((one for one in self.comparisons() if one.scheme == scheme), None)

    def comparisons(self) -> list[Comparison]:
        """Return the comparisons with all other schemes, in order."""
        return [_compare(self.main, other) for other in self.outcomes[1:]]

    def as_dict(self) -> dict[str, Any]:
        """Return outcomes and comparisons by name, for JSON."""
        return {
            "job": self.job,
            "exact": self.exact,
            "outcomes": {one.scheme: one.as_dict() for one in self.outcomes},
            "comparisons": {one.scheme: one.as_dict() for one in self.comparisons()},
        }


def _compare(main: Outcome, other: Outcome) -> Comparison:
    better = None
    if main.quality is not None and other.quality is not None:
        better = 100.0 * (main.quality - other.quality)
    return Comparison(
        scheme=other.scheme,
        quality_points=better,
        operating_saved=_saved(main.energy.operating_j, other.energy.operating_j),
        compute_saved=_saved(main.energy.compute_j, other.energy.compute_j),
        whole_saved=_saved(main.energy.whole_j, other.energy.whole_j),
        time_saved=_saved(main.virtual_s, other.virtual_s),
    )


def _saved(ours: float, theirs: float) -> float | None:
    return 1.0 - ours / theirs if theirs > 0.0 else None
