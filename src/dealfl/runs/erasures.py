"""Requests of erasure in the folder of a run: their queue, their state, and their certificates.

A request is a file in `RUN/requests`. It contains keyed hashes, never a name. A run that is under
way applies it between two rounds; a finished run applies it at once.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from dealfl.erasure import (
    NOT_COVERED,
    Erasure,
    ErasureRequest,
    ModelVersion,
    count_persons,
    format_stamp,
    read_stamp,
    write_certificate,
)
from dealfl.errors import BadInput
from dealfl.jobs import read_job
from dealfl.runs.folder import REQUESTS, RunFolder
from dealfl.server import LedgerReader, Version
from dealfl.storage import make_folder, replace_file


def put_request(run: RunFolder, request: ErasureRequest) -> Path:
    """Write a request into the folder of a run, without the salts."""
    make_folder(run.path / REQUESTS)
    name = request.name.replace(" ", "-").replace(":", "")
    content = msgspec.json.encode(msgspec.structs.replace(request, salts={}))
    return replace_file(run.path / REQUESTS / f"{name}.json", content)


def find_queued(run: RunFolder, skipped: Collection[Path] = ()) -> dict[Path, ErasureRequest]:
    """Return the requests that are not carried out yet, by file, in their order."""
    requests = {}
    for file in sorted(set((run.path / REQUESTS).glob("*.json")) - set(skipped)):
        with suppress(FileNotFoundError):  # another process has carried it out
            try:
                requests[file] = msgspec.json.decode(file.read_bytes(), type=ErasureRequest)
            except msgspec.MsgspecError as error:
                raise BadInput(f"{file} is damaged ({error}); delete it, and ask again") from error
    return requests


CERTIFICATES = "certificates"  # folder of a run


_KNOWN = {"", ".key", ".html", ".json", ".jsonl", ".toml"}  # files without examples


@dataclass(frozen=True, slots=True)
class RequestStatus:
    """A request of erasure and its answers."""

    name: str
    persons: int
    examples: int  # that left the sums of workers
    claimed: int  # that workers say they have deleted
    answered: int
    outstanding: list[str]
    published: bool
    requested_s: float
    requested_by: str = ""
    kind: str = "erase"
    heard_s: dict[str, float | None] | None = None


def list_erasures(run: RunFolder, request: str = "") -> list[RequestStatus]:
    """Return the requests of erasure of a run, in their order; those in the queue are last."""
    with LedgerReader.open(run.ledger) as reader:
        heard_s = {figures.row.name: figures.row.heard_s for figures in reader.workers()}
        statuses = []
        for erasure in reader.erasures(request):
            answers = reader.answers(erasure.name)
            removed, claimed = reader.count_deleted(erasure.name)
            missing = sorted(heard_s.keys() - answers.keys()) if not erasure.published else []
            count = len if erasure.is_readmission else count_persons
            statuses.append(
                RequestStatus(
                    erasure.name,
                    count(erasure.owners),
                    removed,
                    claimed,
                    len(answers),
                    missing,
                    erasure.published,
                    erasure.requested_s,
                    erasure.requested_by,
                    "readmit" if erasure.is_readmission else "erase",
                    {worker: heard_s[worker] for worker in missing},
                )
            )
    names = {status.name for status in statuses}
    for queued in find_queued(run).values():
        if queued.name not in names and request in ("", queued.name):
            missing = sorted(heard_s)
            statuses.append(
                RequestStatus(
                    queued.name,
                    len(queued.entries),
                    0,
                    0,
                    0,
                    missing,
                    False,
                    0.0,
                    queued.requested_by,
                    "queued",
                    dict(heard_s),
                )
            )
    return statuses


def certify(
    run: RunFolder, request: str, requested_by: str = "", commitments: Sequence[str] = ()
) -> Path:
    """Write a certificate of the present state of a request."""
    statuses = list_erasures(run, request) if request else []
    if not statuses or statuses[0].kind == "readmit":
        problem = "readmits persons" if statuses else "does not exist"
        raise BadInput(
            f"no erasure is called {request!r}: it {problem}; `dealfl erasures list` shows all"
        )
    (status,) = statuses
    with LedgerReader.open(run.ledger) as reader:
        before, after = reader.versions_around(request)
        workers, has_base = len(reader.workers()), reader.has_base
        if status.kind == "queued":
            before = reader.last_version()
    document = run.document()
    erasure = Erasure(
        job="" if document is None else read_job(document).name,
        request=request,
        requested_by=(requested_by or status.requested_by or "unknown")[:64],
        # a run that is simulated has no real clock
        requested_at=read_stamp(request) or format_stamp(status.requested_s),
        issued_at=format_stamp(time.time()),
        persons=status.persons,
        examples=status.examples,
        claimed=status.claimed,
        commitments=tuple(commitments),
        workers=workers,
        outstanding=len(status.outstanding),
        before=_certified(before),
        after=_certified(after),
        final=status.published,
        not_covered=(*NOT_COVERED, *_find_copies(run, has_base)),
    )
    return write_certificate(run.path / CERTIFICATES, erasure)


def _certified(version: Version | None) -> ModelVersion | None:
    return None if version is None else ModelVersion(version.number, version.digest)


def _find_copies(run: RunFolder, has_base: bool) -> list[str]:
    """Return what else in the folder can contain examples of a person."""
    files = [file.name for file in sorted(run.path.iterdir()) if file.is_file()]
    own = {run.ledger.name + ending for ending in ("", "-wal", "-shm", "-lock")}
    others = [name for name in files if Path(name).suffix not in _KNOWN and name not in own]
    copies = [f"the file {name[:32]} in the run folder" for name in others[:4]]
    return copies + ["the model that the run started from"] * has_base
