"""Certificates of erasure: in-toto statements in DSSE envelopes, signed with Ed25519.

A certificate names versions by digest and persons by salted commitments. It contains no personal
data: only who knows a name and the salt of its commitment can tell that it is about that person.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from dealfl.erasure.log import CertificateLog, Head, check_proof, leaf_hash, read_head
from dealfl.erasure.requests import commit_to
from dealfl.erasure.signing import PublicKey, SigningKey, load_keys, open_signing_key
from dealfl.errors import BadBytes, BadInput, unreadable
from dealfl.storage import lock_file, replace_file, synchronize

_PAYLOAD = "application/vnd.in-toto+json"
_STATEMENT = "https://in-toto.io/Statement/v1"
_PREDICATE = "urn:dealfl:erasure:v1"
MAX_BYTES = 8_192  # more than the longest texts take
_PENDING = "pending"  # a certificate until the log has its entry
_LOCK_WAIT_S = 60.0  # for others that certify at the same time

NOT_COVERED = (
    "source files from which workers read their examples",
    "exported models and predictions",
    "backups made before the erasure",
)

Sha256 = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
Text = Annotated[str, Meta(max_length=256)]
Number = Annotated[int, Meta(ge=0)]


class ModelVersion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A published version of the model."""

    version: Number
    digest: Sha256

    def __str__(self) -> str:
        return f"{self.digest} (version {self.version})"


