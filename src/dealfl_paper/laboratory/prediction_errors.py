"""The cost of wrong choices: a job chooses once by predicted times and cannot change the choice.

The paper states that wrong choices affect only the 95th percentile. Here the times are known, so
this can be measured: for rounds that end with a majority of replies, and for rounds that wait for
all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dealfl.errors import BadInput
from dealfl.exact import round_keys, uniforms
from dealfl.server.selection import Arms

Floats = NDArray[np.float64]
Picks = NDArray[np.int64]

_TTL_S = 60.0
_FASTEST_S, _SLOWEST_S, _SPREAD = 6.0, 40.0, 0.25
_TIMES, _PREDICTIONS = 6, 7
_UNCHANGED = 0.02


@dataclass(frozen=True, slots=True)
class WrongChoices:
    """Times with wrong choices, relative to those of a job without prediction errors.

    `ends_with` is what ends a round, or "each device" for the times of the chosen devices.
    """

    prediction_error: float | None
    ends_with: str
    wrong_picks: float
    mean: float
    median: float
    percentile_95: float

    @property
    def only_the_tail(self) -> bool:
        """Whether the 95th percentile is worse, and mean and median are not."""
        calm = self.mean <= 1 + _UNCHANGED and self.median <= 1 + _UNCHANGED
        return calm and self.percentile_95 > 1 + _UNCHANGED


def measure_wrong_choices(
    errors: tuple[float, ...] = (0.05, 0.1, 0.2, 0.4, 0.8),
    jobs: int = 500,
    rounds: int = 100,
    seed: int = 0,
    workers: int = 20,
    per_round: int = 5,
) -> list[WrongChoices]:
    """Measure the cost of wrong choices: one choice per job for each error, and learned choices.

    Learned choices are measured after the same number of rounds of learning.
    """
    if jobs < 1 or rounds < 1:
        raise BadInput(f"jobs is {jobs} and rounds is {rounds}; both must be whole numbers ≥ 1")
    typical = np.geomspace(_FASTEST_S, _SLOWEST_S, workers)
    best = np.tile(np.arange(per_round), (jobs, 1))
    measured = []
    for error in errors:
        noise = special.ndtri(_lots(seed, 0, _PREDICTIONS, jobs, workers))
        once = np.argsort(typical * np.exp(error * noise), axis=1, kind="stable")[:, :per_round]
        measured += _compared(error, [once] * rounds, [best] * rounds, _Times(typical, jobs, seed))
    learned = _learned(_Times(typical, jobs, seed), 2 * rounds, per_round)[rounds:]
    return measured + _compared(None, learned, [best] * rounds, _Times(typical, jobs, seed, rounds))


def judge_wrong_choices(measured: list[WrongChoices]) -> str:
    """Return whether wrong choices affect only the 95th percentile."""
    hurt = [choices for choices in measured if choices.percentile_95 > 1 + _UNCHANGED]
    if not hurt:
        return "no measurable effect: the 95th percentile is within 2 % in all cases"
    tail = sum(choices.only_the_tail for choices in hurt)
    if tail == len(hurt):
        return "confirmed: where the 95th percentile is worse, mean and median are not"
    return (
        f"not confirmed: in {len(hurt) - tail} of {len(hurt)} cases with a 95th percentile more "
        "than 2 % worse, mean or median are worse as well"
    )


def _lots(seed: int, number: int, purpose: int, jobs: int, workers: int) -> Floats:
    indices = np.arange(jobs * workers, dtype=np.uint64)
    return uniforms(round_keys(seed, number, purpose), indices).reshape(jobs, workers)


@dataclass(frozen=True, slots=True)
class _Times:
    """The time of each worker in a round; the first round is the one after `skipped`."""

    typical: Floats
    jobs: int
    seed: int
    skipped: int = 0

    def of(self, number: int) -> Floats:
        lots = _lots(self.seed, number + self.skipped, _TIMES, self.jobs, len(self.typical))
        noise = special.ndtri(lots)
        times: Floats = self.typical * np.exp(_SPREAD * noise)
        return times

    def chosen(self, number: int, picks: Picks) -> Floats:
        return np.take_along_axis(self.of(number), picks, axis=1)


def _played(chosen: list[Picks], times: _Times) -> dict[str, Floats]:
    """Return the times of all rounds, by what ends a round."""
    majority, complete, each = [], [], []
    for number, picks in enumerate(chosen, 1):
        taken = np.sort(np.minimum(times.chosen(number, picks), _TTL_S), axis=1)
        majority.append(taken[:, taken.shape[1] // 2])
        complete.append(taken[:, -1])
        each.append(taken.ravel())
    by_end = {"majority": majority, "all": complete, "each device": each}
    return {end: np.concatenate(times) for end, times in by_end.items()}


def _learned(times: _Times, rounds: int, per_round: int) -> list[Picks]:
    """Return the choices of a job that starts without knowledge and learns from arrival times."""
    workers = len(times.typical)
    arms = Arms(np.zeros(times.jobs * workers), eta=1.0, exploration=0.1)
    first = np.arange(times.jobs)[:, None] * workers
    chosen = []
    for number in range(1, rounds + 1):
        scores = arms.scores(number, np.ones(len(arms))).reshape(times.jobs, workers)
        scores += 1e-9 * _lots(  # breaks ties at random
            times.seed, number, _PREDICTIONS, times.jobs, workers
        )
        picks = np.argsort(-scores, axis=1)[:, :per_round]
        flat = (first + picks).ravel()
        arms.pick(number, flat)
        arms.learn(flat, np.maximum(1 - times.chosen(number, picks) / _TTL_S, 0.0).ravel())
        chosen.append(picks)
    return chosen


def _compared(
    error: float | None, chosen: list[Picks], best: list[Picks], times: _Times
) -> list[WrongChoices]:
    played, right = _played(chosen, times), _played(best, times)
    wrong = float(np.mean([(picks >= picks.shape[1]).mean() for picks in chosen]))
    return [
        WrongChoices(
            prediction_error=error,
            ends_with=ends,
            wrong_picks=wrong,
            mean=float(taken.mean() / right[ends].mean()),
            median=_percentile(taken, 50) / _percentile(right[ends], 50),
            percentile_95=_percentile(taken, 95) / _percentile(right[ends], 95),
        )
        for ends, taken in played.items()
    ]


def _percentile(times: Floats, rank: float) -> float:
    return float(np.percentile(times, rank))
