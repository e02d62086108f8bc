"""Models larger than memory: arrays in files, and page replacement policies.

>>> from functools import partial
>>> from dealfl.memory import ThetaLru, paged
>>> storage = paged("folder", frames=1000, policy=partial(ThetaLru, theta=0.1))
"""

from dealfl.memory.baselines import Arc
from dealfl.memory.frames import keep_freed_memory, major_faults
from dealfl.memory.paged_cells import PagedStorage, paged
from dealfl.memory.policies import BudgetedThetaLru, Lru, Policy, ThetaLru, Touch

__all__ = [
    "Arc",
    "BudgetedThetaLru",
    "Lru",
    "PagedStorage",
    "Policy",
    "ThetaLru",
    "Touch",
    "keep_freed_memory",
    "major_faults",
    "paged",
]
