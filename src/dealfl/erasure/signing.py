"""Signing keys (Ed25519): created, rotated, and found again by their ids.

A folder holds `signing.key`, which only its owner can read, and in `keys/` the public key of every
key that was ever used, so that what a rotated key has signed stays verifiable.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dealfl.errors import BadBytes, BadInput, unreadable
from dealfl.storage import make_folder, refused_write, replace_file

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


_PRIVATE = "signing.key"
_SIGNED = "head"  # of a log
_PUBLIC = "keys"
_PUBLIC_PREFIX = bytes.fromhex("302a300506032b6570032100")  # of an Ed25519 key, in DER


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A key that verifies signatures."""

    raw: bytes

    @property
    def id(self) -> str:
        """Name of the key: the beginning of its SHA-256, as hexadecimal digits."""
        return hashlib.sha256(self.raw).hexdigest()[:16]

    def verifies(self, signature: bytes, message: bytes) -> bool:
        """Return whether the owner of this key signed a message."""
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        try:
            Ed25519PublicKey.from_public_bytes(self.raw).verify(signature, message)
        except InvalidSignature:
            return False
        return True

    def pem(self) -> bytes:
        """Return the key in the format that other tools read."""
        body = base64.b64encode(_PUBLIC_PREFIX + self.raw)
        return b"-----BEGIN PUBLIC KEY-----\n%b\n-----END PUBLIC KEY-----\n" % body


class SigningKey:
    """A private key."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self.public = PublicKey(key.public_key().public_bytes_raw())

    def sign(self, message: bytes) -> bytes:
        """Return the signature of a message."""
        return self._key.sign(message)


def open_signing_key(folder: Path) -> SigningKey:
    """Return the signing key in a folder; the first call creates it.

    A key that signed a log is not replaced without a word if it is lost.
    """
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    path = folder / _PRIVATE
    if not path.exists() and not path.is_symlink():
        if (folder / _SIGNED).exists():
            raise BadBytes(
                f"{path} is missing; restore a backup of it, "
                "or create a new one with `dealfl erasures rotate-key`"
            )
        return rotate_signing_key(folder)
    try:
        key = load_pem_private_key(path.read_bytes(), None)
    except OSError as error:
        raise unreadable(path, error, "restore a backup of it") from error
    except (ValueError, TypeError) as error:
        raise BadBytes(f"{path} is not a signing key; restore a backup of it") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise BadBytes(f"{path} is not an Ed25519 key; restore a backup of it")
    return SigningKey(key)


def rotate_signing_key(folder: Path) -> SigningKey:
    """Create a new signing key in a folder; public keys of earlier ones stay."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
    )

    try:
        make_folder(folder / _PUBLIC)
    except OSError as error:
        raise refused_write(folder / _PUBLIC, error) from error
    key = Ed25519PrivateKey.generate()
    made = SigningKey(key)
    replace_file(folder / _PUBLIC / f"{made.public.id}.pem", made.public.pem())
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    replace_file(folder / _PRIVATE, pem)
    return made


def load_keys(path: Path) -> dict[str, PublicKey]:
    """Return public keys by id."""
    files = sorted((path / _PUBLIC).glob("*.pem")) if path.is_dir() else [path]
    keys = [_load_public(file) for file in files]
    if not keys:
        raise BadInput(f"{path} has no public keys; give a .pem file or the folder of a log")
    return {key.id: key for key in keys}


def _load_public(path: Path) -> PublicKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        key = load_pem_public_key(path.read_bytes())
    except OSError as error:
        raise BadInput(f"{path} cannot be read ({error.strerror}); give a public key") from error
    except ValueError as error:
        raise BadBytes(f"{path} is not a public key in PEM format") from error
    if not isinstance(key, Ed25519PublicKey):
        raise BadBytes(f"{path} is not an Ed25519 key")
    return PublicKey(key.public_bytes_raw())
