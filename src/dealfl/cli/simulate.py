"""`dealfl simulate`: a fleet with a virtual clock, or the laboratory of selection policies.

examples:
  dealfl simulate examples/fleets/digits.toml                        one simulation
  dealfl simulate examples/fleets/digits.toml --seeds 5              five, with intervals
  dealfl simulate examples/fleets/digits.toml --set job.rounds=10    set a key
  dealfl simulate examples/fleets/digits.toml --seeds 3 \\
      --vary job.scheme=deal,newfl,original                          compare values of a key
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
import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dealfl.cli.printing import add_json, add_processes, examples_in, format_table, say
from dealfl.errors import BadInput

if TYPE_CHECKING:
    from dealfl.simulate import Estimate, Setting
    from dealfl.simulate.laboratory import Course, Result, WrongChoices

__all__ = ["add_parser", "read_values"]

_EPILOG = examples_in(__doc__)


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command `simulate`."""
    parser = subparsers.add_parser(
        "simulate",
        help="simulate a fleet of devices with a virtual clock",
        description=(
            "Simulate the fleet of a TOML file. Server, workers and learners are real; devices, "
            "network and time are modelled. Exit code 1 means that the server's digest differs "
            "from that of central training. `dealfl simulate selection` compares policies that "
            "select workers with the best possible policy."
        ),
        epilog=_EPILOG,
    )
    parser.add_argument(
        "fleet", metavar="FLEET.toml", help="file of the fleet, or the word: selection"
    )
    parser.add_argument(
        "--seeds", type=int, metavar="N",
        help="number of seeds (default: 1; for selection, that of its setting)",
    )  # fmt: skip
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", dest="values",
        help="set a key; can be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--vary", action="append", default=[], metavar="KEY=A,B,…",
        help="simulate each of several values of a key; can be repeated",
    )  # fmt: skip
    add_processes(parser, "number of simulations at the same time (default: one for each core)")
    add_json(parser)
    parser.add_argument(
        "setting", nargs="?", metavar="SETTING",
        help="after `selection`: three (default), six, batteries, nights, or a file",
    )  # fmt: skip
    group = parser.add_argument_group("options of selection")
    group.add_argument("--page", metavar="FILE.html", help="write an HTML report")
    group.add_argument(
        "--wrong-choices", action="store_true", help="measure the cost of wrong selections instead"
    )
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    if arguments.fleet != "selection":
        return _run_fleet(arguments)
    if arguments.vary:
        raise BadInput("--vary is not an option of selection; list several [[policies]] in a file")
    return (_measure_choices if arguments.wrong_choices else _compare_policies)(arguments)


def _run_fleet(arguments: argparse.Namespace) -> int:
    from dealfl.api import Fleet, sweep_settings
    from dealfl.memory import keep_freed_memory
    from dealfl.report import summarize_setting

    keep_freed_memory()
    if arguments.setting or arguments.page or arguments.wrong_choices:
        raise BadInput(
            "SETTING, --page and --wrong-choices are options of `dealfl simulate selection` only"
        )
    pairs = [_pair("--vary", word) for word in arguments.vary]
    vary = {key: [_value(value) for value in values.split(",")] for key, values in pairs}
    first = {key: values[0] for key, values in vary.items()}  # a required key can be among them
    fleet = Fleet.from_job(arguments.fleet, {**read_values(arguments.values), **first})
    seeds = 1 if arguments.seeds is None else arguments.seeds
    settings = sweep_settings(fleet, vary, seeds, processes=arguments.processes)
    if arguments.json:
        say(json.dumps({"settings": [_plain_setting(setting) for setting in settings]}, indent=2))
    else:
        say("\n\n".join(summarize_setting(setting) for setting in settings))
    return int(not all(outcome.exact for one in settings for outcome in one.outcomes))


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


def _plain_setting(setting: Setting) -> dict[str, Any]:
    shown = int | float | str | bool
    return {
        "values": {k: v if isinstance(v, shown) else str(v) for k, v in setting.values.items()},
        "estimates": {name: _interval(one) for name, one in setting.estimates().items()},
        "outcomes": [outcome.as_dict() for outcome in setting.outcomes],
    }


def _interval(one: Estimate) -> dict[str, Any]:
    return {"mean": one.mean, "low": one.low, "high": one.high, "count": one.count}


# -- policies of selection ----------------------------------------------------------------------


