"""A job with its data: what it is, changed, saved."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path, PurePath
from typing import Any, Self

import numpy as np

from dealfl.api.describing import describe, describe_html
from dealfl.api.proposing import Proposal
from dealfl.errors import BadInput
from dealfl.jobs import Data, Document
from dealfl.settings import toml_document
from dealfl.simulate import FleetSpec, read_fleet
from dealfl.storage import replace_file

__all__ = ["PreparedJob", "Settings", "change", "plain_value"]

Settings = Mapping[str, object]


class PreparedJob:
    """A job that was read and checked, with its data if they are in memory."""

    def __init__(
        self,
        document: Document,
        *,
        text: str = "",
        data: Data | None = None,
        proposal: Proposal | None = None,
    ) -> None:
        self._document, self._text = document, text
        self.data, self.proposal = data, proposal
        self.simulated: FleetSpec = read_fleet(document, data)

    # -- what it is -----------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """Name of the job."""
        return self.simulated.job.name

    @property
    def learner(self) -> str:
        """Name of the learner."""
        return self.simulated.learner

    @property
    def workers(self) -> int:
        """Number of phones."""
        return self.simulated.workers

    @property
    def rounds(self) -> int:
        """Number of rounds after which a run ends."""
        return self.simulated.job.rules.rounds

    @property
    def document(self) -> Document:
        """The job, with the place of each key."""
        return self._document

    def __repr__(self) -> str:
        return describe(self.simulated, self.proposal)

    def _repr_html_(self) -> str:
        return describe_html(self.simulated, self.proposal)

    # -- changed, saved -------------------------------------------------------------------------

    def with_settings(self, settings: Settings) -> Self:
        """Return the same fleet with other values for some keys of the job.

        Parameters
        ----------
        settings
            Values by key; see `from_arrays`.

        Returns
        -------
        Fleet
            A new fleet; this one does not change.

        Raises
        ------
        BadInput
            If a key or a value is wrong.
        """
        if not settings:
            return self
        document = change(self._document, settings)
        return type(self)(document, data=self.data, proposal=self.proposal)

    def with_rounds(self, rounds: int) -> Self:
        """Return the same fleet with another number of rounds.

        Of a proposed fleet, the time between two rounds and the number of examples that arrive in
        an hour change with it, so that the examples last for all rounds.

        Parameters
        ----------
        rounds
            Number of rounds after which a run ends.

        Returns
        -------
        Fleet
            A new fleet; this one does not change.

        Raises
        ------
        BadInput
            If `rounds` is not a whole number ≥ 1.
        """
        changes: dict[str, object] = {"job.rounds": rounds}
        if self.proposal is not None and rounds >= 1:
            before, after = self.proposal.sizes(self.rounds), self.proposal.sizes(rounds)
            for key, old, new in (
                ("job.round_every_s", before.every_s, after.every_s),
                ("arrival.examples_per_hour", before.per_hour, after.per_hour),
            ):
                section, _, name = key.partition(".")
                if self._document.tables.get(section, {}).get(name) == plain_value(old):
                    changes[key] = new
        return self.with_settings(changes)

    def job_text(self) -> str:
        """Return the job as a TOML file that `dealfl run` takes."""
        return self._text or toml_document(self._document.tables)

    def save(self, path: str | Path) -> Path:
        """Write the job, and the data beside it if they are in memory, for the command line.

        Parameters
        ----------
        path
            Path of the job file, such as `"job.toml"`.

        Returns
        -------
        Path
            The job file. `dealfl run` with it has the same digest as a run of this fleet.

        Raises
        ------
        BadInput
            If the folder does not exist.
        """
        out = Path(path)
        if not out.parent.is_dir():
            raise BadInput(f"{out}: there is no folder {out.parent}; make it first")
        file, text = self._document.tables.get("source", {}).get("file"), self.job_text()
        if self.data is None and file is not None:
            here = str((self._document.folder / file).resolve())
            text = toml_document(self._document.replaced("source.file", here).tables)
        if self.data is not None:
            replace_file(out.parent / str(file), self.data.text(), mode=0o600)
        return replace_file(out, text, 0o666)


def change(document: Document, settings: Settings) -> Document:
    """Return a job with other values for some keys; None removes a key or a section.

    >>> job = Document.parse("[job]\\nrounds = 3", "job.toml")
    >>> change(job, {"job.forget_fraction": 0.05, "job.rounds": None}).tables
    {'job': {'forget_fraction': Decimal('0.05')}}
    """
    for key, value in settings.items():
        document = document.replaced(key, plain_value(value))
    return document


def plain_value(value: object) -> Any:  # noqa: ANN401
    """Return a value as TOML would have given it: exact decimals, plain lists.

    >>> plain_value([0.1, np.int64(3), "deal"])
    [Decimal('0.1'), 3, 'deal']
    """
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, float):
        return Decimal(repr(value))
    if isinstance(value, Mapping):
        return {str(key): plain_value(one) for key, one in value.items()}
    if isinstance(value, list | tuple | range):
        return [plain_value(one) for one in value]
    return str(value) if isinstance(value, PurePath) else value
