"""Learning and forgetting histories beside implicit, and at the size of MovieLens 20M."""

import gc
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numba
import numpy as np
from implicit.nearest_neighbours import ItemItemRecommender  # type: ignore[import-untyped]
from scipy import sparse
from timing import MODES, Table, learn_with, loops, median_of, median_s, times_s

from dealfl.learners import PersonalizedPageRank

NEIGHBORS = 20  # of an item, in implicit's lists
_PEER = "implicit's fit"


def synthetic_histories(people: int, items: int, total: int) -> sparse.csr_array:
    """Return histories of lognormal lengths of items whose popularity falls like 1 / rank."""
    rng = np.random.default_rng(0)
    shares = np.cumsum(1.0 / (np.arange(items) + 20.0))
    lengths = rng.lognormal(0.0, 1.1, people)
    lengths = np.clip(lengths / lengths.sum() * total, 5, items // 3).astype(int)
    names = rng.permutation(items)
    rows = []
    for length in lengths.tolist():
        drawn = np.unique(np.searchsorted(shares, rng.random(int(1.6 * length)) * shares[-1]))
        rows.append(np.sort(names[rng.permutation(drawn)[:length]]))
    starts = np.cumsum([0, *map(len, rows)])
    ones = np.ones(starts[-1])
    return sparse.csr_array((ones, np.concatenate(rows), starts), shape=(people, items))


def fit_implicit(histories: sparse.csr_array) -> Callable[[], object]:
    """Return a call that fits the peer, which needs 32-bit places."""
    parts = histories.indices.astype(np.int32), histories.indptr.astype(np.int32)
    matrix = sparse.csr_matrix((np.ones(histories.nnz), *parts), shape=histories.shape)
    return lambda: ItemItemRecommender(K=NEIGHBORS, num_threads=1).fit(matrix, show_progress=False)


def some_rows(histories: sparse.csr_array, count: int) -> list[sparse.csr_array]:
    """Return random histories, each as a matrix of one row."""
    people = np.random.default_rng(1).permutation(histories.shape[0])[:count]
    return [histories[[person]] for person in people.tolist()]


def forget_s(
    model: PersonalizedPageRank,
    rows: Sequence[sparse.csr_array],
    then: Callable[[sparse.csr_array], object] = id,
) -> float:
    """Return the mean time to forget a history of the whole model, learned again after it."""
    found = []
    for row in [rows[0], *rows]:
        found.append(sum(times_s([partial(model.forget, row), partial(then, row)])))
        model.learn(row)
    return float(np.mean(found[1:]))


def compare_histories(
    table: Table, name: str, histories: sparse.csr_array, target: float | None, quick: bool
) -> None:
    """Learn all, forget one, recommend to one; in both layouts."""
    fit_s = median_s(fit_implicit(histories), 3)
    rows = some_rows(histories, 60 if quick else 300)
    for layout in ("packed",) if quick else ("packed", "full"):
        learn: dict[str, float] = {}
        forget: dict[str, float] = {}
        query: dict[str, float] = {}
        for how, mode in MODES.items():
            with loops(mode):
                begin = partial(PersonalizedPageRank, histories.shape[1], layout=layout)
                model = begin()
                model.learn(histories)
                times = 3 if how == "numba" else 1
                learn[how] = median_s(partial(learn_with, begin, histories), times)
                chosen = rows if how == "numba" else rows[:30]
                forget[how] = forget_s(model, chosen)
                query[how] = median_of([partial(model.recommend, r.indices, 20) for r in chosen])
        packed = layout == "packed"
        table.add(f"{name}, {layout}: learn all", learn, _PEER, fit_s, 1.0 if packed else None)
        wanted = target if packed else None
        table.add(f"{name}, {layout}: forget one, mean", forget, _PEER, fit_s, wanted)
        own_s = learn["numba"]
        table.add(f"{name}, {layout}: forget one, mean", forget, "own retraining", own_s, None)
        table.add(f"{name}, {layout}: recommend 20", query, _PEER, fit_s, None)


# -- the size of MovieLens 20M --------------------------------------------------------------------


def _resident_gb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e9


@numba.njit(nogil=True)
def _refresh(counts: Any, held: Any, similarities: Any, seen: Any) -> None:
    """Compute the similarities of some items again: rows and, as they are symmetric, columns."""
    for item in seen:
        for other in range(len(held)):
            both = counts[item, other]
            either = held[item] + held[other] - both
            value = np.float32(both / either) if either else np.float32(0)
            similarities[item, other] = value
            similarities[other, item] = value


def compare_large(table: Table, people: int = 138_493, items: int = 26_744) -> None:
    """Do the same at the size of MovieLens 20M, with numba only."""
    histories = synthetic_histories(people, items, 20_000_000 * people // 138_493)
    fit_s = times_s([fit_implicit(histories)])[0]
    rows, name = some_rows(histories, 300), f"{people:,} × {items:,}"
    with loops("always"):
        forget_packed_s = _compare_packed(table, f"{name}, packed", histories, rows, fit_s)
        gc.collect()
        eager_s = _compare_full(table, f"{name}, full", histories, rows, fit_s)
    seconds = {"numba": forget_packed_s}
    table.add(f"{name}, packed: forget one, mean", seconds, "an eager refresh", eager_s, 40.0)


def _compare_packed(table: Table, name: str, histories: Any, rows: Any, fit_s: float) -> float:
    popular = np.argsort(-np.bincount(histories.indices, minlength=histories.shape[1]))
    before_gb = _resident_gb()
    model = PersonalizedPageRank(histories.shape[1], item_order=popular)
    learn_s = times_s([partial(model.learn, histories)])[0]
    table.add(f"{name}: learn all", {"numba": learn_s}, _PEER, fit_s, 1.0)
    seconds = {"numba": forget_s(model, rows)}
    gc.collect()
    used_gb = _resident_gb() - before_gb
    table.check(f"{name}: memory of the model", "≤ 1.5 GB", f"{used_gb:.2f} GB", used_gb <= 1.5)
    table.add(f"{name}: forget one, mean", seconds, _PEER, fit_s, 200_000.0)
    table.add(f"{name}: forget one, mean", seconds, "own retraining", learn_s, None)
    both = {"numba": forget_s(model, rows, lambda row: model.similar(int(row.indices[0]), 20))}
    table.add(f"{name}: forget one, then similar 20, mean", both, _PEER, fit_s, 30_000.0)
    return seconds["numba"]


def _compare_full(table: Table, name: str, histories: Any, rows: Any, fit_s: float) -> float:
    model = PersonalizedPageRank(histories.shape[1], layout="full")
    model.learn(histories)
    size, held = histories.shape[1], np.bincount(histories.indices, minlength=histories.shape[1])
    counts = model._table._counts.reshape(size, size)  # type: ignore[union-attr]
    asked = np.random.default_rng(2).permutation(size)[:300].tolist()
    held32 = held.astype(np.int32)
    read_s = median_of([lambda i=i: counts[i].max() + held32.max() for i in asked[::2]])  # type: ignore[misc]
    query_s = median_of([partial(model.similar, item, 20) for item in asked[1::2]])
    ratio = query_s / read_s
    what = f"{name}: similar 20, beside reading its row and the item counts"
    table.check(what, "≤ 4×", f"{ratio:.1f}× ({query_s * 1e6:.0f} µs)", ratio <= 4)
    recommend_s = median_of([partial(model.recommend, row.indices, 20) for row in rows[:100]])
    found = f"{recommend_s * 1e3:.2f} ms"
    table.check(f"{name}: recommend 20", "≤ 2.5 ms", found, recommend_s <= 2.5e-3)
    similarities = np.ones((size, size), np.float32)
    refresh = partial(_refresh, counts, held, similarities)
    refresh(np.array([0]))
    seconds = {"numba": forget_s(model, rows)}
    table.add(f"{name}: forget one, mean", seconds, _PEER, fit_s, None)
    return forget_s(model, rows[:40], lambda row: refresh(row.indices))
