"""`dealfl simulate selection`: compare policies that select workers with the optimum."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dealfl.simulate.laboratory import Course, Result, WrongChoices

__all__ = ["EXAMPLES", "add_options", "run"]

EXAMPLES = """\
  dealfl simulate selection                          three workers, the standard setting
  dealfl simulate selection six --page six.html      six workers, with an HTML report
  dealfl simulate selection batteries --seeds 20     rewards that change with the batteries
  dealfl simulate selection my.toml --set setting.rounds=5000
  dealfl simulate selection --wrong-choices          measure the cost of wrong selections
"""

Values = Callable[[Sequence[str]], dict[str, object]]
Progress = Callable[[Callable[[], str]], None]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `selection`."""
    parser.add_argument(
        "setting", nargs="?", metavar="SETTING",
        help="after `selection`: three (default), six, batteries, nights, or a file",
    )  # fmt: skip
    group = parser.add_argument_group("options of selection")
    group.add_argument("--page", metavar="FILE.html", help="write an HTML report")
    group.add_argument(
        "--wrong-choices", action="store_true", help="measure the cost of wrong selections instead"
    )


def run(
    arguments: argparse.Namespace, values: Values, tell: Progress, clear: Callable[[], None]
) -> int:
    """Run the laboratory; return 1 if the regret of a policy exceeds its theoretical bound."""
    from dealfl.errors import BadInput

    if arguments.vary:
        raise BadInput("--vary is not an option of selection; list several [[policies]] in a file")
    if arguments.wrong_choices:
        return _wrong_choices(arguments)
    result = _result(arguments, values(arguments.values), tell)
    clear()
    table = _text(result)
    if arguments.page:
        from dealfl.report import write_selection_page

        write_selection_page(result, table, Path(arguments.page))
    print(json.dumps(_plain(result), indent=2) if arguments.json else table)
    if arguments.page and not arguments.json:
        print(f"\nplots: {arguments.page}")
    verdicts = [course.within(result.setting, result.points) for course in result.courses]
    return int(False in verdicts)


def _result(arguments: argparse.Namespace, values: dict[str, object], tell: Progress) -> Result:
    from dealfl.errors import BadInput
    from dealfl.simulate.laboratory import laboratory_of, read_laboratory, run_laboratory

    document = read_laboratory(arguments.setting or "three")
    for key, value in values.items():
        document = document.replaced(key, value)
    seeds = arguments.seeds
    if seeds is not None and seeds < 1:
        raise BadInput(f"--seeds is {seeds}; it must be a whole number ≥ 1")
    setting = laboratory_of(document)
    return run_laboratory(
        setting, seeds, lambda number, of: tell(lambda: f"round {number:,} of {of:,}")
    )


# -- results ------------------------------------------------------------------------------------


def _plain(result: Result) -> dict[str, Any]:
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


def _interval(estimate: Any) -> dict[str, Any]:  # noqa: ANN401
    return {
        "mean": estimate.mean, "low": estimate.low, "high": estimate.high, "count": estimate.count,
    }  # fmt: skip


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
    places = range(result.setting.workers)
    fractions = [["fraction of rounds", *(f"worker {place + 1}" for place in places)]]
    fractions.append(["guarantee", *_figures(result.setting.fairness)])
    fractions.append(["optimum", *_figures(best.fractions)])
    fractions += [
        [course.policy.label, *_figures(course.fractions.mean(axis=0))] for course in result.courses
    ]
    intervals = (
        "± is half of the 95 % confidence interval; below guarantee: largest gap of a worker"
    )
    return "\n".join([title, *_columns(rows), "", *_columns(fractions), "", intervals])


def _row(course: Course, result: Result) -> list[str]:
    within = course.within(result.setting, result.points)
    verdict = "" if within is None else "below its bound" if within else "ABOVE ITS BOUND"
    regret, shortfall = course.regret_at_end(), course.mean_shortfall()
    spread = "" if regret.half_width is None else f" ± {regret.half_width:.4f}"
    return [course.policy.label, f"{regret.mean:.4f}{spread}", f"{shortfall.mean:.4f}", verdict]


def _figures(values: Any) -> list[str]:  # noqa: ANN401
    return [f"{value:.3f}" for value in values]


def _columns(rows: list[list[str]]) -> list[str]:
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    return [
        "  "
        + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


# -- wrong choices ------------------------------------------------------------------------------


def _wrong_choices(arguments: argparse.Namespace) -> int:
    from dealfl.simulate.laboratory import judge_wrong_choices, measure_wrong_choices

    found = measure_wrong_choices()
    if arguments.json:
        rows = [
            {name: getattr(one, name) for name in one.__slots__} | {"tail": one.only_the_tail}
            for one in found
        ]
        print(json.dumps({"choices": rows, "verdict": judge_wrong_choices(found)}, indent=2))
        return 0
    head = [
        "selected by", "round ends with", "wrong selections", "mean", "median", "95th percentile",
    ]  # fmt: skip
    print("\n".join(_columns([head, *(_wrong_row(one) for one in found)])))
    print(f"\n{judge_wrong_choices(found)}")
    return 0


def _wrong_row(one: WrongChoices) -> list[str]:
    by = "learning" if one.prediction_error is None else f"predictions ± {one.prediction_error:.0%}"
    changes = [f"{change - 1:+.1%}" for change in (one.mean, one.median, one.percentile_95)]
    return [by, one.ends_with, f"{one.wrong_picks:.1%}", *changes]
