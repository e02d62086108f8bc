"""`dealfl devices`: list phones, and show the energy of their clock frequencies.

examples:
  dealfl devices                     list the phones
  dealfl devices show honor          show its operating points and their charge per cycle
  dealfl devices show my-phone.toml  show a phone of your own

All values are modelled from the profiles, which state the evidence for each value.
"""

import argparse
import json
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from dealfl.cli.printing import (
    ACTION_JSON,
    JSON,
    command,
    format_table,
    option,
    print_problems,
    print_result,
    say,
)
from dealfl.errors import BadInput

if TYPE_CHECKING:
    from dealfl.power import BaseLoad, Calibration, Fit, MeasuredCommand, OperatingPoint, Phone


def _measure(arguments: argparse.Namespace) -> int:
    words = arguments.command[1:] if arguments.command[:1] == ["--"] else arguments.command
    if not words:
        raise BadInput(
            "no command to measure; write for example: dealfl devices measure -- sleep 1"
        )
    from dealfl.power import measure_command

    as_json = arguments.json
    measured = measure_command(words, arguments.root, sys.stderr if as_json else None)
    if as_json:
        say(json.dumps({"measured": measured.as_dict()}))
    else:
        say(_timing_text(measured), file=sys.stderr)
    return measured.exit_code


def _timing_text(measured: "MeasuredCommand") -> str:
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
    from dealfl.power import FULL, QUICK, calibrate, clock_hz
    from dealfl.storage import keep_freed_memory

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
    from dealfl.exact import CHOICE
    from dealfl.power import TARGET_ERROR

    clock = calibration.frequency_hz
    lines = [
        f"one core at {clock / 1e9:.2f} GHz" if clock else "one core, clock unknown",
        f"{'LEARNER':29}{'OPERATIONS':>18}{'CYCLES/OP':>11}{'OVERHEAD':>11}{'MEDIAN':>8}{'WORST':>8}",
    ]
    for fit in calibration.fits:
        lines += [_row(fit, clocked=clock is not None), f"  {_residuals(fit)}"]
    lines.append(
        f"MEDIAN and WORST are relative errors on held-out sizes (marked *). Target for learning: "
        f"median ≤ {TARGET_ERROR:.0%}.\nMeasured as processor time, with "
        f"{'numpy alone' if CHOICE.mode == 'never' else 'compiled loops'}; the allocator "
        f"{'keeps' if calibration.memory_kept else 'releases'} freed memory."
    )
    return "\n".join(lines)


def _row(fit: "Fit", *, clocked: bool) -> str:
    from dealfl.power import REFERENCE_HZ

    span = f"{fit.points[0].operations:.1e}–{fit.points[-1].operations:.1e}"
    cycles = f"{fit.time.seconds_per_operation * REFERENCE_HZ:.3g}" if clocked else "?"
    overhead = f"{fit.time.overhead_s * 1e3:.2f} ms"
    errors = f"{fit.median_error:>8.1%}{fit.worst_error:>8.1%}"
    name = fit.learner if fit.action == "learn" else f"{fit.learner} {fit.action}"
    return f"{name:29}{span:>18}{cycles:>11}{overhead:>11}{errors}"


def _residuals(fit: "Fit") -> str:
    shown = (f"{p.relative_error:+.0%}{'*' if p.held_out else ''}" for p in fit.points)
    return " ".join(shown)


_BAR_WIDTH = 40
_EIGHTHS = " ▏▎▍▌▋▊▉"
_UAH_PER_GCYCLE = 1e9 / 3.6e-3  # per coulomb per cycle


def _list(arguments: argparse.Namespace) -> int:
    from dealfl.power import PHONES

    rows = [_described(phone) for phone in PHONES.usable().values()]
    print_problems(PHONES.problems())
    header = ("NAME", "CORES", "CLOCK", "BATTERY", "CURRENTS", "MODEL")
    table = [
        (
            row["name"],
            str(row["cores"]),
            f"{row['max_hz'] / 1e9:.2f} GHz",
            f"{row['battery_mah']:.0f} mAh",
            row["quality"]["clusters[0].currents"],
            row["model"],
        )
        for row in rows
    ]
    return print_result(arguments, {"devices": rows}, format_table([header, *table]))


def _show(arguments: argparse.Namespace) -> int:
    from pathlib import Path

    from dealfl.power import load_phone, phone

    is_file = arguments.name.endswith(".toml") or Path(arguments.name).is_file()
    shown = load_phone(arguments.name) if is_file else phone(arguments.name)
    return print_result(arguments, _detailed(shown), _text(shown))


def _described(phone: "Phone") -> dict[str, Any]:
    return {
        "name": phone.name,
        "model": phone.model,
        "processor": phone.processor,
        "android": phone.android,
        "cores": phone.cores,
        "max_hz": phone.fastest.frequency_hz,
        "battery_mah": phone.battery.capacity_c / 3.6,
        "battery_v": phone.battery.voltage_v,
        "cycle_factor": phone.cycle_factor,
        "quality": {key: figure.quality.value for key, figure in phone.evidence.items()},
    }


def _detailed(phone: "Phone") -> dict[str, Any]:
    evidence = {
        key: {"quality": figure.quality.value, "source": figure.source}
        for key, figure in phone.evidence.items()
    }
    loads = [_under(phone, base) for base in _base_loads()]
    return {**_described(phone), "source": "modelled", "evidence": evidence, "base_loads": loads}


