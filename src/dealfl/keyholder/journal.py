"""The journal of a keyholder, in one SQLite file: members, openings, and the keys used in them.

It never holds an update, a mask or a private key. What is written here before an answer leaves is
what stops a second answer: a journal from a backup has forgotten some, so it needs a new key.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from dealfl.protocol import Header
from dealfl.storage import Connect, Database

_TABLES = """
CREATE TABLE members (number INTEGER PRIMARY KEY, role TEXT NOT NULL, name TEXT NOT NULL,
  public_key BLOB NOT NULL);
CREATE INDEX members_by_name ON members (role, name, number);
CREATE TABLE epochs (number INTEGER PRIMARY KEY, job TEXT NOT NULL, epoch TEXT NOT NULL,
  UNIQUE (job, epoch));
CREATE TABLE openings (job TEXT NOT NULL, epoch TEXT NOT NULL, number INTEGER NOT NULL,
  request BLOB NOT NULL, nonce BLOB NOT NULL, workers INTEGER NOT NULL, opened_s REAL NOT NULL,
  PRIMARY KEY (job, epoch, number)) WITHOUT ROWID;
CREATE UNIQUE INDEX openings_by_request ON openings (request);
CREATE TABLE keys (nonce BLOB PRIMARY KEY, job TEXT NOT NULL, epoch TEXT NOT NULL,
  worker TEXT NOT NULL, seal BLOB NOT NULL, opening INTEGER NOT NULL, removed INTEGER NOT NULL)
  WITHOUT ROWID;
CREATE TABLE reached (job TEXT NOT NULL, worker TEXT NOT NULL, incarnation INTEGER NOT NULL,
  sequence INTEGER NOT NULL, PRIMARY KEY (job, worker)) WITHOUT ROWID;
