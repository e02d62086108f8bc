"""`dealfl status` and `dealfl metrics`: the status of a run, for people and for Prometheus.

examples:
  dealfl status                      the latest run in runs/
  dealfl status runs/digits          the run in a folder
  dealfl status ledger.db --watch    repeat every 2 seconds until Ctrl-C
  dealfl status runs/digits --json   print one JSON object
  dealfl status ann.toml             ask a running server, as its operator ann

The command only reads the ledger. It can run while a server writes, and never blocks it.
"""

import argparse
import signal
import sys
import threading
import time
from functools import partial
from typing import TYPE_CHECKING

from dealfl.cli.printing import (
    JSON,
    RUN,
    command,
    format_moment,
    format_table,
    open_run,
    open_server,
    option,
    port,
    print_result,
)
from dealfl.errors import BadInput
from dealfl.escaping import for_terminal

if TYPE_CHECKING:
    from dealfl.runs import PrivacyStatus, RunFolder, RunningServer, RunStart, RunStatus


_CLEAR = "\x1b[H\x1b[2J"
_OLD_S = 10.0


def _run(arguments: argparse.Namespace) -> int:
    from dealfl.runs import RunFolder

    if not 0.1 <= arguments.every <= 86_400:
        raise BadInput(f"--every is {arguments.every:g}; it must be from 0.1 to 86400 seconds")
    server = open_server(arguments.run_folder)
    run = server or RunFolder.at(arguments.run_folder, starting=True)
    try:
        while True:
            _show(run, arguments)
            if not arguments.watch:
                return 0
            time.sleep(arguments.every)
    except KeyboardInterrupt:
        if not arguments.watch:
            raise
        return 0  # Ctrl-C is the normal end of --watch


def _show(run: "RunFolder | RunningServer", arguments: argparse.Namespace) -> None:
    from dealfl.runs import RunFolder, RunStatus, read_start, read_status

    if isinstance(run, RunFolder):
        status = read_status(run) if run.ledger.is_file() else read_start(run)
    else:
        status = run.status()
    rows = [("run", _run_row(status))] if status.state else []
    rows += _rows(status) if isinstance(status, RunStatus) else []
    if arguments.watch and sys.stdout.isatty():
        sys.stdout.write(_CLEAR)
    title = f"{for_terminal(status.job or 'run')} ({for_terminal(status.ledger)})\n"
    print_result(arguments, status.as_dict(), title + format_table(rows, "  "))


def _run_row(status: "RunStatus | RunStart") -> str:
    """Return which scheme runs, and how many of its rounds are closed."""
    from dealfl.report import format_age

    now = status.progress
    if now is None:
        ended = getattr(status, "ended", "")
        finished = f"finished: {ended}" if ended else "finished"
        return finished if status.state == "finished" else "starting: no round is saved yet"
    which = f"{now.scheme} ({now.place} of {now.of})"
    where = now.where or "reading the data"
    below = "; the rows below are of the job's own scheme" if now.place > 1 else ""
    if now.stopped:
        return f"stopped in {which}, {where}; `dealfl run` with --resume continues it{below}"
    age_s = time.time() - now.updated_s
    old = f", reported {format_age(age_s)} ago" if age_s > _OLD_S else ""
    return f"{which}: {where}{old}{below}"


def _rows(status: "RunStatus") -> list[tuple[str, str]]:
    from dealfl.report import format_energy, format_number

    counts, call_s = status.workers, status.next_call_s
    if _has_ended(status):
        counts = {"took part": sum(counts.values()), "removed": counts["removed"]}
        call_s = None
    states = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
    energy = f"{format_energy(status.energy_j)} for trainings, {status.energy_source}"
    if status.whole_energy_j is not None:
        energy += f"; {format_energy(status.whole_energy_j)} for whole devices"
    sleeping = "" if call_s is None else f" (the next until {format_moment(call_s)})"
    flagged = f"; {status.flagged} flagged" if status.flagged else ""
    pace = f"{format_number(status.updates_per_s)} updates/s, "
    pace += f"{format_number(status.examples_per_s)} examples/s"
    unmet = status.unmet_guarantees
    return [
        ("rounds", _rounds(status)),
        ("open round", _open_round(status)),
        *([("waiting", status.problem)] if status.problem else []),
        *([("catching up", _catching_up(status))] if status.catching_up else []),
        ("workers", (states or "none yet") + sleeping + flagged),
        *(
            [("regions", f"{status.regions} with {status.devices:,} devices")]
            * bool(status.regions)
        ),
        *([("parent", _parent(status))] if status.parent else []),
        ("updates", f"{status.updates_counted:,} counted, {status.updates_waiting:,} waiting"),
        ("examples", f"{status.examples_learned:,} learned, {status.examples_evicted:,} evicted"),
        *([("privacy", _privacy(status.privacy, status.now_s))] if status.privacy else []),
        ("model", _model(status)),
        ("erasures", f"{status.erasures} requested, {status.erasures_pending} pending"),
        ("energy", energy),
        ("reward", f"{format_number(status.mean_reward)} on average"),
        ("pace", pace),
        *([("fairness not met", unmet)] if unmet else []),
    ]


