"""Damage in the file of a ledger is noticed and named, with the remedy; nothing else is raised."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from dealfl.errors import BadBytes, DealError
from dealfl.runs import RunFolder, list_erasures, read_status
from dealfl.server import Ledger
from tests.federation.parts import announce, examples, server, update

PAGE = 4096


def write_ledger(folder: Path) -> None:
    """Write a ledger with everything in it."""
    with closing(Ledger(folder / "ledger.db")) as ledger:
        one = server(ledger, publish_every_s=0.0)
        names = [f"w{number:02}" for number in range(20)]
        one.handle([announce(name, 0) for name in names], 0.0)
        one.handle([update(1, 5, name=name, round=1) for name in names[:12]], 1.0)
        one.erase("r", [b"o" * 32], 2.0)
        one.handle([update(2, 3, name=name) for name in names[:5]], 3.0)


def zero_page(content: bytearray, draw: random.Random) -> None:
    start = draw.randrange(len(content) // PAGE) * PAGE
    content[start : start + PAGE] = bytes(PAGE)


def flip_bits(content: bytearray, draw: random.Random) -> None:
    for _ in range(draw.choice((1, 3, 40))):
        content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)


def overwrite(content: bytearray, draw: random.Random) -> None:
    start, count = draw.randrange(len(content)), draw.choice((1, 8, 100))
    content[start : start + count] = draw.randbytes(count)


def truncate(content: bytearray, draw: random.Random) -> None:
    del content[draw.randrange(len(content)) :]


DAMAGES: list[Callable[[bytearray, random.Random], None]] = [
    zero_page, flip_bits, overwrite, truncate,
]  # fmt: skip


def use(folder: Path) -> None:
    """Start a server on a ledger, let it work, and read its status."""
    with closing(Ledger(folder / "ledger.db")) as ledger:
        one = server(ledger)
        one.handle([announce("w01"), announce("new", 0), update(2, 1, name="w01")], 500.0)
        one.handle([], 1000.0)
    read_status(RunFolder(folder))
    list_erasures(RunFolder(folder))


def damage(start: Path, folder: Path, seed: int) -> str:
    """Return how a damaged ledger is refused; empty if the damage is not in what is used."""
    draw = random.Random(seed)
    content = bytearray((start / "ledger.db").read_bytes())
    DAMAGES[seed % len(DAMAGES)](content, draw)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "ledger.db").write_bytes(content)
    try:
        use(folder)
    except DealError as error:
        return str(error)
    return ""


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ledger")
    write_ledger(folder)
    return folder


def test_a_whole_ledger_is_used(start: Path, tmp_path: Path) -> None:
    shutil.copytree(start, tmp_path / "copy")
    use(tmp_path / "copy")


def test_a_damaged_ledger_is_refused_with_the_remedy(start: Path, tmp_path: Path) -> None:
    refused = 0
    for seed in range(60):
        told = damage(start, tmp_path / "copy", seed)
        refused += bool(told)
        assert not told or "restore a backup" in told or "upgrade" in told, (seed, told)
    assert refused > 20, "hardly any damage was noticed"


@pytest.mark.soak
def test_thousands_of_damaged_ledgers_are_refused_with_the_remedy(
    start: Path, tmp_path: Path
) -> None:
    for seed in range(1_000, 4_000):
        damage(start, tmp_path / "copy", seed)


def test_a_truncated_file_is_noticed(start: Path, tmp_path: Path) -> None:
    content = (start / "ledger.db").read_bytes()
    (tmp_path / "ledger.db").write_bytes(content[: len(content) // 2])
    with pytest.raises(BadBytes, match="restore a backup"):
        Ledger(tmp_path / "ledger.db")


def test_a_sum_with_another_value_is_noticed(start: Path, tmp_path: Path) -> None:
    shutil.copytree(start, tmp_path / "copy")
    with closing(Ledger(tmp_path / "copy" / "ledger.db")) as ledger, ledger.transaction():
        body = examples(7).to_bytes()
        ledger.execute("UPDATE pages SET content = ? WHERE owner = 'w01'", (body,))
    with (
        closing(Ledger(tmp_path / "copy" / "ledger.db")) as ledger,
        pytest.raises(BadBytes, match="sum of w01 is damaged; restore a backup"),
    ):
        server(ledger).handle([update(3, 1, name="w01")], 500.0)


def test_a_page_that_was_lost_is_noticed_when_the_file_is_opened(
    start: Path, tmp_path: Path
) -> None:
    content = (start / "ledger.db").read_bytes()
    pages = range(PAGE, len(content), PAGE)
    noticed = 0
    for first in pages:
        (tmp_path / "ledger.db").write_bytes(
            content[:first] + bytes(PAGE) + content[first + PAGE :]
        )
        try:
            Ledger(tmp_path / "ledger.db").close()
        except BadBytes:
            noticed += 1
    assert noticed == len(pages), "no page is free"
