"""The ledger of the server, in one SQLite file: workers, updates, rounds, statistics, erasures.

One call of the server is one transaction (WAL, synchronous=FULL), so that a receipt stays true
after a crash. When a round closes, the deltas of updates are added to their worker's sum and
deleted; the key of a counted update and the hash of its delta remain.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from dealfl.erasure import Request
from dealfl.errors import BadInput
from dealfl.messages import Erased
from dealfl.server.round_store import RoundStore
from dealfl.server.tables import MIGRATIONS
from dealfl.server.update_store import UpdateStore

__all__ = ["Ledger"]


class Ledger(UpdateStore, RoundStore):
    """The store that the server writes. Others read it through a `LedgerReader`.

    Parameters
    ----------
    path : str or Path
        File to open or create. The default is a database in memory.
    connect : callable
        Replacement for `sqlite3.connect`, used by tests.
    """

    kind = "ledger"
    remedy = "restore a backup"
    migrations = MIGRATIONS
    own_table = "rounds"

    # -- erasures -------------------------------------------------------------------------------

    def put_erasure(self, request: Request) -> None:
        """Store an erasure request; a repetition changes nothing.

        Parameters
        ----------
        request : Request
            The request.

        Raises
        ------
        BadInput
            If a request of this name with other owners exists.
        """
        owners = msgspec.msgpack.encode(request.owners)
        query = "SELECT owners FROM erasures WHERE request = ?"
        known = self._db.execute(query, (request.name,)).fetchone()
        if known is not None and known[0] != owners:
            raise BadInput(
                f"an erasure called {request.name!r} with other owners exists; choose another name"
            )
        row = (request.name, owners, request.requested_s)
        self._db.execute(
            "INSERT OR IGNORE INTO erasures (request, owners, requested_s) VALUES (?, ?, ?)", row
        )

    def mark_published(self, requests: Iterable[str]) -> None:
        """Store that a published version reflects these erasures.

        Parameters
        ----------
        requests : iterable of str
            Names of requests.
        """
        rows = [(request,) for request in requests]
        self._db.executemany("UPDATE erasures SET published = 1 WHERE request = ?", rows)

    def put_answer(self, answer: Erased) -> bool:
        """Store a worker's answer to an erasure request.

        Parameters
        ----------
        answer : Erased
            The answer.

        Returns
        -------
        bool
            False if there is no such request.
        """
        row = (answer.request, answer.worker, answer.examples, answer.incarnation, answer.sequence)
        cursor = self._db.execute(
            "INSERT OR REPLACE INTO answers SELECT ?1, ?2, ?3, ?4, ?5 "
            "WHERE EXISTS (SELECT 1 FROM erasures WHERE request = ?1)",
            row,
        )
        return cursor.rowcount > 0

    # -- versions and settings ------------------------------------------------------------------

    def put_version(self, round_number: int, digest: str, published_s: float) -> int:
        """Store that a version of the model was published.

        Parameters
        ----------
        round_number : int
            Last closed round.
        digest : str
            Digest of the statistics.
        published_s : float
            Time in seconds of the server's clock.

        Returns
        -------
        int
            Number of the version.
        """
        cursor = self._db.execute(
            "INSERT INTO versions (round, digest, published_s) VALUES (?, ?, ?)",
            (round_number, digest, published_s),
        )
        return int(cursor.lastrowid or 0)

    def setting(self, name: str, default: bytes = b"") -> bytes:
        """Return a stored value.

        Parameters
        ----------
        name : str
            Name of the value.
        default : bytes
            Result if no value is stored.

        Returns
        -------
        bytes
            The value.
        """
        return self.reader.setting(name, default)

    def set_setting(self, name: str, value: bytes) -> None:
        """Store a value that survives restarts.

        Parameters
        ----------
        name : str
            Name of the value.
        value : bytes
            The value.
        """
        self._db.execute("INSERT OR REPLACE INTO settings VALUES (?, ?)", (name, value))

    def list_parts(self, owner: str) -> dict[str, bytes]:
        """Return the stored state of a part of the server.

        Parameters
        ----------
        owner : str
            Name of the part of the server, such as "selector".

        Returns
        -------
        dict of str to bytes
            Parts of its state by name.
        """
        query = "SELECT name, value FROM parts WHERE owner = ?"
        return dict(self._db.execute(query, (owner,)).fetchall())

    def put_parts(self, owner: str, parts: Mapping[str, bytes]) -> None:
        """Store what changed in the state of a part of the server.

        Parameters
        ----------
        owner : str
            Name of the part of the server.
        parts : mapping of str to bytes
            Changed parts of its state by name; empty bytes delete a part.
        """
        gone = [(owner, name) for name, value in parts.items() if not value]
        kept = [(owner, name, value) for name, value in parts.items() if value]
        self._db.executemany("DELETE FROM parts WHERE owner = ? AND name = ?", gone)
        self._db.executemany("INSERT OR REPLACE INTO parts VALUES (?, ?, ?)", kept)
