"""Persons who were erased from earlier runs of the same data: a new run leaves them out.

An erasure does not change source files, so a new run would read the person again. It therefore
looks at the runs in the same folder that read a file of the same name. What it finds is kept in its
own folder, as keyed hashes with their keys, so that later runs know it when the others are deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

import msgspec
import numpy as np

from dealfl.erasure import EXAMPLE, owner_hash, split_entry
from dealfl.errors import BadBytes, DealError, argument, unreadable
from dealfl.jobs import Reading
from dealfl.runs.erasing import erased_before
from dealfl.runs.folder import ERASED, OWNERS_KEY, RunFolder, runs_of_file
from dealfl.simulate import FleetSpec
from dealfl.storage import replace_file


class ErasedOwners(msgspec.Struct, frozen=True):
    """Keyed hashes of erased owners, their key, and the run they were erased from."""

    run: str
    key: bytes
    owners: list[bytes]

    def includes(self, name: str) -> bool:
        """Return whether a person was erased."""
        return owner_hash(self.key, name) in self.owners


def find_erased(folder: RunFolder, file: str) -> list[ErasedOwners]:
    """Return who was erased from the runs of a file: in a folder, beside it, and in `runs`."""
    runs = runs_of_file(folder, file)
    lists: dict[bytes, ErasedOwners] = {}
    for read in (_carried, _erased_from):  # the list of a run itself is later than copies of it
        for run in runs:
            with suppress(DealError):  # a run that is damaged stops no other
                lists |= {erased.key: erased for erased in read(run)}
    return [erased for erased in lists.values() if erased.owners]


def _erased_from(run: RunFolder) -> list[ErasedOwners]:
    if not run.ledger.is_file() or not (run.path / OWNERS_KEY).exists():
        return []
    entries = {split_entry(entry) for entry in erased_before(run)}
    owners = sorted(hashed for letter, hashed in entries if letter != EXAMPLE)
    return [ErasedOwners(str(run.path), run.owners_key(), owners)]


def _carried(run: RunFolder) -> list[ErasedOwners]:
    path = run.path / ERASED
    if not path.exists():
        return []
    remedy = f"run again with {argument('restart', True)}"
    try:
        return msgspec.json.decode(path.read_bytes(), type=list[ErasedOwners])
    except OSError as error:
        raise unreadable(path, error, remedy) from error
    except msgspec.MsgspecError as error:
        raise BadBytes(f"{path} is damaged ({error}); {remedy}") from error


def keep_erased(run: RunFolder, lists: Sequence[ErasedOwners]) -> None:
    """Write into the folder of a run whom it leaves out."""
    if lists:
        replace_file(run.path / ERASED, msgspec.json.encode(lists))


def readmit_left_out(run: RunFolder, names: Sequence[str]) -> int:
    """Read persons again in later runs; return how many were left out of this one."""
    lists = _carried(run)
    known = [name for name in names if any(erased.includes(name) for erased in lists)]
    if known:
        kept = [
            msgspec.structs.replace(
                erased,
                owners=sorted({*erased.owners} - {owner_hash(erased.key, name) for name in known}),
            )
            for erased in lists
        ]
        replace_file(run.path / ERASED, msgspec.json.encode(kept))
    return len(known)


def without_erased(fleet: FleetSpec, run: RunFolder, warn: Callable[[str], None]) -> FleetSpec:
    """Return a fleet whose data are read without the persons that the run leaves out."""
    if not (lists := _carried(run)):
        return fleet
    subject = fleet.plan.subject
    subject = replace(subject, read=partial(_read, subject.read, lists, warn))
    return msgspec.structs.replace(fleet, plan=replace(fleet.plan, subject=subject))


def _read(
    read: Callable[[], Reading], lists: Sequence[ErasedOwners], warn: Callable[[str], None]
) -> Reading:
    reading = read()
    owners, names = reading.examples.owners, reading.owner_names
    if owners is None or names is None:
        return reading
    numbers = np.unique(owners)
    gone = [n for n in numbers.tolist() if any(erased.includes(names[n]) for erased in lists)]
    if not gone:
        return reading
    kept = ~np.isin(owners, gone)
    count, persons = int((~kept).sum()), len(gone)
    what = f"{count:,} {'example' if count == 1 else 'examples'} of {persons:,} "
    what += "person who was" if persons == 1 else "persons who were"
    note = f"{what} erased from an earlier run are left out"
    warn(f"{note}; {argument('with_erased', True)} reads them again")
    return replace(reading, examples=reading.examples.keep(kept), notes=(*reading.notes, note))
