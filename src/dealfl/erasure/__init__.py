"""Erasure of owners: requests and answers, suppression, release of versions.

These rules work on plain records; ledger and journal store the rows.
"""

from dealfl.erasure.release import ReleaseRule
from dealfl.erasure.requests import Answer, Outstanding, Request, is_settled
from dealfl.erasure.suppression import admit, list_suppressed, owner_hash

__all__ = [
    "Answer",
    "Outstanding",
    "ReleaseRule",
    "Request",
    "admit",
    "is_settled",
    "list_suppressed",
    "owner_hash",
]
