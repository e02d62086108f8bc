"""The signed head of a log, as a note: its name, its size and the root of its Merkle tree."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from dealfl.erasure.signing import PublicKey, SigningKey
from dealfl.errors import BadBytes

__all__ = ["Head", "parse_note", "read_head"]

_ED25519 = b"\x01"  # the kind of signature, in the hash of a note's key


@dataclass(frozen=True, slots=True)
class Head:
    """The signed state of a log.

    Parameters
    ----------
    origin : str
        Name of the log.
    size : int
        Number of entries.
    root : bytes
        Root of the Merkle tree.
    """

    origin: str
    size: int
    root: bytes

    def sign(self, key: SigningKey) -> str:
        """Return the head as a signed note.

        Parameters
        ----------
        key : SigningKey
            Key of the log.

        Returns
        -------
        str
            The text of the note, an empty line, and the signature.
        """
        text = f"{self.origin}\n{self.size}\n{base64.b64encode(self.root).decode()}\n"
        signed = _note_key(self.origin, key.public) + key.sign(text.encode())
        return f"{text}\n— {self.origin} {base64.b64encode(signed).decode()}\n"


def _note_key(name: str, key: PublicKey) -> bytes:
    """Return the four bytes that stand for a key in a signed note."""
    return hashlib.sha256(name.encode() + b"\n" + _ED25519 + key.raw).digest()[:4]


def read_head(note: str, keys: Mapping[str, PublicKey]) -> Head:
    """Return a head, if a trusted key has signed it.

    Parameters
    ----------
    note : str
        Content of the file `head`.
    keys : mapping of str to PublicKey
        Trusted keys by id.

    Returns
    -------
    Head
        The head.

    Raises
    ------
    BadBytes
        If the note was changed, or no trusted key has signed it.
    """
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
    return text, head, base64.b64decode(signed, validate=True)
