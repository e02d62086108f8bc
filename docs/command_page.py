"""The page of all commands, made from their parsers."""

from __future__ import annotations

import argparse
import re
import textwrap
from collections.abc import Iterator

from dealfl.cli import parser

__all__ = ["command_page"]

_HEAD = """\
# Commands

<!-- made by `make docs` from the parsers; do not edit -->

`dealfl COMMAND --help` says the same at a terminal. `python -m dealfl` is the same program.

| exit code | means |
|---|---|
| 0 | done |
| 1 | failed; or a digest is not what it must be |
| 2 | not understood: the message names the word, the value and what would do |
| 130 | stopped by Ctrl-C |

Results go to the standard output, progress and problems to the standard error. With `--json` the
result is one JSON object. `DEALFL_DATA` names a folder with data files, `DEALFL_CACHE` where
downloads are kept.
"""

_WIDTH = 100
_DEFAULT = re.compile(r"(?P<meaning>.+) \((?:default: )?(?P<default>[^()]+)\)")


def command_page() -> str:
    """Return the page; it does not depend on the terminal, nor on how argparse lays out help.

    >>> command_page().splitlines()[0]
    '# Commands'
    """
    return "\n".join([_HEAD, *_sections(parser(), "", "")])


def _sections(top: argparse.ArgumentParser, epilog: str, help_text: str) -> Iterator[str]:
    """Yield the section of each command below a parser, in the order of registration."""
    if epilog or help_text:
        yield _section(top, epilog, help_text)
    for action in top._actions:
        if isinstance(action, argparse._SubParsersAction):
            told = {one.dest: one.help or "" for one in action._choices_actions}
            for name, below in action.choices.items():
                own = below.epilog if below.epilog != top.epilog else None
                yield from _sections(below, own or "", told.get(name, ""))


def _section(command: argparse.ArgumentParser, epilog: str, help_text: str) -> str:
    level = "##" if command.prog.count(" ") == 1 else "###"
    said = command.description or f"{help_text[:1].upper()}{help_text[1:]}."
    parts = [f"{level} {command.prog}", textwrap.fill(said, _WIDTH, break_on_hyphens=False)]
    parts += [_usage(command), _table(command)]
    parts.append(f"```text\n{epilog.rstrip()}\n```" if epilog else "")
    return "\n\n".join(part for part in parts if part) + "\n"


def _shown(command: argparse.ArgumentParser) -> list[argparse.Action]:
    return [
        one
        for one in command._actions
        if not isinstance(one, argparse._HelpAction) and one.help != argparse.SUPPRESS
    ]


def _usage(command: argparse.ArgumentParser) -> str:
    """Return how a command is written: options, arguments, and the action where there is one."""
    words = [command.prog]
    words += [_option(one) for one in _shown(command) if one.option_strings]
    words += [_argument(one) for one in _shown(command) if not one.option_strings]
    lines = ["   "]
    for word in words:
        if len(lines[-1]) + 1 + len(word) > _WIDTH:
            lines.append("       ")
        lines[-1] += f" {word}"
    return "\n".join(lines)


def _option(action: argparse.Action) -> str:
    word = " ".join(filter(None, (action.option_strings[-1], _value(action))))
    return word if action.required else f"[{word}]"


def _argument(action: argparse.Action) -> str:
    name = _name(action)
    many = {"?": f"[{name}]", "*": f"[{name} …]", "+": f"{name} [{name} …]"}
    if isinstance(action, argparse._SubParsersAction) and not action.required:
        return f"[{name}]"
    return many.get(str(action.nargs), name)


def _name(action: argparse.Action) -> str:
    return str(action.metavar or action.dest.upper())


def _value(action: argparse.Action) -> str:
    """Return what follows an option; nothing for a switch."""
    if action.nargs == 0:
        return ""
    if action.choices and not action.metavar:
        return "|".join(map(str, action.choices))
    return _name(action)


def _table(command: argparse.ArgumentParser) -> str:
    rows = [_row(one) for one in _shown(command)]
    return "\n".join(["| argument | meaning | default |", "|---|---|---|", *rows]) if rows else ""


def _row(action: argparse.Action) -> str:
    if isinstance(action, argparse._SubParsersAction):
        meaning, default = f"one of {', '.join(action.choices)}", ""
    else:
        meaning, default = _meaning(action)
    word = ", ".join(action.option_strings) or _name(action)
    word = " ".join(filter(None, (word, _value(action) if action.option_strings else "")))
    cells = (f"`{word}`", meaning, default)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _meaning(action: argparse.Action) -> tuple[str, str]:
    """Return what an argument means, and its default: said in brackets, or set in the parser."""
    text = (action.help or "").replace("%%", "%")
    found = _DEFAULT.fullmatch(text)
    if found:
        return found["meaning"], found["default"]
    if action.required:
        return text, "required"
    said = action.default not in (None, "", argparse.SUPPRESS, [], False)
    return text, str(action.default) if said else ""
