"""Vectors of exact signed integers, and their sparse canonical form.

Counts fit 64 bits. Sums of products of 30-bit numbers do not. They are *wide*: stored as
high·2^32 + low with 0 ≤ low < 2^32, so that numpy adds whole vectors at a time.
"""

from dealfl.integers.entries import Entries
from dealfl.integers.vectors import WORD_BYTES, Integers

__all__ = ["WORD_BYTES", "Entries", "Integers"]