CREATE TABLE settings (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID
"""


@dataclass(frozen=True, slots=True)
class Opening:
    """An opening of an epoch: its request by hash, and the nonce of the answer."""

    number: int
    request: bytes
    nonce: bytes
    workers: int  # with fresh examples
    opened_s: float


@dataclass(frozen=True, slots=True)
class UsedKey:
    """A key that was opened: by which header, in which opening, and whether it has left again."""

    job: str
    epoch: str
    seal: bytes
    opening: int
    removed: int  # number of the opening; 0 if it has not


class KeyholderJournal(Database):
    """The store of a keyholder."""

    kind = "keyholder's journal"
    remedy = "restore a backup by `dealfl keyholder restore`, which draws a new key"
    tables = _TABLES
    own_table = "openings"

    def __init__(
        self, path: str | Path = ":memory:", *, connect: Connect = sqlite3.connect
    ) -> None:
        super().__init__(path, connect=connect)

    # -- members ---------------------------------------------------------------------------------

    def members(self, role: str) -> list[str]:
        """Return the names of all members in a role."""
        query = "SELECT DISTINCT name FROM members WHERE role = ? ORDER BY name"
        return [name for (name,) in self.execute(query, (role,))]

    def find_keys(self, role: str, name: str) -> list[bytes]:
        """Return the public keys of a member, the present one first; none if it is unknown."""
        query = "SELECT public_key FROM members WHERE role = ? AND name = ? ORDER BY number DESC"
        return [bytes(key) for (key,) in self.execute(query, (role, name))]

    def put_member(self, role: str, name: str, public_key: bytes) -> None:
        """Enrol a member; a new key does not change the order of a worker's updates."""
        query = "INSERT INTO members (role, name, public_key) VALUES (?, ?, ?)"
        self.execute(query, (role, name, public_key))

    def forget_openings(self) -> None:
        """Begin again with a new key: nothing that was opened under another can be opened by it."""
        for table in ("epochs", "openings", "keys", "reached"):
            self.execute(f"DELETE FROM {table}")  # noqa: S608

    @property
    def key_name(self) -> str:
        """Name of the public key that this journal belongs to."""
        row = self.execute("SELECT value FROM settings WHERE name = 'key'").fetchone()
        return "" if row is None else bytes(row[0]).decode()

    def put_key_name(self, name: str) -> None:
        """Note the key that this journal belongs to."""
        self.execute("INSERT OR REPLACE INTO settings VALUES ('key', ?)", (name.encode(),))

    # -- epochs and openings ---------------------------------------------------------------------

    def epochs(self, job: str) -> list[str]:
        """Return the epochs of a job, the present one last."""
        query = "SELECT epoch FROM epochs WHERE job = ? ORDER BY number"
        return [epoch for (epoch,) in self.execute(query, (job,))]

    def find_other_job(self, job: str) -> str | None:
        """Return another job that was opened with this key; None if there is none."""
        row = self.execute("SELECT job FROM epochs WHERE job <> ? LIMIT 1", (job,)).fetchone()
        return None if row is None else str(row[0])

    def begin_epoch(self, job: str, epoch: str) -> None:
        """Note a new epoch of a job; keys of former ones are refused."""
        self.execute("INSERT INTO epochs (job, epoch) VALUES (?, ?)", (job, epoch))

    def find_opening(self, request: bytes) -> Opening | None:
        """Return the opening by a request; None if it is new."""
        query = "SELECT number, request, nonce, workers, opened_s FROM openings WHERE request = ?"
        row = self.execute(query, (request,)).fetchone()
        return None if row is None else Opening(*row)

    def last_opened_s(self, job: str) -> float | None:
        """Return when a sum of a job was opened last, in any epoch; None before the first."""
        query = "SELECT max(opened_s) FROM openings WHERE job = ?"
        (opened_s,) = self.execute(query, (job,)).fetchone()
        return None if opened_s is None else float(opened_s)

    def last_opening(self, job: str, epoch: str) -> Opening | None:
        """Return the last opening of an epoch; None before the first."""
        query = (
            "SELECT number, request, nonce, workers, opened_s FROM openings "
            "WHERE job = ? AND epoch = ? ORDER BY number DESC LIMIT 1"
        )
        row = self.execute(query, (job, epoch)).fetchone()
        return None if row is None else Opening(*row)

    def put_opening(self, job: str, epoch: str, opening: Opening) -> None:
        """Note an opening."""
        row = (
            job,
            epoch,
            opening.number,
            opening.request,
            opening.nonce,
            opening.workers,
            opening.opened_s,
        )
        self.execute("INSERT INTO openings VALUES (?, ?, ?, ?, ?, ?, ?)", row)

    def count_openings(self) -> int:
        """Return the number of all openings."""
        return int(self.execute("SELECT count(*) FROM openings").fetchone()[0])

    # -- keys ------------------------------------------------------------------------------------

    def find_key(self, nonce: bytes) -> UsedKey | None:
        """Return the key with a nonce, if it was opened."""
        query = "SELECT job, epoch, seal, opening, removed FROM keys WHERE nonce = ?"
        row = self.execute(query, (nonce,)).fetchone()
        return None if row is None else UsedKey(*row)

    def put_keys(self, job: str, epoch: str, opening: int, headers: Iterable[Header]) -> None:
        """Note keys that are opened."""
        for header in headers:
            row = (header.nonce, job, epoch, header.worker, header.seal, opening, 0)
            self.execute("INSERT INTO keys VALUES (?, ?, ?, ?, ?, ?, ?)", row)
            last = (job, header.worker, header.incarnation, header.sequence)
            self.execute("INSERT OR REPLACE INTO reached VALUES (?, ?, ?, ?)", last)

    def remove_keys(self, opening: int, headers: Iterable[Header]) -> None:
        """Note keys that leave with an opening."""
        for header in headers:
            query = "UPDATE keys SET removed = ? WHERE nonce = ?"
            self.execute(query, (opening, header.nonce))

    def reached(self, job: str, worker: str) -> tuple[int, int]:
        """Return incarnation and sequence of a worker's last update that was opened."""
        query = "SELECT incarnation, sequence FROM reached WHERE job = ? AND worker = ?"
        incarnation, sequence = self.execute(query, (job, worker)).fetchone() or (0, 0)
        return int(incarnation), int(sequence)
