"""`dealfl metrics`: a run's figures for Prometheus, over HTTP."""

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

Served on this machine only, unless --host says otherwise; workers are counted, never named.
"""


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Register the command `metrics`."""
    parser = subparsers.add_parser(
        "metrics",
        help="serve a run's figures for Prometheus",
        description="Serve a run's figures for Prometheus until Ctrl-C, from its ledger.",
        epilog=_EPILOG,
    )
    parser.add_argument(
        "run_folder", nargs="?", default="", metavar="RUN",
        help="a run folder or a ledger file (the latest in runs/)",
    )  # fmt: skip
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one (0)")
    parser.add_argument("--host", default="127.0.0.1", help="where to listen (127.0.0.1)")
    add_json(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    from dealfl.runs import RunFolder, serve_metrics

    served = serve_metrics(RunFolder.at(arguments.run_folder), arguments.port, arguments.host)
    address = served.address
    print(json.dumps({"address": address}) if arguments.json else f"serving {address}", flush=True)
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):  # a script may have had them ignored
        signal.signal(number, lambda *_: ended.set())
    ended.wait()
    served.close()
    return 0
