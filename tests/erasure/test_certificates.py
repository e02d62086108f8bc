"""Certificates: what was signed is what is read; a changed bit anywhere is found."""

import base64
import json
import random
import shutil
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import x25519
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from msgspec import structs

from dealfl.erasure import (
    NOT_COVERED,
    MaskedSums,
    ModelVersion,
    commit_to,
    load_keys,
    open_signing_key,
    read_certificate,
    sign_certificate,
)
from dealfl.erasure.signing import rotate_signing_key
from dealfl.errors import BadBytes, BadInput
from tests.erasure.certified import ERASURE, SALT

MUTATIONS = 4_000


def test_what_was_signed_is_what_is_read(tmp_path: Path) -> None:
    certificate = sign_certificate(ERASURE, open_signing_key(tmp_path))
    assert read_certificate(certificate, load_keys(tmp_path)) == ERASURE
    assert sign_certificate(ERASURE, open_signing_key(tmp_path)) == certificate
    assert len(certificate) <= 4_096
    assert b"ann" not in base64.b64decode(json.loads(certificate)["payload"])


def test_a_changed_bit_is_found_everywhere(tmp_path: Path) -> None:
    certificate = sign_certificate(ERASURE, open_signing_key(tmp_path))
    keys, draw = load_keys(tmp_path), random.Random(0)
    for _ in range(MUTATIONS):
        wrong = bytearray(certificate)
        for _ in range(draw.choice((1, 1, 1, 2, 5))):
            place = draw.randrange(len(wrong))
            match draw.randrange(3):
                case 0:
                    wrong[place] ^= 1 << draw.randrange(8)
                case 1:
                    wrong.insert(place, draw.choice(b' \n"{}[],:0aA='))
                case _:
                    del wrong[place]
        if bytes(wrong) != certificate:
            with pytest.raises(BadBytes):
                read_certificate(bytes(wrong), keys)


@pytest.mark.parametrize(
    ("before", "after", "named"),
    [
        (b"urn:dealfl:erasure:v1", b"urn:dealfl:erasure:v2", "the payload was changed; the state"),
        (b'"persons":', b'"parsons":', "the payload was changed; the statement is not that of"),
        (ERASURE.requested_by.encode(), b"somebody else", "one of them was changed"),
    ],
)
def test_a_changed_certificate_is_refused_with_what_was_changed(
    tmp_path: Path, before: bytes, after: bytes, named: str
) -> None:
    envelope = json.loads(sign_certificate(ERASURE, open_signing_key(tmp_path)))
    payload = base64.b64decode(envelope["payload"])
    assert before in payload
    envelope["payload"] = base64.b64encode(payload.replace(before, after)).decode()
    content = json.dumps(envelope, separators=(",", ":")).encode()
    with pytest.raises(BadBytes, match=f"does not fit the payload: {named}"):
        read_certificate(content, load_keys(tmp_path))


def forged(part: str, value: object) -> bytes:
    """Return a payload with another value; nobody has signed it."""
    statement = {
        "_type": "https://in-toto.io/Statement/v1", "subject": [],
        "predicateType": "urn:dealfl:erasure:v1", "predicate": {},
    } | {part: value}  # fmt: skip
    return json.dumps(statement).encode()


@pytest.mark.parametrize("change", ["payload", "keyid", "payloadType", "more"])
def test_a_certificate_of_somebody_else_is_refused(tmp_path: Path, change: str) -> None:
    certificate = json.loads(sign_certificate(ERASURE, open_signing_key(tmp_path / "a")))
    other = json.loads(sign_certificate(ERASURE, open_signing_key(tmp_path / "b")))
    if change == "payload":
        certificate["payload"] = base64.b64encode(forged("predicate", {"final": True})).decode()
    elif change == "keyid":
        certificate["signatures"][0]["sig"] = other["signatures"][0]["sig"]
    elif change == "payloadType":
        certificate["payloadType"] = "text/plain"
    else:
        certificate["signatures"] += other["signatures"]
    content = json.dumps(certificate, separators=(",", ":")).encode()
    with pytest.raises(BadBytes):
        read_certificate(content, load_keys(tmp_path / "a"))
    whole = json.dumps(other, separators=(",", ":")).encode()
    with pytest.raises(BadBytes, match="no trusted key"):
        read_certificate(whole, load_keys(tmp_path / "a"))


