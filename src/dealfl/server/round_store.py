"""The rounds that a ledger holds, and the workers selected in them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dealfl.protocol import Update
from dealfl.server.tables import ClosedRound, OpenRound, WorkerRow
from dealfl.storage import Database

__all__ = ["RoundStore"]


class RoundStore:
    """The rounds, and the workers selected in them."""

    def __init__(self, ledger: Database, find_open: Callable[[], OpenRound | None]) -> None:
        self._run, self._find_open = ledger.execute, find_open
        self._current: tuple[int, OpenRound | None] | None = None  # every message asks for it
        self._examples: tuple[int, int] | None = None  # learned and evicted in all replies

    def forget_cached(self) -> None:
        """Read the rounds again when they are needed."""
        self._examples = self._current = None

    def current(self) -> tuple[int, OpenRound | None]:
        """Return the number of the last round, and the open round."""
        if self._current is None:
            (last,) = self._run("SELECT coalesce(max(number), 0) FROM rounds").fetchone()
            self._current = int(last), self._find_open()
        return self._current

    def count_examples(self) -> tuple[int, int]:
        """Return how many examples were learned and evicted in all replies."""
        if self._examples is None:
            query = "SELECT coalesce(sum(learned), 0), coalesce(sum(evicted), 0) FROM selections"
            learned, evicted = self._run(query).fetchone()
            self._examples = int(learned), int(evicted)
        return self._examples

    def open(
        self,
        number: int,
        opened_s: float,
        deadline_s: float,
        selected: Mapping[str, int],
        eligible: int,
    ) -> None:
        """Open a round for workers with waiting examples; `eligible` counts all candidates."""
        self._current = None
        self._run(
            "INSERT INTO rounds (number, opened_s, deadline_s, eligible) VALUES (?, ?, ?, ?)",
            (number, opened_s, deadline_s, eligible),
        )
        query = "INSERT INTO selections (round, worker, waiting) VALUES (?, ?, ?)"
        for worker, waiting in selected.items():
            self._run(query, (number, worker, waiting))

    def shift(self, row: OpenRound) -> None:
        """Change the opening and the deadline of a round."""
        self._current = None
        times = (row.opened_s, row.deadline_s, row.number)
        self._run("UPDATE rounds SET opened_s = ?, deadline_s = ? WHERE number = ?", times)

    def close(self, number: int, closed_s: float, reason: str, digest: str) -> None:
        """Close a round."""
        self._current = None
        self._run(
            "UPDATE rounds SET closed_s = ?, reason = ?, digest = ? WHERE number = ?",
            (closed_s, reason, digest, number),
        )

    def find_last_closed(self) -> ClosedRound | None:
        """Return the last closed round; None before the first."""
        query = (
            "SELECT number, reason, closed_s - opened_s, digest FROM rounds "
            "WHERE closed_s IS NOT NULL ORDER BY number DESC LIMIT 1"
        )
        row = self._run(query).fetchone()
        return None if row is None else ClosedRound(*row)

    def find_selection(self, number: int, row: WorkerRow) -> tuple[float, int, float, str]:
        """Return when a round was opened, and a worker's announced examples, energy and θ.

        Energy is assumed, and 0 if the round was closed before the worker's budget began.
        """
        query = (
            "SELECT r.opened_s, s.waiting, iif(r.closed_s >= ?, s.assumed_j, 0.0), "
            "s.forget_fraction FROM rounds r JOIN selections s ON s.round = r.number "
            "WHERE r.number = ? AND s.worker = ?"
        )
        key = (row.spent_since_s, number, row.name)
        opened_s, waiting, assumed_j, fraction = self._run(query, key).fetchone()
        return float(opened_s), int(waiting), float(assumed_j), str(fraction)

    def put_fraction(self, number: int, worker: str, fraction: str | None) -> str | None:
        """Store the θ of a worker in a round, and return it; the first one stays."""
        if fraction is None:
            return None
        key = "WHERE round = ? AND worker = ?"
        self._run(
            f"UPDATE selections SET forget_fraction = ? {key} AND forget_fraction = ''",  # noqa: S608
            (fraction, number, worker),
        )
        query = f"SELECT forget_fraction FROM selections {key}"  # noqa: S608
        return str(self._run(query, (number, worker)).fetchone()[0])

    def selected(self, number: int) -> dict[str, float | None]:
        """Return the time of the reply by selected worker; None without a reply."""
        rows = self._run(
            "SELECT worker, replied_s FROM selections WHERE round = ? ORDER BY worker", (number,)
        )
        return dict(rows.fetchall())

    def count_selected_since(self, opened_s: float) -> int:
        """Return how many workers were selected in rounds opened after a time."""
        query = "SELECT count(*) FROM rounds JOIN selections ON round = number WHERE opened_s > ?"
        return int(self._run(query, (opened_s,)).fetchone()[0])

    def find_unanswered(self, worker: str, after: int) -> int | None:
        """Return the last round of a worker, if it is after another one and not answered."""
        query = (
            "SELECT round FROM selections WHERE worker = ?1 AND round > ?2 AND replied_s IS NULL "
            "AND round = (SELECT max(round) FROM selections WHERE worker = ?1)"
        )
        found = self._run(query, (worker, after)).fetchone()
        return None if found is None else int(found[0])

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
        self._current = None
        cursor = self._run(
            "UPDATE selections SET replied_s = ?, declined = ? "
            "WHERE round = ? AND worker = ? AND replied_s IS NULL",
            (replied_s, declined, number, worker),
        )
        return cursor.rowcount > 0

    def put_figures(self, update: Update, reward: float) -> None:
        """Store the work, the cost and the reward of a first reply."""
        learned, evicted = self.count_examples()
        self._examples = learned + update.learned, evicted + update.evicted
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
