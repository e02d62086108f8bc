"""The erasure requests in the ledger, the answers of workers, and the versions that show them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from dealfl.erasure import count_persons, hash_request, next_position
from dealfl.errors import BadInput
from dealfl.protocol import Erased, Position
from dealfl.storage import Database

__all__ = ["ErasureStore", "Listed"]

_OWNERS = msgspec.msgpack.Decoder(tuple[bytes, ...])


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
        self._end: Position | None = None

    # -- the list of requests -------------------------------------------------------------------

    def end(self) -> Position:
        """Return the end of the list."""
        if self._end is None:
            row = self._run("SELECT number, chain FROM erasures ORDER BY number DESC LIMIT 1")
            self._end = Position(*(row.fetchone() or ()))
        return self._end

    def forget_cached(self) -> None:
        """Read the end of the list again when it is needed."""
        self._end = None

    def put(
        self, name: str, owners: tuple[bytes, ...], requested_s: float, requested_by: str = ""
    ) -> Listed:
        """Append a request to the list; a repetition changes nothing, other owners are refused."""
        own, before = hash_request(name, owners), self.end()
        known = self._run("SELECT number, hash FROM erasures WHERE request = ?", (name,)).fetchone()
        if known is None:
            after = next_position(before, [own])
            body = msgspec.msgpack.encode(owners)
            row = (after.number, name, body, own, after.chain, requested_s, requested_by)
            self._run("INSERT INTO erasures VALUES (?, ?, ?, ?, ?, ?, ?)", row)
            self._end = after
            return Listed(name, owners, before, after)
        if known[1] != own:
            raise BadInput(
                f"an erasure called {name!r} with other owners exists; choose another name"
            )
        return self._listed("e.number = ?", known[0])[0]

    def find_common(self, positions: Iterable[Position]) -> Position:
        """Return the first of some positions that is in the list; its beginning if none is."""
        query = "SELECT 1 FROM erasures WHERE number = ? AND chain = ?"
        found = (
            one
            for one in positions
            if one == self.end() or self._run(query, one).fetchone() is not None
        )
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

    def count_persons(self, shown: int) -> int:
        """Return the number of persons in the requests after a number."""
        rows = self._run("SELECT owners FROM erasures WHERE number > ?", (shown,))
        return sum(count_persons(_OWNERS.decode(body)) for (body,) in rows)

    def requested_s(self, number: int) -> float:
        """Return the time of a request."""
        query = "SELECT requested_s FROM erasures WHERE number = ?"
        return float(self._run(query, (number,)).fetchone()[0])

    # -- versions -------------------------------------------------------------------------------

    def put_version(self, round_number: int, digest: str, published_s: float, erased: int) -> None:
        """Store a version that contains the first `erased` requests."""
        self._run(
            "INSERT INTO versions (round, digest, published_s, erased) VALUES (?, ?, ?, ?)",
            (round_number, digest, published_s, erased),
        )

    def find_digest(self, version: int) -> str:
        """Return the digest of a version; empty if it is unknown."""
        row = self._run("SELECT digest FROM versions WHERE version = ?", (version,)).fetchone()
        return "" if row is None else str(row[0])

    def mark_delivered(self, version: int) -> None:
        """Store that a version was delivered."""
        self._run("UPDATE versions SET delivered = 1 WHERE version = ?", (version,))
