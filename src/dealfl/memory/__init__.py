"""Models larger than memory: arrays in files, and page replacement policies.

>>> from functools import partial
>>> from dealfl.memory import ThetaLru, paged
>>> storage = paged("folder", frames=1000, policy=partial(ThetaLru, theta=0.1))
"""

from dealfl.memory.allocator import keep_freed_memory
from dealfl.memory.arc import Arc
from dealfl.memory.frames import Frames, Swaps, major_faults
from dealfl.memory.paged_array import PagedArray
from dealfl.memory.paged_cells import PagedCells, PagedStorage, paged
from dealfl.memory.policies import Lru, Policy, Touch, belady, count_swaps
from dealfl.memory.theta_lru import BudgetedThetaLru, ThetaLru

__all__ = [
    "Arc",
    "BudgetedThetaLru",
    "Frames",
    "Lru",
    "PagedArray",
    "PagedCells",
    "PagedStorage",
    "Policy",
    "Swaps",
    "ThetaLru",
    "Touch",
    "belady",
    "count_swaps",
    "keep_freed_memory",
    "major_faults",
    "paged",
]
