"""Every owner that can be ingested can be shown and erased by the name that is in the data."""

import csv
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest

import dealfl
from dealfl.cli import main
from dealfl.data.sources import MemoryTable, owner_names
from dealfl.erasure import owner_hash
from dealfl.errors import BadInput
from dealfl.runs import (
    RunFolder,
    erase_owners,
    find_holdings,
    find_unknown,
    list_owners,
    retrain,
)

ODD = [
    "#" + "ab" * 32,
    "two\nlines",
    "carriage\r\nreturn",
    "tab\tin it",
    "two  blanks",
    "Rene\u0301",
    "O'Neil; DROP TABLE",
    "-",
    "--help",
    "0",
    "\u2028separator\u2028inside",
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
    for group in ([ODD[0]], [ODD[1]], ODD[2:-2]):
        erased = erase_owners(odd_run, group, requested_by="test").erasure
        assert (erased.claimed, erased.final) == (sum(held[name] for name in group), True)
    names = tmp_path / "names.txt"
    names.write_text("\n".join(ODD[-2:]), encoding="utf-8")
    assert main(["erase", str(odd_run.path), "--file", str(names), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["claimed"] == sum(held[name] for name in ODD[-2:])
    assert list_owners(odd_run) == []
    assert told["after"]["digest"] == retrain(odd_run)


def test_a_name_with_a_line_break_is_erased_by_a_line_of_a_file() -> None:
    assert owner_hash(b"key", "two\nlines") == owner_hash(b"key", " two lines ")
    assert owner_hash(b"key", "\ud800") != owner_hash(b"key", "\udc00")


def test_a_person_may_have_a_name_that_no_file_can_have(
    people_run: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "x" * 5_000
    assert main(["show", str(people_run.path), name]) == 0
    assert f"No worker holds examples of {name}" in capsys.readouterr().out
    assert main(["erase", str(people_run.path), name, "--unknown-too"]) == 0


def test_every_long_name_has_its_salt(people_run: RunFolder) -> None:
    names = [f"https://example.org/people/of/2026/{name}" for name in ("ann", "bob")]
    erased = erase_owners(people_run, [*names, "person 1"], requested_by="test")
    assert all(f"salt of {name}  {salt}" in str(erased) for name, salt in erased.salts.items())


def test_the_number_of_a_row_is_nobody_where_persons_have_names(people_run: RunFolder) -> None:
    assert find_unknown(people_run, ["person 1", "3"])[0] == ["3"]


# -- owners in memory ---------------------------------------------------------------------------

DAY = "2024-05-01"


@pytest.mark.parametrize(
    ("owners", "names"),
    [
        ([1, None, 2**53, 2**53 + 1], ["1", None, str(2**53), str(2**53 + 1)]),
        (pd.Series([2**53 + 1, None], dtype="Int64"), [str(2**53 + 1), None]),
        (np.array([1.0, np.nan, 2.5]), ["1", None, "2.5"]),
        (np.array([2**64 - 1, 2**63], dtype=np.uint64), [str(2**64 - 1), str(2**63)]),
        ([2**70, 2**70 + 1], [str(2**70), str(2**70 + 1)]),
        ([True, None], ["True", None]),
        ([b"ann", "bob"], ["ann", "bob"]),
        (["ann", "ann\0"], ["ann", "ann\0"]),
        (np.array([DAY], dtype="M8[ns]"), [DAY]),
        (pd.Series([pd.Timestamp(DAY)]), [DAY]),
        (np.array([f"{DAY}T00:00:00.001"], dtype="M8[ms]"), [f"{DAY} 00:00:00.001000"]),
        ([Decimal(1), Decimal("2.50")], ["1", "2.50"]),
        ([Decimal("1e999999999")], ["1E+999999999"]),
        ("ann", ["ann"]),
        (np.int64(3), "3"),
        (np.array([[1], [2]]), [["1"], ["2"]]),
        (pd.DataFrame({"who": ["ann"]}), ["ann"]),
    ],
)
def test_an_owner_in_memory_has_one_name_whatever_type_holds_it(owners: Any, names: Any) -> None:
    assert owner_names(owners).tolist() == names


def test_an_owner_of_very_many_digits_is_refused() -> None:
    with pytest.raises(BadInput, match="a number of more than 4,300 digits"):
        owner_names([10**5_000])


@pytest.mark.parametrize("owner", ["\ud800", b"\xff"])
def test_an_owner_that_is_no_text_is_refused(owner: str | bytes) -> None:
    with pytest.raises(dealfl.BadInput, match="is no Unicode text; rename it"):
        dealfl.Fleet.from_arrays(np.eye(2), [0.0, 1.0], owners=[owner, owner])


def fleet_of(kind: str) -> dealfl.Fleet:
    """Return a fleet of rows of two numbered persons, and of some whose number is missing."""
    who = pd.Series([2**53, 2**53 + 1, None] * 20, dtype="Int64")
    rows = pd.DataFrame({"a": np.arange(60.0) % 7, "user": who})
    if kind == "histories":
        bought = rows.assign(item=[f"i{n % 5}" for n in range(60)])[["user", "item"]]
        return dealfl.Fleet.from_histories(bought, workers=1)
    owners: Any = "user" if kind == "column" else rows["user"]
    return dealfl.Fleet.from_arrays(
        rows if kind == "column" else rows[["a"]], np.arange(60.0), owners=owners, workers=1
    )


@pytest.mark.parametrize("kind", ["column", "values", "histories"])
def test_numbered_persons_stay_apart_where_some_are_missing(kind: str, tmp_path: Path) -> None:
    fleet = fleet_of(kind)
    result = dealfl.run(fleet, out=tmp_path / "run", verbose=False)
    held = [str(name) for name in result.owners()["owner"]]
    assert set(held) <= {str(2**53), str(2**53 + 1)}
    for name in held:
        assert result.erase(int(name)).erasure.claimed > 0
    assert len(result.owners()) == 0


def test_a_copy_of_data_in_memory_has_the_rows_of_a_name_with_a_carriage_return() -> None:
    table = MemoryTable("t", {"who": ["a\rb", "c"], "x": [1, 2]})
    assert list(csv.reader(table.text().splitlines(keepends=True)))[1:] == [
        ["a\nb", "1"],
        ["c", "2"],
    ]
