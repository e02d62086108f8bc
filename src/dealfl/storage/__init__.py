"""Files: databases that survive kill −9, atomic replacement, logs; and memory: page replacement.

Journal and ledger are databases. Every change is one transaction (WAL, synchronous=FULL). One
process at a time writes a file: it holds a lock, and begins a new term that fences what an earlier
one still writes. Deleted bytes leave all its files: the log after the commit, the pages when the
file is compacted. Only the owner of a file can read it. A file with another schema version is
refused.
"""

from dealfl.storage.atomic_files import (
    is_disk_failure,
    lock_file,
    make_folder,
    make_private,
    refused_write,
    replace_file,
    synchronize,
)
from dealfl.storage.database import (
    Connect,
    Database,
    find_write_failure,
    open_read_only,
    require_tables,
    require_unused,
)
from dealfl.storage.logs import configure_logs, log, log_to
from dealfl.storage.memory import (
    Arc,
    BudgetedThetaLru,
    Frames,
    Lru,
    Policy,
    Swaps,
    ThetaLru,
    Touch,
    keep_freed_memory,
)

__all__ = [
    "Arc",
    "BudgetedThetaLru",
    "Connect",
    "Database",
    "Frames",
    "Lru",
    "Policy",
    "Swaps",
    "ThetaLru",
    "Touch",
    "configure_logs",
    "find_write_failure",
    "is_disk_failure",
    "keep_freed_memory",
    "lock_file",
    "log",
    "log_to",
    "make_folder",
    "make_private",
    "open_read_only",
    "refused_write",
    "replace_file",
    "require_tables",
    "require_unused",
    "synchronize",
]
