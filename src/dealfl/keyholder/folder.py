"""The folder of a keyholder: settings, private key, journal, and enrolments to hand out.

A backup is a copy of the journal. It has forgotten the openings since, and could open sums again:
restoring one draws a new key, and enrols everybody again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from dealfl.errors import BadInput
from dealfl.keyholder.journal import KeyholderJournal
from dealfl.keyholder.keyholder import Keyholder, KeyholderRules
from dealfl.masks import SERVER, WORKER, draw_private_key, require_cryptography
from dealfl.protocol import check_id
from dealfl.settings import Amount, Document, Text, read_section, toml_document
from dealfl.storage import make_folder, replace_file

_SETTINGS, _KEY, _JOURNAL, _ENROLMENTS = (
    "keyholder.toml",
    "keyholder.key",
    "keyholder.db",
    "enrolments",
)
_KEY_BYTES = 32
SERVER_NAME = "server"


class KeyholderSettings(Struct, frozen=True, kw_only=True):
    """The section [keyholder] of a keyholder's file."""

    name: Annotated[
        Text, Meta(description="name under which it is enrolled at the broker, as in the job")
    ] = "keyholder"
    cohort: Annotated[
        int,
        Meta(ge=2, description="minimum number of workers with fresh examples in an opening, t"),
    ] = 5
    alone_after_s: Annotated[
        Amount,
        Meta(description="time since the last opening after which fewer will do; 0: never"),
    ] = 0.0

    @property
    def rules(self) -> KeyholderRules:
        """What every opening must satisfy."""
        return KeyholderRules(self.cohort, self.alone_after_s or None)


class KeyholderFolder:
    """The files of a keyholder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.journal_path = path / _JOURNAL

    def create(self, settings: KeyholderSettings) -> None:
        """Write the files of a new keyholder."""
        require_cryptography()
        check_id(settings.name, "keyholder")
        if (self.path / _SETTINGS).exists():
            raise BadInput(f"{self.path} has a keyholder; choose another folder")
        make_folder(self.path)
        values = {
            "name": settings.name,
            "cohort": settings.cohort,
            "alone_after_s": settings.alone_after_s,
        }
        replace_file(self.path / _SETTINGS, toml_document({"keyholder": values}))
        replace_file(self.path / _KEY, draw_private_key())
        KeyholderJournal(self.journal_path).close()

    @property
    def settings(self) -> KeyholderSettings:
        """Settings of the keyholder."""
        path = self.path / _SETTINGS
        if not path.is_file():
            raise BadInput(f"{self.path} has no keyholder; `dealfl keyholder init` creates one")
        return read_section(Document.read(path), KeyholderSettings, "keyholder")

    def _read_key(self) -> bytes:
        path = self.path / _KEY
        try:
            key = path.read_bytes()
        except OSError as error:
            raise BadInput(
                f"{path} cannot be read ({error.strerror}); without its key a keyholder opens "
                "nothing: `dealfl keyholder restore` draws a new one"
            ) from error
        if len(key) != _KEY_BYTES or path.stat().st_mode & 0o077:
            raise BadInput(f"{path} must have {_KEY_BYTES} bytes and be private (chmod 600)")
        return key

    @contextmanager
    def open(self, jobs: Sequence[str] = ()) -> Iterator[Keyholder]:
        """Open the keyholder; it reports to the servers of jobs when it starts."""
        require_cryptography()
        settings = self.settings
        key = self._read_key()
        if not self.journal_path.is_file():
            raise BadInput(
                f"{self.journal_path} is missing; restore a backup: `dealfl keyholder restore`"
            )
        with closing(KeyholderJournal(self.journal_path)) as journal:
            yield Keyholder(settings.name, journal, key, settings.rules, jobs)

    def enrol(self, names: Sequence[str], *, server: bool, again: bool) -> list[Path]:
        """Enrol workers or the server; return the files to hand out."""
        role = SERVER if server else WORKER
        with self.open() as keyholder:
            return [self._enrol(keyholder, name, role, again=again) for name in names]

    def _enrol(self, keyholder: Keyholder, name: str, role: str, *, again: bool) -> Path:
        enrolment = keyholder.enrol(name, role, again=again)
        folder = self.path / _ENROLMENTS
        make_folder(folder)
        path = folder / f"{name}.enrolment"
        path.unlink(missing_ok=True)
        enrolment.write(path)
        return path

    def restore(self, backup: Path | None = None) -> list[Path]:
        """Draw a new key, and enrol everybody again; a backup replaces the journal.

        The key is replaced first: even if the process is killed, the old one never meets a journal
        that has forgotten openings.
        """
        settings = self.settings
        if backup is not None and not KeyholderJournal.recognizes(backup):
            raise BadInput(f"{backup} is no journal of a keyholder; give its keyholder.db")
        replace_file(self.path / _KEY, draw_private_key())
        if backup is not None:
            self.journal_path.unlink(missing_ok=True)
            for suffix in ("-wal", "-shm"):
                Path(f"{self.journal_path}{suffix}").unlink(missing_ok=True)
            KeyholderJournal.back_up(backup, self.journal_path)
        with closing(KeyholderJournal(self.journal_path)) as journal:
            term = journal.claim()
            with journal.transaction(term):
                journal.forget_openings()
                journal.put_key_name("")
            keyholder = Keyholder(settings.name, journal, self._read_key(), settings.rules)
            members = [(role, name) for role in (SERVER, WORKER) for name in journal.members(role)]
            return [self._enrol(keyholder, name, role, again=True) for role, name in members]