def _compare_policies(arguments: argparse.Namespace) -> int:
    """Run the laboratory; return 1 if the regret of a policy exceeds its theoretical bound."""
    from dealfl.report import ProgressLine, write_selection_page
    from dealfl.simulate.laboratory import read_laboratory, read_setting, run_laboratory

    document = read_setting(arguments.setting or "three")
    for key, value in read_values(arguments.values).items():
        document = document.replaced(key, value)
    if arguments.seeds is not None and arguments.seeds < 1:
        raise BadInput(f"--seeds is {arguments.seeds}; it must be a whole number ≥ 1")
    setting, line = read_laboratory(document), ProgressLine(sys.stderr)
    result = run_laboratory(
        setting, arguments.seeds, lambda n, of: line.show(lambda: f"round {n:,} of {of:,}")
    )
    line.clear()
    table = _text(result)
    if arguments.page:
        write_selection_page(result, table, Path(arguments.page))
    page = f"\n\nplots: {arguments.page}" if arguments.page else ""
    say(json.dumps(_plain_result(result), indent=2) if arguments.json else table + page)
    verdicts = [course.within(result.setting, result.points) for course in result.courses]
    return int(False in verdicts)


def _plain_result(result: Result) -> dict[str, Any]:
    return {
        "setting": result.setting.plan.name,
        "seeds": result.seeds,
        "rounds": result.setting.plan.rounds,
        "optimum": {
            "reward": result.optimum.reward,
            "fractions": result.optimum.fractions.tolist(),
            "exact": result.optimum.exact,
        },
        "fairness": result.setting.fairness.tolist(),
        "points": result.points.tolist(),
        "policies": [_plain_course(course, result) for course in result.courses],
    }


def _plain_course(course: Course, result: Result) -> dict[str, Any]:
    return {
        "policy": course.policy.label,
        "regret": _interval(course.regret_at_end()),
        "shortfall": _interval(course.mean_shortfall()),
        "fractions": course.fractions.mean(axis=0).tolist(),
        "regret_over_time": course.regret.mean(axis=0).tolist(),
        "within_theory": course.within(result.setting, result.points),
    }


def _text(result: Result) -> str:
    plan, best = result.setting.plan, result.optimum
    how = "exact" if best.exact else "from sampled sets"
    title = (
        f"{plan.name}: {result.setting.workers} workers, {plan.per_round} per round, "
        f"{plan.rounds:,} rounds, {result.seeds} seeds\n"
        f"optimum that meets all guarantees: {best.reward:.4f} per round ({how})\n"
    )
    rows = [["policy", "regret per round", "below guarantee", "theory"]]
    rows += [_row(course, result) for course in result.courses]
    fractions = {"guarantee": result.setting.fairness, "optimum": best.fractions}
    fractions |= {one.policy.label: one.fractions.mean(axis=0) for one in result.courses}
    head = ["fraction of rounds", *(f"worker {n + 1}" for n in range(result.setting.workers))]
    shares = [[name, *(f"{one:.3f}" for one in values)] for name, values in fractions.items()]
    intervals = (
        "± is half of the 95 % confidence interval; below guarantee: largest gap of a worker"
    )
    tables = [format_table(rows, "  "), format_table([head, *shares], "  ")]
    return "\n".join([title, tables[0], "", tables[1], "", intervals])


def _row(course: Course, result: Result) -> list[str]:
    within = course.within(result.setting, result.points)
    verdict = "" if within is None else "below its bound" if within else "ABOVE ITS BOUND"
    regret, shortfall = course.regret_at_end(), course.mean_shortfall()
    spread = "" if regret.half_width is None else f" ± {regret.half_width:.4f}"
    return [course.policy.label, f"{regret.mean:.4f}{spread}", f"{shortfall.mean:.4f}", verdict]


def _measure_choices(arguments: argparse.Namespace) -> int:
    from dealfl.simulate.laboratory import judge_wrong_choices, measure_wrong_choices

    found = measure_wrong_choices()
    if arguments.json:
        rows = [dataclasses.asdict(one) | {"tail": one.only_the_tail} for one in found]
        say(json.dumps({"choices": rows, "verdict": judge_wrong_choices(found)}, indent=2))
        return 0
    head = [
        "selected by", "round ends with", "wrong selections", "mean", "median", "95th percentile",
    ]  # fmt: skip
    table = format_table([head, *(_wrong_row(one) for one in found)], "  ")
    say(f"{table}\n\n{judge_wrong_choices(found)}")
    return 0


def _wrong_row(one: WrongChoices) -> list[str]:
    by = "learning" if one.prediction_error is None else f"predictions ± {one.prediction_error:.0%}"
    changes = [f"{change - 1:+.1%}" for change in (one.mean, one.median, one.percentile_95)]
    return [by, one.ends_with, f"{one.wrong_picks:.1%}", *changes]
