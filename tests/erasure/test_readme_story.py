"""The story of one erasure in README.md, command by command."""

import random
import shlex
from pathlib import Path

import pytest

from dealfl.cli import main
from tests.docs.blocks import find_blocks, matches

README = Path(__file__).parents[2] / "README.md"
PEOPLE = ("ann", "bob", "cem", "dan", "eve", "fay", "gus", "hal", "ida", "joe")


def write_houses(path: Path) -> None:
    draw, lines = random.Random(3), ["who,rooms,area,price"]
    for number in range(60):
        rooms, area = draw.randint(1, 6), draw.randint(30, 160)
        lines.append(f"{PEOPLE[number % 10]},{rooms},{area},{20 * rooms + 2 * area}")
    path.write_text("\n".join(lines) + "\n")


def test_the_story_of_one_erasure_prints_what_the_readme_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_houses(Path("houses.csv"))
    text = README.read_text("utf-8")
    story = text[text.index("## The right to be forgotten") : text.index("## Limits")]
    blocks = list(find_blocks(story))
    assert len(blocks) == 1
    for block in blocks:
        for line in block.code.splitlines():
            command, _, hidden = line.partition(" > ")
            assert main(shlex.split(command)[1:]) == 0, line
            printed = capsys.readouterr().out
        assert not hidden, "the last command of a block prints"
        assert block.expected is not None
        assert matches(block.expected, printed), f"{line} prints:\n{printed}"
