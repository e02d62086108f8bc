"""Every block of the first pages, run in order in an empty folder as a newcomer would."""

import contextlib
import io
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.docs.blocks import find_blocks, matches

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [DOCS / "start.md", *sorted(DOCS.glob("tutorials/*.md"))]
# `make run` is `dealfl run`, as a test below makes sure; two rounds are enough to try what follows
STAND_INS = {
    "dealfl": f'exec "{sys.executable}" -m dealfl "$@"',
    "make": f'exec "{sys.executable}" -m dealfl "$@" --no-compare --set job.rounds=2',
}


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


def _python(page: Path) -> Callable[[str], str]:
    names: dict[str, Any] = {}

    def run(code: str) -> str:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, str(page), "exec"), names)
        return printed.getvalue()

    return run


each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)


@each_page
def test_every_block_of_a_page_runs_and_prints_what_it_says(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("sklearn", reason="the digits come with scikit-learn")
    folder, path = tmp_path / "clone", tmp_path / "bin"
    folder.mkdir()
    path.mkdir()
    for name, line in STAND_INS.items():
        (path / name).write_text(f"#!/bin/sh\n{line}\n")
        (path / name).chmod(0o755)
    monkeypatch.chdir(folder)
    run = {"sh": _shell(folder, path), "python": _python(page)}
    blocks = list(find_blocks(page.read_text("utf-8")))
    assert len(blocks) > 2
    for block in blocks:
        printed = run[block.language](block.code)
        if block.expected is not None:
            told = f"{page.name}, line {block.line}, prints:\n{printed}"
            assert matches(block.expected, printed), told


@each_page
def test_every_fence_of_a_page_is_run_or_compared(page: Path) -> None:
    text = page.read_text("utf-8")
    opened = re.findall(r"^```(\w+)$", text, re.MULTILINE)
    blocks = list(find_blocks(text))
    compared = sum(block.expected is not None for block in blocks)
    assert len(opened) == len(blocks) + compared


def test_make_run_is_dealfl_run() -> None:
    recipe = re.search(r"^run:.*\n\t(.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert recipe
    assert recipe[1] == "@$(BIN)/dealfl run"


def test_dots_stand_for_anything_and_nothing_else_does() -> None:
    assert matches("a … c\n", "a b c\n")
    assert matches("a\n…\nz\n", "a\nb\nc\nz\n")
    assert not matches("a … c\n", "a b d\n")
    assert not matches("a\n…\nz\n", "a\nb\n")


def test_a_run_installs_less_than_the_tests_and_the_same_versions() -> None:
    def pinned(name: str) -> set[str]:
        return set(re.findall(r"^[\w.-]+==\S+", (ROOT / name).read_text(), re.MULTILINE))

    light, whole = pinned("constraints-run.txt"), pinned("constraints.txt")
    assert light < whole
    assert not any(pin.startswith(("numba", "pytest", "mkdocs")) for pin in light)
