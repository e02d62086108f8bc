"""`dealfl workers`: list, show and remove the workers of a run.

examples:
  dealfl workers list                      list the workers of the latest run in runs/
  dealfl workers list operator.toml        ask a running server
  dealfl workers show runs/digits w07      show one worker and its rounds
  dealfl workers remove runs/digits w07    remove a lost phone from the model

`remove` removes all updates of the worker from the model, in one transaction. A running server is
reached with the credentials of an operator; without them, the server must not be running. If the
phone returns, it starts a new incarnation and sends its examples again.
"""

import argparse
import dataclasses
import sys
from typing import TYPE_CHECKING

from dealfl.cli.printing import (
    JSON,
    RUN,
    RUN_FIRST,
    command,
    format_moment,
    format_table,
    open_run,
    option,
    print_result,
    say,
)
from dealfl.errors import BadInput, unknown_name

if TYPE_CHECKING:
    from dealfl.runs import WorkerStatus


_HEADER = (
    "NAME",
    "STATE",
    "DEVICE",
    "BATTERY",
    "INCARNATION",
    "COUNTED",
    "WAITING",
    "HEARD",
    "SELECTED",
    "REWARD",
    "ENERGY",
    "FLAG",
)


def _list(arguments: argparse.Namespace) -> int:
    from dealfl.runs import RunFolder, read_status, read_workers

    run = open_run(arguments)
    if isinstance(run, RunFolder):
        workers, now_s = read_workers(run), read_status(run).now_s
    else:
        workers, now_s = run.workers(), run.status().now_s
    plain = [dataclasses.asdict(worker) for worker in workers]
    table = format_table([_HEADER, *(_row(worker, now_s) for worker in workers)])
    return print_result(arguments, {"now_s": now_s, "workers": plain}, table)


def _row(worker: "WorkerStatus", now_s: float) -> tuple[str, ...]:
    from dealfl.report import format_age, format_energy, format_number

    heard_s = worker.last_heard_s
    return (
        worker.name,
        _state(worker, now_s),
        worker.device or "-",
        f"{worker.battery:.0%}" + (" charging" if worker.charging else ""),
        str(worker.incarnation),
        str(worker.updates_counted),
        str(worker.updates_waiting),
        "-" if heard_s is None else f"{format_age(now_s - heard_s)} ago",
        str(worker.selected),
        format_number(worker.mean_reward),
        format_energy(worker.energy_j),
        worker.flag if worker.fits else f"{worker.flag} does not fit the job".strip(),
    )


def _state(worker: "WorkerStatus", now_s: float) -> str:
    """Return the state; a worker that was sent to sleep is not lost before it must call."""
    if worker.state != "asleep" or worker.call_by_s is None:
        return worker.state
    overdue = ", overdue" if now_s > worker.call_by_s else ""
    return f"asleep until {format_moment(worker.call_by_s)}{overdue}"


def _show(arguments: argparse.Namespace) -> int:
    from dealfl.runs import RunFolder, read_worker_rounds, read_workers

    run = open_run(arguments)
    if isinstance(run, RunFolder):
        everyone, rounds = read_workers(run), read_worker_rounds(run, arguments.name)
    else:
        everyone, rounds = run.workers(), run.worker_rounds(arguments.name)
    workers = {worker.name: worker for worker in everyone}
    if arguments.name not in workers:
        raise unknown_name("worker", arguments.name, workers)
    plain = dataclasses.asdict(workers[arguments.name])
    text = format_table([(key.replace("_", " "), _shown(value)) for key, value in plain.items()])
    if rounds:
        cells = [[_shown(value) for value in row.values()] for row in rounds]
        text += "\n\n" + format_table([[key.upper() for key in rounds[0]], *cells])
    return print_result(arguments, {**plain, "rounds": rounds}, text)


def _shown(value: object) -> str:
    from dealfl.report import format_number

    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return format_number(value) if isinstance(value, float) else str(value)


def _remove(arguments: argparse.Namespace) -> int:
    from dealfl.runs import RunFolder, remove_worker

    run = open_run(arguments)
    if not arguments.yes:
        _require_consent(arguments.name, str(run.ledger))
    if not isinstance(run, RunFolder):
        digest = run.remove(arguments.name)
        text = f"Removed {arguments.name} from the model.\n  digest after   {digest}"
        return print_result(arguments, {"worker": arguments.name, "digest_after": digest}, text)
    removed = remove_worker(run, arguments.name)
    still = f"The published model is still version {removed.version}. " if removed.version else ""
    text = (
        f"Removed {removed.worker} and its {removed.updates} updates from the model.\n"
        f"  digest before  {removed.digest_before}\n  digest after   {removed.digest_after}\n"
        f"{still}Version {removed.version + 1} will not contain them."
    )
    return print_result(arguments, dataclasses.asdict(removed), text)


def _require_consent(worker: str, ledger: str) -> None:

    if not sys.stdin.isatty():
        raise BadInput(f"removing {worker!r} from {ledger} cannot be undone; confirm with --yes")
    say(f"Remove all updates of {worker!r} from {ledger}? This cannot be undone.")
    say("Type yes to continue: ", end="", flush=True)
    if sys.stdin.readline().strip() != "yes":
        raise BadInput("not confirmed; nothing was changed")


_NAME = option("name", metavar="NAME", help="name of the worker")
COMMAND = command(
    "list, show and remove the workers of a run",
    description="List the workers of a run, show one of them, or remove one from the model.",
    doc=__doc__,
    actions={
        "list": command("list all workers with state, updates and energy", RUN, JSON, run=_list),
        "show": command("show one worker and its rounds", RUN_FIRST, _NAME, JSON, run=_show),
        "remove": command(
            "remove a worker from the model",
            RUN_FIRST,
            _NAME,
            option("--yes", action="store_true", help="do not ask for confirmation"),
            JSON,
            run=_remove,
        ),
    },
)
