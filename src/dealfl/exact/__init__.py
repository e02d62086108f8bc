"""Exact integers, from a float to canonical bytes: read this package first.

What a learner knows is integers only. Learning adds to them, forgetting subtracts, and both are
exact, so what is left after forgetting is equal, bit for bit, to what training on the remaining
examples gives. A digest of 64 characters shows it. This package has everything that makes it true:

`fixedpoint`  a float becomes an integer on a grid that is fixed before training
`integers`    vectors of such integers: 64 bits for counts, 96 bits for sums of products
`entries`     the canonical form of an array: its non-zeros by index, no trace of what was removed
`encoding`    one array as canonical bytes, and its digest, block by block
`statistics`  named arrays and their schema: they form a group, and have bytes and a digest
`state`       the integers of a live model: a change is applied to all arrays or to none
`paging`      the same in files, for models larger than memory
`seeded`      random integers that depend only on a seed
`work`        the cost of a call: operations, bytes, cycles
`machine`     the machines on which all this is true
`compiled`    which functions run as compiled loops (`loops`) instead of numpy

A worker learns two values and forgets one; what remains is what the other one alone gives:

>>> import numpy as np
>>> grid = FixedPoint.of(1, bound=2.0, fraction_bits=8)  # 128 points per unit
>>> schema = Schema("total", {"fraction_bits": 8}, (ArraySpec("sums", 1),))
>>> def learned(*values: float) -> Statistics:
...     points = grid.quantise(np.array(values).reshape(-1, 1))
...     return Statistics(schema, {"sums": Entries.of_dense(Integers(points.sum(axis=0)))})
>>> left = learned(0.5, 1.75) - learned(1.75)
>>> left["sums"].to_dict()
{0: 64}
>>> left.digest() == learned(0.5).digest()
True
>>> left.to_bytes() == learned(0.5).to_bytes(), Statistics.from_bytes(left.to_bytes()) == left
(True, True)
"""

from dealfl.exact.compiled import CHOICE, compile_loop, prefer_loops, twin
from dealfl.exact.encoding import BLOCK, block_hashes
from dealfl.exact.entries import ArraySpec, Entries
from dealfl.exact.fixedpoint import FixedPoint, bounds_from, require_finite
from dealfl.exact.integers import LOW_BITS, LOW_MASK, WORD_BYTES, Integers, unset
from dealfl.exact.machine import require_machine, short_float
from dealfl.exact.paging import PagedStorage, paged
from dealfl.exact.seeded import round_keys, seeded_bytes, seeded_sums, uniforms, words
from dealfl.exact.state import (
    DENSE_LIMIT,
    Cells,
    DenseCells,
    Proposal,
    SparseCells,
    State,
    Storage,
    in_memory,
)
from dealfl.exact.statistics import (
    MAX_ARRAYS,
    MAX_HEADER_BYTES,
    Deferred,
    Schema,
    Setting,
    Statistics,
)
from dealfl.exact.work import Cycles, LearnerCycles, Work

__all__ = [
    "BLOCK",
    "CHOICE",
    "DENSE_LIMIT",
    "LOW_BITS",
    "LOW_MASK",
    "MAX_ARRAYS",
    "MAX_HEADER_BYTES",
    "WORD_BYTES",
    "ArraySpec",
    "Cells",
    "Cycles",
    "Deferred",
    "DenseCells",
    "Entries",
    "FixedPoint",
    "Integers",
    "LearnerCycles",
    "PagedStorage",
    "Proposal",
    "Schema",
    "Setting",
    "SparseCells",
    "State",
    "Statistics",
    "Storage",
    "Work",
    "block_hashes",
    "bounds_from",
    "compile_loop",
    "in_memory",
    "paged",
    "prefer_loops",
    "require_finite",
    "round_keys",
    "seeded_bytes",
    "seeded_sums",
    "short_float",
    "twin",
    "uniforms",
    "unset",
    "words",
]

require_machine()
