"""Dealing examples out to workers: every example to exactly one, the same way for the same seed."""

from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dealfl.errors import BadInput

__all__ = ["split_by_label", "split_by_owner", "split_uniformly"]

Parts = list[NDArray[np.int64]]


def split_by_owner(owners: ArrayLike, workers: int, seed: int) -> Parts:
    """Return the indices of each worker's examples, all those of an owner at one worker.

    >>> [part.tolist() for part in split_by_owner(["ann", "bob", "ann"], workers=2, seed=0)]
    [[0, 2], [1]]
    """
    names = _one_dimensional("owners", owners)
    generator = _generator(workers, seed)
    distinct, owner_of = np.unique(names, return_inverse=True)
    worker_of_owner = generator.permutation(len(distinct)) % workers
    return _parts(worker_of_owner[owner_of], workers)


def split_uniformly(count: int, workers: int, seed: int) -> Parts:
    """Return `count` indices dealt out at random, as evenly as can be.

    >>> [part.tolist() for part in split_uniformly(5, workers=2, seed=0)]
    [[0, 1, 3], [2, 4]]
    """
    _require_whole("count", count, 0)
    return _parts(_generator(workers, seed).permutation(count) % workers, workers)


def split_by_label(labels: ArrayLike, workers: int, concentration: float, seed: int) -> Parts:
    """Return the indices of each worker's examples, with classes shared out unevenly.

    Each class is divided by fractions from a symmetric Dirichlet distribution: a small
    `concentration` gives a worker few classes, a large one nearly equal shares.

    >>> [len(part) for part in split_by_label([0] * 50 + [1] * 50, 3, concentration=0.5, seed=0)]
    [56, 31, 13]
    """
    names = _one_dimensional("labels", labels)
    generator = _generator(workers, seed)
    if not (np.isfinite(concentration) and concentration > 0):
        raise BadInput(f"concentration={concentration}: give a finite number above 0, such as 0.5")
    worker_of = np.empty(len(names), np.int64)
    for label in np.unique(names):
        members = generator.permutation(np.flatnonzero(names == label))
        shares = generator.dirichlet(np.full(workers, concentration))
        ends = np.rint(np.cumsum(shares) * len(members)).astype(np.int64)
        # rounding may leave the last end short of the last member, and every one must be dealt
        ends[-1] = len(members)
        worker_of[members] = np.searchsorted(ends, np.arange(len(members)), side="right")
    return _parts(worker_of, workers)


def _one_dimensional(what: str, values: ArrayLike) -> NDArray[Any]:
    array = np.asarray(values)
    if array.ndim != 1:
        raise BadInput(f"{what} have shape {array.shape}; give one for each example")
    return array


def _generator(workers: int, seed: int) -> np.random.Generator:
    _require_whole("workers", workers, 1)
    _require_whole("seed", seed, 0)
    return np.random.Generator(np.random.PCG64(seed))


def _require_whole(what: str, value: object, least: int) -> None:
    if not isinstance(value, Integral) or isinstance(value, bool) or int(value) < least:
        raise BadInput(f"{what}={value!r}: give a whole number from {least} on")


def _parts(worker_of: NDArray[np.int64], workers: int) -> Parts:
    order = np.argsort(worker_of, kind="stable")
    ends = np.cumsum(np.bincount(worker_of, minlength=workers))
    return np.split(order, ends[:-1])
