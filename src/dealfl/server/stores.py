"""What the server writes into its ledger: updates and sums, rounds, erasures and versions."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from dealfl.database import Database
from dealfl.erasure import hash_request, next_position
from dealfl.errors import BadInput
from dealfl.messages import Erased, Position, Update
from dealfl.server.tables import OpenRound, WorkerRow

__all__ = ["ErasureStore", "Listed", "RoundStore", "UpdateStore"]

_OWNERS = msgspec.msgpack.Decoder(tuple[bytes, ...])


class UpdateStore:
    """The updates of workers, the sum of each worker, and the total."""

    def __init__(self, ledger: Database) -> None:
        self._ledger, self._run = ledger, ledger.execute

    def put(self, update: Update) -> None:
        """Store an update."""
        key = (update.worker, update.incarnation, update.sequence)
        delta_sha256 = hashlib.sha256(update.delta).digest()
        row = (*key, _hash(update), delta_sha256, 0, update.delta, 0)
        self._run("INSERT INTO updates VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)

    def is_same(self, update: Update) -> bool:
        """Return whether the stored update with this key has the same content."""
        query = "SELECT sha256 FROM updates WHERE worker = ? AND incarnation = ? AND sequence = ?"
        key = (update.worker, update.incarnation, update.sequence)
        return bool(self._run(query, key).fetchone()[0] == _hash(update))

    def is_next(self, row: WorkerRow, sequence: int) -> bool:
        """Return whether all earlier updates of a worker are stored."""
        query = (
            "SELECT count(*) FROM updates WHERE worker = ? AND incarnation = ? "
            "AND sequence > ? AND sequence < ?"
        )
        key = (row.name, row.incarnation, row.counted, sequence)
        return bool(self._run(query, key).fetchone()[0] == sequence - row.counted - 1)

    def put_withdrawn(self, worker: str, incarnation: int, sequence: int, successor: int) -> None:
        """Store that an update never counts; its successor contains the rest of it."""
        row = (worker, incarnation, sequence, None, None, 1, b"", successor)
        self._run("INSERT INTO updates VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)

    def first_pending(self) -> dict[str, int]:
        """Return by worker the first update that is not counted yet."""
        rows = self._run(
            "SELECT u.worker, min(u.sequence) FROM updates u "
            "JOIN workers w ON w.name = u.worker AND w.incarnation = u.incarnation "
            "WHERE u.delta IS NOT NULL GROUP BY u.worker"
        )
        return dict(rows.fetchall())

    def recorded_through(self, worker: str, incarnation: int, counted: int) -> int:
        """Return the sequence up to which no update is missing; all up to `counted` are there."""
        query = (
            "SELECT sequence FROM updates WHERE worker = ? AND incarnation = ? AND sequence > ? "
            "ORDER BY sequence"
        )
        for (sequence,) in self._run(query, (worker, incarnation, counted)):
            if sequence != counted + 1:
                break
            counted = sequence
        return counted

    def last_sequence(self, worker: str, incarnation: int) -> int:
        """Return the highest stored sequence of a worker's updates; 0 if there is none."""
        query = (
            "SELECT coalesce(max(sequence), 0) FROM updates WHERE worker = ? AND incarnation = ?"
        )
        return int(self._run(query, (worker, incarnation)).fetchone()[0])

    def delete_deltas(self, worker: str, incarnation: int, last: int) -> None:
        """Delete the deltas of counted updates; their keys and hashes remain."""
        self._ledger.note_deletion()
        self._run(
            "UPDATE updates SET delta = NULL WHERE worker = ? AND incarnation = ? AND sequence <= ?"
            " AND delta IS NOT NULL",
            (worker, incarnation, last),
        )

    def drop(self, worker: str) -> None:
        """Delete all updates of a worker, and its sum."""
        self._ledger.note_deletion()
        self._run("DELETE FROM updates WHERE worker = ?", (worker,))
        self._run("DELETE FROM sums WHERE worker = ?", (worker,))

    def put_sum(self, worker: str, statistics: bytes, fingerprint: int) -> None:
        """Replace the sum of a worker's counted updates; that of "" is the base of the job."""
        row = (worker, statistics, hashlib.sha256(statistics).digest(), fingerprint)
        self._run("INSERT OR REPLACE INTO sums VALUES (?, ?, ?, ?)", row)

    def fingerprints(self) -> dict[str, int]:
        """Return the fingerprint of each sum by worker."""
        return dict(self._run("SELECT worker, fingerprint FROM sums ORDER BY worker").fetchall())

    def put_total(self, statistics: bytes) -> None:
        """Replace the sum of all workers."""
        row = (statistics, hashlib.sha256(statistics).digest())
        self._run("INSERT OR REPLACE INTO total VALUES (1, ?, ?)", row)


