"""Erase persons from a finished run, with a certificate; show what is held of a person."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from dealfl.erasure import (
    NOT_COVERED,
    Erasure,
    commit_to,
    owner_hash,
    plain_name,
)
from dealfl.errors import BadInput
from dealfl.learners import statistics_of
from dealfl.runs.certificates import CERTIFICATES, write_certificate
from dealfl.runs.finished_run import find_journals, open_finished
from dealfl.runs.folder import RunFolder
from dealfl.server import Ledger, LedgerReader
from dealfl.statistics import Statistics
from dealfl.worker import Journal, State

__all__ = [
    "Erased", "Holding", "RequestStatus", "erase_owners", "find_holdings",
    "list_erasures", "retrain",
]  # fmt: skip

_MAX_COMMITMENTS = 8
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


@dataclass(frozen=True, slots=True)
class Holding:
    """What a worker holds of a person.

    Parameters
    ----------
    worker : str
        Name of the worker.
    learned, waiting, grace : int
        Number of examples that are learned, that wait, and that were evicted and not deleted yet.
    """

    worker: str
    learned: int
    waiting: int
    grace: int


def erase_owners(run: RunFolder, owners: Sequence[str], *, requested_by: str) -> Erased:
    """Erase persons from a finished run, and write a certificate.

    Parameters
    ----------
    run : RunFolder
        The run.
    owners : sequence of str
        Names of the persons.
    requested_by : str
        Who asks for the erasure, such as the account of an operator.

    Returns
    -------
    Erased
        What was done.

    Raises
    ------
    BadInput
        If no name is given, the run is not finished, or its journals were discarded.
    """
    names = sorted({plain_name(owner) for owner in owners} - {""})
    if not names:
        raise BadInput("no person is named; give the names of one or more owners")
    key, requested_at = run.owners_key(), _now()
    hashes = [owner_hash(key, name) for name in names]
    with run.locked(), open_finished(run, key) as parts:
        known = {one for request in parts.ledger.reader.erasures() for one in request.owners}
        before = parts.stand()
        request = f"{requested_at} {secrets.token_hex(4)}"
        parts.erase(request, hashes)
        answers = parts.ledger.reader.answers(request)
        salts = {name: secrets.token_bytes(16) for name in names[:_MAX_COMMITMENTS]}
        erasure = Erasure(
            job=parts.server.job, request=request, requested_by=requested_by[:64],
            requested_at=requested_at, issued_at=_now(), persons=len(names),
            examples=sum(answers.values()),
            commitments=tuple(commit_to(name, salt) for name, salt in salts.items()),
            workers=len(parts.journals), outstanding=len(parts.journals.keys() - answers.keys()),
            before=before, after=parts.stand(), final=parts.is_shown,
            not_covered=(*NOT_COVERED, *_find_copies(run, parts.ledger)),
        )  # fmt: skip
        path = write_certificate(run.path / CERTIFICATES, erasure)
    hidden = {name: salt.hex() for name, salt in salts.items()}
    return Erased(erasure, path, hidden, len(known & set(hashes)))


def _find_copies(run: RunFolder, ledger: Ledger) -> list[str]:
    """Return what else in the folder can contain examples of a person."""
    files = [file.name for file in sorted(run.path.iterdir()) if file.is_file()]
    own = {run.ledger.name + ending for ending in ("", "-wal", "-shm", "-lock")}
    others = [name for name in files if Path(name).suffix not in _KNOWN and name not in own]
    copies = [f"the file {name[:32]} in the run folder" for name in others[:4]]
    return copies + ["the model that the run started from"] * (ledger.find_sum("") is not None)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


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
    """

    name: str
    persons: int
    examples: int
    answered: int
    outstanding: list[str]
    published: bool


def list_erasures(run: RunFolder) -> list[RequestStatus]:
    """Return all requests of erasure of a run, in their order.

    Parameters
    ----------
    run : RunFolder
        The run.

    Returns
    -------
    list of RequestStatus
        The requests.
    """
    with LedgerReader.open(run.ledger) as reader:
        workers = {one.row.name for one in reader.workers()}
        found = []
        for request in reader.erasures():
            answers = reader.answers(request.name)
            missing = sorted(workers - answers.keys()) if not request.published else []
            found.append(
                RequestStatus(
                    request.name, len(request.owners), sum(answers.values()), len(answers),
                    missing, request.published,
                )
            )  # fmt: skip
    return found


def find_holdings(run: RunFolder, owner: str) -> list[Holding]:
    """Return what each worker of a finished run holds of a person.

    Parameters
    ----------
    run : RunFolder
        The run.
    owner : str
        Name of the person.

    Returns
    -------
    list of Holding
        One entry per worker that holds an example.
    """
    hashed, found = owner_hash(run.owners_key(), owner), []
    for name, path in find_journals(run).items():
        with closing(Journal(path)) as journal:
            held = {state: len(records) for state, records in journal.records_of([hashed]).items()}
            counts = (held[State.LEARNED], held[State.WAITING], held[State.GRACE])
            found += [Holding(name, *counts)] * any(counts)
    return found


def retrain(run: RunFolder) -> str:
    """Return the digest of training on all examples that the workers of a finished run hold.

    Parameters
    ----------
    run : RunFolder
        The run.

    Returns
    -------
    str
        Digest of the statistics, including those of a model that the run started from.
    """
    with run.locked(), open_finished(run, run.owners_key()) as parts:
        make = parts.make
        model, base = make(), parts.ledger.find_sum("")
        if base is not None:
            model.merge(Statistics.from_bytes(base))
        for journal in parts.journals.values():
            model.merge(statistics_of(make, journal.records(State.LEARNED))[0])
    return model.digest()
