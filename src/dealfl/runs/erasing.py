"""Erase persons from a finished run, with a certificate; show what is held of a person."""

from __future__ import annotations

import getpass
import re
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from dealfl.erasure import (
    NOT_COVERED,
    Erasure,
    ModelVersion,
    commit_to,
    open_signing_key,
    plain_name,
    resolve_owner,
)
from dealfl.errors import BadInput
from dealfl.jobs import read_job
from dealfl.runs.certificates import (
    CERTIFICATES,
    Evidence,
    verify_certificate,
    write_certificate,
)
from dealfl.runs.finished_run import open_finished
from dealfl.runs.folder import RunFolder
from dealfl.server import LedgerReader, Version

__all__ = [
    "Erased",
    "NewRequest",
    "RequestStatus",
    "certify",
    "erase_owners",
    "list_erasures",
]  # fmt: skip

_STAMP = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"  # begins the names of requests
_COMMITTED = 8  # persons with a commitment in a certificate
_KNOWN = {"", ".key", ".html", ".json", ".jsonl", ".toml"}  # files without examples


@dataclass(frozen=True, slots=True)
class Erased:
    """The result of an erasure.

    Parameters
    ----------
    erasure : Erasure
        What the certificate says.
    certificate : Path
        File of the certificate.
    salts : dict of str to str
        Salt of the commitment to each of the first persons, as hexadecimal digits. It is stored
        nowhere else: give it to the person.
    known_before : int
        Number of these persons who were erased before.
    """

    erasure: Erasure
    certificate: Path
    salts: dict[str, str]
    known_before: int


def erase_owners(run: RunFolder, owners: Sequence[str], *, requested_by: str) -> Erased:
    """Erase persons from a finished run, and write a certificate.

    Parameters
    ----------
    run : RunFolder
        The run.
    owners : sequence of str
        Names of the persons.
    requested_by : str
        Who requests the erasure, such as the account of an operator; "" takes that of this process.

    Returns
    -------
    Erased
        What was done.

    Raises
    ------
    BadInput
        If no name is given, the run is not finished, or its journals were discarded.
    """
    new = NewRequest.of(owners, run.owners_key())
    open_signing_key(run.path / CERTIFICATES)  # nothing is erased that cannot be certified
    with run.locked(), open_finished(run, run.owners_key()) as parts:
        known = {one for request in parts.ledger.reader.erasures() for one in request.owners}
        parts.erase(new.name, new.hashes)
    path = certify(run, new.name, requested_by, new.commitments)
    erasure, _ = verify_certificate(path, Evidence())
    return Erased(erasure, path, new.salts, len(known & set(new.hashes)))


@dataclass(frozen=True, slots=True)
class NewRequest:
    """A new request to erase persons: its name, keyed hashes, and commitments with their salts."""

    name: str
    hashes: list[bytes]
    commitments: list[str]
    salts: dict[str, str]

    @classmethod
    def of(cls, owners: Sequence[str], key: bytes) -> NewRequest:
        """Return a request for persons, hashed with the key of their run."""
        names = sorted({plain_name(owner) for owner in owners} - {""})
        if not names:
            raise BadInput("no person is named; give the names of one or more owners")
        salts = {name: secrets.token_bytes(16) for name in names[:_COMMITTED]}
        return cls(
            name=f"{_stamp(time.time())} {secrets.token_hex(4)}",
            hashes=[resolve_owner(key, name) for name in names],
            commitments=[commit_to(name, salt) for name, salt in salts.items()],
            salts={name: salt.hex() for name, salt in salts.items()},
        )


def _account() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may have no accounts
        return "unknown"


def _stamp(time_s: float) -> str:
    moment = datetime.fromtimestamp(time_s, UTC).isoformat(timespec="seconds")
    return moment.replace("+00:00", "Z")


@dataclass(frozen=True, slots=True)
class RequestStatus:
    """A request of erasure and its answers.

    Parameters
    ----------
    name : str
        Name of the request.
    persons, examples, answered : int
        Number of persons, of deleted examples, and of workers that have answered.
    outstanding : list of str
        Workers that have not answered.
    published : bool
        Whether a version that was delivered contains the erasure.
    requested_s : float
        Time of the request, in seconds of the server's clock.
    """

    name: str
    persons: int
    examples: int
    answered: int
    outstanding: list[str]
    published: bool
    requested_s: float


def list_erasures(run: RunFolder, request: str = "") -> list[RequestStatus]:
    """Return the requests of erasure of a run, in their order.

    Parameters
    ----------
    run : RunFolder
        The run.
    request : str
        Name of one request; "" returns all.

    Returns
    -------
    list of RequestStatus
        The requests.
    """
    with LedgerReader.open(run.ledger) as reader:
        workers = {one.row.name for one in reader.workers()}
        found = []
        for one in reader.erasures(request):
            answers = reader.answers(one.name)
            missing = sorted(workers - answers.keys()) if not one.published else []
            found.append(
                RequestStatus(
                    one.name, len(one.owners), sum(answers.values()), len(answers),
                    missing, one.published, one.requested_s,
                )
            )  # fmt: skip
    return found


def certify(
    run: RunFolder,
    request: str,
    requested_by: str,
    commitments: Sequence[str] = (),
) -> Path:
    """Write a certificate of the present state of a request.

    Parameters
    ----------
    run : RunFolder
        The run of the request.
    request : str
        Name of the request.
    requested_by : str
        Who requested the erasure.
    commitments : sequence of str
        Commitments to persons of the request.

    Returns
    -------
    Path
        The certificate.

    Raises
    ------
    BadInput
        If there is no such request.
    """
    found = list_erasures(run, request) if request else []
    if not found:
        raise BadInput(f"no erasure is called {request!r}; `dealfl erase --list` shows all")
    (status,) = found
    stamped = re.match(_STAMP, request)  # a run that is simulated has no real clock
    with LedgerReader.open(run.ledger) as reader:
        before, after = reader.versions_around(request)
        workers, has_base = len(reader.workers()), reader.has_base
    erasure = Erasure(
        job=read_job(document).name if (document := run.document()) is not None else "",
        request=request, requested_by=(requested_by or _account())[:64], persons=status.persons,
        requested_at=stamped[0] if stamped else _stamp(status.requested_s),
        issued_at=_stamp(time.time()), examples=status.examples, workers=workers,
        commitments=tuple(commitments), outstanding=len(status.outstanding),
        before=_certified(before), after=_certified(after), final=status.published,
        not_covered=(*NOT_COVERED, *_find_copies(run, has_base)),
    )  # fmt: skip
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
