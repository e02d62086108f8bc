"""The adaptive replacement cache, to compare θ-LRU with."""

from __future__ import annotations

from collections import OrderedDict

from dealfl.memory.policies import HIT, LOADED, Policy, Touch, require_frames

Pages = OrderedDict[int, None]


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
        self.once: Pages = OrderedDict()  # T1 in the paper; all four: least recently used first
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
        known = once + len(self.again) + len(self.again_left)
        if once == self.frames:
            if len(self.once) == self.frames:
                return self.once.popitem(last=False)[0]
            self.once_left.popitem(last=False)
            return self._replace(from_again=False)
        if known < self.frames:
            return None
        if known == 2 * self.frames:
            self.again_left.popitem(last=False)
        return self._replace(from_again=False)

    def _replace(self, from_again: bool) -> int:
        once = len(self.once)
        too_many = once > self.once_target or (from_again and once == self.once_target)
        if once and too_many:
            victim, _ = self.once.popitem(last=False)
            self.once_left[victim] = None
        else:
            victim, _ = self.again.popitem(last=False)
            self.again_left[victim] = None
        return victim

    def __contains__(self, page: int) -> bool:
        return page in self.once or page in self.again

    def __len__(self) -> int:
        return len(self.once) + len(self.again)
