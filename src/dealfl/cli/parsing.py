"""The parser of all commands: unknown words get a suggestion, names may stand between options."""

import argparse
import difflib
import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

__all__ = ["Parser", "actions_of", "data_hint", "suggest"]

_PACKED = (".gz", ".xz", ".bz2", ".zip")
_DATA = (".csv", ".tsv", ".txt", ".data", ".dat", ".svm", ".libsvm")


def suggest(word: str, known: Iterable[str]) -> str:
    """Return the end of a message: the known word that is nearest, or all.

    >>> suggest("stauts", ["run", "status"]), suggest("zebra", ["run", "status"])
    ("; did you mean 'status'?", '; known: run, status')
    """
    names = sorted(known)
    near = difflib.get_close_matches(word, names, n=1)
    return f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(names)}"


def data_hint(path: str | Path) -> str:
    """Return the end of a message about a data file where a job file is expected.

    >>> data_hint("my houses.csv"), data_hint("job.toml")
    ("; write a job file for data: dealfl job init 'my houses.csv'", '')
    """
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    kind = suffixes[-2:-1] if suffixes[-1:] and suffixes[-1] in _PACKED else suffixes[-1:]
    if not kind or kind[0] not in _DATA:
        return ""
    return f"; write a job file for data: {shlex.join(['dealfl', 'job', 'init', str(path)])}"


def actions_of(
    parser: argparse.ArgumentParser,
) -> "argparse._SubParsersAction[argparse.ArgumentParser] | None":
    """Return the commands or actions below a parser."""
    found = (one for one in parser._actions if isinstance(one, argparse._SubParsersAction))
    return next(found, None)


class Parser(argparse.ArgumentParser):
    """A parser that keeps the layout of descriptions, and suggests what may be meant."""

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - options of argparse
        options = {"formatter_class": argparse.RawDescriptionHelpFormatter} | options
        super().__init__(allow_abbrev=False, **options)
        self._mixing = False

    def parse_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> argparse.Namespace:
        """Parse a whole command; explain words that it does not take."""
        arguments, unknown = self.parse_known_args(args, namespace)
        if unknown:
            used = getattr(arguments, "parser", self)
            used.error(_unknown(unknown, used))
        return arguments

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse; names of a list may stand before and after options."""
        lists = any(not one.option_strings and one.nargs in ("*", "+") for one in self._actions)
        if self._mixing or not lists:
            return super().parse_known_args(args, namespace)
        self._mixing = True
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._mixing = False

    def _check_value(self, action: argparse.Action, value: Any) -> None:  # noqa: ANN401
        if isinstance(action, argparse._SubParsersAction) and value not in action.choices:
            noun = str(action.metavar or "command").lower()
            hint = data_hint(value) or suggest(value, action.choices)
            if value.endswith(".toml"):
                hint = f"; a job is run by: {shlex.join(['dealfl', 'run', value])}"
            self.error(f"no {noun} {value!r}{hint}")
        super()._check_value(action, value)

    def error(self, message: str) -> NoReturn:
        """End with one line and exit code 2."""
        end = " See" if message.endswith("?") else "; see"
        self.exit(2, f"{self.prog}: {message}{end} `{self.prog} --help`\n")


def _unknown(words: Sequence[str], parser: argparse.ArgumentParser) -> str:
    options = [word for word in words if word.startswith("-") and word != "-"]
    if not options:
        return f"too many arguments: {shlex.join(words)}"
    name = options[0].partition("=")[0]
    return f"no option {name!r}{suggest(name, _options(parser))}"


def _options(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        yield from (word for word in action.option_strings if word.startswith("--"))
