"""Which page leaves when all frames are taken: protocol, recency alone, and the optimum.

A policy knows pages by number only. It neither reads nor writes them: it says who must leave, and
whoever owns the pages (`frames.Frames`, or a simulation) does so.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Sequence
from decimal import Decimal
from typing import NamedTuple, Protocol

from dealfl.errors import BadInput

__all__ = [
    "DEFERRED",
    "HIT",
    "LOADED",
    "BudgetedThetaLru",
    "Lru",
    "Policy",
    "ThetaLru",
    "Touch",
    "belady",
    "count_swaps",
]


class Touch(NamedTuple):
    """What one touch led to: a page brought in or not, and the page that left for it."""

    loads: bool
    victim: int | None = None
    deferred: bool = False


HIT = Touch(loads=False)
LOADED = Touch(loads=True)
DEFERRED = Touch(loads=False, deferred=True)  # not brought in this round: the caller must wait


class Policy(Protocol):
    """Page replacement for a fixed number of frames."""

    @property
    def frames(self) -> int:
        """How many pages can be resident."""

    def touch(self, page: int) -> Touch:
        """Use a page; bring it in if it is absent."""

    def new_round(self) -> None:
        """A round of the job begins."""

    def __contains__(self, page: int) -> bool: ...


class Lru:
    """The page that was not used for longest leaves.

    >>> policy = Lru(frames=2)
    >>> [policy.touch(page).victim for page in (1, 2, 1, 3)]
    [None, None, None, 2]
    """

    def __init__(self, frames: int) -> None:
        self.frames = require_frames(frames)
        self._recent: OrderedDict[int, None] = OrderedDict()  # longest unused first

    def touch(self, page: int) -> Touch:
        """Use a page; bring it in if it is absent."""
        if page in self._recent:
            self._recent.move_to_end(page)
            return HIT
        victim = self._recent.popitem(last=False)[0] if len(self) == self.frames else None
        self._recent[page] = None
        return LOADED if victim is None else Touch(loads=True, victim=victim)

    def new_round(self) -> None:
        """Do nothing: recency knows no rounds."""

    def __contains__(self, page: int) -> bool:
        return page in self._recent

    def __len__(self) -> int:
        return len(self._recent)


class ThetaLru:
    """θ-LRU: only a fraction θ of the frames is ever given up, least recently used first.

    The other frames hold the most-touched pages: chosen among the resident ones when a round
    begins, by counts that lose an eighth of their weight each round. θ = 0 means plain LRU.

    >>> policy = ThetaLru(frames=3, theta=0.34)
    >>> for page in (1, 1, 2, 2, 3):
    ...     _ = policy.touch(page)
    >>> policy.touch(4).victim, policy.touch(5).victim  # LRU would give up 1 and 2
    (3, 4)
    """

    _DECAY = 0.875  # half is gone after five rounds
    _FORGOTTEN = 2.0**-6  # less is dropped: a single touch is remembered for thirty rounds

    def __init__(self, frames: int, theta: float = 0.3) -> None:
        self.frames = require_frames(frames)
        self._victim_frames = theta_frames(frames, theta) or frames
        self._recent: OrderedDict[int, None] = OrderedDict()
        self._victims: OrderedDict[int, None] = OrderedDict()  # those of them that may leave
        self._counts: dict[int, float] = {}

    def touch(self, page: int) -> Touch:
        """Use a page; bring it in if it is absent."""
        self._counts[page] = self._counts.get(page, 0.0) + 1.0
        if page in self._recent:
            self._recent.move_to_end(page)
            if page in self._victims:
                self._victims.move_to_end(page)
            return HIT
        victim = self._give_up() if len(self._recent) == self.frames else None
        self._recent[page] = self._victims[page] = None
        return LOADED if victim is None else Touch(loads=True, victim=victim)

    def _give_up(self) -> int:
        if len(self._victims) > self._victim_frames:
            self._choose()  # the frames are full for the first time
        victim, _ = self._victims.popitem(last=False)
        del self._recent[victim]
        return victim

    def _choose(self) -> None:
        kept = self.frames - self._victim_frames
        newest_first = reversed(self._recent)  # and a stable sort: of equal counts, the newest
        ranked = sorted(newest_first, key=self._counts.__getitem__, reverse=True)
        protected = set(ranked[:kept])
        self._victims = OrderedDict.fromkeys(p for p in self._recent if p not in protected)

    def new_round(self) -> None:
        """Choose anew which pages may not leave, then let the counts fade."""
        self._choose()
        faded = {page: count * self._DECAY for page, count in self._counts.items()}
        self._counts = {
            page: count
            for page, count in faded.items()
            if count >= self._FORGOTTEN or page in self._recent
        }

    def __contains__(self, page: int) -> bool:
        return page in self._recent

    def __len__(self) -> int:
        return len(self._recent)


class BudgetedThetaLru(Lru):
    """LRU that replaces at most θ·M pages a round; later touches of absent pages must wait.

    Nothing is lost if the caller keeps what was deferred and touches the page again in a later
    round. θ = 0 means plain LRU.

    >>> policy = BudgetedThetaLru(frames=2, theta=0.5)
    >>> [policy.touch(page).deferred for page in (1, 2, 3, 4, 3)]
    [False, False, False, True, False]
    """

    def __init__(self, frames: int, theta: float = 0.3) -> None:
        super().__init__(frames)
        self.budget = theta_frames(frames, theta)
        self.replaced = 0  # pages, in this round

    def touch(self, page: int) -> Touch:
        """Use a page; bring it in if it is absent and the round's budget allows it."""
        replaces = page not in self._recent and len(self) == self.frames
        if replaces and self.replaced == self.budget:
            return DEFERRED
        self.replaced += replaces
        return super().touch(page)

    def new_round(self) -> None:
        """The budget is whole again."""
        self.replaced = 0


def count_swaps(policy: Policy, rounds: list[list[int]]) -> list[int]:
    """Return the swap-ins of each round of a trace.

    >>> count_swaps(Lru(2), [[1, 2, 1], [3, 1]])
    [2, 1]
    """
    swaps = []
    for trace in rounds:
        policy.new_round()
        swaps.append(sum(policy.touch(page).loads for page in trace))
    return swaps


def require_frames(frames: int) -> int:
    """Return `frames`, or raise `BadInput` if no page fits."""
    if frames < 1:
        raise BadInput(f"at least one page frame is needed, not {frames}")
    return frames


def theta_frames(frames: int, theta: float) -> int | None:
    """Return max(1, ⌊θ·M⌋), exactly for a decimal θ; none if θ is 0.

    >>> theta_frames(100, 0.29), int(100 * 0.29)
    (29, 28)
    """
    if not 0.0 <= theta <= 1.0:
        raise BadInput(f"θ is a fraction from 0 to 1, not {theta!r}")
    return max(1, int(Decimal(str(theta)) * frames)) if theta else None


def belady(trace: Sequence[int], frames: int) -> list[bool]:
    """Return which touches of a trace bring a page in, if always the page needed last leaves.

    >>> belady([1, 2, 3, 1, 2], frames=2)
    [True, True, True, False, True]
    """
    require_frames(frames)
    following = _next_uses(trace)
    resident: set[int] = set()
    latest: list[tuple[int, int]] = []  # a heap of (-next use, page); those past never come first
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