def _privacy(privacy: "PrivacyStatus", now_s: float) -> str:
    by = f"{privacy.keyholder} ({privacy.key})"
    parts = [f"sums of {privacy.cohort}+ workers, opened by {by}: {privacy.openings:,} so far"]
    if 0 < privacy.smallest < privacy.cohort:
        parts.append(f"the smallest of {privacy.smallest}")
    if privacy.waiting_since_s is not None:
        waited_s = max(now_s - privacy.waiting_since_s, 0.0)
        parts.append(f"NO ANSWER from the keyholder for {waited_s:.0f} s: updates wait")
    for names, what in ((privacy.suspects, "suspected"), (privacy.barred, "barred")):
        if names:
            parts.append(f"{what}: {', '.join(names)}")
    if privacy.problem:
        parts.append(privacy.problem)
    return "; ".join(parts)


def _catching_up(status: "RunStatus") -> str:
    return f"the ledger was restored; {status.catching_up:,} workers have not sent their sums yet"


def _parent(status: "RunStatus") -> str:
    """Return what a region has reported to its parent."""
    parent = status.parent
    if parent is None:
        return ""
    said = f"{parent.updates:,} updates posted; holds version {parent.version} of the root"
    if not parent.incarnation:
        said = "has not welcomed this region yet"
    elif parent.posted_digest != status.statistics_digest:
        said += "; more waits for its next round"
    return said + f"; PROBLEM: {parent.problem}" * bool(parent.problem)


def _has_ended(status: "RunStatus") -> bool:
    """Return whether the job's own scheme has ended; others may still run."""
    now = status.progress
    return status.state == "finished" if now is None else now.place > 1


def _rounds(status: "RunStatus") -> str:
    counted = status.rounds_planned is not None and not _has_ended(status)
    planned = f" of {status.rounds_planned:,}" if counted else ""
    reasons = ", ".join(f"{count} {reason}" for reason, count in status.rounds_by_reason.items())
    reasons = f" ({reasons})" if reasons else ""
    last = f"; the last by {status.last_reason}" if status.last_reason else ""
    converged = "; converged" if status.converged else ""
    return f"{status.rounds_closed}{planned} closed{reasons}{last}{converged}"


def _open_round(status: "RunStatus") -> str:
    open_round = status.open_round
    if open_round is None:
        return "none"
    left = max(open_round.deadline_s - status.now_s, 0.0)
    replied = f"{open_round.replied} of {open_round.selected} replied"
    return f"{open_round.number}: {replied}, {left:.0f} s left"


def _model(status: "RunStatus") -> str:
    if not status.version:
        return "none published yet"
    published, now = status.published_digest[:16], status.statistics_digest[:16]
    shown = f"version {status.version} after round {status.version_round}, {published}…"
    return shown if now == published else f"{shown}; changed since to {now}…, not published yet"


# -- metrics ------------------------------------------------------------------------------------


def _serve(arguments: argparse.Namespace) -> int:
    from dealfl.runs import RunFolder, read_status, serve_metrics

    run = open_run(arguments)
    read = partial(read_status, run) if isinstance(run, RunFolder) else run.status
    served = serve_metrics(read, arguments.port, arguments.host)
    print_result(arguments, {"address": served.address}, f"serving {served.address}")
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):  # a parent process can have ignored them
        signal.signal(number, lambda *_: ended.set())
    ended.wait()
    served.close()
    return 0


COMMAND = command(
    "show the status of a run",
    RUN,
    option("--watch", action="store_true", help="repeat until Ctrl-C"),
    option(
        "--every",
        type=float,
        default=2.0,
        metavar="SECONDS",
        help="interval of --watch (default: 2)",
    ),
    JSON,
    run=_run,
    description="Show rounds, workers, updates, model and energy of a run, from its ledger.",
    doc=__doc__,
)
METRICS = command(
    "serve the metrics of a run for Prometheus",
    RUN,
    port("port (default: a free port)"),
    option("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)"),
    JSON,
    run=_serve,
    doc="""Serve metrics from the ledger of a run for Prometheus, until Ctrl-C.

    examples:
      dealfl metrics runs/digits --port 9464     serve until Ctrl-C
      dealfl metrics                             the latest run in runs/, on a free port
      dealfl metrics ann.toml --port 9464        a running server, as its operator ann

    A running server sends no histogram of the durations of rounds.

    By default only this machine can connect (see --host). Workers are counted, never named.
    """,
)
