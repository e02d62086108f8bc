"""Phrases that plain technical English does without, in everything that a person reads."""

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

__all__ = ["PHRASES", "phrases_in", "strings_in", "unplain"]

PHRASES: dict[str, str] = {  # a regular expression, and what to write instead
    r"can not": "cannot",
    r"from (?:\{\}|[\d.,]+|zero|one|now|here|there) on": "≥ N, or: after that",
    r"anew": "again, or: from scratch",
    r"told": "reported, stated, answered",
    r"so (?:many|much)": "the number",
    r"so it is|that is so": "confirmed",
    r"go(?:es)? on(?! (?:the|to)\b)|went on|going on": "continue, resume",
    r"asked": "target, requested, selected",
    r"whoever|whomever": "the user, the worker",
    r"by hand": "explicitly, manually",
    r"what would do": "what is valid",
    r"(?:a|new|its|each|every|worker's|one) li(?:fe|ves)": "incarnation",
    r"is of (?:schema )?version": "has version",
    r"in vain|hence|thereof|thereupon|as yet": "an ordinary word",
    r"all the same": "still",
    r"however (?:little|many|much|few)": "any number of",
    r"any more": "no longer",
}
_FORBIDDEN = {
    re.compile(rf"\b(?:{one.replace(' ', chr(92) + 's+')})\b", re.IGNORECASE): remedy
    for one, remedy in PHRASES.items()
}


def phrases_in(text: str) -> list[tuple[int, str, str]]:
    r"""Return the line, the phrase and the remedy of everything forbidden in a text.

    >>> phrases_in("a file\nthat can\nnot be read")
    [(2, 'can not', 'cannot')]
    """
    return sorted(
        (text.count("\n", 0, match.start()) + 1, " ".join(match[0].split()), remedy)
        for pattern, remedy in _FORBIDDEN.items()
        for match in pattern.finditer(text)
    )


def strings_in(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each string of a module; a value in it is written {}.

    >>> list(strings_in('f"from {low} on"  # a comment'))
    [(1, 'from {} on')]
    """
    inner: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            inner |= {id(part) for part in node.values}
            yield node.lineno, "".join(map(_part, node.values))
        elif isinstance(node, ast.Constant) and id(node) not in inner:
            yield node.lineno, node.value if isinstance(node.value, str) else ""


def _part(node: ast.expr) -> str:
    return str(node.value) if isinstance(node, ast.Constant) else "{}"


def unplain(paths: Iterable[Path]) -> list[str]:
    """Return a complaint for each forbidden phrase in files; of Python files, in their strings."""
    return [
        f"{path}:{start + line - 1}: {phrase!r}; write: {remedy}"
        for path in sorted(paths)
        for start, text in _texts(path)
        for line, phrase, remedy in phrases_in(text)
    ]


def _texts(path: Path) -> Iterable[tuple[int, str]]:
    text = path.read_text(encoding="utf-8")
    return strings_in(text) if path.suffix == ".py" else [(1, text)]
