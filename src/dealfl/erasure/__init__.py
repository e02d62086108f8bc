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
    EXAMPLE,
    READMISSION,
    ErasureRequest,
    Outstanding,
    ReleaseRule,
    count_persons,
    example_hash,
    hash_request,
    next_position,
    owner_hash,
    readmission_of,
    resolve_owner,
    split_entry,
)
from dealfl.erasure.signing import (
    PublicKey,
    SigningKey,
    load_keys,
    open_signing_key,
    rotate_signing_key,
)

__all__ = [
    "EXAMPLE",
    "NOT_COVERED",
    "READMISSION",
    "CertificateLog",
    "Erasure",
    "ErasureRequest",
    "Head",
    "ModelVersion",
    "Outstanding",
    "PublicKey",
    "ReleaseRule",
    "SigningKey",
    "check_proof",
    "commit_to",
    "count_persons",
    "example_hash",
    "hash_request",
    "load_keys",
    "next_position",
    "open_signing_key",
    "owner_hash",
    "read_certificate",
    "read_head",
    "readmission_of",
    "resolve_owner",
    "rotate_signing_key",
    "sign_certificate",
    "split_entry",
]
