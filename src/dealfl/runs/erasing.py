"""Erase persons from a run, with a certificate; readmit persons who consent again."""

from __future__ import annotations

import os
import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from zipfile import ZipFile, is_zipfile

import msgspec

from dealfl.erasure import (
    EXAMPLE,
    READMISSION,
    Erasure,
    ErasureRequest,
    Evidence,
    example_hash,
    open_signing_key,
    owner_hash,
    resolve_owner,
    split_entry,
    verify_certificate,
)
from dealfl.errors import BadBytes, BadInput, DealError, argument, instruction
from dealfl.protocol import plain_name
from dealfl.runs.erasures import (
    CERTIFICATES,
    certify,
    find_certificate,
    find_queued,
    put_request,
    request_file,
)
from dealfl.runs.finished_run import (
    find_holdings,
    find_journals,
    list_owners,
    open_finished,
    read_names,
    require_document,
    require_journals,
    retrain,
)
from dealfl.runs.folder import FORGETTING, REQUESTS, RunFolder, runs_of_file
from dealfl.runs.result import Forgotten
from dealfl.server import LedgerReader
from dealfl.storage import log, replace_file
from dealfl.worker import Journal, State

_POLL_S = 0.2
_WAIT_S = 60.0  # for a run that is under way
_RUNNING = "the run is under way: its workers forget now, and it certifies that when it ends"
_STOPPED = "the run is stopped: --resume carries the request out, --discard deletes all examples"
_MIN_ID = 8  # digits of an example's id
_MOST_WIDTH = 40  # of the names in a table; longer ones stand out


@dataclass(frozen=True, slots=True, repr=False)
class ErasureResult:
    """The result of an erasure; it reads as the table that `dealfl erase` prints."""

    erasure: Erasure
    certificate: Path
    salts: dict[str, str]
    known_before: int
    also_held: tuple[str, ...] = ()  # other runs of the same file that hold examples of them

    def __repr__(self) -> str:
        erasure = self.erasure
        rows = {
            "persons": f"{erasure.persons:,}"
            + f", {self.known_before:,} erased before" * bool(self.known_before),
            "examples deleted": erasure.examples_seen
            + f" from the model; {erasure.claimed:,} from workers, by their report"
            * (erasure.claimed != erasure.examples),
            "workers": f"{erasure.workers - erasure.outstanding:,} of {erasure.workers:,} "
            "have answered",
            "model before": str(erasure.before or "none published"),
            "model after": str(erasure.after or "none published"),
            "certificate": str(self.certificate),
        }
        rows |= {f"salt of {name}": salt for name, salt in self.salts.items()}
        width = max(len(name) for name in rows if len(name) <= _MOST_WIDTH)
        table = "\n".join(f"  {name:{width}}  {value}" for name, value in rows.items())
        runs = ", ".join(self.also_held)
        also = f"\n\nALSO HELD by other runs of the same file: {runs}. Erase them there, too."
        return f"{table}\n\n{self._ending}{also * bool(runs)}"

    @property
    def _ending(self) -> str:
        if not self.erasure.final:
            listed = instruction(".", "; see\n`dealfl erasures list`.")
            return f"NOT FINISHED: workers have not answered, or no version shows it{listed}"
        if self.erasure.nothing_held:
            until = instruction("they are readmitted", "`dealfl readmit`")
            return (
                "NOTHING WAS HELD of these persons, so the model is as it was. Their examples are\n"
                f"refused until {until}."
            )
        return (
            "The model is equal to one that never saw them. Each salt proves, with the name, that "
            "the\ncertificate is about that person; it is stored nowhere."
        )


def erase_owners(
    run: RunFolder,
    owners: Sequence[str],
    *,
    requested_by: str,
    examples: Sequence[str] = (),
    wait_s: float = _WAIT_S,
    progress: Callable[[str], None] = lambda _: None,
) -> ErasureResult:
    """Erase persons or examples from a run, and write a certificate.

    Copies in the folder are deleted: of data in memory, and exported models.
    """
    new = file_erasure(run, owners, requested_by=requested_by, examples=examples)
    erased = complete_erasure(run, new, wait_s=wait_s, progress=progress)
    return replace(erased, also_held=tuple(_find_other_runs(run, owners)))


def _find_other_runs(run: RunFolder, owners: Sequence[str]) -> Iterator[str]:
    """Yield the other runs of the same file that hold examples of these persons."""
    file = str(run.tables().get("source", {}).get("file", ""))
    for other in runs_of_file(run, file) if file else ():
        with suppress(DealError, OSError):  # a run that is damaged stops no other
            if not other.path.samefile(run.path) and any(
                find_holdings(other, owner) for owner in owners
            ):
                yield os.path.relpath(other.path)


