"""The blocks of a page that are run by a test."""

import re
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Block:
    """What is run, and what it should print; a program that stays runs until the end."""

    line: int
    language: str
    code: str
    expected: str | None
    stays: bool


def find_blocks(text: str) -> Iterator[Block]:
    fence = re.compile(
        r"^(<!-- stays -->\n)?```(sh|python)\n(.*?)^```\n(?:```text\n(.*?)^```\n)?",
        re.DOTALL | re.MULTILINE,
    )
    for found in fence.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        yield Block(line, found[2], found[3], found[4], bool(found[1]))


def matches(expected: str, printed: str) -> bool:
    """Whether it is what was expected; … stands for anything in a line, or for any lines."""
    lines = [
        "(?:.*\n)*?" if line == "…" else "[^\n]*".join(map(re.escape, line.split("…"))) + "\n"
        for line in expected.splitlines()
    ]
    return re.fullmatch("".join(lines), printed) is not None
