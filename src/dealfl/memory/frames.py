"""The page frames of a device, shared by all arrays of a learner, and a count of what moves."""

from __future__ import annotations

import resource
from bisect import bisect_right
from dataclasses import dataclass
from typing import Protocol

from dealfl.memory.policies import Policy

__all__ = ["Frames", "Paged", "Swaps", "major_faults"]


@dataclass(slots=True)
class Swaps:
    """Pages brought in, pages written back, and pages read or written past the frames."""

    ins: int = 0
    outs: int = 0
    past: int = 0


class Paged(Protocol):
    """Whoever has pages in the frames."""

    def evict(self, page: int) -> None:
        """Let a page leave its frame; what changed in it must be kept."""

    def settle(self) -> None:
        """Do what was deferred, as far as the policy allows it now."""


class Frames:
    """At most M resident pages of any number of arrays; a policy says which one leaves."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._owners: list[Paged] = []
        self._firsts: list[int] = []
        self._pages = 0
        self.swaps = Swaps()

    @property
    def count(self) -> int:
        """How many pages can be resident."""
        return self._policy.frames

    def attach(self, owner: Paged, pages: int) -> int:
        """Return the number under which an owner's first page is known here."""
        first = self._pages
        self._owners.append(owner)
        self._firsts.append(first)
        self._pages += pages
        return first

    def touch(self, page: int) -> bool:
        """Give a page a frame, or return false if it must wait for another round."""
        touch = self._policy.touch(page)
        if touch.victim is not None:
            place = bisect_right(self._firsts, touch.victim) - 1
            self._owners[place].evict(touch.victim - self._firsts[place])
        return not touch.deferred

    def new_round(self) -> None:
        """Begin a round, with what waited for it first."""
        self._policy.new_round()
        for owner in self._owners:
            owner.settle()


def major_faults() -> int:
    """Return how often this process has waited for a page from disk since it began."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_majflt
