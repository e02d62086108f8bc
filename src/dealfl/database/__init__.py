"""A SQLite file that survives kill −9. Journal and ledger are such files.

Every change is one transaction (WAL, synchronous=FULL). One process at a time writes a file: it
holds a lock, and begins a new term that fences what an earlier one still writes. Deleted bytes
leave all its files: the log after the commit, the pages when the file is compacted. Only the owner
of a file can read it.
Opening a file with an older schema version migrates it; a newer version is refused.
"""

from dealfl.database.files import find_write_failure, open_read_only, require_unused
from dealfl.database.store import Connect, Database, Migration

__all__ = [
    "Connect", "Database", "Migration", "find_write_failure", "open_read_only", "require_unused",
]  # fmt: skip
