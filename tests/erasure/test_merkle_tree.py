"""The Merkle tree of a log: roots by definition, every proof, and no other."""

import hashlib

import pytest

from dealfl.erasure.log import (
    Peaks,
    consistency_proof,
    inclusion_proof,
    is_consistent,
    is_included,
    leaf_hash,
    root_of,
)

LEAVES = [leaf_hash(bytes([number])) for number in range(20)]
SIZES = range(1, len(LEAVES) + 1)


def by_definition(entries: list[bytes]) -> bytes:
    """Return the root as RFC 6962 defines it, from the entries."""
    if len(entries) == 1:
        return hashlib.sha256(b"\0" + entries[0]).digest()
    split = next(2**n for n in range(9, -1, -1) if 2**n < len(entries))
    left, right = by_definition(entries[:split]), by_definition(entries[split:])
    return hashlib.sha256(b"\1" + left + right).digest()


def test_roots_are_those_of_the_definition() -> None:
    peaks = Peaks()
    for size in SIZES:
        peaks = peaks.append(LEAVES[size - 1])
        expected = by_definition([bytes([number]) for number in range(size)])
        assert root_of(LEAVES[:size]) == expected == peaks.root
    assert root_of([]) == hashlib.sha256(b"").digest() == Peaks().root


@pytest.mark.parametrize("size", SIZES)
def test_a_proof_of_inclusion_holds_for_its_entry_only(size: int) -> None:
    root = root_of(LEAVES[:size])
    for index in range(size):
        proof = inclusion_proof(LEAVES[:size], index)
        assert is_included(LEAVES[index], index, size, proof, root)
        assert not is_included(leaf_hash(b"other"), index, size, proof, root)
        others = [
            (i, s) for i in range(-1, size + 2) for s in (size, size + 1) if (i, s) != (index, size)
        ]
        accepted = [one for one in others if is_included(LEAVES[index], *one, proof, root)]
        assert not [one for one in accepted if one[1] == size]
        assert not is_included(LEAVES[index], index, size, [*proof, root], root)
        for place in range(len(proof)):
            wrong = [*proof[:place], bytes(32), *proof[place + 1 :]]
            assert not is_included(LEAVES[index], index, size, wrong, root)
            assert not is_included(LEAVES[index], index, size, proof[:place], root)


@pytest.mark.parametrize("size", SIZES)
def test_a_proof_of_consistency_holds_for_its_two_states_only(size: int) -> None:
    root = root_of(LEAVES[:size])
    for earlier in range(1, size + 1):
        proof, before = consistency_proof(LEAVES[:size], earlier), root_of(LEAVES[:earlier])
        assert is_consistent(earlier, before, size, root, proof)
        assert not is_consistent(earlier, bytes(32), size, root, proof)
        assert not is_consistent(earlier, before, size, bytes(32), proof)
        assert not is_consistent(0, before, size, root, proof)
        assert not is_consistent(size + 1, before, size, root, proof)
        for place in range(len(proof)):
            wrong = [*proof[:place], bytes(32), *proof[place + 1 :]]
            assert not is_consistent(earlier, before, size, root, wrong)
            assert not is_consistent(earlier, before, size, root, proof[:place])
