"""The ledger's tables of erasures: who is to be forgotten, and what every worker answered."""

from __future__ import annotations

import msgspec

from dealfl.database import Database
from dealfl.errors import BadInput
from dealfl.messages import Erased

__all__ = ["Erasures"]


class Erasures(Database):
    """What was asked to be erased, and what became of it."""

    def put_erasure(self, request: str, owners: tuple[bytes, ...], asked_s: float) -> None:
        """Put an erasure on record."""
        if self.erasures().get(request, owners) != owners:
            raise BadInput(f"an erasure called {request!r} of other owners is on record already")
        row = (request, msgspec.msgpack.encode(owners), asked_s)
        self._db.execute(
            "INSERT OR IGNORE INTO erasures (request, owners, asked_s) VALUES (?, ?, ?)", row
        )

    def erasures(self) -> dict[str, tuple[bytes, ...]]:
        """Return every erasure ever asked for."""
        rows = self._db.execute("SELECT request, owners FROM erasures ORDER BY request")
        decode = msgspec.msgpack.Decoder(tuple[bytes, ...]).decode
        return {str(request): decode(owners) for request, owners in rows}

    def unpublished_since_s(self) -> list[float]:
        """Return when the erasures were asked for that no published version shows yet."""
        query = "SELECT asked_s FROM erasures WHERE published = 0 ORDER BY asked_s"
        return [float(row[0]) for row in self._db.execute(query)]

    def unsettled(self) -> list[str]:
        """Return the erasures that a worker has not answered, or whose answer still has to count.

        An answer counts when all updates that the worker had posted by then are folded.
        """
        rows = self._db.execute(
            "SELECT DISTINCT e.request FROM erasures e JOIN workers w LEFT JOIN answers a "
            "ON a.request = e.request AND a.worker = w.name WHERE a.request IS NULL "
            "OR (a.incarnation = w.incarnation AND a.sequence > w.folded) ORDER BY e.request"
        )
        return [str(request) for (request,) in rows]

    def mark_erasures_published(self) -> None:
        """Note that the version published now shows all erasures that are settled."""
        pending = set(self.unsettled())
        shown = [(request,) for request in self.erasures() if request not in pending]
        self._db.executemany("UPDATE erasures SET published = 1 WHERE request = ?", shown)

    def unanswered(self, worker: str) -> dict[str, tuple[bytes, ...]]:
        """Return the erasures a worker has not answered yet."""
        rows = self._db.execute(
            "SELECT request, owners FROM erasures e WHERE NOT EXISTS (SELECT 1 FROM answers a "
            "WHERE a.request = e.request AND a.worker = ?) ORDER BY request",
            (worker,),
        )
        decode = msgspec.msgpack.Decoder(tuple[bytes, ...]).decode
        return {str(request): decode(owners) for request, owners in rows}

    def put_answer(self, answer: Erased) -> None:
        """Note a worker's answer to an erasure."""
        row = (answer.request, answer.worker, answer.examples, answer.incarnation, answer.sequence)
        self._db.execute("INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?, ?)", row)

    def answers(self) -> dict[str, dict[str, int]]:
        """Return how many examples each worker has erased, by request."""
        found: dict[str, dict[str, int]] = {}
        query = "SELECT request, worker, examples FROM answers"
        for request, worker, examples in self._db.execute(query):
            found.setdefault(request, {})[worker] = examples
        return found
