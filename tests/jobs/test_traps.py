"""Columns of a stranger's file: names, dates with points, prices, a rating by another name."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from dealfl.cli import main

Captured = pytest.CaptureFixture[str]
NAMES = ["Ann Lee", "Bob Ray", "Jürgen Groß", "Cleo Fox"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def propose(header: str, rows: list[str], *words: str) -> dict[str, Any]:
    """Return the job that `dealfl job init --yes` writes."""
    Path("data.csv").write_text("\n".join([header, *rows]) + "\n", "utf-8")
    assert main(["job", "init", "data.csv", "--yes", "--force", *words]) == 0
    return tomllib.loads(Path("data.toml").read_text("utf-8"))


@pytest.mark.parametrize("column", ["who", "Name", "full name", "customer_name", "E-Mail"])
def test_a_column_of_names_is_the_owner(column: str) -> None:
    rows = [f"{NAMES[n % 4]},{n * 7 % 31},{n * 5 % 23}" for n in range(60)]
    job = propose(f"{column},size,price", rows, "--target", "price")
    assert job["source"]["owner"] == column
    assert list(job["source"]["columns"]) == ["size"]
    assert job["data"]["partition"] == "by_owner"


def test_names_are_never_a_feature(capsys: Captured) -> None:
    rows = [f"u{n % 5},{NAMES[n % 4]},p{n % 4}@a.ch,{n * 7 % 31},{n * 5 % 23}" for n in range(60)]
    job = propose("user,full name,contact,size,price", rows, "--target", "price")
    assert job["source"]["owner"] == "user"
    assert list(job["source"]["columns"]) == ["size"]
    printed = capsys.readouterr().out
    assert "not a feature: full name, it names persons: give --owner 'full name'" in printed
    assert "not a feature: contact, it names persons" in printed
    job = propose(
        "who,size,price", ["ann,1,2", "bob,2,3"] * 9, "--target", "price", "--owner", "none"
    )
    assert list(job["source"]["columns"]) == ["size"]


@pytest.mark.parametrize("separator", [",", ";"])
def test_dates_with_points_are_understood(separator: str) -> None:
    rows = [f"{n % 28 + 1:02}.10.2015,{n * 7 % 31},{n * 5 % 23}" for n in range(60)]
    rows = [row.replace(",", separator) for row in rows]
    header = separator.join(["sold", "size", "price"])
    job = propose(header, rows, "--target", "price", "--time", "none")
    assert job["source"]["columns"]["sold"]["date"]
    assert propose(header, rows, "--target", "price")["source"]["time"] == "sold"
    assert main(["run", "data.toml", "--no-compare", "--set", "job.rounds=2"]) == 0


def test_prices_are_understood(capsys: Captured) -> None:
    rows = [
        f"{n * 7 % 31},${n * 5 % 23 + 1000:,}.44".replace("$1,", '"$1,') + '"' for n in range(60)
    ]
    job = propose("size,price", rows, "--target", "price")
    assert job["source"]["target_bound"] == 1024.0
    rows = [f"{n * 7 % 31},{n * 3 % 40}.50 €,{n * 5 % 23}" for n in range(60)]
    job = propose("size,fee,rent", rows, "--target", "rent")
    assert job["source"]["columns"]["fee"] == {"low": 0.0, "high": 64.0}
    assert main(["run", "data.toml", "--no-compare", "--set", "job.rounds=2", "--json"]) == 0
    assert main(["model", "score", "runs/data", "data.csv", "--json"]) == 0


def test_other_values_are_named(capsys: Captured) -> None:
    rows = [f"{n * 7 % 31},{n * 5 % 43} km" for n in range(60)]
    Path("data.csv").write_text("\n".join(["size,way", *rows]) + "\n")
    assert main(["job", "init", "data.csv", "--target", "way"]) == 2
    assert "the target 'way' holds values such as '0 km'" in capsys.readouterr().err


def test_a_rating_by_another_name_is_asked_for(capsys: Captured) -> None:
    rows = [f"u{n % 9},{n * 7 % 11},{n % 5 + 1}" for n in range(90)]
    assert propose("user,item,grade", rows)["source"]["rating"] == "grade"
    capsys.readouterr()
    job = propose("user,item,opinion", rows)
    assert "rating" not in job["source"]
    printed = capsys.readouterr().out
    assert "no column is the rating: give --rating opinion if it is this one" in printed
    assert "No column is the rating: every row counts as liked" in printed
    assert main(["job", "init", "data.csv", "--force", "--json"]) == 0
    assert "No column is the rating" in json.loads(capsys.readouterr().out)["notes"][-1]
