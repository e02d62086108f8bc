"""A dataset that reaches one learner batch by batch, under a scheme.

Statistics are sums, so a federation of workers has the same model: one learner is enough to measure
quality. DEAL really learns and forgets; NewFL keeps the last batch only.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dealfl.worker import SCHEMES
from dealfl_paper.figure import Row
from dealfl_paper.problems import Batch, Problem


@dataclass(frozen=True, slots=True)
class Stream:
    """The places of each batch in a dataset, and a test batch that nobody learns."""

    problem: Problem
    batches: Sequence[NDArray[np.int64]]
    test: Batch


def split(problem: Problem, trainings: int, seed: int, test: Batch | None = None) -> Stream:
    """Return a dataset in random order, in equal batches; a fifth is for the test by default."""
    order = np.random.default_rng(seed).permutation(len(problem))
    tested = min(len(order) // 5, 5_000) if test is None else 0
    batch = test or problem.batch(order[:tested])
    return Stream(problem, np.array_split(order[tested:], trainings), batch)


def play(stream: Stream, scheme: str, theta: str, every: int = 0) -> list[Row]:
    """Learn and forget all batches; return a row every few trainings and after the last."""
    problem, fraction, carry = stream.problem, Fraction(theta), Fraction(0)
    model: Any = problem.make()
    examples: deque[int] = deque()
    learned = forgotten = 0
    rows: list[Row] = []
    for number, batch in enumerate(stream.batches, 1):
        eviction = SCHEMES[scheme].retention.evict(len(examples), fraction, carry)
        carry = eviction.carry
        gone = [examples.popleft() for _ in range(eviction.count)]
        examples.extend(batch.tolist())
        model.learn(*problem.batch(batch))
        if gone:
            model.forget(*problem.batch(np.array(gone)))
        learned, forgotten = learned + len(batch), forgotten + len(gone)
        last = number == len(stream.batches)
        if last or (every and number % every == 0):
            score = float(model.score(*stream.test))
            rows.append(
                {
                    "training": number,
                    "quality": score,
                    "held": len(examples),
                    "forgetness": forgotten / learned,
                }
            )
    return rows
