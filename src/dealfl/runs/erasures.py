"""Requests of erasure in the folder of a run: their queue, their state, and their certificates.

A request is a file in `RUN/requests`. It contains keyed hashes, never a name. A run that is under
way applies it between two rounds; a finished run applies it at once.
"""

from __future__ import annotations

import getpass
import re
import secrets
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from dealfl.erasure import (
    EXAMPLE,
    NOT_COVERED,
    READMISSION,
    CertificateLog,
    Erasure,
    Head,
    ModelVersion,
    PublicKey,
    check_proof,
    commit_to,
    count_persons,
    load_keys,
    open_signing_key,
    read_certificate,
    read_head,
    readmission_of,
    resolve_owner,
    sign_certificate,
    split_entry,
)
from dealfl.errors import BadInput
from dealfl.jobs import read_job
from dealfl.protocol import plain_name
from dealfl.runs.folder import REQUESTS, RunFolder
from dealfl.server import LedgerReader, Version
from dealfl.storage import make_folder, replace_file

_STAMP = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"  # begins the names of requests
_COMMITTED = 8  # persons with a commitment in a certificate


class NewRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A new request: its name, who made it, entries, and commitments with their salts."""

    name: str
    requested_by: str
    entries: list[bytes]
    commitments: list[str] = []
    salts: dict[str, str] = {}  # never written to the file

    @classmethod
    def erasing(
        cls, owners: Iterable[str], examples: Sequence[str], key: bytes, requested_by: str
    ) -> NewRequest:
        """Return a request to erase persons, and examples given by their ids."""
        names = _plain_names(owners)
        if not names and not examples:
            raise BadInput("no person is named; give the names of one or more owners")
        wrong = [one for one in examples if not re.fullmatch("[0-9a-f]{64}", one)]
        if wrong:
            raise BadInput(
                f"{wrong[0]!r} is not the id of an example; `dealfl show OWNER --ids` lists them"
            )
        salts = {name: secrets.token_bytes(16) for name in [*names, *examples][:_COMMITTED]}
        return cls(
            name=_new_name(),
            requested_by=requested_by or _account(),
            entries=[
                *(resolve_owner(key, name) for name in names),
                *(EXAMPLE + bytes.fromhex(one) for one in examples),
            ],
            commitments=[commit_to(name, salt) for name, salt in salts.items()],
            salts={name: salt.hex() for name, salt in salts.items()},
        )

    @classmethod
    def readmitting(cls, owners: Iterable[str], key: bytes, requested_by: str) -> NewRequest:
        """Return a request to readmit persons who consent again."""
        names = _plain_names(owners)
        if not names:
            raise BadInput("no person is named; give the names of one or more owners")
        entries = [readmission_of(resolve_owner(key, name)) for name in names]
        return cls(name=_new_name(), requested_by=requested_by or _account(), entries=entries)

    @property
    def is_readmission(self) -> bool:
        """Whether the request readmits persons."""
        return split_entry(self.entries[0])[0] == READMISSION

    def put(self, run: RunFolder) -> Path:
        """Write the request into the folder of a run, without the salts."""
        make_folder(run.path / REQUESTS)
        path = run.path / REQUESTS / f"{self.name.replace(' ', '-').replace(':', '')}.json"
        return replace_file(path, msgspec.json.encode(msgspec.structs.replace(self, salts={})))


def _plain_names(owners: Iterable[str]) -> list[str]:
    return sorted({plain_name(owner) for owner in owners} - {""})


def _new_name() -> str:
    return f"{format_stamp(time.time())} {secrets.token_hex(4)}"


def _account() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may have no accounts
        return "unknown"


def format_stamp(time_s: float) -> str:
    """Return a time in UTC, as in RFC 3339."""
    moment = datetime.fromtimestamp(time_s, UTC).isoformat(timespec="seconds")
    return moment.replace("+00:00", "Z")


def read_stamp(request: str) -> str:
    """Return the time in the name of a request; empty if it has none."""
    stamped = re.match(_STAMP, request)
    return stamped[0] if stamped else ""


def find_queued(run: RunFolder, known: Collection[Path] = ()) -> dict[Path, NewRequest]:
    """Return the requests that are not carried out yet, by file, in their order."""
    found = {}
    for file in sorted(set((run.path / REQUESTS).glob("*.json")) - set(known)):
        with suppress(FileNotFoundError):  # another process has carried it out
            try:
                found[file] = msgspec.json.decode(file.read_bytes(), type=NewRequest)
            except msgspec.MsgspecError as error:
                raise BadInput(f"{file} is damaged ({error}); delete it, and ask again") from error
    return found


CERTIFICATES = "certificates"  # folder of a run


def write_certificate(folder: Path, erasure: Erasure) -> Path:
    """Sign a certificate, add it to the log of a folder, and return its file."""
    key, log = open_signing_key(folder), _log_in(folder)
    certificate = sign_certificate(erasure, key)
    path = folder / f"{log.append(certificate, key) + 1:04}.json"
    return replace_file(path, certificate)


def _log_in(folder: Path) -> CertificateLog:
    return CertificateLog(folder, "dealfl/erasures")


@dataclass(frozen=True, slots=True)
class Evidence:
    """What to verify a certificate with.

    Parameters
    ----------
    keys : Path or None
        Public key in PEM format, or the folder of a log; None takes the certificate's folder.
    log : Path or None
        Folder of the log.
    proof : Path or None
        Proof that the certificate is in a log.
    since : Path or None
        Earlier head of the log; the proof must show that the log only grew since then.
    """

    keys: Path | None = None
    log: Path | None = None
    proof: Path | None = None
    since: Path | None = None


def verify_certificate(path: Path, evidence: Evidence) -> tuple[Erasure, int | None]:
    """Verify a certificate: its signature, and its entry in a log.

    Parameters
    ----------
    path : Path
        File of the certificate.
    evidence : Evidence
        Keys, and a log or a proof.

    Returns
    -------
    tuple of Erasure and (int or None)
        What the certificate says, and the number of its entry in the log, from 0.

    Raises
    ------
    BadBytes
        If anything was changed; the message names it.
    """
    content, keys = _read(path), load_keys(evidence.keys or path.parent)
    erasure, entry = read_certificate(content, keys), None
    if evidence.proof is not None:
        since = _read_head(evidence.since, keys)
        entry, _ = check_proof(_read(evidence.proof), content, keys, since)
    if evidence.log is not None:
        entry, _ = _log_in(evidence.log).verify(content, keys)
    return erasure, entry


def prove_entry(path: Path, evidence: Evidence, to: Path) -> Path:
    """Write a proof that a certificate is in a log, for who does not have the log.

    Parameters
    ----------
    path : Path
        File of the certificate.
    evidence : Evidence
        Keys and log; an earlier head, if the proof shall also show that the log only grew.
    to : Path
        File to write.

    Returns
    -------
    Path
        The file.
    """
    if evidence.log is None:
        raise BadInput("a proof is made from a log; give its folder with --log")
    keys = load_keys(evidence.keys or path.parent)
    since = _read_head(evidence.since, keys)
    return replace_file(to, _log_in(evidence.log).prove(_read(path), keys, since))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}") from error


def _read_head(path: Path | None, keys: Mapping[str, PublicKey]) -> Head | None:
    return None if path is None else read_head(_read(path).decode("utf-8", "replace"), keys)


def is_about(erasure: Erasure, owner: str, salt: str) -> bool:
    """Return whether a certificate is about a person.

    Parameters
    ----------
    erasure : Erasure
        What the certificate says.
    owner : str
        Name of the person.
    salt : str
        Salt of the commitment, as hexadecimal digits.

    Returns
    -------
    bool
        Whether one of its commitments is to this person.

    Raises
    ------
    BadInput
        If the salt has other characters.
    """
    try:
        return commit_to(owner, bytes.fromhex(salt)) in erasure.commitments
    except ValueError as error:
        raise BadInput(f"the salt {salt!r} does not consist of hexadecimal digits") from error


_KNOWN = {"", ".key", ".html", ".json", ".jsonl", ".toml"}  # files without examples


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
    requested_by : str
        Who requested it.
    kind : str
        "erase", "readmit", or "queued" for a run that has not applied it yet.
    heard_s : dict of str to float or None
        When each worker that has not answered was heard last, on the server's clock.
    """

    name: str
    persons: int
    examples: int
    answered: int
    outstanding: list[str]
    published: bool
    requested_s: float
    requested_by: str = ""
    kind: str = "erase"
    heard_s: dict[str, float | None] | None = None


