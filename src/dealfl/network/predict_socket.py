"""Local predictions: a Unix socket that answers one line of JSON with one line of JSON.

    {"features": [[5.1, 3.5], [6.2, 2.9]]}    {"version": 7, "predictions": ["yes", "no"]}
    {"owner": "ann", "k": 2}                  {"version": 7, "predictions": [["alien", 0.4], …]}
    {"rubbish": 1}                            {"error": "…"}

A gateway needs the worker, too: {"worker": "w4", "features": …}. The model is fetched from the
broker when a request needs it and a newer version is published, at most once a minute.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from dealfl.errors import BadInput, DealError
from dealfl.jobs import Plan
from dealfl.network.worker_end import WorkerEnd
from dealfl.worker import Worker

_LOG = logging.getLogger("dealfl.network")
_MAX_BYTES = 1 << 20
_MAX_CLIENTS = 64
_CHECK_S = 60.0
_FETCH_S = 10.0


class Request(msgspec.Struct, forbid_unknown_fields=True):
    """A request for predictions of rows, or for items for an owner."""

    features: list[list[int | float | str | None]] | None = None
    owner: str | None = None
    k: Annotated[int, Meta(ge=1, le=1000)] = 10
    worker: str = ""


class PredictSocket:
    """Answers the programs of this machine's user; nobody else can open the socket."""

    def __init__(
        self,
        path: Path,
        plan: Plan,
        workers: Mapping[str, Worker],
        end: WorkerEnd,
    ) -> None:
        self._path = path
        self._plan = plan
        self._workers = workers
        self._end = end
        source = plan.subject.source
        self._label: Callable[[int], Any] = int if source is None else source.label
        self._decoder = msgspec.json.Decoder(Request)
        self._clients = 0
        self._fetching = asyncio.Lock()
        self._checked_s: dict[str, float] = {}

    async def run(self, stopped: asyncio.Event) -> None:
        """Answer until stopped, then remove the socket."""
        listener = self._listen()
        try:
            server = await asyncio.start_unix_server(self._serve, sock=listener, limit=_MAX_BYTES)
            async with server:
                await stopped.wait()
        finally:
            self._path.unlink(missing_ok=True)

    def _listen(self) -> socket.socket:
        listener = socket.socket(socket.AF_UNIX)
        path = str(self._path)
        mask = os.umask(0o177)
        try:
            if self._path.is_socket():  # of a process that was killed
                with socket.socket(socket.AF_UNIX) as probe:
                    if probe.connect_ex(path) == 0:
                        listener.close()
                        raise BadInput(f"{path}: another process answers there; use another path")
                self._path.unlink()
            listener.bind(path)
        except OSError as error:
            listener.close()
            raise BadInput(f"{path} cannot be a socket: {error}; use another path") from error
        finally:
            os.umask(mask)
        return listener

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one client until it goes."""
        self._clients += 1
        try:
            if self._clients > _MAX_CLIENTS:
                await _send(writer, {"error": f"there are {_MAX_CLIENTS} clients already"})
                return
            while line := await reader.readline():
                await _send(writer, await self._answer(line))
        except ValueError:
            await _send(writer, {"error": f"a request has at most {_MAX_BYTES:,} bytes"})
            with suppress(TimeoutError):  # it reads the answer after it has written
                async with asyncio.timeout(1.0):
                    while await reader.read(_MAX_BYTES):
                        pass
        except ConnectionError:
            pass
        finally:
            self._clients -= 1
            writer.close()

    async def _answer(self, line: bytes) -> dict[str, Any]:
        try:
            request = self._decoder.decode(line)
            name = self._find(request.worker)
            await self._refresh(name)
            worker = self._workers[name]
            return {"version": worker.model_version, "predictions": self._predict(worker, request)}
        except (DealError, msgspec.MsgspecError) as error:
            return {"error": str(error)}
        except Exception as error:  # nothing that a client sends may end the worker
            _LOG.exception("a request for predictions failed")
            return {"error": f"{type(error).__name__}: {error}"}

    def _find(self, name: str) -> str:
        if name in self._workers:
            return name
        if name or len(self._workers) > 1:
            names = ", ".join(self._workers)
            raise BadInput(f"worker is {name!r}; it takes one of: {names}")
        return next(iter(self._workers))

    def _predict(self, worker: Worker, request: Request) -> list[Any]:
        if (request.features is None) == (request.owner is None):
            raise BadInput('a request has either "features" or "owner"')
        if request.owner is not None:
            items, scores = worker.recommend(request.owner, request.k)
            labels = map(self._label, items.tolist())
            return list(zip(labels, scores.tolist(), strict=True))
        predictions: list[Any] = worker.predict(self._plan.take(request.features)).tolist()
        return predictions

    async def _refresh(self, name: str) -> None:
        """Fetch the published model if it was not looked for lately."""
        async with self._fetching:
            connection = self._end.connection
            has_model = self._workers[name].model_version > 0
            since_s = time.monotonic() - self._checked_s.get(name, -math.inf)
            is_reachable = connection.is_up or connection.is_resting
            if since_s < (_CHECK_S if has_model else _FETCH_S) or not is_reachable:
                return
            with suppress(TimeoutError):
                await self._end.update_model(name, _FETCH_S)
            self._checked_s[name] = time.monotonic()


async def _send(writer: asyncio.StreamWriter, answer: dict[str, Any]) -> None:
    writer.write(msgspec.json.encode(answer) + b"\n")
    with suppress(ConnectionError):
        await writer.drain()