class RoundStore:
    """The rounds, and the workers selected in them."""

    def __init__(self, ledger: Database) -> None:
        self._run = ledger.execute

    def open(
        self,
        number: int,
        opened_s: float,
        deadline_s: float,
        selected: Mapping[str, int],
        eligible: int,
    ) -> None:
        """Open a round for workers with waiting examples; `eligible` counts all candidates."""
        self._run(
            "INSERT INTO rounds (number, opened_s, deadline_s, eligible) VALUES (?, ?, ?, ?)",
            (number, opened_s, deadline_s, eligible),
        )
        query = "INSERT INTO selections (round, worker, waiting) VALUES (?, ?, ?)"
        for worker, waiting in selected.items():
            self._run(query, (number, worker, waiting))

    def shift(self, row: OpenRound) -> None:
        """Change the opening and the deadline of a round."""
        times = (row.opened_s, row.deadline_s, row.number)
        self._run("UPDATE rounds SET opened_s = ?, deadline_s = ? WHERE number = ?", times)

    def close(self, number: int, closed_s: float, reason: str, digest: str) -> None:
        """Close a round."""
        self._run(
            "UPDATE rounds SET closed_s = ?, reason = ?, digest = ? WHERE number = ?",
            (closed_s, reason, digest, number),
        )

    def find_selection(self, number: int, worker: str) -> tuple[float, int]:
        """Return when a round was opened, and how many examples a worker had announced."""
        query = (
            "SELECT r.opened_s, s.waiting FROM rounds r JOIN selections s ON s.round = r.number "
            "WHERE r.number = ? AND s.worker = ?"
        )
        opened_s, waiting = self._run(query, (number, worker)).fetchone()
        return float(opened_s), int(waiting)

    def selected(self, number: int) -> dict[str, float | None]:
        """Return the time of the reply by selected worker; None without a reply."""
        rows = self._run(
            "SELECT worker, replied_s FROM selections WHERE round = ? ORDER BY worker", (number,)
        )
        return dict(rows.fetchall())

    def count_replies(self, number: int) -> tuple[int, int, int]:
        """Return how many workers were selected in a round, sent an update, and declined."""
        query = (
            "SELECT count(*), count(replied_s), count(nullif(declined, '')) "
            "FROM selections WHERE round = ?"
        )
        selected, replied, declined = self._run(query, (number,)).fetchone()
        return int(selected), int(replied) - int(declined), int(declined)

    def put_reply(self, number: int, worker: str, replied_s: float, declined: str = "") -> bool:
        """Store a reply; return False if the worker was not selected or has replied already."""
        cursor = self._run(
            "UPDATE selections SET replied_s = ?, declined = ? "
            "WHERE round = ? AND worker = ? AND replied_s IS NULL",
            (replied_s, declined, number, worker),
        )
        return cursor.rowcount > 0

    def put_figures(self, update: Update, reward: float) -> None:
        """Store the work, the cost and the reward of a reply."""
        self._run(
            "UPDATE selections SET learned = ?, evicted = ?, operations = ?, elapsed_s = ?, "
            "energy_j = ?, reward = ? WHERE round = ? AND worker = ?",
            (update.learned, update.evicted, update.operations, update.elapsed_s, update.energy_j,
             reward, update.round, update.worker),
        )  # fmt: skip

    def put_assumed(self, number: int, worker: str, energy_j: float) -> None:
        """Store the energy assumed for a worker without a reply."""
        self._run(
            "UPDATE selections SET assumed_j = ? WHERE round = ? AND worker = ?",
            (energy_j, number, worker),
        )

    def assumed_j(self, number: int, worker: str, since_s: float) -> float:
        """Return the energy assumed for a worker in a round; 0 if it was closed before `since_s`"""
        row = self._run(
            "SELECT s.assumed_j FROM selections s JOIN rounds r ON r.number = s.round "
            "WHERE s.round = ? AND s.worker = ? AND r.closed_s >= ?",
            (number, worker, since_s),
        ).fetchone()
        return 0.0 if row is None else float(row[0])


class Listed(NamedTuple):
    """Erased owners, and the places in the list before and after them."""

    request: str  # empty for a part of the list
    owners: tuple[bytes, ...]
    before: Position
    after: Position


