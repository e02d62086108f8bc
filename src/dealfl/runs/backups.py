"""Backups of ledgers and journals: copied while in use, restored atomically."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec

from dealfl.errors import BadBytes, BadInput, meant_path
from dealfl.keyholder import KeyholderJournal
from dealfl.learners import from_schema
from dealfl.runs.folder import JOB, OWNERS_KEY, WORKERS
from dealfl.server import Ledger, rebuild_total
from dealfl.storage import (
    Database,
    make_folder,
    make_private,
    replace_file,
    require_unused,
    synchronize,
)
from dealfl.worker import Journal

MANIFEST = "backup.json"
_KINDS: dict[str, type[Database]] = {
    "ledger": Ledger,
    "journal": Journal,
    "keyholder": KeyholderJournal,
}
_BESIDE = ("-wal", "-shm", "-journal")


@dataclass(frozen=True, slots=True)
class Copied:
    """A copied database."""

    file: str
    kind: str
    version: int
    size_bytes: int


class _Entry(msgspec.Struct, frozen=True):
    kind: str
    version: int
    sha256: str


def back_up(source: Path, to: Path) -> list[Copied]:
    """Copy databases with their checksums into a new folder; they can be in use."""
    databases = _find_databases(source)
    if to.exists() and (not to.is_dir() or any(to.iterdir())):
        raise BadInput(f"{to} already exists; give the name of a new folder")
    make_folder(to.parent)
    draft = Path(tempfile.mkdtemp(dir=to.parent, prefix=f".{to.name}."))
    try:
        root = source if source.is_dir() else source.parent
        copies = [_copy(path, draft, str(path.relative_to(root))) for path in databases]
        entries = {
            copy.file: _Entry(copy.kind, copy.version, _sha256(draft / copy.file))
            for copy in copies
        }
        if source.is_dir():
            _copy_small(source, draft)
        replace_file(draft / MANIFEST, msgspec.json.format(msgspec.json.encode(entries)))
        draft.replace(to)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    return copies


def _find_databases(source: Path) -> list[Path]:
    if source.is_dir():
        files = [*sorted(source.glob("*.db")), *sorted((source / WORKERS).glob("*.db"))]
        databases = [path for path in files if _find_kind(path)]
        if not databases:
            raise BadInput(f"the folder {source} has no ledger and no journal")
        return databases
    if not source.is_file():
        remedy = meant_path(source) or "give a run folder, a ledger or a journal"
        raise BadInput(f"{source} does not exist; {remedy}")
    if not _find_kind(source):
        raise BadInput(f"{source} is neither a ledger nor a journal")
    return [source]


def _find_kind(path: Path) -> str:
    """Return "ledger", "journal", or "" for another file."""
    return next((name for name, kind in _KINDS.items() if kind.recognizes(path)), "")


def _copy(path: Path, folder: Path, name: str) -> Copied:
    kind, copy = _find_kind(path), folder / name
    make_folder(copy.parent)
    version = _KINDS[kind].back_up(path, copy)
    return Copied(name, kind, version, copy.stat().st_size)


def _copy_small(source: Path, to: Path) -> None:
    """Copy the job and the key for hashes of owners; replace nothing."""
    for name in (JOB, OWNERS_KEY):
        if (source / name).is_file() and not (to / name).exists():
            replace_file(to / name, (source / name).read_bytes())


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# -- restore ------------------------------------------------------------------------------------


def restore(backup: Path, to: Path, *, force: bool = False) -> list[Copied]:
    """Restore the databases of a backup; all are checked before any file is replaced.

    The model of a ledger is computed again from the sums of its workers.
    """
    pairs = _find_targets(backup, to)
    for path, target in pairs:
        if _find_kind(path) == "keyholder":
            raise BadInput(
                f"{path} is a keyholder's journal, which could open sums again; restore it by "
                f"`dealfl keyholder restore FOLDER --from {path}`, which draws a new key"
            )
        _require_replaceable(target, force)
    drafts: list[tuple[Path, Path, Copied]] = []
    try:
        for path, target in pairs:
            make_folder(target.parent)
            draft = target.with_name(f".{target.name}.{os.getpid()}.part")
            name = str(target.relative_to(to)) if target != to else target.name
            drafts.append((draft, target, _copy_checked(path, draft, name)))
        for draft, target, _ in drafts:
            _move_into_place(draft, target)
    finally:
        for draft, _, _ in drafts:
            _delete(draft)
    if backup.is_dir() and to.is_dir():
        _copy_small(backup, to)
    return [copied for _, _, copied in drafts]


def _find_targets(backup: Path, to: Path) -> list[tuple[Path, Path]]:
    if not backup.exists():
        remedy = meant_path(backup) or "give a folder written by dealfl backup"
        raise BadInput(f"{backup} does not exist; {remedy}")
    if not backup.is_dir():
        _require_kind(backup)
        return [(backup, to / backup.name if to.is_dir() else to)]
    _verify(backup)
    databases = _find_databases(backup)
    is_file = to.is_file() or (to.suffix == ".db" and not to.is_dir())
    if is_file and len(databases) > 1:
        raise BadInput(
            f"{to} is a file, but {backup} has {len(databases)} databases; give a folder"
        )
    return [(path, to if is_file else to / path.relative_to(backup)) for path in databases]


def _require_kind(path: Path) -> None:
    if not _find_kind(path):
        raise BadBytes(f"{path} is damaged, or not a ledger or a journal; use another backup")


def _verify(backup: Path) -> None:
    """Check the files of a backup against its checksums."""
    manifest = backup / MANIFEST
    if not manifest.is_file():
        raise BadInput(f"{backup} has no {MANIFEST}; give a folder written by dealfl backup")
    try:
        entries = msgspec.json.decode(manifest.read_bytes(), type=dict[str, _Entry])
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadBytes(f"{manifest} cannot be read: {error}; use another backup") from None
    for name, entry in entries.items():
        within = WORKERS if Path(name).parent.name == WORKERS else ""
        file = backup / within / Path(name).name
        if not file.is_file() or _sha256(file) != entry.sha256:
            raise BadBytes(f"{file} has changed since the backup; use another backup")


def _require_replaceable(target: Path, force: bool) -> None:
    if not target.exists():
        return
    if not force:
        raise BadInput(f"{target} already exists; use --force to replace it")
    try:
        require_unused(target)
    except BadBytes:
        return  # a damaged file can be replaced


def _copy_checked(path: Path, draft: Path, name: str) -> Copied:
    kind = _find_kind(path)
    _delete(draft)
    try:
        make_private(draft)
        shutil.copyfile(path, draft)
        with closing(_KINDS[kind](draft)) as database:  # checks that it can be opened
            version = database.version
            if isinstance(database, Ledger):
                with database.transaction():
                    database.begin_epoch()
                if (total := database.reader.total()) is not None:
                    rebuild_total(database, partial(from_schema, total.schema))
    except BaseException:
        _delete(draft)
        raise
    return Copied(name, kind, version, draft.stat().st_size)


def _move_into_place(draft: Path, target: Path) -> None:
    synchronize(draft)
    for suffix in _BESIDE:  # the log of the old file must not be applied to the new one
        Path(f"{target}{suffix}").unlink(missing_ok=True)
    draft.replace(target)
    synchronize(target.parent)


def _delete(draft: Path) -> None:
    for suffix in ("", *_BESIDE):
        Path(f"{draft}{suffix}").unlink(missing_ok=True)
