"""Audit: what each party could reconstruct of a person, before and after an erasure."""

from dealfl.audit.attacks import (
    MIN_TRIALS,
    SIZES,
    SUBJECTS,
    Counts,
    Point,
    find_touched_items,
    try_attacks,
)
from dealfl.audit.auditing import Audit, Finding, audit_run
from dealfl.audit.page import write_audit

__all__ = [
    "MIN_TRIALS",
    "SIZES",
    "SUBJECTS",
    "Audit",
    "Counts",
    "Finding",
    "Point",
    "audit_run",
    "find_touched_items",
    "try_attacks",
    "write_audit",
]
