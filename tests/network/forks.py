"""Real processes of `dealfl`, forked from one that has imported everything: they start at once.

Run as a program, it reads lines of JSON: a file for the output, and the arguments of `dealfl`. It
answers with the process id of each child.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import select
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import Any, NoReturn

import msgspec

from dealfl.errors import DealError
from dealfl.network import working
from dealfl.network.pump import RealPump
from dealfl.protocol.messages import Message, Receipt, Step, Update
from dealfl.worker import Worker

ROOT = Path(__file__).parents[2]
CALM_S = 900.0  # within which a storm must end, on a very busy machine
LATE_S = 10.0  # after which a careless program does the rest: kills come earlier
KEY = ("job", "worker", "session", "incarnation", "sequence")  # of an update and its receipt


class Forks:
    """Starts and kills processes."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.network.forks"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, text=True,
        )  # fmt: skip
        self._alive: dict[int, int] = {}  # descriptors: the number may be given to another process
        self._turn = Lock()

    def start(
        self, output: Path, arguments: Sequence[object], change: str = "", namespace: str = ""
    ) -> int:
        """Start `dealfl` with some arguments; return its process id.

        `change` is one of CHANGES below, with an argument after `=`; `namespace` a network
        namespace.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        line = json.dumps([change, namespace, str(output), *map(str, arguments)])
        with self._turn:
            self._process.stdin.write(f"{line}\n")
            self._process.stdin.flush()
            pid = int(self._process.stdout.readline())
            self._alive[pid] = os.pidfd_open(pid)
        return pid

    def end(self, pid: int, number: int = signal.SIGKILL) -> None:
        """Send a signal to a process, if it is alive, and wait for its end."""
        process = self._alive.pop(pid)
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(process, number)
        ended = select.poll()
        ended.register(process, select.POLLIN)
        assert ended.poll(120_000), "timeout: the end of a process"
        os.close(process)

    def end_all(self) -> None:
        """Kill all processes that are alive."""
        for pid in [*self._alive]:
            self.end(pid)

    def close(self) -> None:
        self.end_all()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def wait_for(condition: Callable[[], object], what: str, timeout_s: float = 120.0) -> None:
    until_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < until_s, f"timeout: {what}"
        time.sleep(0.02)


def wait_until_calm(find_missing: Callable[[], list[str]], storm: object) -> None:
    """Wait until nothing is missing after a storm; what cannot be read now is missing."""
    until_s = time.monotonic() + CALM_S
    while True:
        try:
            missing = find_missing()
        except (DealError, OSError, sqlite3.Error) as error:
            missing = [repr(error)]
        if not missing:
            return
        assert time.monotonic() < until_s, f"{storm} does not end: {', '.join(missing)}"
        time.sleep(0.1)


def enter(namespace: str) -> None:
    """Move this thread, and what it starts, into a network namespace."""
    descriptor = os.open(f"/run/netns/{namespace}", os.O_RDONLY)
    if ctypes.CDLL(None, use_errno=True).setns(descriptor, 0x40000000):
        raise OSError(ctypes.get_errno(), f"cannot enter the namespace {namespace}")
    os.close(descriptor)


# -- how the processes differ from those of a user ----------------------------------------------


def hurry() -> None:
    """Look at the files all the time, so that there is always something to lose."""
    working._FEED_S = 0.02


def send_receipts_before_commit() -> None:
    """Confirm updates when they arrive; handle them later."""
    hurry()
    put: Any = RealPump.put

    def put_later(
        pump: Any, messages: Sequence[Message], done: Any = list, sender: str = ""
    ) -> None:
        receipts = [
            Receipt(**{name: getattr(one, name) for name in KEY})
            for one in messages
            if isinstance(one, Update)
        ]
        pump.emit(Step(tuple(receipts)), time.time())
        delay_s = LATE_S if receipts else 0.0
        asyncio.get_running_loop().call_later(delay_s, put, pump, messages, done, sender)

    setattr(RealPump, "put", put_later)  # noqa: B010


def store_positions_after_rows() -> None:
    """Store how far a file was read in a later transaction than its rows."""
    hurry()
    ingest: Any = Worker.ingest

    def ingest_late(worker: Any, rows: Any, position: Any = None) -> Any:
        asyncio.get_running_loop().call_later(LATE_S, ingest, worker, [], position)
        return ingest(worker, rows)

    setattr(Worker, "ingest", ingest_late)  # noqa: B010


def show_machine(folder: str = "/sys") -> None:
    """Read the state of the machine from another folder than /sys."""
    module: Any = working
    read = module.read_machine_keys
    module.read_machine_keys = lambda *given: msgspec.structs.replace(read(*given), sysfs=folder)
    hurry()


CHANGES: dict[str, Callable[..., None]] = {
    "": lambda: None,
    "sysfs": show_machine,
    "hurry": hurry,
    "receipts before commit": send_receipts_before_commit,
    "positions after rows": store_positions_after_rows,
}


def _main() -> None:
    import dealfl.runs
    import dealfl.runs.demo  # noqa: F401

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the children
    if len(sys.argv) > 1:
        _serve_shells(sys.argv[1])
    for line in sys.stdin:
        change, namespace, output, *arguments = json.loads(line)
        pid = os.fork()
        if pid == 0:
            if namespace:
                enter(namespace)
            target = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            _become(arguments, [target] * 3, change)
        sys.stdout.write(f"{pid}\n")
        sys.stdout.flush()


def _become(
    arguments: list[str],
    streams: list[int],
    change: str = "",
    shell: socket.socket | None = None,
) -> NoReturn:
    """Run `dealfl` in this child, and end; a shell is told the process id and the exit code."""
    from dealfl.cli import main

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # end with the process that forks
    for stream, target in enumerate(streams):
        os.dup2(target, stream)
    code = 1
    try:
        if shell:
            shell.sendall(b"%d\n" % os.getpid())
        name, *argument = change.split("=")
        CHANGES[name](*argument)
        code = main(arguments) or 0
    except SystemExit as error:  # of argparse
        code = error.code if isinstance(error.code, int) else 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        if shell:
            shell.sendall(b"%d\n" % code)
        os._exit(code)


def _serve_shells(path: str) -> NoReturn:
    """Start `dealfl` for each shell that asks, with its folder and its streams."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    while True:
        shell, _ = listener.accept()
        text, streams, _, _ = socket.recv_fds(shell, 1 << 16, 3)
        folder, *arguments = json.loads(text)
        if os.fork() == 0:
            os.chdir(folder)
            _become(arguments, streams, shell=shell)
        shell.close()
        for stream in streams:
            os.close(stream)


IN_SHELLS = """\
import json, os, signal, socket, sys
server = socket.socket(socket.AF_UNIX)
server.connect({path!r})
socket.send_fds(server, [json.dumps([os.getcwd(), *sys.argv[1:]]).encode()], [0, 1, 2])
answers = server.makefile()
pid = int(answers.readline())
signal.signal(signal.SIGTERM, lambda *_: os.kill(pid, signal.SIGTERM))
sys.exit(int(answers.readline() or 1))
"""


@contextmanager
def dealfl_for_shells(folder: Path) -> Iterator[str]:
    """Yield the line of a shell script that is `dealfl`, and starts at once."""
    path, script = folder / "forks.sock", folder / "dealfl.py"
    script.write_text(IN_SHELLS.format(path=str(path)))
    words = [sys.executable, "-m", "tests.network.forks", str(path)]
    with subprocess.Popen(words, cwd=ROOT) as server:
        wait_for(path.is_socket, "the processes that are forked")
        try:
            yield f'exec "{sys.executable}" -I -S "{script}" "$@"'
        finally:
            server.kill()


if __name__ == "__main__":
    _main()
