"""What a run reports: its progress while it runs, outcomes and comparisons at its end."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Protocol

from dealfl.simulate import Outcome, Progress

_WRITTEN_EVERY_S = 1.0
_AS_MANY = 0.98  # examples, compared with the baseline
_CONFIDENT = 1.96  # standard errors of a difference


@dataclass(frozen=True, slots=True)
class RunProgress:
    """The scheme that a run executes, and how far it is."""

    scheme: str
    place: int
    of: int
    rounds: int
    where: str  # in words; empty before the first round
    updated_s: float
    stopped: bool = False


class Watcher(Protocol):
    """Receives the progress of a run, for display."""

    def start_scheme(self, scheme: str, number: int, of: int) -> None:
        """Start a scheme."""

    def show_progress(self, progress: Progress) -> None:
        """Show the progress of the scheme."""

    def finish_scheme(self, outcome: Outcome) -> None:
        """Show the outcome of the scheme."""


class NotedProgress(Watcher):
    """A watcher that saves the progress once a second, and calls another watcher."""

    def __init__(self, watcher: Watcher, save: Callable[[RunProgress], None]) -> None:
        self._watcher, self._save = watcher, save
        self._last = RunProgress("", 0, 0, 0, "", time.time())

    def _note(self, progress: RunProgress) -> None:
        self._last = replace(progress, updated_s=time.time())
        self._save(self._last)

    def start_scheme(self, scheme: str, number: int, of: int) -> None:
        """Save which scheme starts."""
        self._note(RunProgress(scheme, number, of, 0, "", 0.0))
        self._watcher.start_scheme(scheme, number, of)

    def show_progress(self, progress: Progress) -> None:
        """Save the number of closed rounds, if the last save is old."""
        last = self._last
        if time.time() - last.updated_s >= _WRITTEN_EVERY_S or not last.where:
            self._note(replace(last, rounds=progress.rounds, where=str(progress)))
        self._watcher.show_progress(progress)

    def finish_scheme(self, outcome: Outcome) -> None:
        """Pass the outcome to the other watcher."""
        self._watcher.finish_scheme(outcome)

    def stop(self) -> None:
        """Save that the run was stopped."""
        self._note(replace(self._last, stopped=True))


# -- at the end ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Comparison:
    """The scheme of the job compared with another scheme on the same fleet; energy is modelled.

    Savings are fractions of the other scheme's value, negative if the job's scheme uses more, and
    None if the other value is 0. If both used the same selector, their wake-ups and examples differ
    by chance: energies for computing are then compared per learned example, and nothing is said of
    whole devices and time.
    """

    scheme: str
    quality_points: float | None
    noise_points: float
    operating_saved: float | None
    compute_saved: float | None
    whole_saved: float | None
    time_saved: float | None
    levers_j: dict[str, float]

    @property
    def is_noise(self) -> bool:
        """Whether the difference of the quality may be due to the choice of the test set."""
        return abs(self.quality_points or 0.0) <= self.noise_points

    def as_dict(self) -> dict[str, Any]:
        """Return the values by name, without the scheme, for JSON."""
        return {name: value for name, value in dataclasses.asdict(self).items() if name != "scheme"}


@dataclass(frozen=True, slots=True)
class Forgotten:
    """The person who was erased at the end of a run."""

    person: str
    examples: int
    digest: str
    never_saw_digest: str
    certificate: str

    @property
    def exact(self) -> bool:
        """Whether the model is equal to one that never saw the person."""
        return self.digest == self.never_saw_digest


FAIR = "incremental"  # the system with which energy is compared at equal delay


@dataclass(frozen=True, slots=True)
class Threshold:
    """What the fair baseline costs if its phones wait for a number of examples."""

    waiting: int
    example_j: float  # modelled, for each learned example
    delay_s: float  # of an example, on average
    learned: int

    @classmethod
    def of(cls, outcome: Outcome) -> Threshold:
        """Return the threshold of an outcome."""
        delay_s = outcome.delays.mean_s if outcome.delays else 0.0
        example_j = outcome.energy_j / max(outcome.learned, 1)
        return cls(outcome.min_waiting, example_j, delay_s, outcome.learned)


def find_at_delay(curve: Sequence[Threshold], delay_s: float) -> Threshold | None:
    """Return what a baseline costs at a mean delay, between two thresholds; None beyond them.

    Logarithms are interpolated: joules fall like a power of the delay.

    Examples
    --------
    >>> curve = [Threshold(5, 0.4, 3600.0, 100), Threshold(10, 0.2, 7200.0, 90)]
    >>> found = find_at_delay(curve, 5091.0)
    >>> found and (round(found.example_j, 3), found.learned), find_at_delay(curve, 9000.0)
    ((0.283, 95), None)
    """
    ordered = sorted(curve, key=lambda point: point.delay_s)
    for early, late in pairwise(ordered):
        if 0.0 < early.delay_s <= delay_s <= late.delay_s and early.delay_s < late.delay_s:
            share = math.log(delay_s / early.delay_s) / math.log(late.delay_s / early.delay_s)
            return Threshold(
                waiting=round(early.waiting + share * (late.waiting - early.waiting)),
                example_j=early.example_j ** (1.0 - share) * late.example_j**share,
                delay_s=delay_s,
                learned=round(early.learned + share * (late.learned - early.learned)),
            )
    return None


def is_comparable(outcome: Outcome, other: Threshold) -> bool:
    """Return whether a baseline learned at most 2 % more examples."""
    return outcome.learned >= _AS_MANY * other.learned


@dataclass(frozen=True, slots=True)
class RunRecord:
    """The outcomes of all schemes."""

    job: str
    outcomes: tuple[Outcome, ...]
    settings: str = ""
    started_from: str = ""
    central: float | None = None
    forgotten: Forgotten | None = None
    curve: tuple[Threshold, ...] = ()  # of the fair baseline

    def __repr__(self) -> str:
        """Return a line for each scheme."""
        lines = "".join(f"\n  {outcome!r}" for outcome in self.outcomes)
        return f"RunRecord({self.job}){lines}"

    @property
    def fair_j(self) -> float | None:
        """Joules per example that the fair baseline needs at the same mean delay.

        None if no threshold of it has that delay, or if it learns more than 2 % more examples.
        """
        delays = self.main.delays
        fair = find_at_delay(self.curve, delays.mean_s) if delays else None
        return fair.example_j if fair is not None and is_comparable(self.main, fair) else None

    @property
    def main(self) -> Outcome:
        """The outcome of the job's scheme."""
        return self.outcomes[0]

    @property
    def exact(self) -> bool:
        """Whether every digest equals that of central training."""
        forgot = self.forgotten is None or self.forgotten.exact
        return forgot and all(outcome.exact for outcome in self.outcomes)

    def against(self, scheme: str) -> Comparison | None:
        """Return the comparison with another scheme."""
        return next((other for other in self.comparisons() if other.scheme == scheme), None)

    def comparisons(self) -> list[Comparison]:
        """Return the comparisons with all other schemes, in order."""
        return [_compare(self.main, other) for other in self.outcomes[1:]]

    def as_dict(self) -> dict[str, Any]:
        """Return outcomes and comparisons by name, for JSON."""
        return {
            "job": self.job,
            "exact": self.exact,
            "central_quality": self.central,
            "outcomes": {outcome.scheme: outcome.as_dict() for outcome in self.outcomes},
            "comparisons": {other.scheme: other.as_dict() for other in self.comparisons()},
            "fair_baseline": {
                "example_j_at_equal_delay": self.fair_j,
                "thresholds": [dataclasses.asdict(point) for point in self.curve],
            },
            "forgotten": self.forgotten and dataclasses.asdict(replace(self.forgotten, person="")),
        }

    def without_name(self) -> RunRecord:
        """Return the record without the name of the person who was erased."""
        forgotten = self.forgotten and replace(self.forgotten, person="")
        return replace(self, forgotten=forgotten)


def _compare(main: Outcome, other: Outcome) -> Comparison:
    better = None
    if main.quality is not None and other.quality is not None:
        better = 100.0 * (main.quality - other.quality)
    by_chance = main.selector == other.selector
    ours, theirs = (outcome.learned or 1 if by_chance else 1 for outcome in (main, other))

    def saved(energy: str) -> float | None:
        return _saved(getattr(main.energy, energy) / ours, getattr(other.energy, energy) / theirs)

    return Comparison(
        scheme=other.scheme,
        quality_points=better,
        noise_points=100.0 * _CONFIDENT * math.hypot(main.quality_error, other.quality_error),
        operating_saved=saved("operating_j"),
        compute_saved=saved("compute_j"),
        whole_saved=None if by_chance else saved("whole_j"),
        time_saved=None if by_chance else _saved(main.virtual_s, other.virtual_s),
        levers_j={} if by_chance else main.energy.split_saving(other.energy),
    )


def _saved(ours: float, theirs: float) -> float | None:
    return 1.0 - ours / theirs if theirs > 0.0 else None
