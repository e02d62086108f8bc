"""Erasure: requests as keyed hashes, release of versions, certificates and their log."""

from dealfl.erasure.certificates import (
    NOT_COVERED,
    Erasure,
    ModelVersion,
    commit_to,
    read_certificate,
    sign_certificate,
)
from dealfl.erasure.log import CertificateLog, Head, check_proof, read_head
from dealfl.erasure.requests import (
    Outstanding,
    ReleaseRule,
    Request,
    hash_request,
    next_position,
    owner_hash,
    plain_name,
    resolve_owner,
)
from dealfl.erasure.signing import PublicKey, SigningKey, load_keys, open_signing_key

__all__ = [
    "NOT_COVERED", "CertificateLog", "Erasure", "Head", "ModelVersion", "Outstanding",
    "PublicKey", "ReleaseRule", "Request", "SigningKey", "check_proof", "commit_to",
    "hash_request", "load_keys", "next_position", "open_signing_key", "owner_hash",
    "plain_name", "read_certificate", "read_head", "resolve_owner", "sign_certificate",
]  # fmt: skip
