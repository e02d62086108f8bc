"""Belady's optimum: what no policy can beat, since it knows the future."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from dealfl.memory.policies import require_frames

__all__ = ["belady"]


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
