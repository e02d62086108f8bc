"""The tables of a journal, and what is in a row."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from dealfl.messages import Update

__all__ = ["MIGRATIONS", "Outgoing", "Record", "State"]

_FIRST = """
CREATE TABLE records (
  id INTEGER PRIMARY KEY AUTOINCREMENT, owner BLOB NOT NULL, body BLOB NOT NULL,
  arrived INTEGER NOT NULL, used INTEGER NOT NULL, state INTEGER NOT NULL);
CREATE INDEX records_by_use ON records (state, used, arrived, id);
CREATE INDEX records_by_owner ON records (owner);
CREATE TABLE outbox (
  sequence INTEGER PRIMARY KEY, body BLOB NOT NULL, send_at_s REAL NOT NULL,
  handed INTEGER NOT NULL DEFAULT 0, withdrawing INTEGER NOT NULL DEFAULT 0);
CREATE TABLE answers (request TEXT PRIMARY KEY, examples INTEGER NOT NULL, send_at_s REAL NOT NULL);
CREATE TABLE suppressed (owner BLOB PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE quarantine (id INTEGER PRIMARY KEY, reason TEXT NOT NULL);
CREATE TABLE published (version INTEGER NOT NULL, statistics BLOB NOT NULL);
CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""

_SECOND = "ALTER TABLE answers ADD COLUMN sequence INTEGER NOT NULL DEFAULT 0"

MIGRATIONS: tuple[str, ...] = (_FIRST, _SECOND)


class State(IntEnum):
    """What has become of a record."""

    WAITING = 0
    LEARNED = 1
    GRACE = 2  # evicted, and may yet be learned back
    VALIDATION = 3  # never learned


@dataclass(frozen=True, slots=True)
class Record:
    """One example, or one interaction of a history, with the keyed hash of whom it belongs to."""

    id: int
    owner: bytes
    body: bytes


@dataclass(frozen=True, slots=True)
class Outgoing:
    """An update in the outbox."""

    update: Update
    handed: bool
    withdrawing: bool
