"""Page replacement: the protocol of policies, LRU, and Belady's optimum.

A policy knows pages by number only. It selects the page to evict; the owner of the pages
(`Frames`, or a simulation) reads and writes them.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from dealfl.errors import BadInput

__all__ = [
    "DEFERRED",
    "HIT",
    "LOADED",
    "Lru",
    "Policy",
    "Touch",
    "belady",
    "count_swaps",
    "require_frames",
]


class Touch(NamedTuple):
    """The effect of one use of a page.

    Parameters
    ----------
    loads : bool
        Whether the page was loaded into a frame.
    victim : int, optional
        Number of the page that was evicted for it.
    deferred : bool, default False
        Whether the page gets no frame in this round.
    """

    loads: bool
    victim: int | None = None
    deferred: bool = False


HIT = Touch(loads=False)
LOADED = Touch(loads=True)
DEFERRED = Touch(loads=False, deferred=True)


class Policy(Protocol):
    """Page replacement for a fixed number of frames."""

    @property
    def frames(self) -> int:
        """The number of frames."""

    def touch(self, page: int) -> Touch:
        """Use a page; load it if it is absent.

        Parameters
        ----------
        page : int
            Number of the page.

        Returns
        -------
        Touch
            Whether the page was loaded, and the page that was evicted for it.
        """

    def new_round(self) -> None:
        """Start a round of the job."""

    def __contains__(self, page: int) -> bool: ...


class Lru:
    """Least recently used: evicts the page that was not used for the longest time.

    Parameters
    ----------
    frames : int
        Number of page frames, at least 1.

    Raises
    ------
    BadInput
        If `frames` is less than 1.

    Examples
    --------
    >>> policy = Lru(frames=2)
    >>> [policy.touch(page).victim for page in (1, 2, 1, 3)]
    [None, None, None, 2]
    """

    def __init__(self, frames: int) -> None:
        self.frames = require_frames(frames)
        self._recent: OrderedDict[int, None] = OrderedDict()  # least recently used first

    def touch(self, page: int) -> Touch:
        """Use a page; load it if it is absent.

        Parameters
        ----------
        page : int
            Number of the page.

        Returns
        -------
        Touch
            Whether the page was loaded, and the page that was evicted for it.
        """
        if page in self._recent:
            self._recent.move_to_end(page)
            return HIT
        victim = self._recent.popitem(last=False)[0] if len(self) == self.frames else None
        self._recent[page] = None
        return LOADED if victim is None else Touch(loads=True, victim=victim)

    def new_round(self) -> None:
        """Do nothing: LRU does not depend on rounds."""

    def __contains__(self, page: int) -> bool:
        return page in self._recent

    def __len__(self) -> int:
        return len(self._recent)


def count_swaps(policy: Policy, rounds: list[list[int]]) -> list[int]:
    """Return the number of loads in each round of a trace.

    Parameters
    ----------
    policy : Policy
        Policy in its initial state.
    rounds : list of list of int
        Numbers of the used pages, by round.

    Returns
    -------
    list of int
        Loads, by round.

    Examples
    --------
    >>> count_swaps(Lru(2), [[1, 2, 1], [3, 1]])
    [2, 1]
    """
    swaps = []
    for trace in rounds:
        policy.new_round()
        swaps.append(sum(policy.touch(page).loads for page in trace))
    return swaps


def require_frames(frames: int) -> int:
    """Return `frames`, or raise `BadInput` if it is less than 1."""
    if frames < 1:
        raise BadInput(f"frames is {frames}; it must be a whole number ≥ 1")
    return frames


def belady(trace: Sequence[int], frames: int) -> list[bool]:
    """Return the loads of Belady's optimal policy, which evicts the page used latest in future.

    Parameters
    ----------
    trace : sequence of int
        Numbers of the used pages, in order.
    frames : int
        Number of page frames, at least 1.

    Returns
    -------
    list of bool
        Whether each use loads its page.

    References
    ----------
    L. A. Belady: A study of replacement algorithms for a virtual-storage computer.
    IBM Systems Journal 5(2), 1966.

    Examples
    --------
    >>> belady([1, 2, 3, 1, 2], frames=2)
    [True, True, True, False, True]
    """
    require_frames(frames)
    following = _next_uses(trace)
    resident: set[int] = set()
    latest: list[tuple[int, int]] = []  # heap of (-next use, page); past uses never come first
    loads = []
    for place, page in enumerate(trace):
        loads.append(page not in resident)
        if loads[-1] and len(resident) == frames:
            resident.remove(heapq.heappop(latest)[1])
        resident.add(page)
        heapq.heappush(latest, (-following[place], page))
    return loads


def _next_uses(trace: Sequence[int]) -> list[int]:
    never, seen = len(trace), dict[int, int]()
    following = [never] * len(trace)
    for place in range(len(trace) - 1, -1, -1):
        following[place] = seen.get(trace[place], never)
        seen[trace[place]] = place
    return following
