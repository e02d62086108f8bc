"""Where a process keeps its enrolment with a keyholder: in its own folder, from the first start."""

from __future__ import annotations

from pathlib import Path

from dealfl.errors import BadInput
from dealfl.jobs import PrivacyKeys
from dealfl.masks import Enrolment

_FILE = "keyholder.enrolment"


def read_enrolment(
    keys: PrivacyKeys, folder: Path, given: Path | None, role: str, name: str
) -> Enrolment | None:
    """Return the enrolment of a process; a file that is given moves into its folder.

    None if the job has no section [privacy]. A job file comes from the server, so it cannot switch
    masks off for who has an enrolment.
    """
    kept = folder / _FILE
    if not keys.keyholder:
        if given is None and not kept.is_file():
            return None
        raise BadInput(
            f"{given or kept} is an enrolment with a keyholder, and the job has no section "
            "[privacy]: updates would be sent unmasked. If you want that, delete the file, and "
            "begin with a new folder"
        )
    if given is not None:
        enrolment = _require_own(Enrolment.read(given, role), name, given)
        if given.resolve() != kept.resolve():
            kept.unlink(missing_ok=True)
            enrolment.write(kept)
            given.unlink()
    if not kept.is_file():
        raise BadInput(
            f"the job has the section [privacy], and {folder} has no {_FILE}: give the file that "
            f"the keyholder's operator wrote (`dealfl keyholder enrol`) with --keyholder"
        )
    return _require_own(Enrolment.read(kept, role), name, kept)


def _require_own(enrolment: Enrolment, name: str, path: Path) -> Enrolment:
    if enrolment.role == "worker" and enrolment.name != name:
        raise BadInput(f"enrolment {path} is for the worker {enrolment.name!r}, not for {name!r}")
    return enrolment
