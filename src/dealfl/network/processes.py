"""What all processes share: they run until they are stopped, and keep an enrolment.

SIGTERM and Ctrl-C stop a process after its current call; it resumes from its store.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from dealfl.errors import BadInput
from dealfl.jobs import PrivacyKeys
from dealfl.masks import Enrolment

_ENROLMENT_FILE = "keyholder.enrolment"
_HEALTH_S = 10.0

Health = Callable[[str], None]
Result = TypeVar("Result")


async def report_health(health: Health, line: Callable[[], str], stopped: asyncio.Event) -> None:
    """Report a line about the state every ten seconds."""
    while not stopped.is_set():
        with suppress(TimeoutError):
            await asyncio.wait_for(stopped.wait(), _HEALTH_S)
        health(line())


async def run_together(*parts: Coroutine[Any, Any, None]) -> None:
    """Wait for all parts; if one fails, stop the others and raise its error."""
    async with asyncio.TaskGroup() as group:
        for part in parts:
            group.create_task(part)


def run_until_stopped(main: Callable[[asyncio.Event], Awaitable[Result]]) -> Result:
    """Run a process until it ends, or until SIGTERM or Ctrl-C; return its result."""

    async def start() -> Result:
        stopped = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stopped.set)
        return await main(stopped)

    try:
        return asyncio.run(start())
    except BaseExceptionGroup as group:  # of parts that ran together
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        raise error from None


def read_enrolment(
    keys: PrivacyKeys, folder: Path, given: Path | None, role: str, name: str
) -> Enrolment | None:
    """Return a process's enrolment with a keyholder; a file that is given moves into its folder.

    None if the job has no section [privacy]. A job file comes from the server, so it cannot switch
    masks off for who has an enrolment.
    """
    kept = folder / _ENROLMENT_FILE
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
            f"the job has the section [privacy], and {folder} has no {_ENROLMENT_FILE}: give the "
            f"file that the keyholder's operator wrote (`dealfl keyholder enrol`) with --keyholder"
        )
    return _require_own(Enrolment.read(kept, role), name, kept)


def _require_own(enrolment: Enrolment, name: str, path: Path) -> Enrolment:
    if enrolment.role == "worker" and enrolment.name != name:
        raise BadInput(f"enrolment {path} is for the worker {enrolment.name!r}, not for {name!r}")
    return enrolment
