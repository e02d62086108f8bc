"""The parser of all commands: unknown words get a suggestion, names may stand between options."""

import argparse
import difflib
import shlex
from collections.abc import Iterable, Sequence
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
            used.error(_unknown(unknown, used, list(args or unknown)))
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
            if owners := [name for name, one in action.choices.items() if _takes(one, value)]:
                hint = f"; did you mean '{self.prog} {owners[0]} {value}'?"
            if f"--{value}" in self._option_string_actions:
                hint = f"; did you mean '--{value}'?"
            if value.endswith(".toml"):
                hint = f"; a job is run by: {shlex.join(['dealfl', 'run', value])}"
            self.error(f"no {noun} {value!r}{hint}")
        super()._check_value(action, value)

    def error(self, message: str) -> NoReturn:
        """End with one line and exit code 2."""
        end = " See" if message.endswith("?") else "; see"
        self.exit(2, f"{self.prog}: {message}{end} `{self.prog} --help`\n")


def _unknown(words: Sequence[str], parser: argparse.ArgumentParser, given: list[str]) -> str:
    options = [word for word in words if word.startswith("-") and word != "-"]
    if not options:
        return f"too many arguments: {shlex.join(words)}"
    name = options[0].partition("=")[0]
    near = difflib.get_close_matches(name.lstrip("-"), _options(parser), n=1)
    meant = f"--{near[0]}" if near else _find_setting(options[0], parser, given)
    return f"no option {name!r}" + (f"; did you mean {meant!r}?" if meant else "")


def _takes(parser: argparse.ArgumentParser, word: str) -> bool:
    """Return whether a word is an action of a command."""
    actions = actions_of(parser)
    return actions is not None and word in actions.choices


def _options(parser: argparse.ArgumentParser) -> list[str]:
    """Return the names of all long options, without dashes: these are in every option."""
    words = (word for action in parser._actions for word in action.option_strings)
    return [word.removeprefix("--") for word in words if word.startswith("--")]


def _find_setting(option: str, parser: argparse.ArgumentParser, given: list[str]) -> str:
    """Return the words that set a key of the job with nearly the name of an option, if any."""
    if "set" not in _options(parser):
        return ""
    from dealfl.jobs import Job
    from dealfl.settings import keys_of

    name, _, value = option.lstrip("-").partition("=")
    near = difflib.get_close_matches(name.replace("-", "_"), keys_of(Job), n=1, cutoff=0.75)
    following = given[given.index(option) + 1 :] if option in given else []
    value = value or next((word for word in following[:1] if not word.startswith("-")), "VALUE")
    return shlex.join(["--set", f"job.{near[0]}={value}"]) if near else ""
