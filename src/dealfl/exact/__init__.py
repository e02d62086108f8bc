"""Exact integers, from vectors to canonical bytes: what every learner's state is made of."""

from dealfl.exact.cells import DENSE_LIMIT, Cells, DenseCells, SparseCells, Storage, in_memory
from dealfl.exact.compiled import CHOICE, compile_loop, is_compiled, prefer_loops, twin
from dealfl.exact.digests import BLOCK, block_hashes
from dealfl.exact.encoding import MAX_ARRAYS, MAX_HEADER_BYTES
from dealfl.exact.entries import Entries
from dealfl.exact.fixedpoint import FixedPoint, bounds_from, require_finite
from dealfl.exact.integers import LOW_BITS, LOW_MASK, WORD_BYTES, Integers, checked_sum, unset
from dealfl.exact.schema import ArraySpec, Schema, Setting
from dealfl.exact.seeded import round_keys, seeded_bytes, seeded_sums, uniforms, words
from dealfl.exact.state import Proposal, State
from dealfl.exact.statistics import Deferred, Statistics
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
    "checked_sum",
    "compile_loop",
    "in_memory",
    "is_compiled",
    "prefer_loops",
    "require_finite",
    "round_keys",
    "seeded_bytes",
    "seeded_sums",
    "twin",
    "uniforms",
    "unset",
    "words",
]
