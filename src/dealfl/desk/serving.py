"""The process of a desk: where it listens, its token in a file of its owner, its end."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import signal
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn
from h11 import LocalProtocolError
from uvicorn.protocols.http.h11_impl import H11Protocol

from dealfl.desk.app import Desk
from dealfl.desk.guard import Door
from dealfl.desk.sources import Source
from dealfl.desk.view import Watch
from dealfl.errors import BadInput, DealError
from dealfl.storage import log_to, replace_file

ADDRESS_FILE = "desk-address"
_MAX_CONNECTIONS = 100
_MAX_SILENT = 40  # connections without a request, and as many without a TLS session
_BACKLOG = 128  # connections that wait to be accepted
_REQUEST_S = 10.0  # for the head of a request
_PARENT_S = 0.5  # between looks whether the process that started the desk is there


@dataclass(frozen=True, slots=True)
class Listening:
    """Where a desk listens; other addresses than those of this machine need TLS files."""

    host: str = "127.0.0.1"
    port: int = 0  # 0: a free one
    certificate: Path | None = None
    key: Path | None = None

    def check(self) -> None:
        """Refuse to listen for others without TLS."""
        if (self.certificate is None) != (self.key is None):
            raise BadInput("TLS needs two files: give --tls-certificate and --tls-key")
        if self.certificate is None and not _is_loopback(self.host):
            raise BadInput(
                f"--listen {self.host} can be reached from other machines; give "
                "--tls-certificate and --tls-key, or listen on 127.0.0.1"
            )
        for file in (self.certificate, self.key):
            if file is not None and not file.is_file():
                raise BadInput(f"{file}: no such file")

    def names(self) -> set[str]:
        """Return the names under which a browser may reach the desk."""
        if self.certificate is None:
            return {"127.0.0.1", "localhost", "[::1]", _bracketed(self.host)}
        return {_bracketed(self.host), *_names_in(self.certificate)}

    def bind(self) -> socket.socket:
        """Return a socket that listens, or explain why there is none."""
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        listener = _Listener(family)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((self.host, self.port))
            listener.listen(_BACKLOG)
        except (OSError, OverflowError) as error:
            listener.close()
            raise DealError(
                f"cannot listen on {self.host}:{self.port}: {error}; use another --port"
            ) from None
        return listener


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _names_in(certificate: Path) -> set[str]:
    """Return the names and addresses in a TLS certificate."""
    from cryptography import x509

    try:
        parsed = x509.load_pem_x509_certificate(certificate.read_bytes())
        names = parsed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (OSError, ValueError, x509.ExtensionNotFound) as error:
        raise BadInput(f"{certificate} is no TLS certificate with names: {error}") from None
    addresses = [_bracketed(str(each)) for each in names.get_values_for_type(x509.IPAddress)]
    return {name.lower() for name in [*names.get_values_for_type(x509.DNSName), *addresses]}


class _Listener(socket.socket):
    """Ends the connections that have begun no TLS session for longest: they would use up all."""

    unmet: dict[int, socket.socket] = {}  # noqa: RUF012 - by descriptor, the oldest first

    def accept(self) -> tuple[socket.socket, Any]:
        """Return the next connection."""
        connection, address = super().accept()
        self.unmet.pop(connection.fileno(), None)
        self.unmet[connection.fileno()] = connection
        while len(self.unmet) > _MAX_SILENT:
            oldest = next(iter(self.unmet))
            with suppress(OSError):  # it may have ended
                self.unmet.pop(oldest).shutdown(socket.SHUT_RDWR)
        return connection, address


class _Impatient(H11Protocol):
    """Closes connections on which no request arrives: hung ones would use up all.

    A request has arrived when its body has. An answer may be read slowly, but not by too many.
    """

    _silent: dict[_Impatient, None] = {}  # noqa: RUF012 - of all connections, the oldest first

    _waiting: asyncio.TimerHandle | None = None
    _unread = 0  # bytes of an answer

    def connection_made(self, transport: Any) -> None:  # noqa: ANN401 - that of asyncio
        """Wait for the first request."""
        super().connection_made(transport)
        _Listener.unmet.pop(transport.get_extra_info("socket").fileno(), None)
        self._wait()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        if not self._is_answering:  # requests can come before the last one is answered
            self._wait()

    def handle_events(self) -> None:
        """Note that a request has begun."""
        super().handle_events()
        if self._is_answering:
            self._stop_waiting()

    def send_400_response(self, msg: str) -> None:
        """Refuse a malformed request; HEAD is answered without a body, and nothing twice."""
        with suppress(LocalProtocolError):
            super().send_400_response(msg)
        self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._stop_waiting()
        super().connection_lost(exc)

    @property
    def _is_answering(self) -> bool:
        cycle = self.cycle
        return cycle is not None and not cycle.response_complete and not cycle.more_body

    def _wait(self) -> None:
        """Wait for a request, not for ever; beyond a number, close who has been silent longest."""
        self._silent[self] = None
        self._look_later()
        while len(self._silent) > _MAX_SILENT:
            next(iter(self._silent))._give_up()

    def _look_later(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
        self._unread = self.transport.get_write_buffer_size()
        self._waiting = self.loop.call_later(_REQUEST_S, self._look)

    def _look(self) -> None:
        """Give up, unless the last answer is still being read."""
        if self.transport.get_write_buffer_size() < self._unread:
            self._look_later()
        else:
            self._give_up()

    def _give_up(self) -> None:
        """Close the connection, also if an answer that nobody reads keeps it from closing."""
        self._stop_waiting()
        self.transport.abort()
        self.connections.discard(self)

    def _stop_waiting(self) -> None:
        self._silent.pop(self, None)
        if self._waiting is not None:
            self._waiting.cancel()


def serve_desk(
    source: Source,
    listening: Listening,
    *,
    may_change: bool,
    parent: int,
    announce: Callable[[str, Path], None],
) -> None:
    """Serve a desk until SIGTERM or Ctrl-C, or until the process `parent` has ended."""
    listening.check()
    listener = listening.bind()
    port = listener.getsockname()[1]
    with_tls = listening.certificate is not None
    try:
        door = Door(port, listening.names(), tls=with_tls)
        host = _bracketed(listening.host)
        address = f"{'https' if with_tls else 'http'}://{host}:{port}/#{door.token}"
        file = source.folder / (f"{ADDRESS_FILE}-{source.who}" if source.remote else ADDRESS_FILE)
        replace_file(file, f"{address}\n", 0o600)
        try:
            with log_to(source.folder / "desk.jsonl"):
                asyncio.run(
                    _serve(source, door, listening, listener, may_change, parent,
                           lambda: announce(address, file))
                )  # fmt: skip
        finally:
            with suppress(OSError):
                if file.read_text() == f"{address}\n":  # not that of a later desk
                    file.unlink()
    finally:
        listener.close()


async def _serve(
    source: Source,
    door: Door,
    listening: Listening,
    listener: socket.socket,
    may_change: bool,
    parent: int,
    ready: Callable[[], None],
) -> None:
    watch = Watch(source)
    app = Desk(watch, door, may_change=may_change).make()
    config = uvicorn.Config(
        app,
        http=_Impatient,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        backlog=_BACKLOG,
        limit_concurrency=_MAX_CONNECTIONS,
        timeout_keep_alive=20,
        timeout_graceful_shutdown=1,
        h11_max_incomplete_event_size=32_768,
    )
    _load_tls(config, listening)
    server = uvicorn.Server(config)
    for number in (signal.SIGINT, signal.SIGTERM):  # uvicorn repeats the signal when it has ended
        signal.signal(number, lambda *_: setattr(server, "should_exit", True))
    watching = asyncio.ensure_future(watch.run())
    guarding = asyncio.ensure_future(_follow_parent(server, parent)) if parent else None
    try:
        ready()
        await server.serve(sockets=[listener])
    finally:
        for task in filter(None, (watching, guarding)):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


def _load_tls(config: uvicorn.Config, listening: Listening) -> None:
    if listening.certificate is None or listening.key is None:
        return
    config.ssl_certfile, config.ssl_keyfile = listening.certificate, listening.key
    try:
        config.load()
    except (ssl.SSLError, OSError) as error:
        raise BadInput(
            f"{listening.certificate} and {listening.key} are no TLS files: {error}"
        ) from None


async def _follow_parent(server: uvicorn.Server, parent: int) -> None:
    """Stop when the process that started the desk has ended, also by kill −9."""
    while os.getppid() == parent:
        await asyncio.sleep(_PARENT_S)
    server.should_exit = True
