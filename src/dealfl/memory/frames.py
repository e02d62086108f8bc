"""Page frames shared by all arrays of a learner, counts of swaps, and memory of this process."""

from __future__ import annotations

import ctypes
import resource
from bisect import bisect_right
from dataclasses import dataclass
from typing import Protocol

from dealfl.memory.policies import Policy


@dataclass(slots=True)
class Swaps:
    """Counts of moved pages."""

    ins: int = 0  # loaded into a frame
    outs: int = 0  # changed and written back
    past: int = 0  # read or written without a frame, because the policy deferred them


class _Paged(Protocol):
    """An owner of pages in the frames."""

    def evict(self, page: int) -> None:
        """Remove a page from its frame; keep its changes."""

    def settle(self) -> None:
        """Apply deferred changes as far as the policy allows."""


class Frames:
    """A fixed number of page frames for any number of arrays."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._owners: list[_Paged] = []
        self._firsts: list[int] = []
        self._pages = 0
        self.swaps = Swaps()

    @property
    def count(self) -> int:
        """The number of frames."""
        return self._policy.frames

    def attach(self, owner: _Paged, pages: int) -> int:
        """Register an owner of pages."""
        first = self._pages
        self._owners.append(owner)
        self._firsts.append(first)
        self._pages += pages
        return first

    def touch(self, page: int) -> bool:
        """Use a page; give it a frame if it has none."""
        touch = self._policy.touch(page)
        if touch.victim is not None:
            place = bisect_right(self._firsts, touch.victim) - 1
            self._owners[place].evict(touch.victim - self._firsts[place])
        return not touch.deferred

    def new_round(self) -> None:
        """Start a round and apply deferred changes."""
        self._policy.new_round()
        for owner in self._owners:
            owner.settle()


def major_faults() -> int:
    """Return the number of major page faults of this process since its start."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_majflt


def keep_freed_memory() -> bool:
    """Make the allocator of this process keep freed memory.

    By default glibc returns large blocks to the kernel and requests them again in every call. The
    page faults can double the time of a batch, which disturbs measurements.
    """
    trim_threshold, mmap_threshold = -1, -3  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of malloc.h
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False  # another C library: musl, macOS, Windows
    return bool(mallopt(trim_threshold, 1 << 30) and mallopt(mmap_threshold, 1 << 25))
