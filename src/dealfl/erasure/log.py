"""The log of certificates: a Merkle tree (RFC 9162) in a file that only grows, with a signed head.

`log` contains the hash of every certificate, 32 bytes each. `head` is a signed note with the number
of entries and the root of their Merkle tree. `peaks` makes an entry cost the same in any log; it
is not waited for, since it follows from the others. A proof of inclusion shows that an entry is in
a log; a proof of consistency shows that a later log only added to an earlier one.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Annotated, BinaryIO

import msgspec

from dealfl.erasure.signing import PublicKey, SigningKey
from dealfl.errors import BadBytes, BadInput
from dealfl.storage import make_folder, make_private, refused_write, replace_file

_ED25519 = b"\x01"  # the kind of signature, in the hash of a note's key
_HASH_BYTES = 32
_PEAKS = msgspec.json.Decoder(tuple[int, tuple[bytes, ...]])


# -- the Merkle tree ----------------------------------------------------------------------------


def leaf_hash(entry: bytes) -> bytes:
    """Return the hash of an entry of the log."""
    return hashlib.sha256(b"\0" + entry).digest()


def _node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\1" + left + right).digest()


def _split(count: int) -> int:
    """Return the largest power of two below a number of leaves."""
    return 1 << (count - 1).bit_length() - 1


def root_of(leaves: Sequence[bytes]) -> bytes:
    """Return the root of the tree over some leaves.

    Examples
    --------
    >>> root_of([]).hex()[:8]
    'e3b0c442'
    """
    if not leaves:
        return hashlib.sha256(b"").digest()
    level = list(leaves)
    while len(level) > 1:  # an unpaired node rises, as in the recursive definition
        pairs = [_node(*level[start : start + 2]) for start in range(0, len(level) - 1, 2)]
        level = pairs + level[len(pairs) * 2 :]
    return level[0]


@dataclass(frozen=True, slots=True)
class Peaks:
    """The roots of the complete trees that make up a log, largest first.

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
        """Return the peaks of the log with one more entry."""
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
        return reduce(lambda right, left: _node(left, right), reversed(self.hashes))


def inclusion_proof(leaves: Sequence[bytes], index: int) -> list[bytes]:
    """Return the hashes that lead from a leaf to the root."""
    if len(leaves) <= 1:
        return []
    split = _split(len(leaves))
    if index < split:
        return [*inclusion_proof(leaves[:split], index), root_of(leaves[split:])]
    return [*inclusion_proof(leaves[split:], index - split), root_of(leaves[:split])]


def is_included(leaf: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes) -> bool:
    """Return whether a proof shows that a leaf is in the tree with this root."""
    if not 0 <= index < size:
        return False
    sides = _sides(index, size - 1)
    if len(sides) != len(proof):
        return False
    for is_left, step in zip(sides, proof, strict=True):
        leaf = _node(step, leaf) if is_left else _node(leaf, step)
    return leaf == root


def _sides(node: int, last: int) -> list[bool]:
    """Return for each step from a node to the root whether its sibling is on the left."""
    sides = []
    while last:
        is_left = bool(node & 1) or node == last
        while is_left and not node & 1 and node:  # an unpaired node rises
            node >>= 1
            last >>= 1
        sides.append(is_left)
        node >>= 1
        last >>= 1
    return sides


def consistency_proof(
    leaves: Sequence[bytes], earlier: int, *, is_root_known: bool = True
) -> list[bytes]:
    """Return the hashes that show that a log only added to an earlier state."""
    if earlier == len(leaves):
        return [] if is_root_known else [root_of(leaves)]
    split = _split(len(leaves))
    if earlier <= split:
        inner = consistency_proof(leaves[:split], earlier, is_root_known=is_root_known)
        return [*inner, root_of(leaves[split:])]
    inner = consistency_proof(leaves[split:], earlier - split, is_root_known=False)
    return [*inner, root_of(leaves[:split])]


def is_consistent(
    earlier: int, earlier_root: bytes, size: int, root: bytes, proof: Sequence[bytes]
) -> bool:
    """Return whether a proof shows that a tree only added to an earlier one."""
    if not 0 < earlier <= size:
        return False
    if earlier == size:
        return not proof and earlier_root == root
    path = [earlier_root, *proof] if earlier & (earlier - 1) == 0 else list(proof)
    node = earlier - 1
    last = size - 1
    while node & 1:
        node >>= 1
        last >>= 1
    sides = _sides(node, last)
    if len(path) != len(sides) + 1:
        return False
    before = after = path[0]
    for is_left, step in zip(sides, path[1:], strict=True):
        before = _node(step, before) if is_left else before
        after = _node(step, after) if is_left else _node(after, step)
    return before == earlier_root and after == root


