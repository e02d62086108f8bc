"""The tables of a journal, and the types of their rows."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from typing import NamedTuple

from dealfl.protocol import Update

__all__ = [
    "INDEX_OWNERS", "INSERTIONS", "MIGRATIONS", "MOVE", "OutboxRow", "Outgoing", "Record", "State",
    "as_record",
]  # fmt: skip

_FIRST = """
CREATE TABLE records (
  id INTEGER PRIMARY KEY AUTOINCREMENT, owner BLOB NOT NULL, body BLOB NOT NULL,
  arrived INTEGER NOT NULL, used INTEGER NOT NULL, state INTEGER NOT NULL);
CREATE INDEX records_by_use ON records (state, used, arrived, id);
CREATE INDEX records_by_owner ON records (owner);
CREATE TABLE outbox (
  sequence INTEGER PRIMARY KEY, body BLOB NOT NULL, send_at_s REAL,
  sent INTEGER NOT NULL DEFAULT 0, withdrawing INTEGER NOT NULL DEFAULT 0);
CREATE TABLE answers (
  hash BLOB PRIMARY KEY, request TEXT NOT NULL, examples INTEGER NOT NULL, send_at_s REAL)
  WITHOUT ROWID;
CREATE TABLE suppressed (owner BLOB PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE reached (number INTEGER PRIMARY KEY, chain BLOB NOT NULL);
CREATE TABLE quarantine (id INTEGER PRIMARY KEY, reason TEXT NOT NULL);
CREATE TABLE published (version INTEGER NOT NULL, statistics BLOB NOT NULL, digest TEXT NOT NULL);
CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""

# records of the first version hold rows as floats; a worker converts them (`Holdings.open`)
_INTEGERS = "INSERT INTO settings VALUES ('floats', 'yes')"

# how an update is sent changes without writing its body again
_SENDING = """
ALTER TABLE outbox RENAME TO old_outbox;
CREATE TABLE outbox (sequence INTEGER PRIMARY KEY, body BLOB NOT NULL);
CREATE TABLE sending (sequence INTEGER PRIMARY KEY, send_at_s REAL, sent INTEGER NOT NULL,
  withdrawing INTEGER NOT NULL);
INSERT INTO outbox SELECT sequence, body FROM old_outbox;
INSERT INTO sending SELECT sequence, send_at_s, sent, withdrawing FROM old_outbox;
DROP TABLE old_outbox
"""

MIGRATIONS: tuple[str, ...] = (_FIRST, _INTEGERS, _SENDING)

INDEX_OWNERS = "CREATE INDEX IF NOT EXISTS records_by_owner ON records (owner)"

# By the number of parameters: one statement for 64 records needs half the time of 64 statements
_INSERT = "INSERT INTO records (owner, body, arrived, used, state) VALUES "
INSERTIONS = {5 * size: _INSERT + ", ".join(["(?, ?, ?, ?, ?)"] * size) for size in (64, 8, 1)}

# Records without a gap between their ids; + keeps SQLite from reading all records of the state
MOVE = "UPDATE records SET state = ?, used = ? WHERE +state = ? AND id BETWEEN ? AND ?"


class State(IntEnum):
    """The state of a record.

    Attributes
    ----------
    WAITING
        Not learned yet.
    LEARNED
        Part of the statistics.
    GRACE
        Evicted; the next training deletes it.
    VALIDATION
        Held back for validation, never learned.
    """

    WAITING = 0
    LEARNED = 1
    GRACE = 2
    VALIDATION = 3


class Record(NamedTuple):
    """One example, or one interaction of a history, in a journal.

    Parameters
    ----------
    id : int
        Number of the record in its journal.
    owner : bytes
        Keyed hash of the owner.
    body : bytes
        Example or interaction, as integers of the learner.
    """

    id: int
    owner: bytes
    body: bytes


as_record = partial(tuple.__new__, Record)  # three times as fast as `Record._make`


@dataclass(slots=True)
class OutboxRow:
    """How an update in the outbox is sent, and the update itself until it is sent."""

    update: Update | None
    send_at_s: float | None  # None: held back
    sent: bool = False
    withdrawing: bool = False


class Outgoing(NamedTuple):
    """An update in the outbox; a sent update never changes, it can only be withdrawn."""

    update: Update
    sent: bool
    withdrawing: bool