def file_erasure(
    run: RunFolder, owners: Sequence[str], *, requested_by: str, examples: Sequence[str] = ()
) -> ErasureRequest:
    """Put a request to erase into the queue of a run; from then on it survives kill −9."""
    ids = [_complete_id(run, example) for example in examples]
    new = ErasureRequest.erasing(owners, ids, run.owners_key(), requested_by)
    open_signing_key(run.path / CERTIFICATES)  # nothing is erased that cannot be certified
    return _file(run, new)


def _file(run: RunFolder, new: ErasureRequest) -> ErasureRequest:
    """Put a request into the queue of a run that can carry it out."""
    if run.progress() is None:
        require_journals(run)
        require_document(run)
    put_request(run, new)
    return new


def complete_erasure(
    run: RunFolder,
    new: ErasureRequest,
    *,
    wait_s: float,
    progress: Callable[[str], None],
) -> ErasureResult:
    """Carry out a request in the queue of a run, or wait for its process; write a certificate."""
    before = erased_before(run)
    path = _apply(run, new, wait_s, progress) or certify(run, new.name, "", new.commitments)
    erasure, _ = verify_certificate(path, Evidence())
    return ErasureResult(erasure, path, new.salts, len(before & set(new.entries)))


def carry_out_queue(run: RunFolder) -> list[Path]:
    """Carry out the requests that a process has left in the queue of a finished run."""
    if run.progress() is not None:
        raise BadInput(_RUNNING)
    with run.locked():
        return [path for path in carry_out(run).values() if path is not None]


def require_known(run: RunFolder, owners: Sequence[str]) -> None:
    """Refuse names that the run does not know; name those that are spelt nearly so."""
    unknown, near = find_unknown(run, owners)
    if unknown:
        meant = f"did you mean {' or '.join(map(repr, near))}? Nobody" if near else "nobody"
        count = len(unknown) - 1
        others = f" and {count:,} other name{'s' if count > 1 else ''}" if count else ""
        listing = instruction("result.owners()", "`dealfl show RUN --owners`")
        raise BadInput(
            f"the run holds nothing of {unknown[0]!r}{others}; {meant} was erased; {listing} "
            f"lists all persons, {argument('unknown_too', True)} certifies that nothing was held"
        )


