"""The process of a server, from a job file, until it is stopped."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from types import MappingProxyType

import msgspec

from dealfl.errors import BadInput
from dealfl.jobs import Document, plan_without_data, read_job, read_selection
from dealfl.network.control import Control
from dealfl.network.credentials import Credentials, require_role
from dealfl.network.processes import Health, report_health, run_together
from dealfl.network.server_end import ServerEnd
from dealfl.server import Ledger, Server
from dealfl.server.selection import make_selector

_KEPT_ROUNDS = 1_000  # whose history stays whole in the ledger
CHANGES = ("erase", "remove", "certify")  # verbs for trusted operators only


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
    """Serve a job over one broker or several, until stopped."""
    job = read_job(document)
    plan = plan_without_data(document)
    require_role(brokers, job.name, server=True)
    selector = make_selector(job.selector, read_selection(document, job))
    with closing(Ledger(folder / "ledger.db", kept_rounds=_KEPT_ROUNDS)) as ledger:
        server = Server(job.name, plan.make, ledger, job.server_rules, selector)
        end = ServerEnd(server, brokers)
        changes = _Changes(server, end)
        verbs = {**answers, "erase": changes.erase, "remove": changes.remove}
        control = Control(verbs, changes=CHANGES, trusted=trusted)
        end.answer = control.answer
        since_s = time.monotonic()

        def line() -> str:
            up = sum(connection.is_up for connection in end.connections)
            received = sum(connection.traffic.received_bytes for connection in end.connections)
            return (
                f"{job.name}: {time.monotonic() - since_s:.0f} s, {up} of {len(brokers)} brokers, "
                f"{len(server.workers)} workers, round {server.reader.count_closed()}, "
                f"{received / 1e3:,.0f} kB received"
                + f"; WAITING: {end.problem}"
                * bool(end.problem)
            )

        gc.freeze()  # a collection that walks all that was loaded lets everybody wait
        await run_together(end.run(stopped), report_health(health, line, stopped))


class _Changes:
    """What a trusted operator can change in a running server."""

    def __init__(self, server: Server, end: ServerEnd) -> None:
        self._server = server
        self._end = end

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