# -- the signed head ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Head:
    """The signed state of a log."""

    origin: str
    size: int
    root: bytes

    def sign(self, key: SigningKey) -> str:
        """Return the head as a signed note."""
        text = f"{self.origin}\n{self.size}\n{base64.b64encode(self.root).decode()}\n"
        signed = _note_key(self.origin, key.public) + key.sign(text.encode())
        return f"{text}\n— {self.origin} {base64.b64encode(signed).decode()}\n"


def _note_key(name: str, key: PublicKey) -> bytes:
    """Return the four bytes that stand for a key in a signed note."""
    return hashlib.sha256(name.encode() + b"\n" + _ED25519 + key.raw).digest()[:4]


def read_head(note: str, keys: Mapping[str, PublicKey]) -> Head:
    """Return a head, if a trusted key has signed it."""
    try:
        text, head, content = parse_note(note)
    except ValueError as error:
        raise BadBytes("the head of the log is not a signed note") from error
    for key in keys.values():
        body = f"{text}\n".encode()
        if content[:4] == _note_key(head.origin, key) and key.verifies(content[4:], body):
            if note == f"{text}\n\n— {head.origin} {base64.b64encode(content).decode()}\n":
                return head
            raise BadBytes("the signature line of the log's head was changed")
    raise BadBytes("no trusted key has signed the head of the log, or the head was changed")


def parse_note(note: str) -> tuple[str, Head, bytes]:
    """Return the text of a signed note, the head in it, and the signature; nothing is verified."""
    text, signature = note.split("\n\n")
    origin, size, root = text.split("\n")
    _, _, signed = signature.removesuffix("\n").split(" ")
    head = Head(origin, int(size), base64.b64decode(root, validate=True))
    return text, head, base64.b64decode(signed)  # `read_head` compares its spelling


# -- the log ------------------------------------------------------------------------------------


