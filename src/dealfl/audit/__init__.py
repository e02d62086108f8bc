"""Audit: what each party could reconstruct of a person, before and after an erasure."""

from dealfl.audit.attacks import (
    SUBJECTS,
    Counts,
    find_touched_items,
    try_attacks,
)
from dealfl.audit.auditing import audit_run
from dealfl.audit.page import write_audit

__all__ = [
    "SUBJECTS",
    "Counts",
    "audit_run",
    "find_touched_items",
    "try_attacks",
    "write_audit",
]
