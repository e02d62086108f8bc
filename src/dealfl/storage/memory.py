"""Memory: page replacement policies, frames that arrays share, and the memory of this process.

A policy knows pages by number only. It selects the page to evict; the owner of the pages
(`Frames`, or a simulation) reads and writes them.
"""

from __future__ import annotations

import ctypes
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain, islice
from typing import NamedTuple, Protocol

from dealfl.errors import BadInput

Pages = OrderedDict[int, None]  # least recently used first


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

    def note(self, page: int, *, changed: bool) -> None:
        """Note that a page was changed, or written back; most policies ignore it."""
        del page, changed

    def leaving(self) -> Iterator[int]:
        """Yield the pages that may be evicted, those first that are likely to leave first."""
        return iter(())

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
        self._recent: Pages = OrderedDict()

    def touch(self, page: int) -> Touch:
        """Use a page; load it if it is absent."""
        if page in self._recent:
            self._recent.move_to_end(page)
            return HIT
        victim = self._recent.popitem(last=False)[0] if len(self) == self.frames else None
        self._recent[page] = None
        return LOADED if victim is None else Touch(loads=True, victim=victim)

    def leaving(self) -> Iterator[int]:
        """Yield the pages, least recently used first."""
        return iter(self._recent)

    def __contains__(self, page: int) -> bool:
        return page in self._recent

    def __len__(self) -> int:
        return len(self._recent)


class ThetaLru(Policy):
    """LRU restricted by θ: evicts only from a fraction θ of the frames, least recently used first.

    The other frames hold the most used pages. They are selected among the resident pages at the
    start of each round, by counts that lose an eighth of their weight per round. Among the quarter
    of the others that would leave first, a page that was not changed leaves before one that must
    be written: a written page costs three times the energy of a read one. θ = 0 is plain LRU.

    In the fleet of `pagerank-movielens` its storage needs 16.0 J with frames for 10 % of the pages
    (LRU 20.5, ARC 19.9), 2.60 J for 20 % (2.68, 2.62), and from 30 % on 1.37 J as theirs, because
    each page is then read once: `benchmarks/phone.py --part pages`, the whole run, modelled.

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
        self._window = -(-self._victim_frames // 4) if theta else 1
        self._changed: set[int] = set()
        self._recent: Pages = OrderedDict()
        self._victims: Pages = OrderedDict()  # those that may be evicted
        self._counts: dict[int, float] = {}

    def touch(self, page: int) -> Touch:
        """Use a page; load it if it is absent."""
        self._counts[page] = self._counts.get(page, 0.0) + 1.0
        if page in self._recent:
            self._recent.move_to_end(page)
            if page in self._victims:
                self._victims.move_to_end(page)
            return HIT
        victim = self._give_up() if len(self._recent) >= self.frames else None
        self._recent[page] = self._victims[page] = None
        return LOADED if victim is None else Touch(loads=True, victim=victim)

    def _give_up(self) -> int:
        if not 0 < len(self._victims) <= self._victim_frames:
            self._choose()  # the frames are full for the first time, or a call was interrupted
        oldest = next(iter(self._victims))
        window = islice(self._victims, self._window)
        victim = next((page for page in window if page not in self._changed), oldest)
        del self._victims[victim]
        del self._recent[victim]
        return victim

    def note(self, page: int, *, changed: bool) -> None:
        """Note that a page was changed, or written back."""
        if changed:
            self._changed.add(page)
        else:
            self._changed.discard(page)

    def leaving(self) -> Iterator[int]:
        """Yield the pages that are not protected, least recently used first."""
        return iter(self._victims)

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


class Arc(Policy):
    """Adaptive replacement cache (ARC): balances recency and frequency.

    Pages touched once and pages touched again form two lists. A ghost list of each remembers
    evicted pages. A touch of a page in a ghost list moves frames to the corresponding list.

    Examples
    --------
    >>> policy = Arc(frames=2)
    >>> [policy.touch(page).victim for page in (1, 1, 2, 3, 4)]  # 1 is touched again: it stays
    [None, None, None, 2, 3]
    """

    def __init__(self, frames: int) -> None:
        self.frames = require_frames(frames)
        self.once: Pages = OrderedDict()  # T1 in the paper
        self.again: Pages = OrderedDict()  # T2
        self.once_left: Pages = OrderedDict()  # B1
        self.again_left: Pages = OrderedDict()  # B2
        self.once_target = 0.0  # p: target number of frames for pages touched once

    def touch(self, page: int) -> Touch:
        """Use a page; load it if it is absent."""
        if page in self.again:
            self.again.move_to_end(page)
            return HIT
        if page in self.once:
            del self.once[page]
            self.again[page] = None
            return HIT
        if page in self.once_left or page in self.again_left:
            return self._return(page)
        return self._arrive(page)

    def _return(self, page: int) -> Touch:
        """Load a recently evicted page and adapt the target."""
        once_left, again_left = len(self.once_left), len(self.again_left)
        from_again = page in self.again_left
        if from_again:
            step = max(once_left / again_left, 1.0)
            self.once_target = max(self.once_target - step, 0.0)
        else:
            step = max(again_left / once_left, 1.0)
            self.once_target = min(self.once_target + step, float(self.frames))
        victim = self._replace(from_again)
        del (self.again_left if from_again else self.once_left)[page]
        self.again[page] = None
        return Touch(loads=True, victim=victim)

    def _arrive(self, page: int) -> Touch:
        """Load a page that is in no list."""
        victim = self._room()
        self.once[page] = None
        return LOADED if victim is None else Touch(loads=True, victim=victim)

    def _room(self) -> int | None:
        once = len(self.once) + len(self.once_left)
        total = once + len(self.again) + len(self.again_left)
        if once == self.frames:
            if len(self.once) == self.frames:
                return self.once.popitem(last=False)[0]
            self.once_left.popitem(last=False)
            return self._replace(from_again=False)
        if total < self.frames:
            return None
        if total == 2 * self.frames:
            self.again_left.popitem(last=False)
        return self._replace(from_again=False)

    def _replace(self, from_again: bool) -> int | None:
        if len(self) < self.frames:
            return None  # a call was interrupted after a page had left
        once = len(self.once)
        too_many = once > self.once_target or (from_again and once == self.once_target)
        if once and too_many:
            victim, _ = self.once.popitem(last=False)
            self.once_left[victim] = None
        else:
            victim, _ = self.again.popitem(last=False)
            self.again_left[victim] = None
        return victim

    def leaving(self) -> Iterator[int]:
        """Yield the pages touched once, then those touched again, least recently used first."""
        return chain(self.once, self.again)

    def __contains__(self, page: int) -> bool:
        return page in self.once or page in self.again

    def __len__(self) -> int:
        return len(self.once) + len(self.again)


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
            index = bisect_right(self._firsts, touch.victim) - 1
            self._owners[index].evict(touch.victim - self._firsts[index])
        return not touch.deferred

    def note(self, page: int, *, changed: bool) -> None:
        """Note that a page was changed, or written back."""
        self._policy.note(page, changed=changed)

    def leaving(self) -> Iterator[int]:
        """Yield the pages that may leave their frames, those first that are likely to be first."""
        return self._policy.leaving()

    def new_round(self) -> None:
        """Start a round and apply deferred changes."""
        self._policy.new_round()
        for owner in self._owners:
            owner.settle()


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
