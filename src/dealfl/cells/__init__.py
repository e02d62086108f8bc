"""Storage of a live model's integers.

`Cells` is an array that is read and written by index. `State` holds the cells of all arrays of one
schema, applies a change to all arrays or to none, and hashes only blocks that changed.
"""

from dealfl.cells.state import Proposal, State
from dealfl.cells.storage import (
    DENSE_LIMIT,
    Cells,
    DenseCells,
    SparseCells,
    Storage,
    in_memory,
)

__all__ = [
    "DENSE_LIMIT",
    "Cells",
    "DenseCells",
    "Proposal",
    "SparseCells",
    "State",
    "Storage",
    "in_memory",
]
