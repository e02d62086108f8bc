"""Read access to the workers, rounds and selections of a ledger."""

from __future__ import annotations

import sqlite3
from dataclasses import fields

from dealfl.server.ledger_records import (
    ClosedRound,
    OpenRound,
    Replies,
    RoundFigures,
    Selection,
    WorkerFigures,
)
from dealfl.server.tables import WorkerRow, worker_row

__all__ = ["RoundReader"]

_WORKER = ", ".join(f"w.{field.name}" for field in fields(WorkerRow))
_WIDTH = len(fields(WorkerRow))


class RoundReader:
    """The part of a reader that returns workers, rounds and selections."""

    def __init__(self, db: sqlite3.Connection, path: str) -> None:
        self._db, self.path = db, path

    # -- workers --------------------------------------------------------------------------------

    def workers(self) -> list[WorkerFigures]:
        """Return all workers with their results.

        Returns
        -------
        list of WorkerFigures
            Workers sorted by name.
        """
        rows = self._db.execute(
            f"SELECT {_WORKER}, "  # noqa: S608
            "(SELECT count(*) FROM updates u WHERE u.worker = w.name "
            "AND u.incarnation = w.incarnation AND u.delta IS NOT NULL), "
            "count(s.round), count(s.replied_s) - count(nullif(s.declined, '')), "
            "count(nullif(s.declined, '')), coalesce(sum(s.reward), 0.0), "
            "coalesce(sum(s.energy_j), 0.0) "
            "FROM workers w LEFT JOIN selections s ON s.worker = w.name "
            "GROUP BY w.name ORDER BY w.name"
        )
        return [WorkerFigures(worker_row(row[:_WIDTH]), *row[_WIDTH:]) for row in rows]

    def selections(self, worker: str | None = None) -> list[Selection]:
        """Return selections of workers.

        Parameters
        ----------
        worker : str or None
            Name of a worker; None for all.

        Returns
        -------
        list of Selection
            Selections sorted by round and worker.
        """
        rows = self._db.execute(
            "SELECT worker, round, replied_s, declined, learned, evicted, operations, elapsed_s, "
            "energy_j, reward FROM selections WHERE ?1 IS NULL OR worker = ?1 "
            "ORDER BY round, worker",
            (worker,),
        )
        return [Selection(*row) for row in rows]

    def replies(self) -> Replies:
        """Return the sum of all replies.

        Returns
        -------
        Replies
            Numbers of examples, energy and mean reward.
        """
        row = self._db.execute(
            "SELECT count(replied_s), coalesce(sum(learned), 0), coalesce(sum(evicted), 0), "
            "coalesce(sum(energy_j), 0.0), avg(reward) FROM selections"
        ).fetchone()
        return Replies(*row)

    def latest_s(self) -> float:
        """Return the latest time in the ledger.

        Returns
        -------
        float
            Time in seconds of the server's clock; 0 for an empty ledger.
        """
        (latest,) = self._db.execute(
            "SELECT max(s) FROM (SELECT max(heard_s) AS s FROM workers UNION ALL "
            "SELECT max(opened_s) FROM rounds UNION ALL SELECT max(closed_s) FROM rounds "
            "UNION ALL SELECT max(replied_s) FROM selections)"
        ).fetchone()
        return float(latest or 0.0)

    # -- rounds ---------------------------------------------------------------------------------

    def open_round(self) -> OpenRound | None:
        """Return the open round.

        Returns
        -------
        OpenRound or None
            None if no round is open.
        """
        row = self._db.execute(
            "SELECT number, opened_s, deadline_s, (SELECT count(*) FROM selections "
            "WHERE round = number), (SELECT count(replied_s) FROM selections WHERE round = number) "
            "FROM rounds WHERE closed_s IS NULL"
        ).fetchone()
        return None if row is None else OpenRound(*row)

    def closed_rounds(self) -> list[ClosedRound]:
        """Return all closed rounds.

        Returns
        -------
        list of ClosedRound
            Rounds in order.
        """
        rows = self._db.execute(
            "SELECT number, reason, closed_s - opened_s, digest FROM rounds "
            "WHERE closed_s IS NOT NULL ORDER BY number"
        )
        return [ClosedRound(*row) for row in rows]

    def round_figures(self, number: int) -> RoundFigures:
        """Return the participation in a round.

        Parameters
        ----------
        number : int
            Number of the round.

        Returns
        -------
        RoundFigures
            Numbers of workers.
        """
        row = self._db.execute(
            "SELECT r.eligible, count(s.worker), "
            "coalesce(sum(s.replied_s IS NOT NULL AND s.declined = ''), 0) "
            "FROM rounds r LEFT JOIN selections s ON s.round = r.number "
            "WHERE r.number = ? GROUP BY r.number",
            (number,),
        ).fetchone()
        return RoundFigures(*row)
