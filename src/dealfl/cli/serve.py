"""`dealfl serve` and `dealfl work`: the server and a worker as processes, over MQTT."""

import argparse
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path

from dealfl.cli.desk import DESK, show_desk
from dealfl.cli.printing import JSON, Option, command, option, print_result, say_state
from dealfl.errors import BadInput


def _serve(arguments: argparse.Namespace) -> int:
    from dealfl.jobs import Document, read_job
    from dealfl.network import read_credentials, run_until_stopped, serve
    from dealfl.runs import RunFolder, answers_about
    from dealfl.storage import log_to

    document = Document.read(arguments.job)
    brokers = [read_credentials(path) for path in arguments.brokers]
    parent = [read_credentials(path) for path in arguments.parent]
    run = RunFolder(arguments.out or Path("runs") / read_job(document).name)
    run.open_server(document)
    with (
        log_to(run.path / "log.jsonl"),
        _warnings_shown(),
        show_desk(arguments, run.path),
    ):
        run_until_stopped(
            lambda stopped: serve(
                document,
                run.path,
                brokers,
                stopped,
                parent=parent,
                answers=partial(answers_about, run),
                trusted=arguments.trust,
                health=say_state,
                enrolment=arguments.keyholder,
            )
        )
    return 0


def _work(arguments: argparse.Namespace) -> int:
    from dealfl.jobs import Document
    from dealfl.network import Orders, read_credentials, run_until_stopped, work, work_once
    from dealfl.storage import log_to, make_folder

    if arguments.json and not arguments.once:
        raise BadInput("--json prints the result of one call; add --once")
    if arguments.predict_socket and arguments.once:
        raise BadInput("--predict-socket needs a worker that stays; remove it or --once")
    brokers = [read_credentials(path) for path in arguments.brokers]
    folder = arguments.out or Path("workers") / brokers[0].user
    make_folder(folder)
    orders = Orders(
        Document.read(arguments.job),
        folder,
        brokers,
        data=arguments.data,
        predict_socket=arguments.predict_socket,
        phone_name=arguments.phone,
        machine={
            "meter": arguments.meter,
            "clock": arguments.clock,
            "device_command": arguments.device_command,
        },
        health=say_state,
        enrolment=arguments.keyholder,
    )
    with log_to(folder / "log.jsonl"), _warnings_shown():
        if not arguments.once:
            run_until_stopped(partial(work, orders))
            return 0
        results = run_until_stopped(partial(work_once, orders))
    cpu_s = time.process_time()
    plain = {"calls": [asdict(result) for result in results], "cpu_s": cpu_s}
    print_result(arguments, plain, "\n".join(f"{each}; {cpu_s:.2f} s of CPU" for each in results))
    return 0 if all(result.is_success for result in results) else 1


@contextmanager
def _warnings_shown() -> Iterator[None]:
    """Print what the network warns of, too: the log has the fixed part of a message only."""
    handler, source = logging.Handler(logging.WARNING), logging.getLogger("dealfl.network")
    handler.emit = lambda record: say_state(record.getMessage())  # type: ignore[method-assign]
    source.addHandler(handler)
    try:
        yield
    finally:
        source.removeHandler(handler)


_JOB = option("job", type=Path, help="job file")
_KEYHOLDER = option(
    "--keyholder",
    type=Path,
    metavar="FILE",
    help="enrolment with the keyholder of a private job, at the first start: it moves to --out; "
    "a gateway gives a folder with NAME.enrolment for each worker",
)


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
    option(
        "--parent",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="run a region: its credentials at the broker of the parent; can be repeated",
    ),
    option("--out", type=Path, metavar="FOLDER", help="default: runs/NAME"),
    _KEYHOLDER,
    DESK,
    run=_serve,
    doc="""Run the server of a job. Workers reach it through an MQTT broker.

    examples:
      dealfl serve job.toml --broker broker/server.toml
      dealfl serve job.toml --broker a/server.toml --broker b/server.toml   two brokers, for safety
      dealfl serve job.toml --broker north/server.toml --parent north.toml  a region

    Ctrl-C or SIGTERM stops the server after its current call. The same command continues.
    """,
)
WORK = command(
    "run a worker of a job, over MQTT",
    _JOB,
    _brokers("the device, from `dealfl broker enrol`"),
    option("--out", type=Path, metavar="FOLDER", help="default: workers/NAME"),
    _KEYHOLDER,
    option(
        "--data",
        type=Path,
        metavar="PATH",
        help="file that grows, or folder of files; a gateway's folder has a file or a folder for "
        "each worker",
    ),
    option("--once", action="store_true", help="call the server once, if a call is due, and end"),
    JSON,
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
      dealfl work job.toml --broker w1.toml --data inbox/ --once          from cron, or a phone's scheduler
      dealfl work job.toml --broker w1.toml --phone nexus       model the energy of this phone
      dealfl work job.toml --broker w1.toml --meter rapl --clock deal   needs root
      dealfl work job.toml --broker w1.toml --predict-socket predict.sock
      echo '{"features": [[5.1, 3.5]]}' | nc -NU predict.sock   one line of JSON as the answer

    The section [source] of the job describes the data. Files may grow and be rotated (data.csv.1);
    they must not be edited. A last line without a line end waits until it is complete.
    With --once, the worker stores new rows, calls the server if a call is due, trains if it is selected,
    delivers, hears of erasures, prints one line, and ends: with exit code 0, or 1 if something has to be
    repeated by the next call.
    Ctrl-C or SIGTERM stops the worker after its current call. The same command continues.
    """,  # noqa: E501 - as wide as the help
)