def test_a_certificate_of_a_rotated_key_stays_valid(tmp_path: Path) -> None:
    old = sign_certificate(ERASURE, open_signing_key(tmp_path))
    new = sign_certificate(ERASURE, rotate_signing_key(tmp_path))
    assert old != new
    assert read_certificate(old, load_keys(tmp_path)) == read_certificate(new, load_keys(tmp_path))


def test_the_private_key_is_private_and_a_damaged_one_is_named(tmp_path: Path) -> None:
    open_signing_key(tmp_path)
    private = tmp_path / "signing.key"
    assert private.stat().st_mode & 0o77 == 0
    private.write_text("nonsense")
    with pytest.raises(BadBytes, match=r"signing\.key is not a signing key"):
        open_signing_key(tmp_path)
    with pytest.raises(BadInput, match="has no public keys"):
        load_keys(tmp_path.parent)


def test_a_public_key_of_another_kind_is_refused(tmp_path: Path) -> None:
    other = x25519.X25519PrivateKey.generate().public_key()
    path = tmp_path / "other.pem"
    path.write_bytes(other.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    with pytest.raises(BadBytes, match=r"other\.pem is not an Ed25519 key"):
        load_keys(path)


def test_a_commitment_needs_name_and_salt() -> None:
    (one,) = ERASURE.commitments
    assert commit_to(" ann ", SALT) == one
    assert one not in (commit_to("bob", SALT), commit_to("ann", bytes(16)))


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_openssl_verifies_a_certificate(tmp_path: Path) -> None:
    certificate = json.loads(sign_certificate(ERASURE, open_signing_key(tmp_path)))
    payload, kind = base64.b64decode(certificate["payload"]), certificate["payloadType"]
    message = f"DSSEv1 {len(kind)} {kind} {len(payload)} ".encode() + payload
    (tmp_path / "message").write_bytes(message)
    (tmp_path / "sig").write_bytes(base64.b64decode(certificate["signatures"][0]["sig"]))
    (key,) = (tmp_path / "keys").glob("*.pem")
    words: list[str | Path] = ["openssl", "pkeyutl", "-verify", "-rawin", "-pubin", "-inkey", key]
    words += ["-in", tmp_path / "message", "-sigfile", tmp_path / "sig"]
    assert subprocess.run(words, check=False, capture_output=True).returncode == 0
    (tmp_path / "message").write_bytes(message + b" ")
    assert subprocess.run(words, check=False, capture_output=True).returncode != 0


def test_a_statement_about_other_versions_than_its_erasure_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("dealfl.erasure.certificates._subjects", lambda _: ())
        certificate = sign_certificate(ERASURE, open_signing_key(tmp_path))
    with pytest.raises(BadBytes, match="the subjects of the statement"):
        read_certificate(certificate, load_keys(tmp_path))


def test_the_longest_texts_fit_into_a_certificate(tmp_path: Path) -> None:
    files = tuple(f"the file {chr(1) * 32} in the run folder" for _ in range(4))
    masks = MaskedSums("k" * 256, 2**16, 2**16)
    most = {"persons": 2**53, "examples": 2**53, "claimed": 2**53, "workers": 2**53}
    erasure = structs.replace(
        ERASURE, job="\U0001f600" * 128, request="\U0001f600" * 128, requested_by=chr(1) * 64,
        commitments=ERASURE.commitments * 8, not_covered=(*NOT_COVERED, *files, "x" * 64),
        before=ModelVersion(2**53, "a" * 64), after=ModelVersion(2**53, "b" * 64), masks=masks,
        **most,
    )  # fmt: skip
    certificate = sign_certificate(erasure, open_signing_key(tmp_path))
    assert read_certificate(certificate, load_keys(tmp_path)) == erasure
