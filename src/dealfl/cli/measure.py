"""`dealfl devices measure` and `dealfl devices calibrate`: measurements on this machine."""

import argparse
import json
import os
import sys
from typing import TYPE_CHECKING

from dealfl.cli.printing import add_json, examples_in, say
from dealfl.errors import BadInput

if TYPE_CHECKING:
    from dealfl.power import Calibration, Fit
    from dealfl.power.meters import MeasuredCommand

__all__ = ["add_calibrate", "add_measure"]


def add_measure(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Register the action `measure`.

    examples:
      dealfl devices measure -- dealfl run         measure the default job
      dealfl devices measure --json -- sleep 10    measure the idle machine

    The exit code is that of the command. The measurement is printed to standard error, so the
    output of the command can be piped. With --json, the output of the command goes to standard
    error instead.
    """
    parser = actions.add_parser(
        "measure",
        help="run a command and measure its time and energy",
        description="Run a command; measure its time, and its energy with the best meter here.",
        epilog=examples_in(add_measure.__doc__),
    )
    parser.add_argument(
        "--root", default="/sys", metavar="DIR", help="mount point of sysfs (default: /sys)"
    )
    add_json(parser, default=argparse.SUPPRESS)
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="command")
    parser.set_defaults(run=_measure)


def add_calibrate(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Register the action `calibrate`.

    examples:
      dealfl devices calibrate --out here.json    time every learner and write the profile
      dealfl devices calibrate --quick            use fewer sizes and repeats
    """
    parser = actions.add_parser(
        "calibrate",
        help="time the learners on this machine and fit the law of training time",
        description=(
            "Time every learner while it learns and forgets, and the training of a worker, for "
            "batch sizes over two decades. Fit T = A·F + B to each, and test the law on held-out "
            "sizes."
        ),
        epilog=examples_in(add_calibrate.__doc__),
    )
    parser.add_argument("--out", metavar="FILE", help="write the profile as JSON")
    parser.add_argument("--quick", action="store_true", help="use fewer sizes and repeats")
    parser.add_argument(
        "--as-is", action="store_true", help="do not make the allocator keep freed memory"
    )
    add_json(parser, default=argparse.SUPPRESS)
    parser.set_defaults(run=_calibrate)


def _measure(arguments: argparse.Namespace) -> int:
    words = arguments.command[1:] if arguments.command[:1] == ["--"] else arguments.command
    if not words:
        raise BadInput(
            "no command to measure; write for example: dealfl devices measure -- sleep 1"
        )
    from dealfl.power.meters import measure_command

    as_json = arguments.json
    measured = measure_command(words, arguments.root, sys.stderr if as_json else None)
    if as_json:
        say(json.dumps({"measured": measured.as_dict()}))
    else:
        say(_text(measured), file=sys.stderr)
    return measured.exit_code


def _text(measured: "MeasuredCommand") -> str:
    lines = [f"wall time  {measured.elapsed_s:.3f} s", f"CPU time   {measured.cpu_s:.3f} s"]
    reading = measured.reading
    if reading:
        charge = "" if reading.charge_uah is None else f" = {reading.charge_uah:,.0f} µAh"
        lines.append(f"energy     {reading.energy_j:.3f} J{charge}, {reading.source}")
        if reading.energy_j == 0.0:
            lines.append(
                "           (below the resolution of this meter: measure a longer command)"
            )
    else:
        lines.append("energy     not measured: no meter works on this machine")
        lines += [f"           {name}: {reason}" for name, reason in measured.refused.items()]
    return "\n".join(lines)


def _calibrate(arguments: argparse.Namespace) -> int:
    for library in ("OMP", "OPENBLAS", "MKL"):  # read once, when numpy is imported below
        os.environ[f"{library}_NUM_THREADS"] = "1"
    from dealfl.learners import LEARNERS, TimedLearner
    from dealfl.memory import keep_freed_memory
    from dealfl.power import FULL, QUICK, calibrate, clock_hz

    as_json = arguments.json
    kept = False if arguments.as_is else keep_freed_memory()
    kinds = LEARNERS.usable().values()
    calibration = calibrate(
        [TimedLearner(kind, kind.workload) for kind in kinds if kind.workload is not None],
        QUICK if arguments.quick else FULL,
        frequency_hz=clock_hz(),
        memory_kept=kept,
        progress=lambda line: say(line, file=sys.stderr, flush=True),
    )
    if arguments.out:
        calibration.save(arguments.out)
    say(json.dumps(calibration.as_dict()) if as_json else _table(calibration))
    if not calibration.holds:
        say("dealfl: the law misses the target of a learner; see its residuals", file=sys.stderr)
    return int(not calibration.holds)


def _table(calibration: "Calibration") -> str:
    from dealfl.power import TARGET_ERROR

    clock = calibration.frequency_hz
    lines = [
        f"one core at {clock / 1e9:.2f} GHz" if clock else "one core, clock unknown",
        f"{'LEARNER':29}{'OPERATIONS':>18}{'CYCLES/OP':>11}{'OVERHEAD':>11}{'MEDIAN':>8}{'WORST':>8}",
    ]
    for fit in calibration.fits:
        lines += [_row(fit, known=clock is not None), f"  {_residuals(fit)}"]
    lines.append(
        f"MEDIAN and WORST are relative errors on held-out sizes (marked *). Target for learning: "
        f"median ≤ {TARGET_ERROR:.0%}.\nMeasured as processor time; the allocator "
        f"{'keeps' if calibration.memory_kept else 'releases'} freed memory."
    )
    return "\n".join(lines)


def _row(fit: "Fit", *, known: bool) -> str:
    from dealfl.power import REFERENCE_HZ

    span = f"{fit.points[0].operations:.1e}–{fit.points[-1].operations:.1e}"
    cycles = f"{fit.time.seconds_per_operation * REFERENCE_HZ:.3g}" if known else "?"
    overhead = f"{fit.time.overhead_s * 1e3:.2f} ms"
    errors = f"{fit.median_error:>8.1%}{fit.worst_error:>8.1%}"
    name = fit.learner if fit.action == "learn" else f"{fit.learner} {fit.action}"
    return f"{name:29}{span:>18}{cycles:>11}{overhead:>11}{errors}"


def _residuals(fit: "Fit") -> str:
    shown = (f"{p.relative_error:+.0%}{'*' if p.held_out else ''}" for p in fit.points)
    return " ".join(shown)
