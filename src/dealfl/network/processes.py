"""The process of a server, from a job file, until it is stopped.

SIGTERM and Ctrl-C stop a process after its current call; it resumes from its store.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from types import MappingProxyType

import msgspec

from dealfl.errors import BadInput
from dealfl.jobs import Document, plan_without_data, read_job, read_selection
from dealfl.network.control import Desk
from dealfl.network.credentials import Credentials, require_role
from dealfl.network.server_end import ServerEnd
from dealfl.server import Ledger, Server
from dealfl.server.selection import make_selector

__all__ = ["Health", "report_health", "run_together", "run_until_stopped", "serve"]

_HEALTH_S = 10.0

Health = Callable[[str], None]


async def serve(
    document: Document,
    folder: Path,
    brokers: Sequence[Credentials],
    stopped: asyncio.Event,
    *,
    answers: Mapping[str, Callable[..., object]] = MappingProxyType({}),
    trusted: Collection[str] = (),
    health: Health = lambda _: None,
) -> None:
    """Serve a job over one broker or several, until stopped.

    Parameters
    ----------
    document : Document
        The job file. Its data file need not exist here.
    folder : Path
        Folder of the run, with the ledger.
    brokers : sequence of Credentials
        The server's credentials for each broker.
    stopped : asyncio.Event
        Ends the process when it is set.
    answers : mapping of str to callable
        What operators can ask, beside "erase" and "remove".
    trusted : collection of str
        Operators that may erase and remove.
    health : callable
        Receives one line about the state every ten seconds.
    """
    job, plan = read_job(document), plan_without_data(document)
    require_role(brokers, job.name, server=True)
    selector = make_selector(job.selector, read_selection(document, job))
    with closing(Ledger(folder / "ledger.db")) as ledger:
        server = Server(job.name, plan.make, ledger, job.server_rules, selector)
        end = ServerEnd(
            server, brokers, answer=lambda operator, packet: desk.answer(operator, packet)
        )
        changes = _Changes(server, end)
        verbs: dict[str, Callable[..., object]] = {
            "erase": changes.erase,
            "remove": changes.remove,
        }
        desk = Desk({**answers, **verbs}, changes=(*verbs, "certify"), trusted=trusted)
        since_s = time.monotonic()

        def line() -> str:
            up = sum(one.is_up for one in end.connections)
            received = sum(one.traffic.received_bytes for one in end.connections)
            return (
                f"{job.name}: {time.monotonic() - since_s:.0f} s, {up} of {len(brokers)} brokers, "
                f"{len(server.workers)} workers, round {len(server.reader.closed_rounds())}, "
                f"{received / 1e3:,.0f} kB received"
            )

        await run_together(end.run(stopped), report_health(health, line, stopped))


class _Changes:
    """What a trusted operator can change in a running server."""

    def __init__(self, server: Server, end: ServerEnd) -> None:
        self._server, self._end = server, end

    def erase(
        self, request: str, owners: list[str], operator: str, requested_by: str = ""
    ) -> dict[str, object]:
        """Ask all workers to forget or readmit, given keyed hashes in hexadecimal digits."""
        try:
            msgspec.convert((request, owners, requested_by), tuple[str, list[str], str])
            hashes = [bytes.fromhex(owner) for owner in owners]
        except ValueError as error:
            raise BadInput(f"owners must be hexadecimal digits: {error}") from None
        who = operator if requested_by in ("", operator) else f"{requested_by} by {operator}"
        self._end.send(self._server.erase(request, hashes, time.time(), who).messages)
        return {"request": request, "owners": len(owners)}

    def remove(self, worker: str, operator: str) -> dict[str, object]:
        """Remove a lost worker from the model."""
        msgspec.convert((worker, operator), tuple[str, str])
        self._end.send(self._server.remove(worker, time.time()).messages)
        return {"removed": worker, "digest": self._server.model.digest()}


async def report_health(health: Health, line: Callable[[], str], stopped: asyncio.Event) -> None:
    """Report a line about the state every ten seconds."""
    while not stopped.is_set():
        with suppress(TimeoutError):
            await asyncio.wait_for(stopped.wait(), _HEALTH_S)
        health(line())


async def run_together(*parts: Awaitable[None]) -> None:
    """Wait for all parts; if one fails, stop the others and raise its error."""
    async with asyncio.TaskGroup() as group:
        for part in parts:
            group.create_task(_awaited(part))


async def _awaited(part: Awaitable[None]) -> None:
    await part


def run_until_stopped(main: Callable[[asyncio.Event], Awaitable[None]]) -> None:
    """Run a process until it ends, or until SIGTERM or Ctrl-C.

    Parameters
    ----------
    main : callable
        Function of an event that is set by the signals.
    """

    async def start() -> None:
        stopped, loop = asyncio.Event(), asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stopped.set)
        await main(stopped)

    try:
        asyncio.run(start())
    except BaseExceptionGroup as group:  # of parts that ran together
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        raise error from None
