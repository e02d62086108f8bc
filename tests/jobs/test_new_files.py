"""Files a new user tries first: each becomes a job that runs, or is refused with the remedy."""

import json
import random
import tomllib
import zipfile
from pathlib import Path

import pytest

from dealfl.cli import main
from dealfl.errors import BadInput
from dealfl.jobs import Document
from dealfl.runs import open_model, predict
from dealfl.simulate import read_fleet
from tests.jobs.foreign_files import begun, houses, iris, ratings, simulated, write
from tests.runs.made_runs import make_run

Captured = pytest.CaptureFixture[str]


def refusal(data: Path, capsys: Captured, *words: str) -> str:
    """Return the sentence with which `job init` refuses a file; it leaves no job behind."""
    out = data.parent / "job.toml"
    assert main(["job", "init", str(data), "--out", str(out), *words]) == 2
    assert not out.exists()
    told = capsys.readouterr().err
    assert told.startswith("dealfl: ")
    assert told.count("\n") == 1, "one sentence, no traceback"
    return told


# -- rounds take hours --------------------------------------------------------------------------


def test_a_first_job_is_frugal_and_learns_from_little_data(tmp_path: Path) -> None:
    job = begun(write(tmp_path, "houses.csv", houses()), "--target", "price", "--time", "none")
    tables = tomllib.loads(job.read_text())
    assert tables["job"]["sleep"]
    assert tables["job"]["ride_along"]
    assert tables["job"]["selector"] == "fair_ucb"
    assert tables["job"]["min_examples_per_update"] == 5
    outcome = simulated(job, rounds=10_000)
    assert outcome.virtual_s >= 5 * 3600, "examples arrive until the end"
    assert outcome.learned >= 30
    assert outcome.single_updates == 0
    assert outcome.energy.rides > 0


def test_updates_are_smaller_where_a_phone_has_few_examples(tmp_path: Path) -> None:
    data = write(tmp_path, "houses.csv", houses())
    job = begun(data, "--target", "price", "--time", "none", "--owner", "none", "--workers", "6")
    tables = tomllib.loads(job.read_text())
    assert tables["job"]["min_examples_per_update"] == tables["job"]["min_waiting"] == 2
    outcome = simulated(job, rounds=10_000)
    assert outcome.single_updates == 0
    assert all(phone.learned for phone in outcome.participants)


def test_the_threshold_follows_from_the_times_of_the_rows(tmp_path: Path) -> None:
    lines = [f"{1.7e9 + 60.0 * n:.0f},{n % 5},{n % 3}" for n in range(1200)]
    data = write(tmp_path, "rows.csv", "\n".join(["time,a,target", *lines]))
    tables = tomllib.loads(begun(data, "--workers", "4").read_text())
    assert tables["job"]["max_h"] == 20.0
    assert tables["arrival"]["examples_per_hour"] == 11
    assert tables["job"]["min_waiting"] == 14, "what arrives in 75 minutes"


@pytest.mark.parametrize("rounds", [10, 400])
def test_the_rounds_of_a_first_job_are_spread_over_hours(tmp_path: Path, rounds: int) -> None:
    job = begun(
        write(tmp_path, "houses.csv", houses()), "--target", "price", "--rounds", f"{rounds}"
    )
    tables = tomllib.loads(job.read_text())
    every_s = tables["job"]["round_every_s"]
    assert every_s == (3600 if rounds == 10 else 1350)
    assert tables["arrival"]["pattern"] == "poisson"
    assert len(simulated(job, rounds).rounds) <= rounds


# -- roles --------------------------------------------------------------------------------------


def test_a_time_that_cannot_be_read_is_not_guessed(tmp_path: Path, capsys: Captured) -> None:
    text = houses().replace("2024-01-", "day ").replace("sold", "date")
    job = begun(write(tmp_path, "houses.csv", text), "--target", "price")
    assert "time" not in tomllib.loads(job.read_text())["source"]
    told = refusal(tmp_path / "houses.csv", capsys, "--target", "price", "--time", "date")
    assert "--time date: 'day 01' is neither a number nor a date such as 2024-12-31" in told
    assert "convert the column, or give --time none" in told


def test_roles_may_be_none(tmp_path: Path, capsys: Captured) -> None:
    data = write(tmp_path, "houses.csv", houses())
    job = begun(data, "--target", "price", "--time", "none", "--owner", "none")
    tables = tomllib.loads(job.read_text())
    assert not {"time", "owner"} & set(tables["source"])
    assert tables["data"]["partition"] == "uniform"
    assert simulated(job).exact
    assert "--target none: no such column" in refusal(data, capsys, "--target", "none")
    rated = write(tmp_path, "ratings.csv", ratings())
    source = tomllib.loads(begun(rated, "--time", "none").read_text())["source"]
    assert source["format"] == "ratings"
    assert "time" not in source
    named = write(tmp_path, "named.csv", houses().replace("owner", "none"))
    source = tomllib.loads(begun(named, "--target", "price", "--owner", "none").read_text())[
        "source"
    ]
    assert source["owner"] == "none", "a column may be called so"


