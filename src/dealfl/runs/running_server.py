"""A run whose server answers over its broker: the same questions as to the files of a run."""

from __future__ import annotations

import base64
import dataclasses
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from dealfl.erasure import (
    ErasureRequest,
    Evidence,
    complete_certificates,
    open_signing_key,
    verify_certificate,
)
from dealfl.errors import BadInput
from dealfl.runs.changes import Changes, ChangesAnswer
from dealfl.runs.erasing import ErasureResult
from dealfl.runs.erasures import CERTIFICATES, RequestStatus, certify, list_erasures
from dealfl.runs.folder import RunFolder
from dealfl.runs.models import export_model, open_model
from dealfl.runs.status import RunStatus, read_status
from dealfl.runs.workers import WorkerStatus, read_worker_rounds, read_workers
from dealfl.server import ChangeLog
from dealfl.storage import log, make_folder, replace_file

_POLL_S = 0.5
_WAIT_S, _LOOK_S = 10.0, 4.0  # for an answer; for that to who looks again and again
_MANY_OWNERS = 1_000
_MAX_ENTRIES = 100_000  # that fit into one question


def answers_about(
    run: RunFolder, changed: ChangeLog | None = None
) -> dict[str, Callable[..., object]]:
    """Return what the server of a run answers to its operators; `changed` is that of its ledger."""
    complete_certificates(run.path / CERTIFICATES)
    changes = {} if changed is None else {"changes": ChangesAnswer(run, changed)}
    return {
        **changes,
        "status": lambda: read_status(run).as_dict(),
        "workers": lambda: [dataclasses.asdict(status) for status in read_workers(run)],
        "rounds": lambda worker: read_worker_rounds(run, str(worker)),
        "model": lambda: _saved_model(run),
        "erasures": lambda request="": [
            dataclasses.asdict(status) for status in list_erasures(run, str(request))
        ],
        "certify": partial(_certify, run),
    }


def _certify(
    run: RunFolder, request: str, requested_by: str, commitments: list[str], operator: str
) -> dict[str, str]:
    """Return a new certificate, and the public key that verifies it."""
    kinds = tuple[str, str, list[str]]
    msgspec.convert((request, requested_by, commitments), kinds)
    log("certificate", reason=operator)
    path = certify(run, request, requested_by, commitments)
    key = open_signing_key(path.parent).public
    return {"certificate": path.read_text("utf-8"), "key": key.pem().decode(), "id": key.id}


def _saved_model(run: RunFolder) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.deal"
        export_model(open_model(run.path), path)
        return base64.b64encode(path.read_bytes()).decode()


class RunningServer:
    """A running server, as an operator reaches it."""

    def __init__(self, path: Path) -> None:
        from dealfl.network import read_credentials

        self._credentials = read_credentials(path)
        self.operator, self.job = self._credentials.user, self._credentials.job
        self.ledger = f"{self._credentials.host}:{self._credentials.port}"

    def _ask(self, verb: str, kind: Any, wait_s: float = _WAIT_S, **arguments: object) -> Any:  # noqa: ANN401
        from dealfl.network import ask

        return msgspec.convert(ask(self._credentials, verb, arguments, wait_s), kind)

    def status(self) -> RunStatus:
        """Return the status of the run."""
        status: RunStatus = self._ask("status", RunStatus)
        return status

    def changes(self, since: str = "") -> Changes:
        """Return what changed since an earlier answer."""
        changes: Changes = self._ask("changes", Changes, _LOOK_S, since=since)
        return changes

    def workers(self) -> list[WorkerStatus]:
        """Return the status of all workers."""
        workers: list[WorkerStatus] = self._ask("workers", list[WorkerStatus])
        return workers

    def worker_rounds(self, worker: str) -> list[dict[str, Any]]:
        """Return the rounds of a worker."""
        rounds: list[dict[str, Any]] = self._ask("rounds", list[dict[str, Any]], worker=worker)
        return rounds

    def remove(self, worker: str) -> str:
        """Remove a lost worker from the model, and return the new digest."""
        return str(self._ask("remove", dict[str, str], worker=worker)["digest"])

    def erasures(self, request: str = "") -> list[RequestStatus]:
        """Return requests of erasure."""
        statuses: list[RequestStatus] = self._ask("erasures", list[RequestStatus], request=request)
        return statuses

    def erase(
        self,
        owners: Sequence[str],
        requested_by: str,
        folder: Path,
        wait_s: float = 60.0,
        progress: Callable[[str], None] = lambda _: None,
        examples: Sequence[str] = (),
    ) -> ErasureResult:
        """Erase persons or examples from the running federation, and fetch a certificate."""
        if len(owners) > _MANY_OWNERS:
            progress(f"hashing {len(owners):,} names; with a slow key 1,000 take half a minute")
        new = self.request_erasure(owners, requested_by, examples)
        until_s, last = time.monotonic() + wait_s, ""
        while time.monotonic() < until_s:
            (now,) = self.erasures(new.name)
            if now.published:
                break
            missing = f", missing: {', '.join(now.outstanding[:5])}" * bool(now.outstanding)
            if (line := f"{now.answered:,} workers have answered{missing}") != last:
                progress(line)
            last = line
            time.sleep(_POLL_S)
        path = self.certify(new.name, "", folder, new.commitments)
        return ErasureResult(verify_certificate(path, Evidence())[0], path, new.salts, 0)

    def request_erasure(
        self, owners: Sequence[str], requested_by: str, examples: Sequence[str] = ()
    ) -> ErasureRequest:
        """Ask the server to erase persons or examples; from then on it is durable there."""
        key = bytes.fromhex(self._credentials.owners_key)
        new = ErasureRequest.erasing(owners, examples, key, requested_by)
        self._request(new)
        return new

    def readmit(self, owners: Sequence[str], requested_by: str) -> None:
        """Readmit persons who consent again; workers apply it when they are reached."""
        key = bytes.fromhex(self._credentials.owners_key)
        self._request(ErasureRequest.readmitting(owners, key, requested_by))

    def _request(self, new: ErasureRequest) -> None:
        entries = [entry.hex() for entry in new.entries]
        if len(entries) > _MAX_ENTRIES:
            raise BadInput(
                f"the request has {len(entries):,} owners and examples; a running server takes "
                f"{_MAX_ENTRIES:,} at once; give the names in several commands"
            )
        self._ask(
            "erase",
            dict[str, Any],
            request=new.name,
            owners=entries,
            requested_by=new.requested_by,
        )

    def certify(
        self, request: str, requested_by: str, folder: Path, commitments: Sequence[str] = ()
    ) -> Path:
        """Fetch a certificate of the present state of a request."""
        answer = self._ask(
            "certify",
            dict[str, str],
            request=request,
            requested_by=requested_by,
            commitments=list(commitments),
        )
        make_folder(folder / "keys")
        replace_file(folder / "keys" / f"{answer['id']}.pem", answer["key"])
        name = request.replace(" ", "-").replace(":", "")
        return replace_file(folder / f"{name}.json", answer["certificate"])

    def save_model(self, path: Path) -> None:
        """Write the model of the server to a file."""
        replace_file(path, base64.b64decode(self._ask("model", str)))
