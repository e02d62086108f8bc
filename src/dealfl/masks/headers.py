"""Headers of masked updates, requests to open their sums, and answers; each side's part in them."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from dealfl.masks.keys import Enrolment, Shared, derive, draw_nonce
from dealfl.masks.ring import Ring, Total
from dealfl.protocol import Header, MaskedUpdate, Open, Opened, Ready

_encode = msgspec.msgpack.Encoder().encode


class Scope(msgspec.Struct, frozen=True, array_like=True):
    """What the headers of one request have in common."""

    job: str
    epoch: str
    schema: str  # digest


def header_of(update: MaskedUpdate) -> Header:
    """Return the header of a masked update."""
    return Header(
        update.worker,
        update.incarnation,
        update.sequence,
        update.nonce,
        update.fresh,
        hashlib.sha256(update.delta).digest(),
        update.seal,
    )


def core_of(scope: Scope, header: Header) -> bytes:
    """Return the bytes from which the key of a mask is derived: all of a header but its hash.

    The hash is that of the masked bytes, so it exists only after the mask; the seal covers both.
    """
    fields = (header.worker, header.incarnation, header.sequence, header.nonce, header.fresh)
    return _encode(("dealfl header 1", scope, fields))


class Masker:
    """A worker's part: draws nonces, masks updates and seals their headers."""

    def __init__(self, enrolment: Enrolment, bits: int | None = None) -> None:
        self.name = enrolment.name
        self.bits = bits  # that every sum fits; None: those of the arrays
        self.key_name = enrolment.key_name
        self._shared = enrolment.shared
        # if a copy of the machine repeats its random bytes, other deltas have other nonces
        self._buffer = bytearray()  # of keystreams
        self._own = derive(bytes.fromhex(enrolment.private_key), "nonces")

    def draw_nonce(self, delta: bytes) -> bytes:
        """Return the nonce of an update that was made or changed."""
        return hmac.digest(self._own, secrets.token_bytes(16) + delta, "sha256")

    def mask(self, update: MaskedUpdate, ring: Ring, schema: str, vector: bytes) -> MaskedUpdate:
        """Return an update with its delta under the mask; the same update gives the same bytes."""
        scope = Scope(update.job, update.epoch, schema)
        core = core_of(scope, header_of(replace(update, delta=b"")))
        if len(self._buffer) < ring.size_bytes + 15:
            self._buffer = make_buffer(ring)
        keystream = self._shared.keystream(core, ring.zero, self._buffer)
        masked = ring.pack(ring.add(vector, keystream))
        seal = self._shared.seal_header(core, hashlib.sha256(masked).digest())
        return replace(update, delta=masked, seal=seal)


class BadHeader(msgspec.Struct, frozen=True, array_like=True):
    """A header that a keyholder refuses."""

    worker: str
    reason: str
    above: int = 0  # the worker must begin an incarnation above this one


class Answer(msgspec.Struct, frozen=True, array_like=True):
    """What a keyholder answers to a request: the sum of masks, or why it is refused."""

    masks: bytes = b""
    workers: int = 0  # with fresh examples
    refused: str = ""  # reason, as text for people
    code: str = ""  # of a refusal: "headers", "cohort", "ledger", "keyholder", "request"
    bad: tuple[BadHeader, ...] = ()
    retry_s: float | None = None  # when fewer workers would do; None: never


_ANSWER = msgspec.msgpack.Decoder(Answer)


def hash_request(request: Open) -> bytes:
    """Return the SHA-256 of a request."""
    return hashlib.sha256(_encode(replace(request, tag=b""))).digest()


class Asker:
    """The server's part: seals requests, and reads answers."""

    def __init__(self, enrolment: Enrolment) -> None:
        self.key_name = enrolment.key_name
        self._shared = enrolment.shared

    def seal(self, request: Open) -> Open:
        """Return a request with the tag that the keyholder checks."""
        return replace(request, tag=self._shared.tag(hash_request(request)))

    def read(self, opened: Opened) -> Answer | None:
        """Return an answer; None if the keyholder has not written it for this server."""
        content = self._shared.decrypt(opened.nonce, opened.sealed, opened.request)
        return None if content is None else _ANSWER.decode(content)

    def accepts(self, ready: Ready) -> bool:
        """Return whether the keyholder has sent a message."""
        return hmac.compare_digest(ready.tag, tag_ready(self._shared, ready))


def tag_ready(shared: Shared, ready: Ready) -> bytes:
    """Return what proves to the server that its keyholder is there."""
    return shared.tag(b"ready" + _encode(replace(ready, tag=b"")))


def accepts_request(shared: Shared, request: Open) -> bool:
    """Return whether the server has sent a request."""
    return hmac.compare_digest(request.tag, shared.tag(hash_request(request)))


def accepts_header(shared: Shared, scope: Scope, header: Header) -> bool:
    """Return whether a worker has made a header."""
    expected = shared.seal_header(core_of(scope, header), header.hash)
    return hmac.compare_digest(header.seal, expected)


def seal_answer(
    shared: Shared, request: Open, answer: Answer, nonce: bytes | None = None
) -> Opened:
    """Return an answer, encrypted for the server."""
    about = hash_request(request)
    nonce = nonce or draw_nonce()
    return Opened(
        job=request.job,
        worker=request.worker,
        request=about,
        nonce=nonce,
        sealed=shared.encrypt(nonce, _encode(answer), about),
    )


def sum_masks(
    ring: Ring,
    scope: Scope,
    plus: Iterable[tuple[Shared, Header]],
    minus: Iterable[tuple[Shared, Header]] = (),
) -> bytes:
    """Return the sum of the masks of some headers, less those of others."""
    total = Total(ring)
    buffer = make_buffer(ring)
    for shared, header in plus:
        total.add(shared.keystream(core_of(scope, header), ring.zero, buffer))
    for shared, header in minus:
        total.subtract(shared.keystream(core_of(scope, header), ring.zero, buffer))
    return total.vector()


def make_buffer(ring: Ring) -> bytearray:
    """Return a buffer for keystreams."""
    return bytearray(ring.size_bytes + 15)
