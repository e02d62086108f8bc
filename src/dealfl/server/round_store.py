"""The tables of rounds and selections in the ledger."""

from __future__ import annotations

from dealfl.database import Database
from dealfl.messages import Update
from dealfl.server.tables import RoundRow

__all__ = ["RoundStore"]


class RoundStore(Database):
    """The part of the ledger that holds rounds and the workers selected in them."""

    def open_round(self) -> RoundRow | None:
        """Return the open round.

        Returns
        -------
        RoundRow or None
            None if no round is open.
        """
        query = "SELECT number, opened_s, deadline_s FROM rounds WHERE closed_s IS NULL"
        row = self._db.execute(query).fetchone()
        return None if row is None else RoundRow(*row)

    def find_opening_s(self, number: int) -> float:
        """Return the time at which a round was opened.

        Parameters
        ----------
        number : int
            Number of the round.

        Returns
        -------
        float
            Time in seconds of the server's clock.
        """
        query = "SELECT opened_s FROM rounds WHERE number = ?"
        return float(self._db.execute(query, (number,)).fetchone()[0])

    def last_round(self) -> int:
        """Return the number of the last round.

        Returns
        -------
        int
            0 before the first round.
        """
        return int(self._db.execute("SELECT coalesce(max(number), 0) FROM rounds").fetchone()[0])

    def put_round(self, row: RoundRow, selected: list[str], eligible: int) -> None:
        """Open a round.

        Parameters
        ----------
        row : RoundRow
            The round.
        selected : list of str
            Names of the selected workers.
        eligible : int
            Number of workers that could have been selected.
        """
        self._db.execute(
            "INSERT INTO rounds (number, opened_s, deadline_s, eligible) VALUES (?, ?, ?, ?)",
            (row.number, row.opened_s, row.deadline_s, eligible),
        )
        pairs = [(row.number, worker) for worker in selected]
        self._db.executemany("INSERT INTO selections (round, worker) VALUES (?, ?)", pairs)

    def shift_round(self, row: RoundRow) -> None:
        """Change the opening and the deadline of a round.

        Parameters
        ----------
        row : RoundRow
            The round with its new times.
        """
        times = (row.opened_s, row.deadline_s, row.number)
        self._db.execute("UPDATE rounds SET opened_s = ?, deadline_s = ? WHERE number = ?", times)

    def close_round(self, number: int, closed_s: float, reason: str, digest: str) -> None:
        """Close a round.

        Parameters
        ----------
        number : int
            Number of the round.
        closed_s : float
            Time in seconds of the server's clock.
        reason : str
            Reason: "majority", "time to live" or "declined".
        digest : str
            Digest of the statistics after the round.
        """
        self._db.execute(
            "UPDATE rounds SET closed_s = ?, reason = ?, digest = ? WHERE number = ?",
            (closed_s, reason, digest, number),
        )

    def list_selected(self, number: int) -> dict[str, float | None]:
        """Return the workers selected in a round.

        Parameters
        ----------
        number : int
            Number of the round.

        Returns
        -------
        dict of str to float or None
            Time of the reply by worker; None without a reply.
        """
        rows = self._db.execute(
            "SELECT worker, replied_s FROM selections WHERE round = ? ORDER BY worker", (number,)
        )
        return dict(rows.fetchall())

    def count_replies(self, number: int) -> tuple[int, int, int]:
        """Return how many workers were selected in a round, replied and declined.

        Parameters
        ----------
        number : int
            Number of the round.

        Returns
        -------
        tuple of int
            Numbers of workers that were selected, that sent an update, and that declined.
        """
        query = (
            "SELECT count(*), count(replied_s), count(nullif(declined, '')) "
            "FROM selections WHERE round = ?"
        )
        selected, replied, declined = self._db.execute(query, (number,)).fetchone()
        return int(selected), int(replied) - int(declined), int(declined)

    def put_reply(self, number: int, worker: str, replied_s: float, declined: str = "") -> bool:
        """Store the first reply of a selected worker.

        Parameters
        ----------
        number : int
            Number of the round.
        worker : str
            Name of the worker.
        replied_s : float
            Time in seconds of the server's clock.
        declined : str
            Reason for declining; empty for an update.

        Returns
        -------
        bool
            False if the worker was not selected or has replied already.
        """
        cursor = self._db.execute(
            "UPDATE selections SET replied_s = ?, declined = ? "
            "WHERE round = ? AND worker = ? AND replied_s IS NULL",
            (replied_s, declined, number, worker),
        )
        return cursor.rowcount > 0

    def put_figures(self, update: Update, reward: float) -> None:
        """Store the work, the cost and the reward of a reply.

        Parameters
        ----------
        update : Update
            The reply.
        reward : float
            Reward in [0, 1].
        """
        self._db.execute(
            "UPDATE selections SET learned = ?, evicted = ?, operations = ?, elapsed_s = ?, "
            "energy_j = ?, reward = ? WHERE round = ? AND worker = ?",
            (update.learned, update.evicted, update.operations, update.elapsed_s, update.energy_j,
             reward, update.round, update.worker),
        )  # fmt: skip

    def put_assumed(self, number: int, worker: str, energy_j: float) -> None:
        """Store the energy assumed for a worker without a reply.

        Parameters
        ----------
        number : int
            Number of the round.
        worker : str
            Name of the worker.
        energy_j : float
            Energy in joules.
        """
        self._db.execute(
            "UPDATE selections SET assumed_j = ? WHERE round = ? AND worker = ?",
            (energy_j, number, worker),
        )

    def find_assumed_j(self, number: int, worker: str, since_s: float) -> float:
        """Return the energy assumed for a worker in a round.

        Parameters
        ----------
        number : int
            Number of the round.
        worker : str
            Name of the worker.
        since_s : float
            Earliest time of closing; for earlier rounds the result is 0.

        Returns
        -------
        float
            Energy in joules.
        """
        row = self._db.execute(
            "SELECT s.assumed_j FROM selections s JOIN rounds r ON r.number = s.round "
            "WHERE s.round = ? AND s.worker = ? AND r.closed_s >= ?",
            (number, worker, since_s),
        ).fetchone()
        return 0.0 if row is None else float(row[0])
