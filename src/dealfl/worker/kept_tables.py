"""The small tables of a journal: settings, outbox and published model, kept in memory.

They are read once. What changes is written once, at the end of the transaction. Of the updates in
the outbox, memory holds only those that were not sent yet; of the published model, its version.
"""

from __future__ import annotations

import msgspec

from dealfl.protocol import Update
from dealfl.storage import Database
from dealfl.worker.tables import OutboxRow, Outgoing

__all__ = ["KeptTables"]

_SETTINGS = "SELECT name, value FROM settings"
_SET = "INSERT OR REPLACE INTO settings VALUES (?, ?)"
_OUTBOX = "SELECT sequence, send_at_s, sent, withdrawing FROM sending ORDER BY sequence"
_PUT = "INSERT OR REPLACE INTO outbox VALUES (?, ?)"
_MARK = "INSERT OR REPLACE INTO sending VALUES (?, ?, ?, ?)"
_decode = msgspec.msgpack.Decoder(Update).decode
_encode = msgspec.msgpack.Encoder().encode


class KeptTables(Database):
    """A database with settings and an outbox, which every call reads."""

    _changed: dict[str, str]  # settings, since the transaction began
    _moved: dict[int, bool]  # updates since then, and whether their content changed

    def _forget_cached(self) -> None:
        super()._forget_cached()
        self._changed, self._moved = {}, {}

    def _write_changes(self) -> None:
        if self._changed:
            self._db.executemany(_SET, self._changed.items())
            self._changed = {}
        for sequence, is_new in self._moved.items():
            one = self.outgoing[sequence]
            if is_new:
                self._db.execute(_PUT, (sequence, _encode(one.update)))
            self._db.execute(_MARK, (sequence, one.send_at_s, one.sent, one.withdrawing))
            if one.sent:
                one.update = None
        self._moved = {}

    def _write_at_once(self) -> None:
        """Write what changed outside a transaction."""
        if not self._db.in_transaction:
            self._write_changes()

    # -- settings --------------------------------------------------------------------------------

    def setting(self, name: str, default: str) -> str:
        """Return a stored setting.

        Parameters
        ----------
        name, default
            Name of the setting, and the value if it is not stored.

        Returns
        -------
        str
            The value.
        """
        kept = self._kept.get("settings") if self._db.in_transaction else None
        return (self._settings if kept is None else kept).get(name, default)

    def settings(self, beginning: str) -> dict[str, str]:
        """Return the stored settings whose names have a beginning.

        Parameters
        ----------
        beginning : str
            The beginning.

        Returns
        -------
        dict of str to str
            Values by name.
        """
        known = self._settings.items()
        return {name: value for name, value in known if name.startswith(beginning)}

    @property
    def _settings(self) -> dict[str, str]:
        return self.keep("settings", self._read_settings)

    def _read_settings(self) -> dict[str, str]:
        return {str(name): str(value) for name, value in self._db.execute(_SETTINGS)}

    def set_setting(self, name: str, value: str) -> None:
        """Store a setting; it survives restarts.

        Parameters
        ----------
        name, value : str
            Name and value of the setting.
        """
        settings = self._settings
        if settings.get(name) != value:
            settings[name] = self._changed[name] = value
            self._write_at_once()

    def _tick(self) -> int:
        clock = int(self.setting("clock", "0")) + 1
        self.set_setting("clock", str(clock))
        return clock

    # -- outbox ----------------------------------------------------------------------------------

    @property
    def outgoing(self) -> dict[int, OutboxRow]:
        """The updates without a receipt, by sequence number; change them by `put_outgoing`."""
        return self.keep("outbox", self._read_outbox)

    def _read_outbox(self) -> dict[int, OutboxRow]:
        rows = self._db.execute(_OUTBOX)
        return {row[0]: OutboxRow(None, *row[1:]) for row in rows}

    def put_outgoing(self, sequence: int, one: OutboxRow, *, is_new: bool = False) -> None:
        """Store an update in the outbox, or how it is sent.

        Parameters
        ----------
        sequence, one, is_new
            Sequence number, the update and how it is sent, and whether the update itself is new.
        """
        self.outgoing[sequence] = one
        self._moved[sequence] = is_new or self._moved.get(sequence, False)
        self._write_at_once()

    def delete_outgoing(self, sequence: int) -> bool:
        """Delete an update from the outbox.

        Parameters
        ----------
        sequence : int
            Sequence number of the update.

        Returns
        -------
        bool
            Whether it was there.
        """
        self._moved.pop(sequence, None)
        for table in ("outbox", "sending"):
            self._db.execute(f"DELETE FROM {table} WHERE sequence = ?", (sequence,))  # noqa: S608
        return self.outgoing.pop(sequence, None) is not None

    def read_update(self, sequence: int) -> Update:
        """Return the content of an update in the outbox.

        Parameters
        ----------
        sequence : int
            Sequence number of the update.

        Returns
        -------
        Update
            The update.
        """
        if (known := self.outgoing[sequence].update) is not None:
            return known
        query = "SELECT body FROM outbox WHERE sequence = ?"
        return _decode(self._db.execute(query, (sequence,)).fetchone()[0])

    def outbox(self) -> list[Outgoing]:
        """Return all updates without a receipt, by sequence number."""
        rows = self.outgoing.items()
        return [Outgoing(self.read_update(n), row.sent, row.withdrawing) for n, row in rows]

    def next_send_s(self) -> float | None:
        """Return the time when the next update or answer is due, in seconds; None if none is."""
        moments = [self.next_answer_s(), *(one.send_at_s for one in self.outgoing.values())]
        return min((moment for moment in moments if moment is not None), default=None)

    def next_answer_s(self) -> float | None:
        """Return the time when the next answer to an erasure is due, in seconds, or None."""
        query = "SELECT min(send_at_s) FROM answers"
        (moment,) = self.keep("answers", lambda: self._db.execute(query).fetchone())
        return None if moment is None else float(moment)

    def put_published(self, version: int, statistics: bytes, digest: str = "") -> None:
        """Store a published model, unless a newer one is stored.

        Parameters
        ----------
        version, statistics, digest
            Version of the model, its encoded statistics, and their digest.
        """
        if self._db.execute("DELETE FROM published WHERE version <= ?", (version,)).rowcount:
            self.note_deletion()
        if self.published() is None:
            row = (version, statistics, digest)
            self._db.execute("INSERT INTO published VALUES (?, ?, ?)", row)
        self.drop("published")

    def published_version(self) -> tuple[int, str]:
        """Return version and digest of the newest published model; 0 before the first."""
        query = "SELECT version, digest FROM published"
        return self.keep("published", lambda: self._db.execute(query).fetchone() or (0, ""))

    def published(self) -> tuple[int, bytes] | None:
        """Return version and statistics of the newest published model; None before the first."""
        row = self._db.execute("SELECT version, statistics FROM published").fetchone()
        return None if row is None else (int(row[0]), bytes(row[1]))

    def quarantined(self) -> list[tuple[int, str]]:
        """Return ids and reasons of all quarantined records."""
        rows = self._db.execute("SELECT id, reason FROM quarantine ORDER BY id")
        return [(int(identity), str(reason)) for identity, reason in rows]
