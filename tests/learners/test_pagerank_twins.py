"""PageRank in numpy and in compiled loops: the same answers, errors and costs in any sequence."""

from typing import Any

import numpy as np
import pytest

from dealfl.errors import DealError
from dealfl.exact import CHOICE, Entries, Statistics
from dealfl.learners import PersonalizedPageRank

pytest.importorskip("numba")

Step = tuple[str, tuple[Any, ...]]
SEQUENCES = 25
MANY_SEQUENCES = 1000
SHARES = {  # of calls in a sequence
    "learn": 0.2,
    "forget": 0.2,
    "update": 0.15,
    "merge": 0.1,
    "similar": 0.1,
    "recommend": 0.1,
    "score": 0.1,
    "check": 0.05,
}


def random_settings(rng: np.random.Generator) -> dict[str, Any]:
    items = int(rng.choice([1, 2, 3, 8, 25, 130]))
    order = rng.permutation(items) if rng.random() < 0.4 else None
    return {"n_items": items, "item_order": order, "layout": str(rng.choice(["packed", "full"]))}


class Arguments:
    """Random arguments of calls, with histories of a pool; some are wrong."""

    def __init__(self, rng: np.random.Generator, items: int, *, possible: bool) -> None:
        self._rng, self._items, self._possible = rng, items, possible
        shares = rng.random(20) * 0.6
        self.pool = [np.flatnonzero(rng.random(items) < share).tolist() for share in shares]

    def _histories(self) -> list[list[int]]:
        rng = self._rng
        count = int(rng.integers(0, 4)) if rng.random() < 0.9 else 20
        picked = [self.pool[index] for index in rng.integers(len(self.pool), size=count)]
        if picked and rng.random() < 0.15:  # a part of it, which perhaps was never learned
            picked[-1] = picked[-1][::2]
        return picked

    def _k(self) -> int:
        return int(self._rng.integers(1, 12))

    def learn(self) -> tuple[Any, ...]:
        return (self._histories(),)

    forget = learn

    def update(self) -> tuple[Any, ...]:
        return (self._histories(),), (self._histories(),)

    def merge(self) -> tuple[Any, ...]:
        model = PersonalizedPageRank(self._items)
        delta = model.learn(self._histories())
        if self._possible:
            return (delta,)
        if self._rng.random() < 0.5:
            return (-delta,)
        counts = {spec.name: self._entries(spec.size) for spec in model.schema.arrays}
        return (delta + Statistics(model.schema, counts),)

    def _entries(self, size: int) -> Entries:
        rng = self._rng
        indices = rng.integers(size, size=3).tolist() if size else []
        return Entries.of({index: int(rng.integers(-3, 4)) or 1 for index in indices})

    def similar(self) -> tuple[Any, ...]:
        return int(self._rng.integers(self._items)), self._k()

    def recommend(self) -> tuple[Any, ...]:
        history = self.pool[int(self._rng.integers(len(self.pool)))]
        return history[: int(self._rng.integers(12))], self._k()

    def score(self) -> tuple[Any, ...]:
        histories = [history for history in self._histories() if history]
        return [self._rng.permutation(history).tolist() for history in histories], self._k()

    def check(self) -> tuple[Any, ...]:
        return ()


def random_steps(rng: np.random.Generator, items: int) -> list[Step]:
    """Return calls; some sequences merge impossible counts, whose scores are not compared."""
    possible = bool(rng.random() < 0.7)
    arguments = Arguments(rng, items, possible=possible)
    names = rng.choice(list(SHARES), size=40, p=list(SHARES.values())).tolist()
    steps: list[Step] = [("learn", (arguments.pool,))]
    for drawn in names:
        name = "recommend" if drawn == "score" and not possible else drawn
        steps.append((name, getattr(arguments, name)()))
    return steps


def outcomes(settings: dict[str, Any], steps: list[Step], mode: str) -> list[Any]:
    """Return answer, cost, digest and statistics after each step."""
    model = PersonalizedPageRank(**settings)
    done = []
    before, CHOICE.mode = CHOICE.mode, mode
    try:
        for name, arguments in steps:
            try:
                answer = getattr(model, name)(*arguments)
            except DealError as error:
                answer = f"{type(error).__name__}: {error}"
            if isinstance(answer, Statistics):
                answer = answer.to_bytes()
            elif isinstance(answer, tuple):
                answer = [each.tolist() for each in answer]
            done.append((name, answer, model.last_work, model.digest()))
        done.append(("at the end", model.statistics.to_bytes(), model.last_work, model.digest()))
    finally:
        CHOICE.mode = before
    return done


def compare(seed: int) -> None:
    """Run one random sequence in both modes."""
    rng = np.random.default_rng([28, seed])
    settings = random_settings(rng)
    steps = random_steps(rng, settings["n_items"])
    plain, compiled = (outcomes(settings, steps, mode) for mode in ("never", "always"))
    for index, (ours, theirs) in enumerate(zip(plain, compiled, strict=True)):
        assert ours == theirs, f"seed {seed}, {settings}, step {index}: {ours[:3]} {theirs[:3]}"


@pytest.mark.parametrize("first", range(0, SEQUENCES, 5))
def test_loops_and_numpy_agree_in_random_sequences(first: int) -> None:
    for seed in range(first, first + 5):
        compare(seed)


@pytest.mark.soak
def test_loops_and_numpy_agree_in_many_random_sequences() -> None:
    for seed in range(SEQUENCES, SEQUENCES + MANY_SEQUENCES):
        compare(seed)