# -- cells --------------------------------------------------------------------------------------


@pytest.mark.parametrize("written", ["31.12.24", "12/31/2024", "31 Dec 2024", "December 31, 2024"])
def test_dates_that_are_not_iso_are_left_out_with_the_remedy(
    tmp_path: Path, capsys: Captured, written: str
) -> None:
    lines = [f"{n % 5};{written.replace('31', str(n % 28 + 1))};{n},5" for n in range(40)]
    data = write(tmp_path, "data.csv", "\n".join(["a;day;y", *lines]))
    job = begun(data, "--target", "y")
    told = capsys.readouterr().out
    first = written.replace("31", "1")
    assert f"not a feature: day, its dates are not in ISO 8601: write '{first}'" in told
    assert list(tomllib.loads(job.read_text())["source"]["columns"]) == ["a"]
    assert simulated(job).exact


@pytest.mark.parametrize("cell", ["~{}", "{}%", "{},000.5", "{} kg"])
def test_numbers_with_other_characters_are_left_out_with_the_remedy(
    tmp_path: Path, capsys: Captured, cell: str
) -> None:
    lines = [f'{n % 5},"{cell.format(n)}",{n / 2}' for n in range(80)]
    begun(write(tmp_path, "data.csv", "\n".join(["a,price,y", *lines])), "--target", "y", "--json")
    left_out = json.loads(capsys.readouterr().out)["left_out"]
    assert "its numbers contain other characters" in left_out["price"]


# -- images -------------------------------------------------------------------------------------


