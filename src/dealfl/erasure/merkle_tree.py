"""The Merkle tree of a log (RFC 9162): roots, proofs of inclusion and of consistency.

A proof of inclusion shows that an entry is in a log; a proof of consistency shows that a later log
only added to an earlier one. `Peaks` append without reading the log.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

__all__ = [
    "Peaks", "consistency_proof", "inclusion_proof", "is_consistent", "is_included", "leaf_hash",
    "root_of",
]  # fmt: skip


def leaf_hash(entry: bytes) -> bytes:
    """Return the hash of an entry of the log.

    Parameters
    ----------
    entry : bytes
        The entry.

    Returns
    -------
    bytes
        32 bytes.
    """
    return hashlib.sha256(b"\0" + entry).digest()


def _node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\1" + left + right).digest()


def _split(count: int) -> int:
    """Return the largest power of two below a number of leaves."""
    return 1 << (count - 1).bit_length() - 1


def root_of(leaves: Sequence[bytes]) -> bytes:
    """Return the root of the tree over some leaves.

    Parameters
    ----------
    leaves : sequence of bytes
        Hashes of all entries, in order.

    Returns
    -------
    bytes
        32 bytes; of an empty log, the hash of nothing.

    Examples
    --------
    >>> root_of([]).hex()[:8]
    'e3b0c442'
    """
    if not leaves:
        return hashlib.sha256(b"").digest()
    level = list(leaves)
    while len(level) > 1:  # an unpaired node rises, as in the recursive definition
        pairs = [_node(*level[place : place + 2]) for place in range(0, len(level) - 1, 2)]
        level = pairs + level[len(pairs) * 2 :]
    return level[0]


@dataclass(frozen=True, slots=True)
class Peaks:
    """The roots of the complete trees that make up a log, largest first.

    Parameters
    ----------
    size : int
        Number of entries.
    hashes : tuple of bytes
        One root for each 1 in the binary form of `size`.

    Examples
    --------
    >>> leaves = [leaf_hash(bytes([n])) for n in range(7)]
    >>> peaks = Peaks()
    >>> for leaf in leaves:
    ...     peaks = peaks.append(leaf)
    >>> peaks.root == root_of(leaves)
    True
    """

    size: int = 0
    hashes: tuple[bytes, ...] = ()

    def append(self, leaf: bytes) -> Peaks:
        """Return the peaks of the log with one more entry.

        Parameters
        ----------
        leaf : bytes
            Hash of the entry.

        Returns
        -------
        Peaks
            The new peaks.
        """
        hashes, size = [*self.hashes, leaf], self.size
        while size & 1:
            right, left = hashes.pop(), hashes.pop()
            hashes.append(_node(left, right))
            size >>= 1
        return Peaks(self.size + 1, tuple(hashes))

    @property
    def root(self) -> bytes:
        """The root of the whole tree."""
        if not self.hashes:
            return root_of(())
        return list(accumulate(reversed(self.hashes), lambda right, left: _node(left, right)))[-1]


def inclusion_proof(leaves: Sequence[bytes], index: int) -> list[bytes]:
    """Return the hashes that lead from a leaf to the root.

    Parameters
    ----------
    leaves : sequence of bytes
        Hashes of all entries.
    index : int
        Number of the entry, from 0.

    Returns
    -------
    list of bytes
        Hashes from the leaf's neighbour upwards.
    """
    if len(leaves) <= 1:
        return []
    split = _split(len(leaves))
    if index < split:
        return [*inclusion_proof(leaves[:split], index), root_of(leaves[split:])]
    return [*inclusion_proof(leaves[split:], index - split), root_of(leaves[:split])]


def is_included(leaf: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes) -> bool:
    """Return whether a proof shows that a leaf is in the tree with this root.

    Parameters
    ----------
    leaf : bytes
        Hash of the entry.
    index, size : int
        Number of the entry, from 0, and number of entries in the tree.
    proof : sequence of bytes
        Result of `inclusion_proof`.
    root : bytes
        Root of the tree.

    Returns
    -------
    bool
        Whether the proof is valid.
    """
    sides = _sides(index, size - 1) if 0 <= index < size else None
    if sides is None or len(sides) != len(proof):
        return False
    for is_left, step in zip(sides, proof, strict=True):
        leaf = _node(step, leaf) if is_left else _node(leaf, step)
    return leaf == root


def _sides(place: int, last: int) -> list[bool]:
    """Return for each step from a node to the root whether its sibling is on the left."""
    sides = []
    while last:
        is_left = bool(place & 1) or place == last
        while is_left and not place & 1 and place:  # an unpaired node rises
            place, last = place >> 1, last >> 1
        sides.append(is_left)
        place, last = place >> 1, last >> 1
    return sides


def consistency_proof(leaves: Sequence[bytes], earlier: int) -> list[bytes]:
    """Return the hashes that show that a log only added to an earlier state.

    Parameters
    ----------
    leaves : sequence of bytes
        Hashes of all entries now.
    earlier : int
        Number of entries of the earlier state, from 1 to the present number.

    Returns
    -------
    list of bytes
        The proof; empty if nothing was added.
    """
    return _consistency(leaves, earlier, whole=True)


def _consistency(leaves: Sequence[bytes], earlier: int, *, whole: bool) -> list[bytes]:
    if earlier == len(leaves):
        return [] if whole else [root_of(leaves)]
    split = _split(len(leaves))
    if earlier <= split:
        inner = _consistency(leaves[:split], earlier, whole=whole)
        return [*inner, root_of(leaves[split:])]
    inner = _consistency(leaves[split:], earlier - split, whole=False)
    return [*inner, root_of(leaves[:split])]


def is_consistent(
    earlier: int, earlier_root: bytes, size: int, root: bytes, proof: Sequence[bytes]
) -> bool:
    """Return whether a proof shows that a tree only added to an earlier one.

    Parameters
    ----------
    earlier, size : int
        Number of entries, before and now.
    earlier_root, root : bytes
        Roots of both trees.
    proof : sequence of bytes
        Result of `consistency_proof`.

    Returns
    -------
    bool
        Whether the proof is valid.
    """
    if not 0 < earlier <= size:
        return False
    if earlier == size:
        return not proof and earlier_root == root
    path = [earlier_root, *proof] if earlier & (earlier - 1) == 0 else list(proof)
    place, last = earlier - 1, size - 1
    while place & 1:
        place, last = place >> 1, last >> 1
    sides = _sides(place, last)
    if len(path) != len(sides) + 1:
        return False
    before = after = path[0]
    for is_left, step in zip(sides, path[1:], strict=True):
        before = _node(step, before) if is_left else before
        after = _node(step, after) if is_left else _node(after, step)
    return before == earlier_root and after == root