def find_unknown(run: RunFolder, owners: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the names that the run does not know, and known ones spelt nearly like the first."""
    key, known = run.owners_key(), erased_before(run)
    for path in find_journals(run).values():
        with closing(Journal(path)) as journal:
            known |= journal.owners().keys()
    names = sorted({plain_name(owner) for owner in owners} - {""})
    unknown = [name for name in names if not known & {*resolve_owner(key, name)}]
    if not unknown:
        return [], []
    visible = read_names(run)
    if not visible and not find_journals(run):
        return [], []  # the run is starting, and its data cannot be read here
    unknown = [name for name in unknown if owner_hash(key, name) not in visible]
    return unknown, _find_near(unknown[0], visible.values()) if unknown else []


def _find_near(name: str, names: Iterable[str]) -> list[str]:
    """Return names that differ little, in case, accents or single letters.

    >>> _find_near("jurgen muller", ["J\u00fcrgen M\u00fcller", "Ann"])
    ['J\u00fcrgen M\u00fcller']
    """
    folded: dict[str, str] = {}
    for known in sorted(names):
        folded.setdefault(_fold(known), known)
    return [folded[near] for near in get_close_matches(_fold(name), folded, n=3, cutoff=0.75)]


def _fold(name: str) -> str:
    """Return a name without case and accents."""
    parts = unicodedata.normalize("NFKD", name.casefold())
    return "".join(letter for letter in parts if not unicodedata.combining(letter))


def readmit_owners(
    run: RunFolder, owners: Sequence[str], *, requested_by: str, wait_s: float = _WAIT_S
) -> int:
    """Readmit persons who were erased and consent again; their old examples stay erased."""
    new = _file(run, ErasureRequest.readmitting(owners, run.owners_key(), requested_by))
    before = erased_before(run)
    _apply(run, new, wait_s, lambda _: None)
    return sum(split_entry(entry)[1] in before for entry in new.entries)


def _apply(
    run: RunFolder, new: ErasureRequest, wait_s: float, progress: Callable[[str], None]
) -> Path | None:
    """Carry out a request in the queue, or wait for its run; return its final certificate."""
    file, until_s = request_file(run, new), time.monotonic() + wait_s
    said = False
    while (now := run.progress()) is not None:
        if now.stopped or time.monotonic() > until_s:
            progress(_STOPPED if now.stopped else _RUNNING)
            return None
        if not said:
            progress(_RUNNING)
            said = True
        time.sleep(_POLL_S)
    with run.locked():
        made = carry_out(run, progress, {file: new})
    if file in made:
        return made[file]
    found = find_certificate(run, new.name)  # by the process of the run
    return found and found[0]


def carry_out(
    run: RunFolder,
    progress: Callable[[str], None] = lambda _: None,
    own: Mapping[Path, ErasureRequest] | None = None,
) -> dict[Path, Path | None]:
    """Carry out the requests in the queue of a finished run that is locked."""
    requests = {path: request for path, request in (own or {}).items() if path.exists()}
    requests = dict(sorted({**find_queued(run, skipped=requests), **requests}.items()))
    made: dict[Path, Path | None] = {}
    if requests:
        with open_finished(run, run.owners_key()) as parts:
            for request in requests.values():
                parts.erase(request.name, request.entries, request.requested_by)
        if not all(request.is_readmission for request in requests.values()):
            _discard_copies(run, progress)
    for file, request in requests.items():
        log("readmitted" if request.is_readmission else "erased", persons=len(request.entries))
        if request.is_readmission:
            made[file] = None
        else:  # an earlier process may have certified it, and was killed then
            found = None
            if file not in (own or {}):
                found = find_certificate(run, request.name, final=True)
            made[file] = found[0] if found else certify(run, request.name, "", request.commitments)
        file.unlink()
    with suppress(OSError):
        (run.path / REQUESTS).rmdir()  # if it is empty
    return made


def _discard_copies(run: RunFolder, progress: Callable[[str], None]) -> None:
    """Delete what contains the persons: the copy of data in memory, and exported models."""
    run.discard_copy()
    for file in sorted(run.path.iterdir()):
        if file.is_file() and _is_exported(file):
            file.unlink()
            progress(f"deleted {file}, an exported model that contains them; export it again")


def _is_exported(file: Path) -> bool:
    if file.suffix == ".npz":
        return is_zipfile(file) and {"learner.npy", "digest.npy"} <= set(ZipFile(file).namelist())
    return file.suffix == ".deal" and file.read_bytes().startswith(b"DEALFILE")


def forget_person(run: RunFolder) -> Forgotten | None:
    """Erase the person of whom a finished run that is locked has learned the most examples."""
    note = run.path / FORGETTING  # a run that is killed and resumed erases nobody else
    if note.exists():
        new, never_saw = _read_note(note)
        person = read_names(run).get(new.entries[0], f"#{new.entries[0].hex()}")
    else:
        names = [
            owner.owner for owner in sorted(list_owners(run), key=lambda owner: -owner.examples)
        ]
        learned = (name for name in names if any(at.learned for at in find_holdings(run, name)))
        if not (person := next(learned, "")):
            return None
        never_saw = retrain(run, without=person)
        new = ErasureRequest.erasing([person], [], run.owners_key(), "dealfl run")
        new = msgspec.structs.replace(new, salts={})  # they contain the name
        replace_file(note, msgspec.json.encode((new, never_saw)))
    found, request = find_certificate(run, new.name), put_request(run, new)
    certificate = found and found[0]
    if certificate is None:
        certificate = carry_out(run, own={request: new})[request]
    else:
        request.unlink()
    assert certificate is not None
    erasure, _ = verify_certificate(certificate, Evidence())
    digest = "" if erasure.after is None else erasure.after.digest
    return Forgotten(person, erasure.claimed, digest, never_saw, str(certificate))


def _read_note(path: Path) -> tuple[ErasureRequest, str]:
    """Return the request of a run that was killed, and the digest without the person."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=tuple[ErasureRequest, str])
    except msgspec.MsgspecError as error:
        raise BadBytes(
            f"{path} is damaged ({error}); run again with {argument('restart', True)}"
        ) from error


def erased_before(run: RunFolder) -> set[bytes]:
    """Return the entries that are erased, without owners who were readmitted."""
    erased: set[bytes] = set()
    with LedgerReader.open(run.ledger) as reader:
        for request in reader.erasures():
            for entry in request.owners:
                letter, hashed = split_entry(entry)
                if letter == READMISSION:
                    erased.discard(hashed)
                else:
                    erased.add(entry)
    return erased


def _complete_id(run: RunFolder, beginning: str) -> str:
    """Return the id of the held example that has this beginning; a whole id need not be held."""
    if len(beginning) == 2 * len(example_hash(b"", b"", b"")[1:]):
        return beginning
    matches = {example for example in _ids(run) if example.startswith(beginning)}
    if len(beginning) < _MIN_ID or len(matches) != 1:
        raise BadInput(
            f"{len(matches):,} examples have an id that begins with {beginning!r}; give at least "
            f"{_MIN_ID} digits of an id that `dealfl show RUN OWNER --ids` lists"
        )
    return matches.pop()


def _ids(run: RunFolder) -> Iterator[str]:
    key = run.owners_key()
    for path in find_journals(run).values():
        with closing(Journal(path)) as journal:
            for state in State:
                for record in journal.records(state):
                    yield example_hash(key, record.owner, record.body).removeprefix(EXAMPLE).hex()
