"""`dealfl desk`: a run or a running server in a browser.

examples:
  dealfl desk                                  the latest run in runs/
  dealfl desk runs/digits                      a run in a folder, finished or under way
  dealfl desk ann.toml                         a running server, as its operator ann
  dealfl desk runs/houses --allow-changes      with forms that erase, readmit and remove
  dealfl desk ann.toml --port 8700             at the same port each time
  dealfl desk ann.toml --listen 10.0.0.5 --port 8700 --tls-certificate desk.pem --tls-key desk.key

The command prints an address with a random token, and writes it to the file desk-address, which
only its owner can read. Pages are served until Ctrl-C. Other machines need TLS files of yours.
"""

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from dealfl.cli.printing import (
    JSON,
    RUN,
    command,
    open_server,
    option,
    port,
    print_result,
)
from dealfl.errors import DealError

_PARENT = "DEALFL_DESK_PARENT"  # in the environment: the process with which a desk ends
_END_S = 5.0


def _desk(arguments: argparse.Namespace) -> int:
    from dealfl.desk import Listening, open_source, serve_desk

    listening = Listening(
        arguments.listen, arguments.port, arguments.tls_certificate, arguments.tls_key
    )
    listening.check()
    server = open_server(arguments.run_folder)
    parent = int(os.environ.get(_PARENT, "0"))
    source = open_source(arguments.run_folder, server, expected=bool(parent))

    def announce(address: str, file: Path) -> None:
        plain = {"address": address, "file": str(file), "pid": os.getpid()}
        changes = "with forms that change it" if arguments.allow_changes else "read only"
        text = f"Desk of {source.where}, {changes}:\n{address}\nCtrl-C ends it."
        print_result(arguments, plain, text)

    serve_desk(
        source,
        listening,
        may_change=arguments.allow_changes,
        parent=parent,
        announce=announce,
    )
    return 0


@contextmanager
def show_desk(arguments: argparse.Namespace, folder: Path) -> Iterator[None]:
    """Serve a desk of a run while a block runs, if the command has the option --desk.

    It is a child process, and prints its address to standard error.
    """
    if not arguments.desk:
        yield
        return
    if find_spec("starlette") is None or find_spec("uvicorn") is None:
        raise DealError("starlette and uvicorn are missing; pip install 'dealfl[desk]'")
    import subprocess

    from dealfl.storage import make_folder

    make_folder(folder)
    child = subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-m", "dealfl", "desk", str(folder)],
        env=os.environ | {_PARENT: str(os.getpid())},
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


DESK = option("--desk", action="store_true", help="serve a desk of the run meanwhile")
COMMAND = command(
    "show a run or a running server in a browser",
    RUN,
    option("--allow-changes", action="store_true", help="let forms erase, readmit and remove"),
    port("port (default: a free port)"),
    option(
        "--listen",
        default="127.0.0.1",
        metavar="ADDRESS",
        help="address to listen on (default: 127.0.0.1); others need TLS files",
    ),
    option("--tls-certificate", type=Path, metavar="PEM", help="certificate of the desk"),
    option("--tls-key", type=Path, metavar="PEM", help="its private key"),
    JSON,
    run=_desk,
    description="Show a run or a running server in a browser: fleet, rounds, model, energy, "
    "erasures, job.",
    doc=__doc__,
)
