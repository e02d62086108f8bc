"""`dealfl metrics`: serve the metrics of a run for Prometheus."""

import argparse
import json
import signal
import threading

from dealfl.cli.printing import add_json

__all__ = ["add_parser"]

_EPILOG = """\
examples:
  dealfl metrics runs/digits --port 9464     serve until Ctrl-C
  dealfl metrics                             the latest run in runs/, on a free port

By default only this machine can connect (see --host). Workers are counted, never named.
"""


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Register the command `metrics`."""
    parser = subparsers.add_parser(
        "metrics",
        help="serve the metrics of a run for Prometheus",
        description="Serve metrics from the ledger of a run for Prometheus, until Ctrl-C.",
        epilog=_EPILOG,
    )
    parser.add_argument(
        "run_folder", nargs="?", default="", metavar="RUN",
        help="run folder or ledger file (default: the latest in runs/)",
    )  # fmt: skip
    parser.add_argument("--port", type=int, default=0, help="port (default: a free port)")
    parser.add_argument(
        "--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)"
    )
    add_json(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    from dealfl.runs import RunFolder, serve_metrics

    served = serve_metrics(RunFolder.at(arguments.run_folder), arguments.port, arguments.host)
    address = served.address
    print(json.dumps({"address": address}) if arguments.json else f"serving {address}", flush=True)
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):  # a parent process can have ignored them
        signal.signal(number, lambda *_: ended.set())
    ended.wait()
    served.close()
    return 0
