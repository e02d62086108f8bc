"""Page replacement: the protocol of policies, LRU, and θ-LRU.

A policy knows pages by number only. It selects the page to evict; the owner of the pages
(`Frames`, or a simulation) reads and writes them.
"""

from __future__ import annotations

from collections import OrderedDict
from decimal import Decimal
from typing import NamedTuple, Protocol

from dealfl.errors import BadInput


class Touch(NamedTuple):
    """The effect of one use of a page."""

    loads: bool
    victim: int | None = None
    deferred: bool = False


HIT = Touch(loads=False)
LOADED = Touch(loads=True)
DEFERRED = Touch(loads=False, deferred=True)


class Policy(Protocol):
    """Page replacement for a fixed number of frames."""

    frames: int  # their number

    def touch(self, page: int) -> Touch:
        """Use a page; load it if it is absent."""

    def new_round(self) -> None:
        """Start a round of the job; most policies ignore it."""
        return

    def __contains__(self, page: int) -> bool: ...


class Lru(Policy):
    """Least recently used: evicts the page that was not used for the longest time.

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
        """Use a page; load it if it is absent."""
        if page in self._recent:
            self._recent.move_to_end(page)
            return HIT
        victim = self._recent.popitem(last=False)[0] if len(self) == self.frames else None
        self._recent[page] = None
        return LOADED if victim is None else Touch(loads=True, victim=victim)

    def __contains__(self, page: int) -> bool:
        return page in self._recent

    def __len__(self) -> int:
        return len(self._recent)


class ThetaLru(Policy):
    """LRU restricted by θ: evicts only from a fraction θ of the frames, least recently used first.

    The other frames hold the most used pages. They are selected among the resident pages at the
    start of each round, by counts that lose an eighth of their weight per round.

    Examples
    --------
    >>> policy = ThetaLru(frames=3, theta=0.34)
    >>> for page in (1, 1, 2, 2, 3):
    ...     _ = policy.touch(page)
    >>> policy.touch(4).victim, policy.touch(5).victim  # LRU would give up 1 and 2
    (3, 4)
    """

    _DECAY = 0.875  # a half-life of five rounds
    _FORGOTTEN = 2.0**-6  # smaller counts are dropped: a single use counts for thirty rounds

    def __init__(self, frames: int, theta: float = 0.3) -> None:
        self.frames = require_frames(frames)
        self._victim_frames = _theta_frames(frames, theta) or frames
        self._recent: OrderedDict[int, None] = OrderedDict()
        self._victims: OrderedDict[int, None] = OrderedDict()  # those that may be evicted
        self._counts: dict[int, float] = {}

    def touch(self, page: int) -> Touch:
        """Use a page; load it if it is absent."""
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
        newest_first = reversed(self._recent)  # the sort is stable: ties go to the newest
        ranked = sorted(newest_first, key=self._counts.__getitem__, reverse=True)
        protected = set(ranked[:kept])
        self._victims = OrderedDict.fromkeys(p for p in self._recent if p not in protected)

    def new_round(self) -> None:
        """Select the protected pages, then decay the counts."""
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
    """LRU that replaces at most θ·M pages per round and defers later loads.

    The caller keeps deferred changes and touches the page again in a later round.

    Examples
    --------
    >>> policy = BudgetedThetaLru(frames=2, theta=0.5)
    >>> [policy.touch(page).deferred for page in (1, 2, 3, 4, 3)]
    [False, False, False, True, False]
    """

    def __init__(self, frames: int, theta: float = 0.3) -> None:
        super().__init__(frames)
        self.budget = _theta_frames(frames, theta)
        self.replaced = 0  # pages, in this round

    def touch(self, page: int) -> Touch:
        """Use a page; load it if it is absent and the budget of the round allows it."""
        replaces = page not in self._recent and len(self) == self.frames
        if replaces and self.replaced == self.budget:
            return DEFERRED
        self.replaced += replaces
        return super().touch(page)

    def new_round(self) -> None:
        """Reset the budget."""
        self.replaced = 0


def _theta_frames(frames: int, theta: float) -> int | None:
    """Return max(1, ⌊θ·M⌋), exactly for a decimal θ; none if θ is 0.

    >>> _theta_frames(100, 0.29), int(100 * 0.29)
    (29, 28)
    """
    if not 0.0 <= theta <= 1.0:
        raise BadInput(f"theta is {theta!r}; it must be a fraction from 0 to 1")
    return max(1, int(Decimal(str(theta)) * frames)) if theta else None


def require_frames(frames: int) -> int:
    """Return `frames`, or raise `BadInput` if it is less than 1."""
    if frames < 1:
        raise BadInput(f"frames is {frames}; it must be a whole number ≥ 1")
    return frames
