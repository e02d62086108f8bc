"""Every owner that can be ingested can be shown and erased by the name that is in the data."""

import csv
import json
from pathlib import Path

import pytest

import dealfl
from dealfl.cli import main
from dealfl.erasure import owner_hash
from dealfl.runs import RunFolder, erase_owners, find_holdings, list_owners, retrain

ODD = [
    "#" + "ab" * 32,
    "two\nlines",
    "carriage\r\nreturn",
    "tab\tin it",
    "two  blanks",
    "\u2028separator\u2028inside",
    "Rene\u0301",
    "O'Neil; DROP TABLE",
    "-",
    "--help",
    "0",
    "\x1b[2J",
]
MISSING = ["null", "NA", "None", "", " "]


@pytest.fixture(scope="module")
def odd_run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    folder = tmp_path_factory.mktemp("odd")
    with (folder / "data.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["who", "a", "target"])
        for number, name in enumerate([*ODD, *MISSING] * 6):
            writer.writerow([name, number % 7, "yes" if number % 2 else "no"])
    fleet = dealfl.Fleet.from_file(
        folder / "data.csv", target="target", owner="who", learner="naive_bayes", workers=1
    )
    dealfl.run(fleet, rounds=2, out=folder / "run", verbose=False)
    return RunFolder.at(folder / "run")


def count_held(run: RunFolder, owner: str) -> int:
    return sum(len(one.ids) for one in find_holdings(run, owner))


def test_every_odd_name_is_shown_and_erased(
    odd_run: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    owners = {one.owner: one.examples for one in list_owners(odd_run)}
    assert len(owners) == len(ODD), "rows without an owner belong to nobody"
    held = {name: count_held(odd_run, name) for name in ODD}
    assert min(held.values()) > 0
    for group in ([ODD[0]], [ODD[1]], ODD[2:-1]):
        erased = erase_owners(odd_run, group, requested_by="test").erasure
        assert (erased.claimed, erased.final) == (sum(held[name] for name in group), True)
    names = tmp_path / "names.txt"
    names.write_text(ODD[-1] + "\n", encoding="utf-8")
    assert main(["erase", str(odd_run.path), "--file", str(names), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["claimed"] == held[ODD[-1]]
    assert list_owners(odd_run) == []
    assert told["after"]["digest"] == retrain(odd_run)


def test_a_name_with_a_line_break_is_erased_by_a_line_of_a_file() -> None:
    assert owner_hash(b"key", "two\nlines") == owner_hash(b"key", " two lines ")
    assert owner_hash(b"key", "\ud800") != owner_hash(b"key", "\udc00")
