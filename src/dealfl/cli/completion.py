"""`dealfl completion`: complete commands, actions and options in a shell.

examples:
  dealfl completion bash > ~/.local/share/bash-completion/completions/dealfl
  dealfl completion zsh > ~/.zfunc/_dealfl        with ~/.zfunc in fpath, before compinit
  dealfl completion fish > ~/.config/fish/completions/dealfl.fish

A new shell completes commands, actions and options, and otherwise files.
"""

import argparse
from collections.abc import Iterator

from dealfl.cli.parsing import actions_of
from dealfl.cli.printing import command, option, say

_BASH = """\
_dealfl() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" path="dealfl" word words
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    case "$path $word" in {paths}) path="$path $word" ;; esac
  done
  case "$path" in
{cases}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _dealfl dealfl
"""
_ZSH = """\
#compdef dealfl
autoload -U +X bashcompinit && bashcompinit
{bash}"""


def _print(arguments: argparse.Namespace) -> int:
    from dealfl.cli import parser

    words = dict(_words(parser()))
    if arguments.shell == "fish":
        say("\n".join(_fish(words)))
        return 0
    paths = "|".join(f'"{path}"' for path in words if " " in path)
    cases = "\n".join(f'    "{path}") words="{" ".join(own)}" ;;' for path, own in words.items())
    bash = _BASH.format(paths=paths, cases=cases)
    say(bash if arguments.shell == "bash" else _ZSH.format(bash=bash), end="")
    return 0


def _words(parser: argparse.ArgumentParser) -> Iterator[tuple[str, list[str]]]:
    """Yield each command with the actions, choices and options that can follow it."""
    below = actions_of(parser)
    names = list(below.choices) if below else []
    choices = [
        str(choice)
        for action in parser._actions
        if not action.option_strings and action is not below
        for choice in action.choices or ()
    ]
    options = [word for one in parser._actions for word in one.option_strings if word[:2] == "--"]
    yield parser.prog, [*names, *choices, *options]
    for name in names:
        assert below is not None
        yield from _words(below.choices[name])


def _fish(words: dict[str, list[str]]) -> Iterator[str]:
    for path, own in words.items():
        _, *names = path.split()
        seen = "; and ".join(f"__fish_seen_subcommand_from {name}" for name in names)
        others = [word for word in own if not word.startswith("-")]
        missing = f"not __fish_seen_subcommand_from {' '.join(others)}" if others else ""
        for word in own:
            when = seen or "true"
            if not word.startswith("-"):
                when = f"{seen}; and {missing}" if seen else missing
                yield f'complete -c dealfl -n "{when}" -f -a {word}'
            elif names:
                yield f'complete -c dealfl -n "{when}" -l {word[2:]}'


COMMAND = command(
    "complete commands and options in a shell",
    option("shell", choices=("bash", "zsh", "fish"), help="the shell"),
    run=_print,
    description="Print a script that completes commands, actions and options in a shell.",
    doc=__doc__,
)
