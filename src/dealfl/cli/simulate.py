"""`dealfl simulate`: a fleet with a virtual clock, or the laboratory of selection policies.

examples:
  dealfl simulate examples/fleets/digits.toml                        one simulation
  dealfl simulate examples/fleets/digits.toml --seeds 5              five, with intervals
  dealfl simulate examples/fleets/digits.toml --set job.rounds=10    set a key
  dealfl simulate examples/fleets/digits.toml --seeds 3 \\
      --vary job.scheme=deal,newfl,original                          compare values of a key
  dealfl simulate examples/fleets/digits.toml --seeds 8 --executor dask://127.0.0.1:8786
  dealfl simulate examples/fleets/digits.toml --seeds 8 --out runs/sweep --resume
  dealfl simulate selection                          three workers, the standard setting
  dealfl simulate selection six --page six.html      six workers, with an HTML report
  dealfl simulate selection batteries --seeds 20     rewards that change with the batteries
  dealfl simulate selection my.toml --set setting.rounds=5000
  dealfl simulate selection --wrong-choices          measure the cost of wrong selections

A key is written with its section: job.rounds, faults.loss, devices.1.count (the first [[devices]]).
Energy is modelled, not measured; time is virtual.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dealfl.cli.parsing import data_hint
from dealfl.cli.printing import EXECUTOR, JSON, command, option, processes, say, values
from dealfl.cli.reproduce import run_entry_point
from dealfl.errors import BadInput

if TYPE_CHECKING:
    from dealfl.api import Fleet
    from dealfl.simulate import Setting


def _run(arguments: argparse.Namespace) -> int:
    if arguments.fleet != "selection":
        return _run_fleet(arguments)
    if arguments.vary:
        raise BadInput("--vary is not an option of selection; list several [[policies]] in a file")
    if arguments.executor or arguments.out or arguments.resume or arguments.restart:
        raise BadInput("--executor, --out, --resume and --restart are not options of selection")
    return run_entry_point("selection", arguments)


def _run_fleet(arguments: argparse.Namespace) -> int:
    from dealfl.api import Fleet, kept_in, sweep_settings
    from dealfl.jobs import Document
    from dealfl.parallel import open_executor
    from dealfl.report import summarize_sweep
    from dealfl.storage import keep_freed_memory

    keep_freed_memory()
    if arguments.setting or arguments.page or arguments.wrong_choices:
        raise BadInput(
            "SETTING, --page and --wrong-choices are options of `dealfl simulate selection` only"
        )
    pairs = [_pair("--vary", word) for word in arguments.vary]
    vary = {key: [_value(value) for value in values.split(",")] for key, values in pairs}

    def read(path: str, given: dict[str, object]) -> Fleet:
        document = Document.read(path)  # a required key can be among those that vary
        first = {key: values[0] for key, values in vary.items() if not document.has(key)}
        return Fleet.from_job(path, {**given, **first})

    fleet = read_job_file(read, arguments.fleet, read_values(arguments.values))
    seeds = 1 if arguments.seeds is None else arguments.seeds
    folder = {"resume": arguments.resume, "restart": arguments.restart}
    with open_executor(arguments.executor) as executor, kept_in(arguments.out, **folder) as kept:
        settings = sweep_settings(
            fleet, vary, seeds, True, arguments.processes, executor=executor, kept=kept
        )
    if arguments.json:
        plain = [_plain_setting(setting, settings[0]) for setting in settings]
        say(json.dumps({"settings": plain}, indent=2))
    else:
        say(summarize_sweep(settings))
    return int(not all(outcome.exact for setting in settings for outcome in setting.outcomes))


def read_job_file(
    read: Callable[..., Fleet], path: str | Path | None, values: dict[str, object]
) -> Fleet:
    """Read a job; if the file has data instead, say how to write a job for them."""
    if path is not None and Path(path).is_dir():
        raise BadInput(f"{path} is a {_name_folder(Path(path))}; give a job file")
    try:
        return read(path, values)
    except BadInput as error:
        if path is None or not Path(path).is_file() or not (hint := data_hint(path)):
            raise
        raise BadInput(f"{path} is no job file{hint}") from error


def _name_folder(path: Path) -> str:
    from dealfl.runs import RunFolder

    return "folder" if RunFolder(path).job is None else "run folder"


def read_values(words: Sequence[str]) -> dict[str, object]:
    """Return the values of `--set KEY=VALUE`."""
    pairs = [_pair("--set", word) for word in words]
    return {key: _value(value) for key, value in pairs}


def _pair(option: str, word: str) -> tuple[str, str]:
    key, sign, value = word.partition("=")
    if not sign or not key.strip() or not value.strip():
        raise BadInput(f"{option} {word}: write KEY=VALUE, for example {option} job.rounds=10")
    return key.strip(), value.strip()


def _value(word: str) -> object:
    """Return a TOML value; other text is a string."""
    import tomllib
    from decimal import Decimal

    try:
        return tomllib.loads(f"value = {word}", parse_float=Decimal)["value"]
    except tomllib.TOMLDecodeError:
        return word


def _plain_setting(setting: Setting, first: Setting) -> dict[str, Any]:
    estimates, differences = setting.estimates(), setting.differences(first)
    return {
        "values": setting.plain_values,
        "estimates": {name: estimate.as_dict() for name, estimate in estimates.items()},
        "differences": {name: estimate.as_dict() for name, estimate in differences.items()},
        "outcomes": [outcome.as_dict() for outcome in setting.outcomes],
    }


def _add_selection(parser: argparse._ActionsContainer) -> None:
    group = parser.add_argument_group("options of selection")
    group.add_argument("--page", metavar="FILE.html", help="write an HTML report")
    group.add_argument(
        "--wrong-choices", action="store_true", help="measure the cost of wrong selections instead"
    )


COMMAND = command(
    "simulate a fleet of devices with a virtual clock",
    option("fleet", metavar="FLEET.toml", help="file of the fleet, or the word: selection"),
    option(
        "--seeds",
        type=int,
        metavar="N",
        help="number of seeds (default: 1; for selection, that of its setting)",
    ),
    values("set a key; can be repeated"),
    option(
        "--vary",
        action="append",
        default=[],
        metavar="KEY=A,B,…",
        help="simulate each of several values of a key, and compare them on the same seeds; "
        "can be repeated",
    ),
    processes("number of simulations at the same time (default: one for each core)"),
    EXECUTOR,
    option("--out", metavar="FOLDER", help="keep the outcome of each simulation that has ended"),
    option(
        "--resume", action="store_true", help="continue what Ctrl-C stopped, with the same --out"
    ),
    option("--restart", action="store_true", help="discard what the folder keeps"),
    JSON,
    option(
        "setting",
        nargs="?",
        metavar="SETTING",
        help="after `selection`: three (default), six, batteries, nights, or a file",
    ),
    _add_selection,
    run=_run,
    description="Simulate the fleet of a TOML file. Server, workers and learners are real; "
    "devices, network and time are modelled. Exit code 1 means that the server's digest differs "
    "from that of central training. `dealfl simulate selection` compares policies that "
    "select workers with the best possible policy.",
    doc=__doc__,
)
