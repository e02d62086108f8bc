"""Real processes of `dealfl`, forked from one that has imported everything: they start at once.

Run as a program, it reads lines of JSON: a file for the output, and the arguments of `dealfl`. It
answers with the process id of each child.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]


class Forks:
    """Starts and kills processes."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.network.forks"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, text=True,
        )  # fmt: skip
        self._alive: set[int] = set()

    def start(self, output: Path, arguments: Sequence[object]) -> int:
        """Start `dealfl` with some arguments; return its process id."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        line = json.dumps([str(output), *map(str, arguments)])
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        pid = int(self._process.stdout.readline())
        self._alive.add(pid)
        return pid

    def end(self, pid: int, number: int = signal.SIGKILL) -> None:
        """Kill a process and wait for its end."""
        os.kill(pid, number)
        wait_for(lambda: not is_alive(pid), "the end of a process")
        self._alive.discard(pid)

    def end_all(self) -> None:
        """Kill all processes that are alive."""
        for pid in self._alive.copy():
            if is_alive(pid):
                self.end(pid)

    def close(self) -> None:
        self.end_all()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(10)
        self._process.stdout.close()


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def wait_for(condition: Callable[[], object], what: str, timeout_s: float = 30.0) -> None:
    until_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < until_s, f"timeout: {what}"
        time.sleep(0.02)


def _main() -> None:
    import dealfl.network
    import dealfl.runs  # noqa: F401
    from dealfl.cli import main

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the children
    for line in sys.stdin:
        output, *arguments = json.loads(line)
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            target = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            for stream in (0, 1, 2):
                os.dup2(target, stream)
            code = 1
            try:
                code = main(arguments) or 0
            finally:
                os._exit(code)
        sys.stdout.write(f"{pid}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _main()