class _Proof(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What shows that a certificate is in a log, and that the log only grew since a head."""

    index: Annotated[int, msgspec.Meta(ge=0)]
    inclusion: Annotated[tuple[bytes, ...], msgspec.Meta(max_length=64)]
    consistency: Annotated[tuple[bytes, ...], msgspec.Meta(max_length=128)] = ()
    head: str


def check_proof(
    proof: bytes, certificate: bytes, keys: Mapping[str, PublicKey], since: Head | None
) -> tuple[int, Head]:
    """Return the number of a certificate's entry, if a proof shows that it is in a log."""
    try:
        shown = msgspec.json.decode(proof, type=_Proof)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadBytes(f"the proof cannot be read: {error}") from error
    if msgspec.json.encode(shown) != proof:
        raise BadBytes("the proof was changed: it is not in canonical form")
    head = read_head(shown.head, keys)
    leaf = leaf_hash(certificate)
    if not is_included(leaf, shown.index, head.size, shown.inclusion, head.root):
        raise BadBytes("the proof does not show that the certificate is in the log")
    if since is not None and not is_consistent(
        since.size, since.root, head.size, head.root, shown.consistency
    ):
        raise BadBytes("the proof does not show that the log only grew since the earlier head")
    return shown.index, head


class CertificateLog:
    """The log in a folder."""

    def __init__(self, folder: Path, origin: str) -> None:
        self.folder = folder
        self.origin = origin
        self._log = folder / "log"
        self._head = folder / "head"
        self._peaks = folder / "peaks"

    def append(self, certificate: bytes, key: SigningKey) -> int:
        """Add a certificate, and sign the new head.

        An entry that was written without a head, because of a crash, is overwritten.
        """
        if not self.folder.is_dir():
            make_folder(self.folder)
        leaf = leaf_hash(certificate)
        try:
            with os.fdopen(os.open(self._log, os.O_RDWR | os.O_CREAT, 0o600), "r+b") as file:
                peaks = self._read_peaks(file)
                file.truncate(peaks.size * _HASH_BYTES)
                file.seek(0, os.SEEK_END)
                file.write(leaf)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise refused_write(self._log, error) from error
        after = peaks.append(leaf)
        replace_file(self._head, Head(self.origin, after.size, after.root).sign(key))
        with suppress(OSError):  # the next entry then computes them from the log
            make_private(self._peaks)
            self._peaks.write_bytes(msgspec.json.encode((after.size, after.hashes)))
        return peaks.size

    def _read_peaks(self, log: BinaryIO) -> Peaks:
        """Return the peaks of the head; those that a crash lost are computed from the log."""
        length = log.seek(0, os.SEEK_END)
        if not self._head.exists() and length <= _HASH_BYTES:
            return Peaks()  # at most the first entry of a crash
        try:
            head = parse_note(self._head.read_text("utf-8"))[1]
        except (OSError, ValueError) as error:
            raise BadBytes(f"{self._head} is damaged; restore a backup of the log") from error
        is_whole = 0 <= head.size * _HASH_BYTES <= length
        with suppress(OSError, msgspec.MsgspecError):
            peaks = Peaks(*_PEAKS.decode(self._peaks.read_bytes()))
            if is_whole and (peaks.size, peaks.root) == (head.size, head.root):
                return peaks
        log.seek(0)
        leaves = [log.read(_HASH_BYTES) for _ in range(head.size)] if is_whole else []
        if not is_whole or root_of(leaves) != head.root:
            raise BadBytes(f"{self._log} is not what its head says; restore a backup of it")
        return reduce(Peaks.append, leaves, Peaks())

    @property
    def size(self) -> int:
        """Number of entries of which head and file know; nothing is verified."""
        try:
            head = parse_note(self._head.read_text("utf-8"))[1]
            return min(head.size, self._log.stat().st_size // _HASH_BYTES)
        except (OSError, ValueError):
            return 0

    def last(self) -> tuple[int, bytes] | None:
        """Return number and hash of the last entry that the head covers; None if there is none."""
        if not self._log.exists():
            return None
        with self._log.open("rb") as file:
            size = self._read_peaks(file).size
            file.seek((size - 1) * _HASH_BYTES if size else 0)
            return (size - 1, file.read(_HASH_BYTES)) if size else None

    def verify(
        self, certificate: bytes, keys: Mapping[str, PublicKey], wanted: int = 0
    ) -> tuple[int, Head]:
        """Return the number of a certificate's entry, and the head that covers it.

        Equal certificates have several entries: the wanted one, if it is one of them.
        """
        leaves, head, _ = self._read(keys)
        if leaves[wanted : wanted + 1] == [leaf_hash(certificate)]:
            return wanted, head
        return self._find(certificate, leaves), head

    def prove(
        self, certificate: bytes, keys: Mapping[str, PublicKey], since: Head | None = None
    ) -> bytes:
        """Return a proof that a certificate is in the log, for who does not have the log."""
        leaves, head, note = self._read(keys)
        index = self._find(certificate, leaves)
        grown = () if since is None else consistency_proof(leaves, min(since.size, head.size))
        inclusion = tuple(inclusion_proof(leaves, index))
        made = _Proof(index=index, inclusion=inclusion, consistency=tuple(grown), head=note)
        return msgspec.json.encode(made)

    def _read(self, keys: Mapping[str, PublicKey]) -> tuple[list[bytes], Head, str]:
        try:
            note = self._head.read_text("utf-8")  # first: another process may add an entry
            content = self._log.read_bytes()
        except OSError as error:
            raise BadInput(f"{self.folder} has no log: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise BadBytes("the head of the log is not a signed note") from error
        head = read_head(note, keys)
        signed_bytes = head.size * _HASH_BYTES
        starts = range(0, signed_bytes, _HASH_BYTES)
        leaves = [content[start : start + _HASH_BYTES] for start in starts]
        unsigned = len(content) - signed_bytes  # of a crash before the head was written
        if unsigned < 0 or unsigned % _HASH_BYTES or root_of(leaves) != head.root:
            raise BadBytes(f"{self._log} was changed: its root is not that of its signed head")
        return leaves, head, note

    def _find(self, certificate: bytes, leaves: list[bytes]) -> int:
        leaf = leaf_hash(certificate)
        if leaf not in leaves:
            raise BadBytes("the certificate is not in the log")
        return leaves.index(leaf)
