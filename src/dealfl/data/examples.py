"""Examples of a dataset, and their split among workers: each belongs to one worker."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dealfl.errors import BadInput

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    Matrix = NDArray[Any] | csr_array[Any, tuple[int, int]]


class StoredHistories(NamedTuple):
    """The part of a `csr_array` that `Examples.meetings` reads, for workers without scipy."""

    indices: NDArray[np.int32]
    indptr: NDArray[np.int64]
    shape: tuple[int, int]


@dataclass(frozen=True, slots=True, eq=False)
class Examples:
    """A loaded dataset: one row per example.

    For recommendation, an example is the history of an owner.
    """

    name: str
    features: "Matrix"
    targets: NDArray[Any] | None = None
    owners: NDArray[np.int64] | None = None
    times: NDArray[np.int64] | None = None
    test: "Examples | None" = None

    def __len__(self) -> int:
        return int(self.features.shape[0])

    @property
    def histories(self) -> "csr_array[np.int32, tuple[int, int]]":
        """The histories of a recommendation dataset: row = owner, column = item, value = 1."""
        if isinstance(self.features, np.ndarray) or self.targets is not None:
            raise BadInput(f"{self.name} has no histories; it is not a recommendation dataset")
        return self.features

    def keep(self, rows: NDArray[np.bool_]) -> "Examples":
        """Return the examples of some rows, given as a mask; the test set stays."""
        times = self.times
        if times is not None and len(times) != len(self):  # one for each interaction
            times = times[np.repeat(rows, np.diff(self.histories.indptr))]
        elif times is not None:
            times = times[rows]
        parts = (None if part is None else part[rows] for part in (self.targets, self.owners))
        targets, owners = parts
        return replace(
            self, features=self.features[rows], targets=targets, owners=owners, times=times
        )

    def meetings(self, row: int) -> list[tuple[int, int]]:
        """Return time and item of each interaction of a history, the earliest first.

        Of several at the same time, the smallest item is first; a time that is not known is 0.
        """
        histories = self.histories
        span = slice(histories.indptr[row], histories.indptr[row + 1])
        items = histories.indices[span].tolist()
        times = [0] * len(items) if self.times is None else self.times[span].tolist()
        return sorted(zip(times, items, strict=True))


Parts = list[NDArray[np.int64]]


def split_by_owner(owners: ArrayLike, workers: int, seed: int) -> Parts:
    """Split examples so that all examples of an owner belong to one worker.

    Examples
    --------
    >>> [part.tolist() for part in split_by_owner(["ann", "bob", "ann"], workers=2, seed=0)]
    [[0, 2], [1]]
    """
    distinct, owner_of = np.unique(owners, return_inverse=True)
    worker_of_owner = _generator(seed).permutation(len(distinct)) % workers
    return _parts(worker_of_owner[owner_of], workers)


def split_uniformly(count: int, workers: int, seed: int) -> Parts:
    """Split indices at random into parts of nearly equal size.

    Examples
    --------
    >>> [part.tolist() for part in split_uniformly(5, workers=2, seed=0)]
    [[0, 1, 3], [2, 4]]
    """
    return _parts(_generator(seed).permutation(count) % workers, workers)


def split_by_label(labels: ArrayLike, workers: int, concentration: float, seed: int) -> Parts:
    """Split examples so that workers have different shares of each class.

    The shares of each class are drawn from a symmetric Dirichlet distribution.

    References
    ----------
    .. [1] T.-M. H. Hsu, H. Qi, M. Brown: Measuring the effects of non-identical data distribution
       for federated visual classification. arXiv:1909.06335, 2019.

    Examples
    --------
    >>> [len(part) for part in split_by_label([0] * 50 + [1] * 50, 3, concentration=0.5, seed=0)]
    [56, 31, 13]
    """
    names = np.asarray(labels)
    generator = _generator(seed)
    worker_of = np.empty(len(names), np.int64)
    for label in np.unique(names):
        members = generator.permutation(np.flatnonzero(names == label))
        shares = generator.dirichlet(np.full(workers, concentration))
        ends = np.rint(np.cumsum(shares) * len(members)).astype(np.int64)
        # rounding can leave the last end before the last member, but every one must be assigned
        ends[-1] = len(members)
        worker_of[members] = np.searchsorted(ends, np.arange(len(members)), side="right")
    return _parts(worker_of, workers)


def _generator(seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


def _parts(worker_of: NDArray[np.int64], workers: int) -> Parts:
    order = np.argsort(worker_of, kind="stable")
    ends = np.cumsum(np.bincount(worker_of, minlength=workers))
    return np.split(order, ends[:-1])
