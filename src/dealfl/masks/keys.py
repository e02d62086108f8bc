"""Keys of masked sums: X25519 between a keyholder and each of its members, and HKDF for each use.

The keyholder's operator enrols a member by a file: the keyholder's public key and a private key of
the member, of which the keyholder keeps the public part. The file goes from person to person, never
over the server, the job or the broker.

From the secret that a keyholder and a member share, one key is derived for each use: masks,
headers, requests, answers. Nothing here is a primitive of our own.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from functools import cached_property
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from dealfl.errors import BadInput, MissingExtra
from dealfl.protocol import Name
from dealfl.storage import replace_file

WORKER, SERVER = "worker", "server"
_KEY_BYTES = 32
_NONCE_BYTES = 12
_VERSION = "dealfl masks 1"

HexKey = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]


def require_cryptography() -> None:
    """Raise `MissingExtra` if the package with the primitives is not installed."""
    try:
        import cryptography  # noqa: F401
    except ImportError as error:
        raise MissingExtra(
            "masked sums need the package cryptography: pip install 'dealfl[network]'"
        ) from error


def draw_private_key() -> bytes:
    """Return a new private key."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    return X25519PrivateKey.generate().private_bytes_raw()


def public_key(private: bytes) -> bytes:
    """Return the public key of a private one."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def name_key(public: bytes) -> str:
    """Return the name of a public key: the beginning of its SHA-256, as hexadecimal digits."""
    return hashlib.sha256(public).hexdigest()[:16]


def derive(secret: bytes, use: str, salt: bytes | None = None) -> bytes:
    """Return the key that a secret gives for one use."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    info = f"{_VERSION}: {use}".encode()
    return HKDF(hashes.SHA256(), _KEY_BYTES, salt=salt, info=info).derive(secret)


class Shared:
    """What a keyholder and one of its members share, seen from either side."""

    def __init__(self, private: bytes, other: bytes, keyholder: bytes) -> None:
        self._private = private  # one's own key
        self._other = other  # public key of the other side
        self._keyholder = keyholder  # public key

    @cached_property
    def _secret(self) -> bytes:
        from cryptography.hazmat.primitives.asymmetric import x25519

        own = x25519.X25519PrivateKey.from_private_bytes(self._private)
        return own.exchange(x25519.X25519PublicKey.from_public_bytes(self._other))

    def _derive(self, use: str) -> bytes:
        return derive(self._secret, use, salt=self._keyholder)

    @cached_property
    def _masks(self) -> bytes:
        return self._derive("masks")

    @cached_property
    def _headers(self) -> bytes:
        return self._derive("headers")

    @cached_property
    def _requests(self) -> bytes:
        return self._derive("requests")

    @cached_property
    def _answers(self) -> bytes:
        return self._derive("answers")

    def keystream(self, core: bytes, zeros: bytes, into: bytearray) -> memoryview:
        """Return the mask of a header, as many bytes as there are zeros: AES-256 in counter mode.

        Every header has a key of its own, so that the counter starts at 0. The mask is written into
        a buffer of at least 15 bytes more.
        """
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
        from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

        key = HKDFExpand(hashes.SHA256(), _KEY_BYTES, core).derive(self._masks)
        Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor().update_into(zeros, into)
        return memoryview(into)[: len(zeros)]

    def seal_header(self, core: bytes, content_hash: bytes) -> bytes:
        """Return what proves to the keyholder that the member made a header for these bytes."""
        return hmac.digest(self._headers, core + content_hash, "sha256")

    def tag(self, content: bytes) -> bytes:
        """Return what proves to the other side that a message comes from this one."""
        return hmac.digest(self._requests, content, "sha256")

    def encrypt(self, nonce: bytes, content: bytes, about: bytes) -> bytes:
        """Encrypt an answer for the server; `about` is the hash of its request."""
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        return AESGCM(self._answers).encrypt(nonce, content, about)

    def decrypt(self, nonce: bytes, sealed: bytes, about: bytes) -> bytes | None:
        """Return the content of an answer; None if the keyholder has not written it."""
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        try:
            return AESGCM(self._answers).decrypt(nonce, sealed, about)
        except (InvalidTag, ValueError):
            return None


def draw_nonce() -> bytes:
    """Return the nonce of an encrypted answer."""
    return secrets.token_bytes(_NONCE_BYTES)


class Enrolment(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a keyholder's operator hands to a worker or to the server, once, as a file."""

    name: Annotated[Name, Meta(description="name of the worker, or of the server")]
    role: Annotated[str, Meta(pattern=r"^(worker|server)\Z")]
    keyholder: Annotated[HexKey, Meta(description="public key of the keyholder")]
    private_key: HexKey
    format: Annotated[str, Meta(pattern=r"^dealfl enrolment 1\Z")] = "dealfl enrolment 1"

    @property
    def key_name(self) -> str:
        """Name of the keyholder's public key."""
        return name_key(bytes.fromhex(self.keyholder))

    @property
    def shared(self) -> Shared:
        """What this member shares with the keyholder."""
        keyholder = bytes.fromhex(self.keyholder)
        return Shared(bytes.fromhex(self.private_key), keyholder, keyholder)

    def write(self, path: Path) -> None:
        """Write the file; only its owner can read it."""
        if path.exists():
            raise BadInput(f"{path} exists; an enrolment is written once: choose another name")
        replace_file(path, [msgspec.json.format(msgspec.json.encode(self)) + b"\n"])

    @classmethod
    def read(cls, path: Path, role: str) -> Enrolment:
        """Read the file of a worker or the server."""
        require_cryptography()
        try:
            enrolment = msgspec.json.decode(path.read_bytes(), type=cls)
        except OSError as error:
            raise BadInput(
                f"enrolment {path} cannot be read ({error.strerror}); the keyholder's operator "
                "writes it with `dealfl keyholder enrol`"
            ) from error
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise BadInput(f"{path} is no enrolment of a keyholder ({error})") from error
        if enrolment.role != role:
            raise BadInput(
                f"enrolment {path} is for the {enrolment.role} {enrolment.name!r}; a {role} needs "
                "its own: `dealfl keyholder enrol`"
            )
        return enrolment