def pixels(side: int = 8, rows: int = 40) -> str:
    """Return images, bright on the left or on the right, their first row black; none has 255."""
    draw = random.Random(6)
    lines = ["label," + ",".join(f"p{place}" for place in range(side * side))]
    for row in range(rows):
        cells = []
        for place in range(side * side):
            bright = (place % side < side // 2) == (row % 2 == 0)
            border = place < side
            cells.append("0" if border else str(draw.randint(150, 250) if bright else 0))
        lines.append(f"{row % 2}," + ",".join(cells))
    return "\n".join(lines)


def test_images_get_a_commented_block_of_features_that_runs(tmp_path: Path) -> None:
    job = begun(write(tmp_path, "images.csv", pixels()))
    columns = tomllib.loads(job.read_text())["source"]["columns"]
    assert len(columns) == 64, "a pixel that is always black is one, too"
    assert set(map(str, columns.values())) == {"{'low': 0.0, 'high': 255.0}"}
    text = job.read_text()
    start = text.index("# [features]")
    end = text.index("\n\n", start)
    block = "\n".join(line.removeprefix("# ") for line in text[start:end].splitlines())
    job.write_text(text[:start] + block + text[end:])
    assert tomllib.loads(job.read_text())["features"]["map"] == "patches"
    outcome = simulated(job)
    assert outcome.exact
    assert outcome.quality == 1.0


@pytest.mark.parametrize("learner", ["naive_bayes", "neighbors"])
def test_images_for_learners_with_a_map_of_their_own(tmp_path: Path, learner: str) -> None:
    job = begun(write(tmp_path, "images.csv", pixels()), "--learner", learner)
    assert "instead of the section above" in job.read_text()
    assert simulated(job).exact


def test_tables_of_other_numbers_are_no_images(tmp_path: Path) -> None:
    for old, new in ((",250", ",256"), (",p63", ",p63,x")):
        text = pixels().replace(old, new, 1)
        rows = text.splitlines()
        if "x" in rows[0]:
            text = "\n".join(
                [rows[0], *(f"{row},{place / 7}" for place, row in enumerate(rows[1:]))]
            )
        if "256" in new:
            text = text.replace(",249", ",256")
        job = begun(write(tmp_path, "numbers.csv", text), "--force", "--target", "label")
        assert "[features]" not in job.read_text()


@pytest.mark.parametrize(
    ("block", "remedy"),
    [
        ('map = "patches"\nimage = [1, 8, 8]', "declare the column as 0 … 255\n"),
        ('map = "relu"\nhigh = 255', "or declare features.low and features.high as 0 … 256\n"),
    ],
)
def test_a_map_that_does_not_take_the_declared_limits_names_the_column(
    tmp_path: Path, block: str, remedy: str
) -> None:
    job = begun(write(tmp_path, "images.csv", pixels()))
    text = job.read_text().replace(
        "p9 = { low = 0.0, high = 255.0 }", "p9 = { low = 0, high = 256 }"
    )
    job.write_text(text.replace("[[devices]]", f"[features]\n{block}\n\n[[devices]]"))
    with pytest.raises(BadInput) as refused:
        read_fleet(Document.read(job))
    told = f"{refused.value}\n"
    assert "column 'p9' is declared as 0 … 256" in told
    assert "takes 0 … 255" in told
    assert told.endswith(remedy)


# -- where a table begins -----------------------------------------------------------------------


def test_lines_before_the_table_get_a_hint(tmp_path: Path, capsys: Captured) -> None:
    text = f"Report of houses\nmade on Monday, by us\n\n{houses()}"
    data = write(tmp_path, "report.csv", text)
    told = refusal(data, capsys, "--target", "price")
    assert "line 1 is not part of a table; the rows with 7 cells start on line 4" in told
    assert "give --skip-lines 3" in told
    plain = begun(write(tmp_path, "houses.csv", houses()), "--target", "price")
    job = begun(data, "--target", "price", "--skip-lines", "3")
    assert simulated(job).digest == simulated(plain).digest


def test_the_line_that_excel_writes_is_skipped(tmp_path: Path) -> None:
    text = "sep=;\r\n" + houses(delimiter=";", end="\r\n").replace(".", ",")
    job = begun(write(tmp_path, "excel.csv", text, "utf-8-sig"), "--target", "price")
    source = tomllib.loads(job.read_text())["source"]
    assert (source["skip_lines"], source["delimiter"], source["decimal_comma"]) == (1, ";", True)
    plain = begun(write(tmp_path, "houses.csv", houses()), "--target", "price")
    assert simulated(job).digest == simulated(plain).digest


def test_a_header_without_a_name_for_the_first_column(tmp_path: Path, capsys: Captured) -> None:
    lines = [f"r{n},{n % 5},{n * 1.5}" for n in range(30)]
    data = write(tmp_path, "r.csv", "\n".join(["a,y", *lines]))
    told = refusal(data, capsys, "--target", "y")
    assert "the first row names 2 columns, but rows have 3 cells; add a name" in told


# -- files that are no tables -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("a.jsonl", b'{"a": 1, "y": 2}\n{"a": 2, "y": 3}\n',
         "is JSON Lines, not a table of text; convert it first"),
        ("a.csv", b'\xef\xbb\xbf{"a": 1, "y": 2}\n{"a": 2, "y": 3}\n', "-table.csv')"),
        ("a.json", b'[\n  {"a": 1,\n   "y": 2}\n]', "is JSON, not a table of text; convert"),
        ("a.parquet", b"PAR1" + bytes(40), "is a Parquet file, not a table of text; convert"),
        ("a.feather", b"ARROW1" + bytes(40), "is an Arrow or Feather file"),
        ("a.xls", b"\xd0\xcf\x11\xe0" + bytes(40), "is an Excel workbook"),
        ("a.db", b"SQLite format 3\0" + bytes(40), "is an SQLite database"),
        ("a.npy", b"\x93NUMPY" + bytes(40), "is a NumPy array"),
        ("a.html", b"<!DOCTYPE html>\n<table>", "is HTML or XML"),
        ("a.csv", b"\x1f\x8b\x08" + bytes(40), "give its name the suffix .gz"),
        ("a.csv", b"", "is empty; name a file with rows"),
        ("a.csv", b"\n \n", "is empty; name a file with rows"),
        ("a.csv", b"a,b,c\n", "has columns, but no row has a value; add rows"),
        ("a.csv", b"a,b\n,\n,\n", "no row has a value; fill in some cells"),
        ("a.csv", b'a,b,c\n1,"2,3\n4,5,6\n', "check that every quotation mark is closed"),
        ("a.csv", b"a\n1\n2\n", "one column only, 'a'"),
        ("a.csv", b"a,b,y\n1,2,3\n", "has only one row; a job needs at least 2"),
        ("a.csv", b"a,a,y\n1,2,3\n4,5,6\n", "columns 1 and 2 are both named 'a'; rename one"),
    ],
)  # fmt: skip
def test_what_is_no_table_gets_a_sentence_with_a_remedy(
    tmp_path: Path, capsys: Captured, name: str, content: bytes, told: str
) -> None:
    data = tmp_path / name
    data.write_bytes(content)
    assert told in refusal(data, capsys, "--yes")


def test_archives_and_folders_get_a_sentence_with_a_remedy(
    tmp_path: Path, capsys: Captured
) -> None:
    for name, members, told in (
        ("book.xlsx", ["xl/workbook.xml"], "is an Excel workbook, not a table of text; save the"),
        ("two.zip", ["a.csv", "b.csv"], "holds a.csv, b.csv; unpack it, and name one of the files"),
        ("one.csv", ["a.csv"], "is a zip archive, not a table of text; give its name the suffix"),
    ):
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            for member in members:
                archive.writestr(member, "a,y\n1,2\n")
        assert told in refusal(tmp_path / name, capsys)
    (tmp_path / "folder").mkdir()
    assert "is a directory; name a file in it" in refusal(tmp_path / "folder", capsys)


def test_a_job_and_a_model_refuse_such_files_alike(tmp_path: Path) -> None:
    job = begun(write(tmp_path, "iris.csv", iris()))
    make_run(tmp_path, job.read_text().replace("rounds = 10", "rounds = 2"))
    other = write(tmp_path, "new.jsonl", '{"length": 1, "width": 2}\n')
    with pytest.raises(BadInput, match=r"new\.jsonl is JSON Lines"):
        list(predict(open_model(tmp_path), other))
    write(tmp_path, "iris.csv", '{"length": 1, "width": 2}\n')
    with pytest.raises(BadInput, match=r"source\.file|iris\.csv is JSON Lines"):
        read_fleet(Document.read(job))
