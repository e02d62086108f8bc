"""The commands of this package: `dealfl reproduce` and `dealfl simulate selection`.

Each takes the parsed arguments, prints the result and returns the exit code.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

from dealfl.cli import format_table, print_result, read_values, say
from dealfl.errors import BadInput
from dealfl.escaping import for_terminal
from dealfl.parallel import open_executor
from dealfl.report import ProgressLine, choose_line, format_age, format_count
from dealfl.storage import keep_freed_memory
from dealfl_paper.laboratory import (
    Course,
    Result,
    WrongChoices,
    judge_wrong_choices,
    measure_wrong_choices,
    read_laboratory,
    read_setting,
    run_laboratory,
    write_selection_page,
)


def reproduce(arguments: argparse.Namespace) -> int:
    """Run the figures of the paper and print the verdict on each claim."""
    from dealfl_paper.page import as_results, write_results  # the figures are slow to import
    from dealfl_paper.reproduction import Step, require_data
    from dealfl_paper.reproduction import reproduce as run_figures

    if not arguments.skip_missing:
        require_data(arguments.figures, quick=arguments.quick)
    keep_freed_memory()
    with choose_line(sys.stderr) as line, open_executor(arguments.executor) as executor:

        def show(step: Step) -> None:
            line.show(
                lambda: (
                    f"{step.figure}: {step.number} of {step.of} settings, "
                    f"about {format_age(step.left_s)} left"
                )
            )

        reproduction = run_figures(
            Path(arguments.out),
            arguments.figures,
            quick=arguments.quick,
            restart=arguments.restart,
            processes=arguments.processes,
            executor=executor,
            progress=show,
        )
    page, _ = write_results(reproduction, Path(arguments.out))
    results = as_results(reproduction)
    table = [["verdict", "figure", "claim"]]
    table += [[claim["verdict"], claim["figure"], claim["claim"]] for claim in results["claims"]]
    reasons = dict.fromkeys(why for done in reproduction.figures for why in done.skipped)
    skipped = [f"skipped: {why}" for why in reasons]
    text = "\n".join([format_table(table), *map(for_terminal, skipped), f"\nPage: {page}"])
    return print_result(arguments, results, text)


def selection(arguments: argparse.Namespace) -> int:
    """Compare the policies of a setting, or measure the cost of wrong selections."""
    return (_measure_choices if arguments.wrong_choices else _compare_policies)(arguments)


def _compare_policies(arguments: argparse.Namespace) -> int:
    """Run the laboratory; return 1 if the regret of a policy exceeds its theoretical bound."""
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
        "regret": course.regret_at_end().as_dict(),
        "shortfall": course.mean_shortfall().as_dict(),
        "fractions": course.fractions.mean(axis=0).tolist(),
        "regret_over_time": course.regret.mean(axis=0).tolist(),
        "within_theory": course.within(result.setting, result.points),
    }


def _text(result: Result) -> str:
    plan, best = result.setting.plan, result.optimum
    how = "exact" if best.exact else "from sampled sets"
    title = (
        f"{plan.name}: {format_count(result.setting.workers, 'worker')}, {plan.per_round} per "
        f"round, {format_count(plan.rounds, 'round')}, {format_count(result.seeds, 'seed')}\n"
        f"optimum that meets all guarantees: {best.reward:.4f} per round ({how})\n"
    )
    rows = [["policy", "regret per round", "below guarantee", "theory"]]
    rows += [_row(course, result) for course in result.courses]
    fractions = {"guarantee": result.setting.fairness, "optimum": best.fractions}
    fractions |= {course.policy.label: course.fractions.mean(axis=0) for course in result.courses}
    head = ["fraction of rounds", *(f"worker {n + 1}" for n in range(result.setting.workers))]
    shares = [[name, *(f"{value:.3f}" for value in values)] for name, values in fractions.items()]
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
    measured = measure_wrong_choices()
    if arguments.json:
        rows = [
            dataclasses.asdict(choices) | {"tail": choices.only_the_tail} for choices in measured
        ]
        say(json.dumps({"choices": rows, "verdict": judge_wrong_choices(measured)}, indent=2))
        return 0
    head = [
        "selected by",
        "round ends with",
        "wrong selections",
        "mean",
        "median",
        "95th percentile",
    ]
    table = format_table([head, *(_wrong_row(choices) for choices in measured)], "  ")
    say(f"{table}\n\n{judge_wrong_choices(measured)}")
    return 0


def _wrong_row(choices: WrongChoices) -> list[str]:
    by = (
        "learning"
        if choices.prediction_error is None
        else f"predictions ± {choices.prediction_error:.0%}"
    )
    changes = [
        f"{change - 1:+.1%}" for change in (choices.mean, choices.median, choices.percentile_95)
    ]
    return [by, choices.ends_with, f"{choices.wrong_picks:.1%}", *changes]