class ErasureStore:
    """The list of erasure requests, the answers of workers, and the published versions."""

    def __init__(self, ledger: Database) -> None:
        self._run = ledger.execute

    # -- the list of requests -------------------------------------------------------------------

    def end(self) -> Position:
        """Return the end of the list."""
        row = self._run("SELECT number, chain FROM erasures ORDER BY number DESC LIMIT 1")
        return Position(*(row.fetchone() or ()))

    def put(self, name: str, owners: tuple[bytes, ...], requested_s: float) -> Listed:
        """Append a request to the list; a repetition changes nothing, other owners are refused."""
        own, before = hash_request(name, owners), self.end()
        known = self._run("SELECT number, hash FROM erasures WHERE request = ?", (name,)).fetchone()
        if known is None:
            after = next_position(before, [own])
            body = msgspec.msgpack.encode(owners)
            row = (after.number, name, body, own, after.chain, requested_s)
            self._run("INSERT INTO erasures VALUES (?, ?, ?, ?, ?, ?)", row)
            return Listed(name, owners, before, after)
        if known[1] != own:
            raise BadInput(
                f"an erasure called {name!r} with other owners exists; choose another name"
            )
        return self._listed("e.number = ?", known[0])[0]

    def find_common(self, positions: Iterable[Position]) -> Position:
        """Return the first of some positions that is in the list; its beginning if none is."""
        query = "SELECT 1 FROM erasures WHERE number = ? AND chain = ?"
        found = (one for one in positions if self._run(query, one).fetchone() is not None)
        return next(found, Position())

    def unanswered(self, worker: str, after: int, count: int) -> list[Listed]:
        """Return the first requests after a number that a worker has not answered."""
        answered = "SELECT 1 FROM answers a WHERE a.number = e.number AND a.worker = ?"
        condition = f"e.number > ? AND NOT EXISTS ({answered}) ORDER BY e.number LIMIT ?"
        return self._listed(condition, after, worker, count)

    def part(self, before: Position, last: int, max_owners: int) -> Listed | None:
        """Return the owners after a place in the list up to a number, or as many as allowed."""
        owners: list[bytes] = []
        after = before
        query = (
            "SELECT number, chain, owners FROM erasures WHERE number > ? AND number <= ? "
            "ORDER BY number LIMIT ?"
        )
        for number, chain, body in self._run(query, (before.number, last, max_owners)):
            more = _OWNERS.decode(body)
            if len(owners) + len(more) > max_owners:
                break
            owners += more
            after = Position(number, chain)
        return Listed("", tuple(owners), before, after) if owners else None

    def _listed(self, condition: str, *values: object) -> list[Listed]:
        rows = self._run(
            "SELECT e.request, e.owners, p.number, p.chain, e.number, e.chain FROM erasures e "  # noqa: S608
            f"LEFT JOIN erasures p ON p.number = e.number - 1 WHERE {condition}",
            values,
        )
        return [
            Listed(name, _OWNERS.decode(body), Position(p or 0, c or b""), Position(number, chain))
            for name, body, p, c, number, chain in rows
        ]

    def put_answer(self, answer: Erased) -> None:
        """Store a worker's answer, unless there is no such request."""
        self._run(
            "INSERT OR REPLACE INTO answers SELECT number, ?, ? FROM erasures "
            "WHERE request = ? AND hash = ?",
            (answer.worker, answer.examples, answer.request, answer.hash),
        )

    def requested_s(self, number: int) -> float:
        """Return the time of a request."""
        query = "SELECT requested_s FROM erasures WHERE number = ?"
        return float(self._run(query, (number,)).fetchone()[0])

    # -- versions -------------------------------------------------------------------------------

    def put_version(self, round_number: int, digest: str, published_s: float, erased: int) -> int:
        """Store a version that contains the first `erased` requests; return its number."""
        cursor = self._run(
            "INSERT INTO versions (round, digest, published_s, erased) VALUES (?, ?, ?, ?)",
            (round_number, digest, published_s, erased),
        )
        return int(cursor.lastrowid or 0)

    def find_digest(self, version: int) -> str:
        """Return the digest of a version; empty if it is unknown."""
        row = self._run("SELECT digest FROM versions WHERE version = ?", (version,)).fetchone()
        return "" if row is None else str(row[0])

    def mark_delivered(self, version: int) -> None:
        """Store that a version was delivered."""
        self._run("UPDATE versions SET delivered = 1 WHERE version = ?", (version,))


def _hash(update: Update) -> bytes:
    """Return the SHA-256 of all fields of an update but the process that has sent it."""
    return hashlib.sha256(
        msgspec.msgpack.encode(msgspec.structs.replace(update, session=0))
    ).digest()
