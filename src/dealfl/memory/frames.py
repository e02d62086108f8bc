"""The page frames of a device, shared by all arrays of a learner, and a count of the swaps."""

from __future__ import annotations

import resource
from bisect import bisect_right
from dataclasses import dataclass
from typing import Protocol

from dealfl.memory.policies import Policy

__all__ = ["Frames", "Paged", "Swaps", "major_faults"]


@dataclass(slots=True)
class Swaps:
    """Counts of moved pages.

    Parameters
    ----------
    ins : int, default 0
        Pages loaded into a frame.
    outs : int, default 0
        Changed pages written back.
    past : int, default 0
        Pages read or written without a frame, because the policy deferred them.
    """

    ins: int = 0
    outs: int = 0
    past: int = 0


class Paged(Protocol):
    """An owner of pages in the frames."""

    def evict(self, page: int) -> None:
        """Remove a page from its frame; keep its changes."""

    def settle(self) -> None:
        """Apply deferred changes as far as the policy allows."""


class Frames:
    """A fixed number of page frames for any number of arrays.

    Parameters
    ----------
    policy : Policy
        Policy that selects the page to evict.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._owners: list[Paged] = []
        self._firsts: list[int] = []
        self._pages = 0
        self.swaps = Swaps()

    @property
    def count(self) -> int:
        """The number of frames."""
        return self._policy.frames

    def attach(self, owner: Paged, pages: int) -> int:
        """Register an owner of pages.

        Parameters
        ----------
        owner : Paged
            Receives `evict` and `settle`.
        pages : int
            Number of its pages.

        Returns
        -------
        int
            Number of the owner's first page in these frames.
        """
        first = self._pages
        self._owners.append(owner)
        self._firsts.append(first)
        self._pages += pages
        return first

    def touch(self, page: int) -> bool:
        """Use a page; give it a frame if it has none.

        Parameters
        ----------
        page : int
            Number of the page in these frames.

        Returns
        -------
        bool
            Whether the page has a frame; False if the policy defers it to a later round.
        """
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
    """Return the number of major page faults of this process since its start.

    Returns
    -------
    int
        Page faults that required a read from disk (`ru_majflt` of getrusage(2)).
    """
    return resource.getrusage(resource.RUSAGE_SELF).ru_majflt