def list_erasures(run: RunFolder, request: str = "") -> list[RequestStatus]:
    """Return the requests of erasure of a run, in their order; those in the queue are last.

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
        heard_s = {one.row.name: one.row.heard_s for one in reader.workers()}
        found = []
        for one in reader.erasures(request):
            answers = reader.answers(one.name)
            missing = sorted(heard_s.keys() - answers.keys()) if not one.published else []
            persons = len(one.owners) if one.is_readmission else count_persons(one.owners)
            found.append(
                RequestStatus(
                    one.name, persons, sum(answers.values()), len(answers), missing,
                    one.published, one.requested_s, one.requested_by,
                    "readmit" if one.is_readmission else "erase",
                    {worker: heard_s[worker] for worker in missing},
                )
            )  # fmt: skip
    known = {one.name for one in found}
    for queued in find_queued(run).values():
        if queued.name not in known and request in ("", queued.name):
            missing = sorted(heard_s)
            found.append(
                RequestStatus(
                    queued.name, len(queued.entries), 0, 0, missing, False, 0.0,
                    queued.requested_by, "queued", dict(heard_s),
                )
            )  # fmt: skip
    return found


def certify(
    run: RunFolder, request: str, requested_by: str = "", commitments: Sequence[str] = ()
) -> Path:
    """Write a certificate of the present state of a request.

    Parameters
    ----------
    run : RunFolder
        The run of the request.
    request : str
        Name of the request.
    requested_by : str
        Who requested the erasure; "" takes who is on record.
    commitments : sequence of str
        Commitments to persons of the request.

    Returns
    -------
    Path
        The certificate.

    Raises
    ------
    BadInput
        If there is no such request, or it readmits persons.
    """
    found = list_erasures(run, request) if request else []
    if not found or found[0].kind == "readmit":
        problem = "readmits persons" if found else "does not exist"
        raise BadInput(
            f"no erasure is called {request!r}: it {problem}; `dealfl erase --list` shows all"
        )
    (status,) = found
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
        issued_at=format_stamp(time.time()), persons=status.persons, examples=status.examples,
        commitments=tuple(commitments), workers=workers, outstanding=len(status.outstanding),
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
