"""Every block of docs/guide.md, run in order in an empty folder as a newcomer would."""

import contextlib
import io
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "guide.md"
# `make run` is `dealfl run`, as a test below makes sure; two rounds are enough to try what follows
STAND_INS = {
    "dealfl": f'exec "{sys.executable}" -m dealfl "$@"',
    "make": f'exec "{sys.executable}" -m dealfl "$@" --no-compare --set job.rounds=2',
}


@dataclass(frozen=True)
class Block:
    """What is run, and what it should print."""

    line: int
    language: str
    code: str
    expected: str | None


def _blocks(text: str) -> Iterator[Block]:
    fence = re.compile(
        r"^```(sh|python)\n(.*?)^```\n(?:```text\n(.*?)^```\n)?", re.DOTALL | re.MULTILINE
    )
    for found in fence.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        yield Block(line, found[1], found[2], found[3])


def _matches(expected: str, printed: str) -> bool:
    """Whether it is what was expected; … stands for anything in a line, or for any lines."""
    lines = [
        "(?:.*\n)*?" if line == "…" else "[^\n]*".join(map(re.escape, line.split("…"))) + "\n"
        for line in expected.splitlines()
    ]
    return re.fullmatch("".join(lines), printed) is not None


def _shell(folder: Path, path: Path) -> Callable[[str], str]:
    environment = {**os.environ, "PATH": f"{path}{os.pathsep}{os.environ['PATH']}"}

    def run(code: str) -> str:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", code],
            cwd=folder, env=environment, capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


def _python() -> Callable[[str], str]:
    names: dict[str, Any] = {}

    def run(code: str) -> str:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, str(GUIDE), "exec"), names)
        return printed.getvalue()

    return run


def test_every_block_of_the_guide_runs_and_prints_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("sklearn", reason="the digits come with scikit-learn")
    folder, path = tmp_path / "clone", tmp_path / "bin"
    folder.mkdir()
    path.mkdir()
    for name, line in STAND_INS.items():
        (path / name).write_text(f"#!/bin/sh\n{line}\n")
        (path / name).chmod(0o755)
    monkeypatch.chdir(folder)
    run = {"sh": _shell(folder, path), "python": _python()}
    blocks = list(_blocks(GUIDE.read_text("utf-8")))
    assert len(blocks) > 12
    for block in blocks:
        printed = run[block.language](block.code)
        if block.expected is not None:
            told = f"guide.md, line {block.line}, prints:\n{printed}"
            assert _matches(block.expected, printed), told


def test_every_fence_of_the_guide_is_run_or_compared() -> None:
    text = GUIDE.read_text("utf-8")
    opened = re.findall(r"^```(\w+)$", text, re.MULTILINE)
    blocks = list(_blocks(text))
    compared = sum(block.expected is not None for block in blocks)
    assert len(opened) == len(blocks) + compared


def test_make_run_is_dealfl_run() -> None:
    recipe = re.search(r"^run:.*\n\t(.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert recipe
    assert recipe[1] == "@$(BIN)/dealfl run"


def test_dots_stand_for_anything_and_nothing_else_does() -> None:
    assert _matches("a … c\n", "a b c\n")
    assert _matches("a\n…\nz\n", "a\nb\nc\nz\n")
    assert not _matches("a … c\n", "a b d\n")
    assert not _matches("a\n…\nz\n", "a\nb\n")
