"""Learners that are created again from their settings, a schema or a file."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

from dealfl.errors import BadBytes, BadInput, Incompatible
from dealfl.fixedpoint import bounds_from
from dealfl.learners.accumulator import Accumulator
from dealfl.learners.saved import SavedLearner
from dealfl.schema import Schema
from dealfl.work import Work

__all__ = ["Restorable"]


class Restorable(Accumulator):
    """A learner that can be created again from its settings, its schema or a file."""

    name: ClassVar[str]

    @classmethod
    def from_schema(cls, schema: Schema) -> Self:
        """Create an empty learner whose statistics have a schema.

        Parameters
        ----------
        schema : Schema
            Schema of the statistics.

        Returns
        -------
        Learner
            Settings that do not shape statistics have defaults; a bound is the largest of its grid.

        Raises
        ------
        BadInput
            The schema does not determine all required settings.
        Incompatible
            The schema belongs to another learner or version.
        """
        known = inspect.signature(cls.__init__).parameters
        given = bounds_from(schema.settings)
        try:
            made = cls(**{name: given[name] for name in given if name in known})
        except TypeError as error:
            raise BadInput(
                f"a {cls.name} cannot be created from its statistics alone ({error}); "
                "give its job file"
            ) from None
        made.schema.require_same(schema)
        return made

    @property
    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """The constructor arguments of an equal, empty learner."""

    def __repr__(self) -> str:
        shown = (f"{name}={value!r}" for name, value in self.settings.items())
        return f"{type(self).__name__}({', '.join(shown)})"

    def save(self, path: str | Path, sections: Mapping[str, bytes] | None = None) -> None:
        """Write the learner to one file; a crash leaves the old file or the new one.

        Parameters
        ----------
        path : str or Path
            File to write.
        sections : mapping of str to bytes, optional
            Additional sections of the file.

        Raises
        ------
        WriteFailed
            The file cannot be written.
        """
        everything = {**self._sections(), **(sections or {})}
        SavedLearner(self.name, self.settings, everything).write(Path(path))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Load a learner that `save` wrote.

        Parameters
        ----------
        path : str or Path
            File to read.

        Returns
        -------
        Learner
            The learner.

        Raises
        ------
        BadInput
            The file cannot be read.
        BadBytes
            The file is damaged or is not a saved learner.
        Incompatible
            The file holds another kind of learner.
        """
        saved = SavedLearner.read(Path(path))
        if saved.learner != cls.name:
            raise Incompatible(f"{path} holds learner {saved.learner}, not {cls.name}")
        try:
            learner = cls(**saved.settings)
        except TypeError as error:
            raise BadBytes(f"{path}: the settings do not fit {cls.name}: {error}") from None
        learner._restore(saved)
        learner._work = Work(0, 0)
        return learner

    def _sections(self) -> dict[str, bytes]:
        return {"statistics": self.statistics.to_bytes()}

    def _restore(self, saved: SavedLearner) -> None:
        self.merge(saved.statistics)
