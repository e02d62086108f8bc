"""The fields that all messages share, and the version of the protocol."""

from __future__ import annotations

import msgspec

__all__ = ["PROTOCOL", "Record"]

PROTOCOL = 1


class Record(msgspec.Struct, frozen=True, kw_only=True, tag=True, forbid_unknown_fields=True):
    """A message of a job, from or to a worker."""

    job: str
    worker: str
