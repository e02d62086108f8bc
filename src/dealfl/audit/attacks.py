"""Attacks: what somebody could reconstruct of a person from models and differences of models.

Every attack is a function of what the attacker sees. None of them uses the examples it looks for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = [
    "Counts", "find_deleted_direction", "find_main_direction", "find_touched_items",
    "guess_from_similar", "guess_rarest_history", "list_exposed_histories",
]  # fmt: skip

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Counts:
    """The statistics of item-item similarities: histories per item and per pair of items.

    Parameters
    ----------
    items : ndarray
        Number of histories per item.
    pairs : ndarray
        Number of histories per pair of items; the diagonal is not used.
    """

    items: NDArray[np.int64]
    pairs: NDArray[np.int64]

    @classmethod
    def of(cls, histories: csr_array[Any, Any]) -> Counts:
        """Count histories.

        Parameters
        ----------
        histories : csr_array
            One row per history, 1 for each item in it.

        Returns
        -------
        Counts
            The counts.
        """
        dense = histories.toarray().astype(np.float64)
        pairs = (dense.T @ dense).astype(np.int64)
        items = np.diagonal(pairs).copy()
        np.fill_diagonal(pairs, 0)
        return cls(items, pairs)

    def without(self, history: NDArray[np.int64]) -> Counts:
        """Return the counts after one history is removed.

        Parameters
        ----------
        history : ndarray
            Items of the history.

        Returns
        -------
        Counts
            The other counts.
        """
        items, pairs = self.items.copy(), self.pairs.copy()
        items[history] -= 1
        pairs[np.ix_(history, history)] -= 1
        np.fill_diagonal(pairs, 0)
        return Counts(items, pairs)


def find_touched_items(stale: Counts, now: Counts, *, refined: bool) -> Flags:
    """Guess the items of a deleted history from similarities before and after the deletion.

    The paper's attack flags an item if any of its similarities changed. But one history changes
    the counts of its items, and so similarities of all items that occur together with them. The
    refined attack flags an item if all its similarities changed.

    Parameters
    ----------
    stale, now : Counts
        The model before and after the deletion.
    refined : bool
        Whether all similarities of an item must have changed, instead of any.

    Returns
    -------
    ndarray of bool
        Whether each item is flagged.
    """
    # a/b and c/d differ if a·d and c·b do: no rounding hides a change
    unions = [one.items[:, None] + one.items[None, :] - one.pairs for one in (stale, now)]
    changed = stale.pairs * unions[1] != now.pairs * unions[0]
    together = stale.pairs > 0
    if not refined:
        return np.asarray((changed & together).any(axis=1))
    fixed = (stale.pairs == unions[0]) & (now.pairs == unions[1])  # 1 before and after
    counted = together & ~fixed
    return np.asarray((changed | ~counted).all(axis=1) & counted.any(axis=1))


def guess_from_similar(
    similarities: Floats, histories: csr_array[Any, Any], size: int
) -> NDArray[np.int64]:
    """Guess the deleted history of a user from a stale row of user-user similarities.

    Parameters
    ----------
    similarities : ndarray
        Similarity of the deleted user to each remaining one.
    histories : csr_array
        Histories of the remaining users, one per row.
    size : int
        Number of items to guess.

    Returns
    -------
    ndarray
        The items that similar users have most often.
    """
    weights = np.where(similarities >= np.sort(similarities)[-20], similarities, 0.0)
    return np.argsort(-(weights @ histories), kind="stable")[:size]


def list_exposed_histories(
    items: NDArray[np.int64], pairs: csr_array[Any, Any]
) -> list[frozenset[int]]:
    """Return the histories that the difference of two published models exposes completely.

    An item that only one of the erased histories contains tells, by its pairs, all other items of
    that history.

    Parameters
    ----------
    items : ndarray
        Difference of the histories per item.
    pairs : csr_array
        Difference of the histories per pair of items.

    Returns
    -------
    list of frozenset of int
        Items of each exposed history.
    """
    found = set()
    for item in np.flatnonzero(items == 1):
        row = pairs[[int(item)], :].indices
        found.add(frozenset({int(item), *map(int, row)}))
    return list(found)


def guess_rarest_history(items: NDArray[np.int64], pairs: csr_array[Any, Any]) -> frozenset[int]:
    """Guess a history from the counts of an update: all that occurs with an item of the fewest.

    Parameters
    ----------
    items : ndarray
        Histories per item.
    pairs : csr_array
        Histories per pair of items.

    Returns
    -------
    frozenset of int
        Items of the guess.
    """
    rare = np.flatnonzero(items == items[items > 0].min())
    lengths = np.diff(pairs.indptr)[rare]
    item = int(rare[np.argmax(lengths)])
    return frozenset({item, *map(int, pairs[[item], :].indices)})


def find_deleted_direction(before: Floats, after: Floats, covariance: Floats) -> Floats:
    """Return the direction of a deleted row from the weights of two ridge models.

    Parameters
    ----------
    before, after : ndarray
        Weights of both models.
    covariance : ndarray
        Covariance of the features, from public data.

    Returns
    -------
    ndarray
        Unit vector.
    """
    return _unit(covariance @ (before - after))


def find_main_direction(gram: Floats) -> Floats:
    """Return the direction that explains most of the Gram matrix of an update.

    Parameters
    ----------
    gram : ndarray
        Gram matrix of the rows of an update.

    Returns
    -------
    ndarray
        Unit vector; of one row alone, its direction.
    """
    return _unit(np.linalg.eigh(gram)[1][:, -1])


def _unit(vector: Floats) -> Floats:
    length = float(np.linalg.norm(vector))
    return vector / length if length else vector
