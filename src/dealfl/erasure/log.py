"""The log of certificates: a file that only grows, with a signed head.

`log` contains the hash of every certificate, 32 bytes each. `head` is a signed note with the number
of entries and the root of their Merkle tree. `peaks` makes an entry cost the same in any log; it
is not waited for, since it follows from the others.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from functools import reduce
from pathlib import Path
from typing import Annotated, BinaryIO

import msgspec

from dealfl.erasure.head import Head, parse_note, read_head
from dealfl.erasure.merkle_tree import (
    Peaks,
    consistency_proof,
    inclusion_proof,
    is_consistent,
    is_included,
    leaf_hash,
    root_of,
)  # fmt: skip
from dealfl.erasure.signing import PublicKey, SigningKey
from dealfl.errors import BadBytes, BadInput
from dealfl.storage import make_folder, make_private, replace_file

__all__ = ["CertificateLog", "check_proof"]

_HASH_BYTES = 32
_PEAKS = msgspec.json.Decoder(tuple[int, tuple[bytes, ...]])


class _Proof(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What shows that a certificate is in a log, and that the log only grew since a head."""

    index: Annotated[int, msgspec.Meta(ge=0)]
    inclusion: Annotated[tuple[bytes, ...], msgspec.Meta(max_length=64)]
    consistency: Annotated[tuple[bytes, ...], msgspec.Meta(max_length=128)] = ()
    head: str


def check_proof(
    proof: bytes, certificate: bytes, keys: Mapping[str, PublicKey], since: Head | None = None
) -> tuple[int, Head]:
    """Return the number of a certificate's entry, if a proof shows that it is in a log.

    Parameters
    ----------
    proof : bytes
        Result of `CertificateLog.prove`.
    certificate : bytes
        Content of the certificate.
    keys : mapping of str to PublicKey
        Trusted keys by id.
    since : Head or None
        Earlier head of the log; the proof must show that the log only grew since then.

    Returns
    -------
    tuple of int and Head
        Number of the entry, from 0, and the signed head.

    Raises
    ------
    BadBytes
        If the proof does not show it.
    """
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
    """The log in a folder.

    Parameters
    ----------
    folder : Path
        The folder; it is created with the first entry.
    origin : str
        Name of the log, without spaces.
    """

    def __init__(self, folder: Path, origin: str) -> None:
        self.folder, self.origin = folder, origin
        self._log, self._head, self._peaks = folder / "log", folder / "head", folder / "peaks"

    def append(self, certificate: bytes, key: SigningKey) -> int:
        """Add a certificate, and sign the new head.

        An entry that was written without a head, because of a crash, is overwritten.

        Parameters
        ----------
        certificate : bytes
            Content of the certificate.
        key : SigningKey
            Key of the log.

        Returns
        -------
        int
            Number of the entry, from 0.
        """
        if not self.folder.is_dir():
            make_folder(self.folder)
        leaf = leaf_hash(certificate)
        with os.fdopen(os.open(self._log, os.O_RDWR | os.O_CREAT, 0o600), "r+b") as file:
            peaks = self._read_peaks(file)
            file.truncate(peaks.size * _HASH_BYTES)
            file.seek(0, os.SEEK_END)
            file.write(leaf)
            file.flush()
            os.fsync(file.fileno())
        after = peaks.append(leaf)
        replace_file(self._head, Head(self.origin, after.size, after.root).sign(key))
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
        with suppress(OSError, msgspec.MsgspecError):
            peaks = Peaks(*_PEAKS.decode(self._peaks.read_bytes()))
            whole = length >= head.size * _HASH_BYTES
            if whole and (peaks.size, peaks.root) == (head.size, head.root):
                return peaks
        log.seek(0)
        leaves = [log.read(_HASH_BYTES) for _ in range(head.size)]
        if root_of(leaves) != head.root:
            raise BadBytes(f"{self._log} is not what its head says; restore a backup of it")
        return reduce(Peaks.append, leaves, Peaks())

    def verify(self, certificate: bytes, keys: Mapping[str, PublicKey]) -> tuple[int, Head]:
        """Return the number of a certificate's entry, and the head that covers it.

        Parameters
        ----------
        certificate : bytes
            Content of the certificate.
        keys : mapping of str to PublicKey
            Trusted keys by id.

        Returns
        -------
        tuple of int and Head
            Number of the entry, from 0, and the signed head.

        Raises
        ------
        BadBytes
            If the log was changed, or does not contain the certificate.
        """
        leaves, head, _ = self._read(keys)
        return self._find(certificate, leaves), head

    def prove(
        self, certificate: bytes, keys: Mapping[str, PublicKey], since: Head | None = None
    ) -> bytes:
        """Return a proof that a certificate is in the log, for who does not have the log.

        Parameters
        ----------
        certificate : bytes
            Content of the certificate.
        keys : mapping of str to PublicKey
            Trusted keys by id.
        since : Head or None
            Earlier head; the proof then also shows that the log only grew since then.

        Returns
        -------
        bytes
            JSON, for `check_proof`.
        """
        leaves, head, note = self._read(keys)
        index = self._find(certificate, leaves)
        grown = () if since is None else consistency_proof(leaves, min(since.size, head.size))
        inclusion = tuple(inclusion_proof(leaves, index))
        made = _Proof(index=index, inclusion=inclusion, consistency=tuple(grown), head=note)
        return msgspec.json.encode(made)

    def _read(self, keys: Mapping[str, PublicKey]) -> tuple[list[bytes], Head, str]:
        try:
            content, note = self._log.read_bytes(), self._head.read_text("utf-8")
        except OSError as error:
            raise BadInput(f"{self.folder} has no log: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise BadBytes("the head of the log is not a signed note") from error
        head = read_head(note, keys)
        places = range(0, head.size * _HASH_BYTES, _HASH_BYTES)
        leaves = [content[place : place + _HASH_BYTES] for place in places]
        unsigned = len(content) - head.size * _HASH_BYTES  # of a crash before the head was written
        if unsigned < 0 or unsigned % _HASH_BYTES or root_of(leaves) != head.root:
            raise BadBytes(f"{self._log} was changed: its root is not that of its signed head")
        return leaves, head, note

    def _find(self, certificate: bytes, leaves: list[bytes]) -> int:
        leaf = leaf_hash(certificate)
        if leaf not in leaves:
            raise BadBytes("the certificate is not in the log")
        return leaves.index(leaf)
