"""`dealfl run`: run a job with a live view, a summary and an HTML report.

examples:
  dealfl run                            15 phones learn and forget handwritten digits
  dealfl run job.toml                   run your own job; `dealfl job init data.csv` writes one
  dealfl run job.toml --set job.rounds=50
  dealfl run --resume                   continue the run that Ctrl-C stopped
  dealfl run --discard                  delete it instead, with the examples that it keeps
  dealfl run job.toml --from model.deal  start with an exported model
  dealfl run --json                     print the result as one JSON object
  dealfl run --ablate                   print what each lever saves, beside a fair baseline
"""

import argparse
import gc
import json
import shlex
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from dealfl.cli.desk import DESK, show_desk
from dealfl.cli.printing import JSON, command, option, print_result, processes, say, values
from dealfl.errors import BadInput

if TYPE_CHECKING:
    from dealfl.api import Fleet


def _run(arguments: argparse.Namespace) -> int:
    from dealfl.api import Fleet, run
    from dealfl.cli.simulate import read_job_file, read_values
    from dealfl.runs import Interrupted, RunFolder
    from dealfl.storage import keep_freed_memory

    keep_freed_memory()
    gc.set_threshold(100_000)  # a run makes millions of records, and none is part of a cycle
    _refuse_stopped_run(arguments)
    fleet = read_job_file(Fleet.from_job, arguments.job, read_values(arguments.values))
    if arguments.ablate:
        return _ablate(arguments, fleet)
    latest = arguments.resume or arguments.restart or arguments.discard
    folder = arguments.out or RunFolder.for_job(_folder_name(fleet.name), latest=latest).path
    if arguments.discard:
        return _discard(arguments, folder)
    if find_spec("plotly") is None:
        say("dealfl: no report: plotly is missing; pip install 'dealfl[report]'", file=sys.stderr)
    try:
        with show_desk(arguments, folder):
            result = run(
                fleet,
                out=folder,
                compare=not arguments.no_compare,
                resume=arguments.resume,
                restart=arguments.restart,
                start_from=arguments.start_from,
                keep_data=not arguments.discard_data,
                forget_one=arguments.job is None and not arguments.discard_data,
                processes=arguments.processes,
                with_erased=arguments.with_erased,
            )
    except Interrupted:
        say(f"dealfl: stopped; continue with: {_resume_command(arguments)}", file=sys.stderr)
        return 130
    if arguments.json:
        say(json.dumps(result.as_dict() | {"folder": str(folder)}, indent=2))
    else:
        say(f"{result!r}\n\nReport: {result.page}")
    return 0 if result.exact else 1


def _refuse_stopped_run(arguments: argparse.Namespace) -> None:
    """Refuse the folder of a stopped run in the place of a job; say how to continue the run."""
    from dealfl.runs import RunFolder, default_job

    if arguments.job is None or not (run := RunFolder(arguments.job)).resumable:
        return
    job = [] if run.job_text() == default_job() else ["JOB.toml"]
    again = shlex.join([*arguments.parser.prog.split(), *job, "--out", str(run.path), "--resume"])
    named = ", with its job file" if job else ""
    raise BadInput(f"{run.path} is the folder of a stopped run; continue it{named}: {again}")


def _ablate(arguments: argparse.Namespace, fleet: "Fleet") -> int:
    from dealfl.report import choose_view, summarize_ablation
    from dealfl.runs import ablate

    if arguments.resume or arguments.restart or arguments.out or arguments.start_from:
        raise BadInput("--ablate writes no folder; leave out --out, --resume, --restart and --from")
    with choose_view(sys.stderr, fleet.name) as view:
        ablation = ablate(fleet.simulated, view, arguments.processes)
    print_result(arguments, ablation.as_dict(), summarize_ablation(ablation))
    return 0 if ablation.exact else 1


def _discard(arguments: argparse.Namespace, folder: Path) -> int:
    from dealfl.runs import RunFolder

    run = RunFolder(folder)
    if not run.resumable:
        raise BadInput(f"{folder} holds no run that was stopped; leave out --discard")
    with run.locked():
        run.discard()
    return print_result(
        arguments, {"deleted": str(folder)}, f"Deleted the stopped run in {folder}."
    )


def _folder_name(name: str) -> str:
    """Return the job's name, if a folder can have it."""
    if name in (".", "..") or "/" in name or "\\" in name or not name.isprintable():
        raise BadInput(f"job.name is {name!r}, which is not a valid folder name; use --out FOLDER")
    return name


def _resume_command(arguments: argparse.Namespace) -> str:
    """Return the command that continues this run: its own options, quoted for a shell."""
    parser = arguments.parser
    words = [*parser.prog.split(), "--resume"]
    for action in parser._actions:
        value = getattr(arguments, action.dest, action.default)
        if action.dest in ("help", "resume", "restart", "discard") or value == action.default:
            continue
        options = action.option_strings[:1]
        if action.nargs == 0:
            words += options
        else:
            values = value if isinstance(value, list) else [value]
            words += [word for item in values for word in (*options, str(item))]
    return shlex.join(words)


COMMAND = command(
    "run a job: server and fleet in one process, with a report",
    option("job", nargs="?", type=Path, help="job file (default: digits, 15 phones)"),
    option(
        "--out",
        type=Path,
        metavar="FOLDER",
        help="run folder (default: runs/NAME, then runs/NAME-2, …)",
    ),
    values("set a key of the job; can be repeated"),
    option("--resume", action="store_true", help="continue a stopped run"),
    option("--restart", action="store_true", help="discard the last run; start over"),
    option("--discard", action="store_true", help="delete a stopped run; start none"),
    option(
        "--from",
        type=Path,
        dest="start_from",
        metavar="MODEL",
        help="start with an exported model or the model of a run",
    ),
    option("--no-compare", action="store_true", help="skip the other schemes"),
    option(
        "--ablate",
        action="store_true",
        help="print what each lever saves: a fair baseline with it, and the job without it",
    ),
    processes("number of schemes that run at the same time (default: one for each core)"),
    option(
        "--with-erased",
        action="store_true",
        help="read persons who were erased from earlier runs of the same file; else left out",
    ),
    option(
        "--discard-data", action="store_true", help="keep no examples; nobody can be erased later"
    ),
    DESK,
    JSON,
    run=_run,
    description="Run a job: a server and a fleet of workers in one process, with a virtual clock. "
    "The same fleet then runs with the other schemes, for comparison. All files, with an "
    "HTML report, are in one folder.",
    doc=__doc__,
)
