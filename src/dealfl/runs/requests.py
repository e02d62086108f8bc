"""Requests of erasure in the folder of a run, until they are carried out.

A request is a file in `RUN/requests`. It contains keyed hashes, never a name. A run that is under
way applies it between two rounds; a finished run applies it at once.
"""

from __future__ import annotations

import getpass
import re
import secrets
import time
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from dealfl.erasure import (
    EXAMPLE,
    READMISSION,
    commit_to,
    readmission_of,
    resolve_owner,
    split_entry,
)
from dealfl.errors import BadInput
from dealfl.protocol import plain_name
from dealfl.runs.folder import REQUESTS, RunFolder
from dealfl.storage import make_folder, replace_file

__all__ = ["NewRequest", "find_queued", "format_stamp", "read_stamp"]

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
