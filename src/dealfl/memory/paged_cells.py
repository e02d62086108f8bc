"""Cells of a live model in files; every learner runs on them unchanged."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from dealfl.errors import BadInput
from dealfl.exact import ArraySpec, Entries, Integers
from dealfl.memory.frames import Frames, Swaps
from dealfl.memory.paged_array import PagedArray
from dealfl.memory.policies import Policy, ThetaLru
from dealfl.storage import make_folder

Int64s = NDArray[np.int64]

_CHUNK = 1 << 16  # cells scanned at a time


class PagedCells:
    """The cells of one array: one plane of 32 or 64 bits, or two planes for 96 bits."""

    def __init__(self, size: int, low: PagedArray, high: PagedArray | None) -> None:
        self._size = size
        self._low, self._high = low, high

    def at(self, indices: Int64s) -> Integers:
        """Return values."""
        high = None if self._high is None else self._high.at(indices)
        return Integers(self._low.at(indices), high)

    def put(self, indices: Int64s, values: Integers) -> None:
        """Replace values."""
        self._low.put(indices, values.low)
        if self._high is not None and values.high is not None:
            self._high.put(indices, values.high)

    def entries(self, start: int, stop: int) -> Entries:
        """Return the non-zero cells of a range."""
        stop = min(stop, self._size)
        firsts = range(start, stop, _CHUNK) if start < stop else [start]
        parts = [self._part(first, min(first + _CHUNK, stop)) for first in firsts]
        indices = np.concatenate([part.indices for part in parts])
        low = np.concatenate([part.values.low for part in parts])
        high = [part.values.high for part in parts if part.values.high is not None]
        return Entries(indices, Integers(low, np.concatenate(high) if high else None))

    def _part(self, start: int, stop: int) -> Entries:
        return Entries.of_dense(self.at(np.arange(start, stop, dtype=np.int64)), start)


class PagedStorage:
    """Storage of one learner's arrays in files, with a fixed number of pages in memory.

    Examples
    --------
    >>> import tempfile
    >>> from dealfl.state import State
    >>> from dealfl.schema import Schema
    >>> from dealfl.statistics import Statistics
    >>> schema = Schema("counter", {}, (ArraySpec("counts", 9000, 32),))
    >>> with tempfile.TemporaryDirectory() as folder, paged(folder, frames=2) as storage:
    ...     state = State(schema, storage)
    ...     state.commit(state.propose(Statistics(schema, {"counts": Entries.of({8000: 3})})))
    ...     state.snapshot()["counts"].to_dict(), storage.resident
    ({8000: 3}, 2)
    """

    def __init__(
        self, folder: Path, policy: Policy, *, sync: Callable[[int], None] = os.fdatasync
    ) -> None:
        self._folder, self._sync = folder, sync
        self._frames = Frames(policy)
        self._arrays: list[PagedArray] = []

    def __call__(self, spec: ArraySpec) -> PagedCells:
        """Return the cells of one array of a new learner, all zero."""
        if not spec.wide:
            kind = "<i4" if spec.bits == 32 else "<i8"
            return PagedCells(spec.size, self._array(spec.name, spec.size, kind), None)
        low = self._array(f"{spec.name}.low", spec.size, "<u4")
        return PagedCells(spec.size, low, self._array(f"{spec.name}.high", spec.size, "<i8"))

    def _array(self, name: str, size: int, kind: str) -> PagedArray:
        path = self._folder / f"{name}.pages"
        if path.exists():  # a new state is all zero and must not inherit old values
            raise BadInput(
                f"{path} already exists; each learner needs its own folder: "
                "use another folder, or delete the file if no learner uses it"
            )
        try:
            make_folder(self._folder)
        except OSError as error:
            raise BadInput(f"{self._folder} cannot be created: {error.strerror}") from None
        array = PagedArray(path, size, kind, self._frames, sync=self._sync)
        self._arrays.append(array)
        return array

    @property
    def swaps(self) -> Swaps:
        """Counts of moved pages."""
        return self._frames.swaps

    @property
    def pages(self) -> int:
        """The number of pages of all arrays."""
        return sum(array.pages for array in self._arrays)

    @property
    def resident(self) -> int:
        """The number of pages in memory."""
        return sum(array.resident for array in self._arrays)

    def new_round(self) -> None:
        """Start a round of the job and apply deferred changes."""
        self._frames.new_round()

    def flush(self) -> None:
        """Write all changes, so that no forgotten value remains in the files."""
        for array in self._arrays:
            array.flush()

    def close(self) -> None:
        """Write all changes and release the memory; the learner cannot be used afterwards."""
        for array in self._arrays:
            array.close()
        self._arrays.clear()

    def abandon(self) -> None:
        """Release the memory without writing; the learner cannot be used afterwards."""
        for array in self._arrays:
            array.abandon()
        self._arrays.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def paged(
    folder: str | Path, frames: int, policy: Callable[[int], Policy] = ThetaLru
) -> PagedStorage:
    """Return storage for one learner: `Tikhonov(..., storage=paged("folder", frames=1000))`."""
    return PagedStorage(Path(folder), policy(frames))
