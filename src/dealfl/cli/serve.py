"""`dealfl serve` and `dealfl work`: the server and a worker as processes, over MQTT."""

import argparse
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dealfl.cli.printing import Option, command, option, say


def _serve(arguments: argparse.Namespace) -> int:
    from dealfl.jobs import Document, read_job
    from dealfl.logs import log_to
    from dealfl.network import read_credentials, run_until_stopped, serve
    from dealfl.runs import RunFolder, answers_about

    document = Document.read(arguments.job)
    brokers = [read_credentials(path) for path in arguments.brokers]
    run = RunFolder(arguments.out or Path("runs") / read_job(document).name)
    run.open_server(document)
    with log_to(run.path / "log.jsonl"), _warnings_shown():
        run_until_stopped(
            lambda stopped: serve(
                document,
                run.path,
                brokers,
                stopped,
                answers=answers_about(run),
                trusted=arguments.trust,
                health=_say,
            )
        )
    return 0


def _work(arguments: argparse.Namespace) -> int:
    from dealfl.jobs import Document
    from dealfl.logs import log_to
    from dealfl.network import read_credentials, run_until_stopped, work
    from dealfl.storage import make_folder

    document = Document.read(arguments.job)
    brokers = [read_credentials(path) for path in arguments.brokers]
    folder = arguments.out or Path("workers") / brokers[0].user
    make_folder(folder)
    with log_to(folder / "log.jsonl"), _warnings_shown():
        run_until_stopped(
            lambda stopped: work(
                document,
                folder,
                brokers,
                stopped,
                data=arguments.data,
                predict_socket=arguments.predict_socket,
                phone_name=arguments.phone,
                machine={
                    "meter": arguments.meter,
                    "clock": arguments.clock,
                    "device_command": arguments.device_command,
                },
                health=_say,
            )
        )
    return 0


@contextmanager
def _warnings_shown() -> Iterator[None]:
    """Print what the network warns of, too: the log has the fixed part of a message only."""
    handler, source = logging.Handler(logging.WARNING), logging.getLogger("dealfl.network")
    handler.emit = lambda record: _say(record.getMessage())  # type: ignore[method-assign]
    source.addHandler(handler)
    try:
        yield
    finally:
        source.removeHandler(handler)


def _say(line: str) -> None:
    say(f"dealfl: {line}", file=sys.stderr, flush=True)


_JOB = option("job", type=Path, help="job file")


def _brokers(credentials: str) -> Option:
    return option(
        "--broker",
        type=Path,
        action="append",
        required=True,
        dest="brokers",
        metavar="FILE",
        help=f"credentials of {credentials}; can be repeated",
    )


SERVE = command(
    "run the server of a job, over MQTT",
    _JOB,
    _brokers("the server, from `dealfl broker init`"),
    option(
        "--trust",
        action="append",
        default=[],
        metavar="OPERATOR",
        help="operator that may erase people and remove workers; can be repeated",
    ),
    option("--out", type=Path, metavar="FOLDER", help="default: runs/NAME"),
    run=_serve,
    doc="""Run the server of a job. Workers reach it through an MQTT broker.

    examples:
      dealfl serve job.toml --broker broker/server.toml
      dealfl serve job.toml --broker a/server.toml --broker b/server.toml   two brokers, for safety

    Ctrl-C or SIGTERM stops the server after its current call. The same command continues.
    """,
)
WORK = command(
    "run a worker of a job, over MQTT",
    _JOB,
    _brokers("the device, from `dealfl broker enrol`"),
    option("--out", type=Path, metavar="FOLDER", help="default: workers/NAME"),
    option(
        "--data",
        type=Path,
        metavar="PATH",
        help="file that grows, or folder of files; a gateway's folder has a file or a folder for "
        "each worker",
    ),
    option(
        "--predict-socket",
        type=Path,
        metavar="PATH",
        help="answer requests for predictions at this Unix socket",
    ),
    option("--phone", default="", help="phone of `dealfl devices`, or a profile"),
    option(
        "--meter",
        metavar="NAME",
        help="energy meter: auto, rapl, battery, model, or a Monsoon CSV file",
    ),
    option(
        "--clock", metavar="NAME", help="CPU clock while it trains: off (default), deal, or a MHz"
    ),
    option(
        "--device-command",
        metavar="COMMAND",
        help="prints battery, charging, metered, hot, busy, network_active as JSON",
    ),
    run=_work,
    doc="""Run a worker of a job. It reaches the server through an MQTT broker.

    examples:
      dealfl work job.toml --broker w1.toml --data data.csv     each row of a growing file, once
      dealfl work job.toml --broker w1.toml --data inbox/       all files of a folder
      dealfl work job.toml --broker hub.toml --data sensors/    a gateway: sensors/w4.csv, sensors/w5/
      dealfl work job.toml --broker w1.toml --phone nexus       model the energy of this phone
      dealfl work job.toml --broker w1.toml --meter rapl --clock deal   needs root
      dealfl work job.toml --broker w1.toml --predict-socket predict.sock
      echo '{"features": [[5.1, 3.5]]}' | nc -NU predict.sock   one line of JSON as the answer

    The section [source] of the job describes the data. Files may grow and be rotated (data.csv.1);
    they must not be edited. A last line without a line end waits until it is complete.
    Ctrl-C or SIGTERM stops the worker after its current call. The same command continues.
    """,  # noqa: E501 - as wide as the help
)
