"""A desk as a child process of a run or of a server: it ends with its parent."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from dealfl.errors import DealError
from dealfl.storage import make_folder

PARENT = "DEALFL_DESK_PARENT"  # in the environment: the process with which a desk ends
_END_S = 5.0


@contextmanager
def start_child(folder: Path, options: Sequence[str] = ()) -> Iterator[None]:
    """Serve a desk of a folder while a block runs; it prints its address to standard error."""
    if find_spec("starlette") is None or find_spec("uvicorn") is None:
        raise DealError("starlette and uvicorn are missing; pip install 'dealfl[desk]'")
    make_folder(folder)
    command = [sys.executable, "-m", "dealfl", "desk", str(folder), *options]
    child = subprocess.Popen(  # noqa: S603 - our own program
        command,
        env=os.environ | {PARENT: str(os.getpid())},
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr.fileno(),
        start_new_session=True,  # Ctrl-C is for the run, which ends its desk
    )
    try:
        yield
    finally:
        child.terminate()
        try:
            child.wait(_END_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
