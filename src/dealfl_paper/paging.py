"""Swaps counted on a trace of pages: by a policy, and by Belady's optimum."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from dealfl.storage import Policy


def count_swaps(policy: Policy, rounds: list[list[int]]) -> list[int]:
    """Return the number of loads in each round of a trace.

    Examples
    --------
    >>> from dealfl.storage import Lru
    >>> count_swaps(Lru(2), [[1, 2, 1], [3, 1]])
    [2, 1]
    """
    swaps = []
    for trace in rounds:
        policy.new_round()
        swaps.append(sum(policy.touch(page).loads for page in trace))
    return swaps


def belady(trace: Sequence[int], frames: int) -> list[bool]:
    """Return the loads of Belady's optimal policy, which evicts the page used latest in future.

    Examples
    --------
    >>> belady([1, 2, 3, 1, 2], frames=2)
    [True, True, True, False, True]
    """
    following = _next_uses(trace)
    resident: set[int] = set()
    latest: list[tuple[int, int]] = []  # heap of (-next use, page); past uses never come first
    loads = []
    for position, page in enumerate(trace):
        loads.append(page not in resident)
        if loads[-1] and len(resident) == frames:
            resident.remove(heapq.heappop(latest)[1])
        resident.add(page)
        heapq.heappush(latest, (-following[position], page))
    return loads


def _next_uses(trace: Sequence[int]) -> list[int]:
    never, seen = len(trace), dict[int, int]()
    following = [never] * len(trace)
    for position in range(len(trace) - 1, -1, -1):
        following[position] = seen.get(trace[position], never)
        seen[trace[position]] = position
    return following
