"""Page traces of learning and forgetting, for `memory.py`."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dealfl.exact import ArraySpec, Cells, Entries, Integers, in_memory
from dealfl.learners import PersonalizedPageRank, Tikhonov

Int64s = NDArray[np.int64]
Rounds = list[list[int]]

ITEMS = 1000
NEW_USERS, FORGOTTEN = 10, 3
WARM_UP, MEASURED = 5, 25  # rounds
PAGE = 4096
PAYLOAD = PAGE - 8


def histories(seed: int, rounds: int) -> list[list[tuple[int, Int64s]]]:
    """Return for each round who is learned (+1) and forgotten (−1): the oldest go first."""
    rng = np.random.default_rng(seed)
    popularity = 1.0 / np.arange(1, ITEMS + 1)
    chances = popularity / popularity.sum()
    number = rng.permutation(ITEMS)  # of the item of each rank
    held: list[Int64s] = []
    changes: list[list[tuple[int, Int64s]]] = []
    for _ in range(rounds):
        lengths = np.clip(30.0 * rng.lognormal(0.0, 1.0, NEW_USERS), 2, ITEMS / 2).astype(int)
        new = [number[rng.choice(ITEMS, size, replace=False, p=chances)] for size in lengths]
        forgotten = [held.pop(0) for _ in range(min(FORGOTTEN, len(held)))]
        held += new
        changes.append([(+1, items) for items in new] + [(-1, items) for items in forgotten])
    return changes


def popular_first(seed: int) -> Int64s:
    """Return the items by rank, as `histories` of this seed numbers them."""
    return np.random.default_rng(seed).permutation(ITEMS)


def dense_trace(seed: int, rounds: int) -> Rounds:
    """Return the pages of v, C (int32) and L (float64) that the paper's algorithm touches."""
    pages_of_counts = -(-ITEMS * ITEMS * 4 // PAGE)

    def row_pages(item: int, items: Int64s, width: int, first: int) -> list[int]:
        pages: list[int] = (first + np.unique((item * ITEMS + items) * width // PAGE)).tolist()
        return pages

    trace = []
    for changes in histories(seed, rounds):
        touched: list[int] = []
        for _, items in changes:
            touched.append(0)
            for width, first in ((4, 1), (8, 1 + pages_of_counts)):
                for item in items.tolist():
                    touched += row_pages(item, items, width, first)
        trace.append(touched)
    return trace


class TracedCells:
    """Cells in memory that note the pages their paged twins would touch."""

    def __init__(self, cells: Cells, planes: list[tuple[int, int]], trace: list[int]) -> None:
        self._cells, self._planes, self._trace = cells, planes, trace

    def _note(self, indices: Int64s) -> None:
        for first, width in self._planes:
            self._trace += (first + np.unique(indices // (PAYLOAD // width))).tolist()

    def at(self, indices: Int64s) -> Integers:
        self._note(indices)
        return self._cells.at(indices)

    def put(self, indices: Int64s, values: Integers) -> None:
        self._note(indices)
        self._cells.put(indices, values)

    def entries(self, start: int, stop: int) -> Entries:
        raise NotImplementedError("a trace is of learning and forgetting only")


class Tracer:
    """Storage that numbers the pages of all arrays in one line and records touches."""

    def __init__(self) -> None:
        self.trace: list[int] = []
        self.pages = 0

    def __call__(self, spec: ArraySpec) -> Cells:
        planes = []
        for width in (4, 8) if spec.wide else (spec.bits // 8,):
            planes.append((self.pages, width))
            self.pages += -(-spec.size // (PAYLOAD // width))
        return TracedCells(in_memory(spec), planes, self.trace)

    def taken(self) -> list[int]:
        """Return what was recorded since the last call."""
        taken, self.trace[:] = list(self.trace), []
        return taken


def packed_trace(
    seed: int, rounds: int, order: Int64s | None = None, *, refusing: bool = False
) -> Rounds:
    """Return the pages that PersonalizedPageRank touches, with or without whole rows it checks."""
    tracer = Tracer()
    model = PersonalizedPageRank(ITEMS, order, storage=tracer)
    trace = []
    for changes in histories(seed, rounds):
        for sign, items in changes:
            row = np.zeros((1, ITEMS), dtype=np.int64)
            row[0, items] = 1
            if not refusing:
                model._most[:] = 0  # as if no row had to be read before forgetting
            (model.learn if sign > 0 else model.forget)(sparse.csr_array(row))
        trace.append(tracer.taken())
    return trace


def moments_trace(seed: int, rounds: int, features: int) -> Rounds:
    """Return the pages that Tikhonov touches when it learns and forgets rows one by one."""
    tracer = Tracer()
    model = Tikhonov(features, feature_bound=8.0, target_bound=8.0, storage=tracer)
    rng = np.random.default_rng(seed)
    held: list[Any] = []
    trace = []
    for _ in range(rounds):
        new = list(np.clip(rng.normal(size=(NEW_USERS, features)), -8, 8))
        forgotten = [held.pop(0) for _ in range(min(FORGOTTEN, len(held)))]
        held += new
        for row in new:
            model.learn(row[None], [row[0]])
        for row in forgotten:
            model.forget(row[None], [row[0]])
        trace.append(tracer.taken())
    return trace


def layouts(quick: bool) -> dict[str, Callable[[int], Rounds]]:
    """Return how to make the trace of each layout from a seed."""
    rounds = WARM_UP + (5 if quick else MEASURED)
    features = 300 if quick else ITEMS
    return {
        "PageRank, dense C and L (the paper's)": lambda seed: dense_trace(seed, rounds),
        "PageRank, packed C (ours)": lambda seed: packed_trace(seed, rounds),
        "PageRank, packed C by popularity (ours)": lambda seed: packed_trace(
            seed, rounds, popular_first(seed)
        ),
        "PageRank, packed C by popularity, with rows read before forgetting (ours)": (
            lambda seed: packed_trace(seed, rounds, popular_first(seed), refusing=True)
        ),
        f"Tikhonov, moments of {features} features (ours)": lambda seed: moments_trace(
            seed, rounds, features
        ),
    }
