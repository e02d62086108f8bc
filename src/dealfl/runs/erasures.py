"""Requests of erasure in the folder of a run: their queue, their state, and their certificates.

A request is a file in `RUN/requests`. It contains keyed hashes, never a name. A run that is under
way applies it between two rounds; a finished run applies it at once.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from dealfl.erasure import (
    NOT_COVERED,
    Erasure,
    ErasureRequest,
    Evidence,
    MaskedSums,
    ModelVersion,
    complete_certificates,
    count_persons,
    encodable,
    format_stamp,
    list_certificates,
    read_stamp,
    verify_certificate,
    write_certificate,
)
from dealfl.errors import BadInput, DealError, unreadable
from dealfl.jobs import read_job
from dealfl.runs.folder import REQUESTS, RunFolder
from dealfl.server import LedgerReader, Version
from dealfl.storage import make_folder, refused_write, replace_file


def put_request(run: RunFolder, request: ErasureRequest) -> Path:
    """Write a request into the folder of a run, without the salts."""
    try:
        make_folder(run.path / REQUESTS)
    except OSError as error:
        raise refused_write(run.path / REQUESTS, error) from error
    content = msgspec.json.encode(msgspec.structs.replace(request, salts={}))
    return replace_file(request_file(run, request), content)


def request_file(run: RunFolder, request: ErasureRequest) -> Path:
    """Return the file of a request in the queue."""
    return run.path / REQUESTS / f"{request.name.replace(' ', '-').replace(':', '')}.json"


def find_queued(run: RunFolder, skipped: Collection[Path] = ()) -> dict[Path, ErasureRequest]:
    """Return the requests that are not carried out yet, by file, in their order."""
    requests = {}
    for file in sorted(set((run.path / REQUESTS).glob("*.json")) - set(skipped)):
        remedy = "delete it, and ask again"
        try:
            requests[file] = msgspec.json.decode(file.read_bytes(), type=ErasureRequest)
        except FileNotFoundError:  # another process has carried it out
            continue
        except OSError as error:
            raise unreadable(file, error, remedy) from error
        except msgspec.MsgspecError as error:
            raise BadInput(f"{file} is damaged ({error}); {remedy}") from error
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
        recorded = describe_erasures(reader, heard_s, [request])
    return recorded + describe_queued(run, heard_s, recorded, request)


def describe_erasures(
    reader: LedgerReader, heard_s: Mapping[str, float | None], requests: Sequence[str]
) -> list[RequestStatus]:
    """Return the requests of these names in a ledger; the empty name stands for all."""
    statuses = []
    for erasure in (each for request in requests for each in reader.erasures(request)):
        answers = reader.answers(erasure.name)
        removed, claimed = reader.count_deleted(erasure.name)
        missing = sorted(heard_s.keys() - answers.keys()) if not erasure.published else []
        count = len if erasure.is_readmission else count_persons
        devices = reader.answering_devices(erasure.name)
        statuses.append(
            RequestStatus(
                erasure.name,
                count(erasure.owners),
                removed,
                claimed,
                sum(devices[name] for name in answers),
                missing,
                erasure.published,
                erasure.requested_s,
                erasure.requested_by,
                "readmit" if erasure.is_readmission else "erase",
                {worker: heard_s[worker] for worker in missing},
            )
        )
    return statuses


def describe_queued(
    run: RunFolder,
    heard_s: Mapping[str, float | None],
    recorded: Iterable[RequestStatus],
    request: str = "",
) -> list[RequestStatus]:
    """Return the requests in the queue of a run that its ledger does not have yet."""
    names = {status.name for status in recorded}
    return [
        RequestStatus(
            queued.name,
            len(queued.entries),
            0,
            0,
            0,
            sorted(heard_s),
            False,
            0.0,
            queued.requested_by,
            "queued",
            dict(heard_s),
        )
        for queued in find_queued(run).values()
        if queued.name not in names and request in ("", queued.name)
    ]


def certify(
    run: RunFolder, request: str, requested_by: str = "", commitments: Sequence[str] = ()
) -> Path:
    """Write a certificate of the present state of a request.

    Without commitments it has those of the last certificate, so that its salts still prove whom it
    is about.
    """
    statuses = list_erasures(run, request) if request else []
    if not statuses or statuses[0].kind == "readmit":
        problem = "readmits persons" if statuses else "does not exist"
        raise BadInput(
            f"no erasure is called {request!r}: it {problem}; `dealfl erasures list` shows all"
        )
    (status,) = statuses
    with LedgerReader.open(run.ledger) as reader:
        before, after = reader.versions_around(request)
        devices, has_base = reader.answering_devices(request), reader.has_base
        masks = reader.masks()
        if status.kind == "queued":
            before = reader.last_version()
    if not commitments and (found := find_certificate(run, request)):
        commitments = found[1].commitments
    document = run.document()
    erasure = Erasure(
        job="" if document is None else read_job(document).name,
        request=request,
        requested_by=encodable(requested_by or status.requested_by or "unknown")[:64],
        # a run that is simulated has no real clock
        requested_at=read_stamp(request) or format_stamp(status.requested_s),
        issued_at=format_stamp(time.time()),
        persons=status.persons,
        examples=status.examples,
        claimed=status.claimed,
        commitments=tuple(commitments),
        workers=sum(devices.values()),
        outstanding=sum(max(devices.get(name, 1), 1) for name in status.outstanding),
        before=_certified(before),
        after=_certified(after),
        final=status.published,
        not_covered=(*NOT_COVERED, *_find_copies(run, has_base)),
        masks=MaskedSums(masks.keyholder, masks.cohort, masks.smallest)
        if masks.keyholder
        else msgspec.UNSET,
    )
    return write_certificate(run.path / CERTIFICATES, erasure)


def find_certificate(
    run: RunFolder, request: str, *, final: bool = False
) -> tuple[Path, Erasure] | None:
    """Return the last valid certificate of a request."""
    complete_certificates(run.path / CERTIFICATES)
    for path in reversed(list_certificates(run.path / CERTIFICATES)):
        with suppress(DealError):
            erasure, _ = verify_certificate(path, Evidence())
            if erasure.request == request and (erasure.final or not final):
                return path, erasure
    return None


def _certified(version: Version | None) -> ModelVersion | None:
    return None if version is None else ModelVersion(version.number, version.digest)


def _find_copies(run: RunFolder, has_base: bool) -> list[str]:
    """Return what else in the folder can contain examples of a person."""
    files = [file.name for file in sorted(run.path.iterdir()) if file.is_file()]
    own = {run.ledger.name + ending for ending in ("", "-wal", "-shm", "-lock")}
    others = [name for name in files if Path(name).suffix not in _KNOWN and name not in own]
    copies = [f"the file {encodable(name[:32])} in the run folder" for name in others[:4]]
    return copies + ["the model that the run started from"] * has_base
