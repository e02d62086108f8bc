"""The certificates of a run: signed, numbered, and in a log; their verification."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dealfl.erasure import (
    CertificateLog,
    Erasure,
    Head,
    PublicKey,
    check_proof,
    commit_to,
    load_keys,
    open_signing_key,
    read_certificate,
    read_head,
    sign_certificate,
)
from dealfl.errors import BadInput
from dealfl.storage import replace_file

__all__ = [
    "CERTIFICATES", "Evidence", "is_about", "prove_entry", "verify_certificate",
    "write_certificate",
]  # fmt: skip

CERTIFICATES = "certificates"  # folder of a run


def write_certificate(folder: Path, erasure: Erasure) -> Path:
    """Sign a certificate, add it to the log of a folder, and return its file."""
    key, log = open_signing_key(folder), _log_in(folder)
    certificate = sign_certificate(erasure, key)
    path = folder / f"{log.append(certificate, key) + 1:04}.json"
    return replace_file(path, certificate)


def _log_in(folder: Path) -> CertificateLog:
    return CertificateLog(folder, "dealfl/erasures")


@dataclass(frozen=True, slots=True)
class Evidence:
    """What to verify a certificate with.

    Parameters
    ----------
    keys : Path or None
        Public key in PEM format, or the folder of a log; None takes the certificate's folder.
    log : Path or None
        Folder of the log.
    proof : Path or None
        Proof that the certificate is in a log.
    since : Path or None
        Earlier head of the log; the proof must show that the log only grew since then.
    """

    keys: Path | None = None
    log: Path | None = None
    proof: Path | None = None
    since: Path | None = None


def verify_certificate(path: Path, evidence: Evidence) -> tuple[Erasure, int | None]:
    """Verify a certificate: its signature, and its entry in a log.

    Parameters
    ----------
    path : Path
        File of the certificate.
    evidence : Evidence
        Keys, and a log or a proof.

    Returns
    -------
    tuple of Erasure and (int or None)
        What the certificate says, and the number of its entry in the log, from 0.

    Raises
    ------
    BadBytes
        If anything was changed; the message names it.
    """
    content, keys = _read(path), load_keys(evidence.keys or path.parent)
    erasure, entry = read_certificate(content, keys), None
    if evidence.proof is not None:
        since = _read_head(evidence.since, keys)
        entry, _ = check_proof(_read(evidence.proof), content, keys, since)
    if evidence.log is not None:
        entry, _ = _log_in(evidence.log).verify(content, keys)
    return erasure, entry


def prove_entry(path: Path, evidence: Evidence, to: Path) -> Path:
    """Write a proof that a certificate is in a log, for who does not have the log.

    Parameters
    ----------
    path : Path
        File of the certificate.
    evidence : Evidence
        Keys and log; an earlier head, if the proof shall also show that the log only grew.
    to : Path
        File to write.

    Returns
    -------
    Path
        The file.
    """
    if evidence.log is None:
        raise BadInput("a proof is made from a log; give its folder with --log")
    keys = load_keys(evidence.keys or path.parent)
    since = _read_head(evidence.since, keys)
    return replace_file(to, _log_in(evidence.log).prove(_read(path), keys, since))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}") from error


def _read_head(path: Path | None, keys: Mapping[str, PublicKey]) -> Head | None:
    return None if path is None else read_head(_read(path).decode("utf-8", "replace"), keys)


def is_about(erasure: Erasure, owner: str, salt: str) -> bool:
    """Return whether a certificate is about a person.

    Parameters
    ----------
    erasure : Erasure
        What the certificate says.
    owner : str
        Name of the person.
    salt : str
        Salt of the commitment, as hexadecimal digits.

    Returns
    -------
    bool
        Whether one of its commitments is to this person.

    Raises
    ------
    BadInput
        If the salt has other characters.
    """
    try:
        return commit_to(owner, bytes.fromhex(salt)) in erasure.commitments
    except ValueError as error:
        raise BadInput(f"the salt {salt!r} does not consist of hexadecimal digits") from error