class MaskedSums(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """That the server has seen sums of cohorts only, which a keyholder has opened."""

    keyholder: Text  # name of its public key
    cohort: Number  # workers with fresh examples that an opening needs
    smallest: Number  # their number in the smallest opening so far

    def __str__(self) -> str:
        """Return the mode in words."""
        return (
            f"sums of {self.cohort} or more workers, opened by the keyholder with the key "
            f"{self.keyholder}; the smallest of {self.smallest}"
        )


class Erasure(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a certificate says about an erasure."""

    job: Text
    request: Text  # hash of the request
    requested_by: Text  # account of the operator, not the person
    requested_at: Text  # UTC, as in RFC 3339
    issued_at: Text
    persons: Number
    examples: Number  # that left the sums of workers, as their updates show it
    claimed: Number  # that workers say they have deleted, also before these were learned; bounded
    commitments: Annotated[tuple[Sha256, ...], Meta(max_length=16)]  # to the first persons
    workers: Number
    outstanding: Number  # workers that have not answered yet
    before: ModelVersion | None  # the last without the erasure
    after: ModelVersion | None  # the first with it
    final: bool  # whether all workers have answered, and a published version contains it
    not_covered: Annotated[tuple[Text, ...], Meta(max_length=16)] = NOT_COVERED  # out of reach
    masks: MaskedSums | msgspec.UnsetType = msgspec.UNSET  # unset: the server sees every update

    @property
    def nothing_held(self) -> bool:
        """Whether all workers have answered that they hold nothing."""
        return self.final and not self.claimed and not self.examples

    @property
    def examples_seen(self) -> str:
        """How many examples left the model, if the server can see it."""
        seen = self.masks is msgspec.UNSET
        return f"{self.examples:,}" if seen else "an unknown number (masked)"


class _Subject(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: Text
    digest: dict[str, Sha256]


class _Statement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    type_: str = msgspec.field(default=_STATEMENT, name="_type")
    subject: tuple[_Subject, ...]
    predicate_type: str = msgspec.field(default=_PREDICATE, name="predicateType")
    predicate: Erasure


class _Signature(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    keyid: Text
    sig: Text


class _Envelope(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    payload_type: str = msgspec.field(default=_PAYLOAD, name="payloadType")
    payload: str
    signatures: Annotated[tuple[_Signature, ...], Meta(min_length=1, max_length=1)]


def sign_certificate(erasure: Erasure, key: SigningKey) -> bytes:
    """Return a signed certificate."""
    payload = msgspec.json.encode(_Statement(subject=_subjects(erasure), predicate=erasure))
    signature = key.sign(_encoded_for_signing(payload))
    signed = _Signature(key.public.id, base64.b64encode(signature).decode())
    envelope = _Envelope(payload=base64.b64encode(payload).decode(), signatures=(signed,))
    made = msgspec.json.encode(envelope)
    assert len(made) <= MAX_BYTES, "the texts and lists of an erasure are bounded"
    return made


def _subjects(erasure: Erasure) -> tuple[_Subject, ...]:
    versions = {"before": erasure.before, "after": erasure.after}
    return tuple(
        _Subject(f"version {version.version} ({when})", {"sha256": version.digest})
        for when, version in versions.items()
        if version is not None
    )


def _encoded_for_signing(payload: bytes) -> bytes:
    """Return what DSSE signs: type and payload with their lengths."""
    kind = _PAYLOAD.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def read_certificate(certificate: bytes, keys: Mapping[str, PublicKey]) -> Erasure:
    """Return what a certificate says, if its signature is valid."""
    envelope = _decode_envelope(certificate)
    if msgspec.json.encode(envelope) != certificate:
        raise BadBytes("the envelope was changed: it is not in canonical form")
    if envelope.payload_type != _PAYLOAD:
        raise BadBytes(f"the payload type is {envelope.payload_type!r}, not {_PAYLOAD}")
    (signature,) = envelope.signatures
    if signature.keyid not in keys:
        raise BadBytes(f"no trusted key has the id {signature.keyid!r}; give it with --key")
    payload = _strict_base64(envelope.payload, "payload")
    signed = _strict_base64(signature.sig, "signature")
    if not keys[signature.keyid].verifies(signed, _encoded_for_signing(payload)):
        raise BadBytes(f"the signature does not fit the payload: {_name_change(payload)}")
    return _read_statement(payload)


def _decode_envelope(certificate: bytes) -> _Envelope:
    if len(certificate) > MAX_BYTES:
        raise BadBytes(f"a certificate has at most {MAX_BYTES:,} bytes, not {len(certificate):,}")
    try:
        return msgspec.json.decode(certificate, type=_Envelope)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadBytes(f"the envelope is not that of a certificate: {error}") from error


def _name_change(payload: bytes) -> str:
    """Return which part of a certificate was changed, as far as possible."""
    try:
        _read_statement(payload)
    except BadBytes as error:
        return f"the payload was changed; {error}"
    return "one of them was changed"


def _read_statement(payload: bytes) -> Erasure:
    try:
        statement = msgspec.json.decode(payload, type=_Statement)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadBytes(f"the statement is not that of an erasure: {error}") from error
    if (statement.type_, statement.predicate_type) != (_STATEMENT, _PREDICATE):
        raise BadBytes(f"the statement has the type {statement.predicate_type!r}, not {_PREDICATE}")
    if statement.subject != _subjects(statement.predicate):
        raise BadBytes("the subjects of the statement are not the versions of its erasure")
    return statement.predicate


def _strict_base64(text: str, what: str) -> bytes:
    try:
        content = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise BadBytes(f"the {what} is not base64: {error}") from error
    if base64.b64encode(content).decode() != text:
        raise BadBytes(f"the {what} was changed: it is not canonical base64")
    return content


def write_certificate(folder: Path, erasure: Erasure) -> Path:
    """Sign a certificate, add it to the log of a folder, and return its file.

    One process writes at a time. The certificate waits in a file of its own until the log has its
    entry, so that as many certificates exist as entries, also after a crash in between.
    """
    key = open_signing_key(folder)
    certificate = sign_certificate(erasure, key)
    with _writing(folder) as log:
        replace_file(folder / _PENDING, certificate)
        return _name_pending(folder, log.append(certificate, key))


def complete_certificates(folder: Path) -> None:
    """Give the certificate of a process that was killed its name, if the log has its entry."""
    if (folder / _PENDING).exists():
        with _writing(folder):
            pass


@contextmanager
def _writing(folder: Path) -> Iterator[CertificateLog]:
    """Yield the log of a folder while no other process adds to it."""
    release = lock_file(folder / "lock", f"the log of certificates in {folder}", _LOCK_WAIT_S)
    try:
        log = _log_in(folder)
        pending = folder / _PENDING
        if pending.exists():
            waiting, last = _read(pending, "delete it"), log.last()
            if last is not None and leaf_hash(waiting) == last[1]:
                _name_pending(folder, last[0])
            else:
                pending.unlink()  # it has no entry, so that nobody was told of it
        yield log
    finally:
        release()


def _name_pending(folder: Path, entry: int) -> Path:
    path = (folder / _PENDING).replace(folder / _name_of(entry))
    synchronize(folder)
    return path


def _name_of(entry: int) -> str:
    return f"{entry + 1:04}.json"


def list_certificates(folder: Path) -> list[Path]:
    """Return the files of the certificates in a folder, in the order of their entries."""
    return sorted(folder.glob("*.json"), key=lambda path: (len(path.name), path.name))


def find_lost(folder: Path) -> list[Path]:
    """Return the files of the certificates that are gone, although the log has their entries."""
    entries = _log_in(folder).size - (folder / _PENDING).exists()
    files = (folder / _name_of(entry) for entry in range(entries))
    return [file for file in files if not file.exists()]


def _log_in(folder: Path) -> CertificateLog:
    return CertificateLog(folder, "dealfl/erasures")


@dataclass(frozen=True, slots=True)
class Evidence:
    """What to verify a certificate with."""

    keys: Path | None = None
    log: Path | None = None
    proof: Path | None = None
    since: Path | None = None


def verify_certificate(path: Path, evidence: Evidence) -> tuple[Erasure, int | None]:
    """Verify a certificate: its signature, and its entry in a log."""
    content = _read(path)
    _require_certificate(path, content)  # before its keys are looked for
    keys = load_keys(evidence.keys or path.parent)
    erasure, entry = read_certificate(content, keys), None
    if evidence.proof is not None:
        since = _read_head(evidence.since, keys)
        entry, _ = check_proof(_read(evidence.proof), content, keys, since)
    if evidence.log is not None:
        is_own = path.stem.isdecimal() and path.resolve().parent == evidence.log.resolve()
        wanted = max(int(path.stem) - 1, 0) if is_own else 0
        entry, _ = _log_in(evidence.log).verify(content, keys, wanted)
        if is_own and path.name != _name_of(entry):
            raise BadBytes(
                f"{path} is the certificate of entry {entry + 1} of the log, which is called "
                f"{_name_of(entry)}: files were renamed"
            )
    return erasure, entry


def _require_certificate(path: Path, content: bytes) -> None:
    try:
        _decode_envelope(content)
    except BadBytes as error:
        raise BadBytes(
            f"{path} is no certificate of erasure; give a run folder, or a certificate such as "
            f"0001.json ({error})"
        ) from error


def prove_entry(path: Path, evidence: Evidence, to: Path) -> Path:
    """Write a proof that a certificate is in a log, for who does not have the log."""
    if evidence.log is None:
        raise BadInput("a proof is made from a log; give its folder with --log")
    keys = load_keys(evidence.keys or path.parent)
    since = _read_head(evidence.since, keys)
    return replace_file(to, _log_in(evidence.log).prove(_read(path), keys, since))


def _read(path: Path, remedy: str = "") -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise unreadable(path, error, remedy) from error


def _read_head(path: Path | None, keys: Mapping[str, PublicKey]) -> Head | None:
    return None if path is None else read_head(_read(path).decode("utf-8", "replace"), keys)


def is_about(erasure: Erasure, owner: str, salt: str) -> bool:
    """Return whether a certificate is about a person."""
    try:
        return commit_to(owner, bytes.fromhex(salt)) in erasure.commitments
    except ValueError as error:
        raise BadInput(f"the salt {salt!r} does not consist of hexadecimal digits") from error