def _under(phone: "Phone", base: "BaseLoad") -> dict[str, Any]:
    from dealfl.power import charge_per_cycle_c, efficient_frontier

    frontier = efficient_frontier(phone, base)
    critical, *_ = frontier
    costs_c = [charge_per_cycle_c(phone, point, base) for point in (critical, phone.fastest)]
    return {
        "base_load": base.value,
        "base_a": phone.base_a(base),
        "critical": _point(phone, critical, base),
        "saving_against_fastest": 1.0 - costs_c[0] / costs_c[1],
        "frontier_hz": [point.frequency_hz for point in frontier],
        "points": [
            {**_point(phone, point, base), "efficient": point in frontier} for point in phone.points
        ],
    }


def _point(phone: "Phone", point: "OperatingPoint", base: "BaseLoad") -> dict[str, Any]:
    from dealfl.power import charge_per_cycle_c

    return {
        "cluster": phone.clusters[point.cluster].name,
        "frequency_hz": point.frequency_hz,
        "current_a": phone.current_a(point),
        "uah_per_gcycle": charge_per_cycle_c(phone, point, base) * _UAH_PER_GCYCLE,
    }


def _base_loads() -> tuple["BaseLoad", ...]:
    from dealfl.power import BaseLoad

    return BaseLoad.AWAKE, BaseLoad.WIFI, BaseLoad.SCREEN


def _text(phone: "Phone") -> str:
    battery, evidence = phone.battery, phone.evidence.items()
    curves = "".join(line for base in _base_loads() for line in _curve(_under(phone, base)))
    sources = format_table([(key, figure.quality.value, figure.source) for key, figure in evidence])
    return (
        f"{phone.name}: {phone.model}\n{phone.processor}; Android {phone.android}\n"
        f"battery {battery.capacity_c / 3.6:.0f} mAh at {battery.voltage_v} V; "
        f"{phone.cycle_factor:g} cycles per cycle of the calibration machine (declared)\n{curves}\n"
        "● efficient frontier   ◆ critical operating point: a slower clock does not save charge\n"
        f"\nevidence for each value:\n{sources}"
    )


def _curve(load: dict[str, Any]) -> Iterator[str]:
    critical, most = load["critical"], max(point["uah_per_gcycle"] for point in load["points"])
    current = f"{load['base_a'] * 1e3:.0f} mA"
    yield f"\n{load['base_load']} ({current}): µAh per 10⁹ cycles, one busy core\n"
    for point in load["points"]:
        mark = "●" if point["efficient"] else " "
        at_critical = point["frequency_hz"] == critical["frequency_hz"] and point["efficient"]
        yield (
            f"  {point['cluster']:>6} {point['frequency_hz'] / 1e6:7.1f} MHz "
            f"{point['current_a'] * 1e3:6.1f} mA {'◆' if at_critical else mark} "
            f"{point['uah_per_gcycle']:6.2f} {_bar(point['uah_per_gcycle'] / most)}\n"
        )
    yield f"  saved at ◆ compared with the fastest: {load['saving_against_fastest']:.1%}\n"


def _bar(fraction: float) -> str:
    """Return a bar whose length is a fraction of the full width, to an eighth of a character."""
    whole, eighths = divmod(round(fraction * _BAR_WIDTH * 8), 8)
    return ("█" * whole + _EIGHTHS[eighths]).rstrip()


_MEASURE = """Run a command; measure its time, and its energy with the best meter here.

examples:
  dealfl devices measure -- dealfl run         measure the default job
  dealfl devices measure --json -- sleep 10    measure the idle machine

The exit code is that of the command. The measurement is printed to standard error, so the
output of the command can be piped. With --json, the output of the command goes to standard
error instead.
"""
_CALIBRATE = """Time every learner while it learns and forgets, and the training of a worker, for \
batch sizes over two decades. Fit T = A·F + B to each, and test the law on held-out sizes.

examples:
  dealfl devices calibrate --out here.json    time every learner and write the profile
  dealfl devices calibrate --quick            use fewer sizes and repeats
"""
COMMAND = command(
    "list phones and show the energy of their clocks",
    JSON,
    run=_list,
    description="List the phones with a profile, or show one of them.",
    doc=__doc__,
    actions={
        "show": command(
            "show the charge per cycle at each operating point",
            option("name", metavar="NAME", help="name of a phone, or its TOML file"),
            ACTION_JSON,
            run=_show,
        ),
        "measure": command(
            "run a command and measure its time and energy",
            option(
                "--root", default="/sys", metavar="DIR", help="mount point of sysfs (default: /sys)"
            ),
            ACTION_JSON,
            option("command", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="command"),
            run=_measure,
            doc=_MEASURE,
        ),
        "calibrate": command(
            "time the learners on this machine and fit the law of training time",
            option("--out", metavar="FILE", help="write the profile as JSON"),
            option("--quick", action="store_true", help="use fewer sizes and repeats"),
            option(
                "--as-is", action="store_true", help="do not make the allocator keep freed memory"
            ),
            ACTION_JSON,
            run=_calibrate,
            doc=_CALIBRATE,
        ),
    },
)
