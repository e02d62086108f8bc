"""A run whose server answers over its broker: the same questions as to the files of a run."""

from __future__ import annotations

import base64
import dataclasses
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from dealfl.atomic_files import replace_file
from dealfl.runs.folder import RunFolder
from dealfl.runs.models import export_model, open_model
from dealfl.runs.status import RunStatus, read_status
from dealfl.runs.workers import WorkerStatus, read_worker_rounds, read_workers

__all__ = ["RunningServer", "answers_about"]


def answers_about(run: RunFolder) -> dict[str, Callable[..., object]]:
    """Return what the server of a run answers to its operators.

    Parameters
    ----------
    run : RunFolder
        The run.

    Returns
    -------
    dict of str to callable
        Function by verb.
    """
    return {
        "status": lambda: read_status(run).as_dict(),
        "workers": lambda: [dataclasses.asdict(one) for one in read_workers(run)],
        "rounds": lambda worker: read_worker_rounds(run, str(worker)),
        "model": lambda: _saved_model(run),
    }


def _saved_model(run: RunFolder) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.deal"
        export_model(open_model(run.path), path)
        return base64.b64encode(path.read_bytes()).decode()


class RunningServer:
    """A running server, as an operator reaches it.

    Parameters
    ----------
    path : Path
        Credentials of the operator, from `dealfl broker enrol NAME --operator`.
    """

    def __init__(self, path: Path) -> None:
        from dealfl.network import read_credentials

        self._credentials = read_credentials(path)
        self.ledger = f"{self._credentials.host}:{self._credentials.port}"

    def _ask(self, verb: str, kind: Any, **arguments: object) -> Any:  # noqa: ANN401
        from dealfl.network import ask

        return msgspec.convert(ask(self._credentials, verb, arguments), kind)

    def status(self) -> RunStatus:
        """Return the status of the run."""
        status: RunStatus = self._ask("status", RunStatus)
        return status

    def workers(self) -> list[WorkerStatus]:
        """Return the status of all workers."""
        workers: list[WorkerStatus] = self._ask("workers", list[WorkerStatus])
        return workers

    def worker_rounds(self, worker: str) -> list[dict[str, Any]]:
        """Return the rounds of a worker.

        Parameters
        ----------
        worker : str
            Name of the worker.

        Returns
        -------
        list of dict
            One for each selection.
        """
        rounds: list[dict[str, Any]] = self._ask("rounds", list[dict[str, Any]], worker=worker)
        return rounds

    def remove(self, worker: str) -> str:
        """Remove a lost worker from the model, and return the new digest.

        Parameters
        ----------
        worker : str
            Name of the worker.

        Returns
        -------
        str
            Digest of the statistics without the worker.
        """
        return str(self._ask("remove", dict[str, str], worker=worker)["digest"])

    def save_model(self, path: Path) -> None:
        """Write the model of the server to a file.

        Parameters
        ----------
        path : Path
            The file.
        """
        replace_file(path, base64.b64decode(self._ask("model", str)))
