"""A real Dask scheduler with two workers, as processes."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_QUIET = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


@contextmanager
def cluster(folder: Path) -> Iterator[tuple[str, list["subprocess.Popen[bytes]"]]]:
    """Yield the address of a scheduler, and its workers."""
    file = folder / "scheduler.json"
    common = ["--scheduler-file", str(file), "--no-dashboard"]
    started = [_start("scheduler", folder, *common, "--host", "127.0.0.1", "--port", "0")]
    try:
        for _ in range(2):
            started.append(
                _start("worker", folder, *common, "--nthreads", "1", "--no-nanny", "--host",
                       "127.0.0.1", "--local-directory", str(folder))
            )  # fmt: skip
        yield _address(file), started[1:]
    finally:
        for process in started:
            with suppress(ProcessLookupError):
                process.kill()
            process.wait()


def _start(what: str, folder: Path, *words: str) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", f"distributed.cli.dask_{what}", *words]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen(command, cwd=folder, env=env, **_QUIET)  # type: ignore[call-overload,no-any-return]


def _address(file: Path) -> str:
    for _ in range(600):
        with suppress(OSError, ValueError):
            return str(json.loads(file.read_text())["address"]).replace("tcp://", "dask://")
        time.sleep(0.1)
    raise AssertionError("the scheduler did not start")
