"""Masked sums: vectors modulo 2^bits, keys between a keyholder and its members, sealed headers.

A worker adds to each update a keystream that only it and the keyholder can compute. The server adds
the masked updates of a cohort, the keyholder adds their masks: the difference is the sum of the
updates, and nobody has seen a single one.
"""

from dealfl.masks.headers import (
    Answer,
    Asker,
    BadHeader,
    Masker,
    Scope,
    accepts_header,
    accepts_request,
    core_of,
    hash_request,
    header_of,
    seal_answer,
    sum_masks,
    tag_ready,
)
from dealfl.masks.keys import (
    SERVER,
    WORKER,
    Enrolment,
    Shared,
    draw_nonce,
    draw_private_key,
    name_key,
    public_key,
    require_cryptography,
)
from dealfl.masks.ring import MAX_MASKED_BYTES, Ring, Total, find_bits

__all__ = [
    "MAX_MASKED_BYTES",
    "SERVER",
    "WORKER",
    "Answer",
    "Asker",
    "BadHeader",
    "Enrolment",
    "Masker",
    "Ring",
    "Scope",
    "Shared",
    "Total",
    "accepts_header",
    "accepts_request",
    "core_of",
    "draw_nonce",
    "draw_private_key",
    "find_bits",
    "hash_request",
    "header_of",
    "name_key",
    "public_key",
    "require_cryptography",
    "seal_answer",
    "sum_masks",
    "tag_ready",
]
