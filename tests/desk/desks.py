"""A desk as a real process, and clients that behave like a browser, or worse."""

from __future__ import annotations

import http.client
import json
import re
import signal
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tests.network.forks import Forks, wait_for

TOKEN_FIELD = re.compile(r'name="form_token" value="([0-9a-f]+)"')


@dataclass(frozen=True, slots=True)
class Answer:
    """What a desk has answered."""

    status: int
    headers: dict[str, str]
    text: str


class RunningDesk:
    """A desk in a process of its own."""

    def __init__(self, forks: Forks, run: Path | str, *options: object) -> None:
        folder = Path(run) if Path(run).is_dir() else Path(run).parent
        self._forks, self._output = forks, folder.parent / f"{folder.name}-desk.log"
        self._output.unlink(missing_ok=True)
        self._ended = False
        self.pid = forks.start(self._output, ["desk", run, "--json", *options])
        wait_for(lambda: self._output.exists() and "\n" in self.output, "the desk's address")
        self.about: dict[str, Any] = json.loads(self.output.splitlines()[0])

    @property
    def output(self) -> str:
        """Everything that the process has printed."""
        return self._output.read_text()

    @property
    def address(self) -> str:
        return str(self.about["address"])

    @property
    def origin(self) -> str:
        return self.address.partition("/#")[0]

    @property
    def token(self) -> str:
        return self.address.partition("#")[2]

    @property
    def port(self) -> int:
        return int(self.origin.rpartition(":")[2])

    def kill(self) -> None:
        """Kill −9."""
        self._forks.end(self.pid)
        self._ended = True

    def end(self) -> None:
        """Kill the process if that has not happened yet."""
        if not self._ended:
            self.kill()

    def stop(self) -> None:
        """End the process as Ctrl-C does."""
        self._forks.end(self.pid, signal.SIGINT)
        self._ended = True

    def send(self, raw: bytes, timeout_s: float = 60.0, *, ends: bool = True) -> bytes:
        """Send bytes, and return what comes back until the end of the connection.

        If our side `ends` after the bytes, answers that take a while do not come.
        """
        with socket.create_connection(("127.0.0.1", self.port), timeout_s) as connection:
            received = b""
            try:
                connection.sendall(raw)
                if ends:
                    connection.shutdown(socket.SHUT_WR)
                while part := connection.recv(65536):
                    received += part
            except OSError:
                pass
        return received

    def ask(
        self,
        path: str,
        fields: Mapping[str, str] | bytes | None = None,
        *,
        method: str = "",
        **headers: str,
    ) -> Answer:
        """Send a request with exactly these headers; `_` in a name stands for `-`."""
        body = urlencode(fields) if isinstance(fields, Mapping) else fields
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        given.setdefault("Host", f"127.0.0.1:{self.port}")
        if isinstance(fields, Mapping):
            given.setdefault("Content-Type", "application/x-www-form-urlencoded")
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            how = method or ("GET" if fields is None else "POST")
            connection.request(how, path, body, given)
            answer = connection.getresponse()
            text = answer.read().decode("utf-8", "replace")
            return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, text)
        finally:
            connection.close()


class ChildDesk(RunningDesk):
    """A desk whose address another process has printed."""

    def __init__(self, output: Path) -> None:
        self._output = output
        wait_for(lambda: re.search(r"http://\S+#\S+\n", self._text()), "the address")
        found = re.search(r"http://\S+#\S+", self._text())
        assert found is not None
        self.about = {"address": found[0]}

    def _text(self) -> str:
        return self._output.read_text() if self._output.exists() else ""


def pid_of(folder: Path) -> int:
    """Return the process of the desk of a folder."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (process / "cmdline").read_bytes().split(b"\0")
            if b"desk" in words and str(folder).encode() in words:
                return int(process.name)
    raise AssertionError("no desk")


class Visitor:
    """A browser that was let in: it has the cookie, and says where its forms come from."""

    def __init__(self, desk: RunningDesk) -> None:
        self.desk = desk
        entered = desk.ask("/login", {"token": desk.token}, Origin=desk.origin)
        assert entered.status == 303, entered.text
        self.cookie = entered.headers["set-cookie"].partition(";")[0]

    def get(self, path: str, **headers: str) -> Answer:
        return self.desk.ask(path, None, method="GET", Cookie=self.cookie, **headers)

    @property
    def form_token(self) -> str:
        found = TOKEN_FIELD.search(self.get("/fleet").text)
        assert found is not None
        return found[1]

    def post(self, path: str, **fields: str) -> Answer:
        given = {"form_token": self.form_token} | fields
        headers = {"Cookie": self.cookie, "Origin": self.desk.origin}
        return self.desk.ask(path, given, method="POST", **headers)
