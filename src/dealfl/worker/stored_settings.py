"""The settings in a journal: read once, kept in memory, and written with the transaction."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dealfl.database import Database

__all__ = ["StoredSettings"]

_READ = "SELECT name, value FROM settings"
_WRITE = "INSERT OR REPLACE INTO settings VALUES (?, ?)"


class StoredSettings(Database):
    """A database whose settings are strings that many calls read and few change."""

    _settings: dict[str, str] | None = None  # None: not read
    _changed: dict[str, str]  # since the transaction began
    _seen = -1  # what SQLite counts as changes of other connections

    @contextmanager
    def transaction(self, term: int | None = None) -> Iterator[None]:
        """Commit all changes inside a `with` block together, or roll all of them back.

        Parameters
        ----------
        term : int or None
            Term of the writer, from `claim`; `Fenced` is raised after a later claim.

        Yields
        ------
        None
            Control to the block.
        """
        with super().transaction(term):
            self._follow_others()
            yield
            if self._changed:
                self._db.executemany(_WRITE, self._changed.items())
                self._changed.clear()

    def _follow_others(self) -> None:
        others = int(self._db.execute("PRAGMA data_version").fetchone()[0])
        if others != self._seen:
            self._forget_cached()
            self._seen = others

    def _forget_cached(self) -> None:
        self._settings, self._changed = None, {}

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
        return self._all_settings().get(name, default)

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
        known = self._all_settings().items()
        return {name: value for name, value in known if name.startswith(beginning)}

    def _all_settings(self) -> dict[str, str]:
        if not self._db.in_transaction:
            self._follow_others()
        if self._settings is None:
            self._settings = {str(name): str(value) for name, value in self._db.execute(_READ)}
        return self._settings

    def set_setting(self, name: str, value: str) -> None:
        """Store a setting; it survives restarts.

        Parameters
        ----------
        name, value : str
            Name and value of the setting.
        """
        settings = self._all_settings()
        if settings.get(name) == value:
            return
        settings[name] = value
        if self._db.in_transaction:
            self._changed[name] = value
        else:
            self._db.execute(_WRITE, (name, value))
