"""`dealfl simulate`: a fleet of devices under a virtual clock, as often as one wants to be sure."""

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from dealfl.cli import selection

if TYPE_CHECKING:
    from dealfl.simulate import Estimate, Outcome, Setting, SweepProgress

__all__ = ["add_parser"]

_EPILOG = f"""\
examples:
  dealfl simulate examples/fleets/digits.toml                        one run
  dealfl simulate examples/fleets/digits.toml --seeds 5              five, with intervals
  dealfl simulate examples/fleets/digits.toml --set job.rounds=10    another value for a key
  dealfl simulate examples/fleets/digits.toml --seeds 3 \\
      --vary job.scheme=deal,newfl,original                          side by side
{selection.EXAMPLES}
Keys are those of the file with their section: job.rounds, faults.loss, devices.1.count (the first
[[devices]]). Energy is modelled from the work done; time is that of the virtual clock.
"""

_LIVE_EVERY_S = 0.2
_LINE_EVERY_S = 5.0
_TOLD_AFTER_S = 2.0


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Register the command `simulate`."""
    parser = subparsers.add_parser(
        "simulate",
        help="simulate a fleet of devices under a virtual clock",
        description=(
            "Simulate a fleet that a TOML file describes: real server, real workers and real "
            "learners; devices, network and time are modelled. Exit code 1 means that the "
            "server's digest is not that of central training. With the word selection instead of "
            "a file: policies for whom to wake, against the best there could be."
        ),
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "fleet", metavar="FLEET.toml", help="the file that describes the fleet, or: selection"
    )
    parser.add_argument(
        "--seeds", type=int, metavar="N",
        help="run with so many seeds (1; for selection what its setting says)",
    )  # fmt: skip
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", dest="values",
        help="another value for a key; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--vary", action="append", default=[], metavar="KEY=A,B,…",
        help="run with each of several values; may be repeated",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    selection.add_options(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    if arguments.fleet == "selection":
        line = _ProgressLine(sys.stderr, time.monotonic)
        return selection.run(arguments, read_values, line.tell, line.clear)
    return _run_fleet(arguments)


def _run_fleet(arguments: argparse.Namespace) -> int:
    from dealfl.errors import BadInput
    from dealfl.memory import keep_freed_memory
    from dealfl.simulate import Document, sweep

    keep_freed_memory()
    if arguments.setting or arguments.page or arguments.wrong_choices:
        raise BadInput(
            "a second name, --page and --wrong-choices go with `dealfl simulate selection` only"
        )
    document = Document.read(arguments.fleet)
    for key, value in read_values(arguments.values).items():
        document = document.replaced(key, value)
    vary = {}
    for word in arguments.vary:
        key, values = _pair("--vary", word)
        vary[key] = [_value(value) for value in values.split(",")]
    line = _ProgressLine(sys.stderr, time.monotonic)
    seeds = 1 if arguments.seeds is None else arguments.seeds
    settings = sweep(document, seeds, vary, line.show)
    line.clear()
    if arguments.json:
        print(json.dumps({"settings": [_plain(setting) for setting in settings]}, indent=2))
    else:
        print("\n\n".join(_told(setting) for setting in settings))
    return int(not all(outcome.exact for one in settings for outcome in one.outcomes))


def read_values(words: Sequence[str]) -> dict[str, object]:
    """Return the values of `--set KEY=VALUE`."""
    pairs = [_pair("--set", word) for word in words]
    return {key: _value(value) for key, value in pairs}


def _pair(option: str, word: str) -> tuple[str, str]:
    from dealfl.errors import BadInput

    key, sign, value = word.partition("=")
    if not sign or not key.strip() or not value.strip():
        raise BadInput(f"{option} {word}: write KEY=VALUE, for example {option} job.rounds=10")
    return key.strip(), value.strip()


def _value(word: str) -> object:
    """Return a value as TOML reads it; what TOML can not read is a text."""
    import tomllib
    from decimal import Decimal

    try:
        return tomllib.loads(f"value = {word}", parse_float=Decimal)["value"]
    except tomllib.TOMLDecodeError:
        return word


# -- progress -----------------------------------------------------------------------------------


class _ProgressLine:
    """One line that changes on a terminal; elsewhere a line every few seconds."""

    def __init__(self, stream: TextIO, clock: Callable[[], float]) -> None:
        self._stream, self._clock = stream, clock
        self._live = stream.isatty()
        self._next_s = clock() + (_LIVE_EVERY_S if self._live else _TOLD_AFTER_S)
        self._width = 0

    def show(self, progress: "SweepProgress") -> None:
        """Say how far a sweep is, if it is time to."""
        self.tell(lambda: _progress(progress))

    def tell(self, make: Callable[[], str]) -> None:
        """Say something, if it is time to."""
        now_s = self._clock()
        if now_s < self._next_s:
            return
        self._next_s = now_s + (_LIVE_EVERY_S if self._live else _LINE_EVERY_S)
        words = make()
        if self._live:
            self._stream.write("\r" + words.ljust(self._width))
            self._width = len(words)
        else:
            self._stream.write(words + "\n")
        self._stream.flush()

    def clear(self) -> None:
        """Take the line away again."""
        if self._width:
            self._stream.write("\r" + " " * self._width + "\r")
            self._stream.flush()


def _progress(progress: "SweepProgress") -> str:
    inside = progress.inside
    which = ""
    if progress.of_simulations > 1:
        which = f"simulation {progress.simulation} of {progress.of_simulations}, "
    quality = "" if inside.quality is None else f", quality {inside.quality:.4f}"
    return (
        f"{which}round {inside.rounds} of {inside.of_rounds}, "
        f"{_duration(inside.virtual_s)} of virtual time{quality}"
    )


# -- results ------------------------------------------------------------------------------------


def _plain(setting: "Setting") -> dict[str, Any]:
    estimates = {
        name: {"mean": one.mean, "low": one.low, "high": one.high, "count": one.count}
        for name, one in setting.estimates().items()
    }
    outcomes = [outcome.as_dict() for outcome in setting.outcomes]
    values = {key: _shown(value) for key, value in setting.values.items()}
    return {"values": values, "estimates": estimates, "outcomes": outcomes}


def _shown(value: object) -> object:
    return value if isinstance(value, int | float | str | bool) else str(value)


def _told(setting: "Setting") -> str:
    first = setting.outcomes[0]
    title = f"{first.job}: {first.workers} workers"
    if setting.values:
        title += ", " + ", ".join(f"{key} = {value}" for key, value in setting.values.items())
    if len(setting.outcomes) > 1:
        title += f"; mean of {len(setting.outcomes)} seeds, ± half a 95 % confidence interval"
    rows = [(_NAMES.get(name, name), _figure(name, e)) for name, e in setting.estimates().items()]
    rows.append(("ended by", _ended(setting.outcomes)))
    rows += _over_promised(setting.outcomes)
    return "\n".join([title, *_table(rows), _verdict(setting.outcomes)])


_NAMES = {
    "energy_j": "energy, modelled",
    "compute_j": "  of it computing",
    "radio_j": "  of it radio",
    "virtual_s": "virtual time",
}
_WHOLE_FROM = 100.0


def _figure(name: str, estimate: "Estimate") -> str:
    show = _SHOWN.get(name, _number)
    spread = "" if estimate.half_width is None else f" ± {show(estimate.half_width)}"
    return show(estimate.mean) + spread


def _number(figure: float) -> str:
    if figure >= _WHOLE_FROM or figure == int(figure):
        return f"{figure:,.0f}"
    return f"{figure:.4f}" if abs(figure) <= 1 else f"{figure:.1f}"


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.1f} s"
    if seconds < 7200:
        return f"{seconds / 60:.1f} min"
    return f"{seconds / 3600:.1f} h"


_SHOWN: dict[str, Callable[[float], str]] = {
    "energy_j": lambda figure: f"{figure:,.1f} J",
    "compute_j": lambda figure: f"{figure:,.3f} J",
    "radio_j": lambda figure: f"{figure:,.1f} J",
    "virtual_s": _duration,
}


def _ended(outcomes: "Sequence[Outcome]") -> str:
    return ", ".join(dict.fromkeys(outcome.ended for outcome in outcomes))


def _over_promised(outcomes: "Sequence[Outcome]") -> list[tuple[str, str]]:
    """Return a row for the first run in which workers were promised more than they can get."""
    found = next((one.over_promised for one in outcomes if one.over_promised), None)
    return [] if found is None else [("over-promised", str(found))]


def _table(rows: Sequence[tuple[str, str]]) -> list[str]:
    width = max(len(name) for name, _ in rows)
    return [f"  {name.ljust(width)}  {figure}" for name, figure in rows]


def _verdict(outcomes: "Sequence[Outcome]") -> str:
    wrong = [str(outcome.seed) for outcome in outcomes if not outcome.exact]
    if wrong:
        return (
            f"NOT EXACT with seed {', '.join(wrong)}: the server's digest is not that of central "
            "training.\nThis is a bug; please report it with the file and the seed."
        )
    return (
        "The server's digest is, bit for bit, that of central training on all that the workers\n"
        f"still hold: {outcomes[0].digest[:16]}…"
    )
