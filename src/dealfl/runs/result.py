"""The result of a run: the outcome of the job's own scheme, and of the others beside it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from dealfl.simulate import Outcome

__all__ = ["Comparison", "Result"]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The job's own scheme compared with another one on the same fleet; energy is modelled.

    Savings are fractions of what the other one spent; negative if this one spent more.
    """

    scheme: str
    quality_points: float | None  # how many hundredths this one is better
    operating_saved: float | None  # of what goes with the operations
    compute_saved: float | None  # with what each call takes
    whole_saved: float | None
    time_saved: float | None

    def as_dict(self) -> dict[str, float | None]:
        """Return the figures, for JSON."""
        plain = dataclasses.asdict(self)
        del plain["scheme"]
        return plain


@dataclass(frozen=True, slots=True)
class Result:
    """The outcomes of all schemes, that of the job itself first; settings are the job's TOML."""

    job: str
    outcomes: tuple[Outcome, ...]
    settings: str = ""
    went_on_from: str = ""  # the model that was there before

    @property
    def main(self) -> Outcome:
        """The outcome of the job itself."""
        return self.outcomes[0]

    @property
    def exact(self) -> bool:
        """Whether every digest is that of central training."""
        return all(outcome.exact for outcome in self.outcomes)

    def against(self, scheme: str) -> Comparison | None:
        """Return the comparison with another scheme, if that one was run."""
        return next((one for one in self.comparisons() if one.scheme == scheme), None)

    def comparisons(self) -> list[Comparison]:
        """Return the job's own scheme compared with each other one."""
        return [_compare(self.main, other) for other in self.outcomes[1:]]

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
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
