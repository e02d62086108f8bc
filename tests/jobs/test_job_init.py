"""`dealfl job init`: a job that runs, or an error that names the column and the remedy."""

import json
import tomllib
from pathlib import Path

import pytest

from dealfl.cli import main
from dealfl.jobs import Document
from dealfl.simulate import read_fleet
from tests.jobs.foreign_files import begun, houses, iris, ratings, simulated, write


def test_a_table_with_numbers_words_dates_and_owners_becomes_a_job_that_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = begun(write(tmp_path, "houses.csv", houses()), "--target", "price")
    told = capsys.readouterr().out
    tables = tomllib.loads(job.read_text())
    assert tables["source"]["owner"] == "owner"
    assert tables["source"]["time"] == "sold"
    assert tables["source"]["target_bound"] == 512.0
    assert tables["source"]["columns"] == {
        "rooms": {"low": 0.0, "high": 16.0},
        "age": {"low": 0.0, "high": 128.0},
        "colour": {"words": ["blue", "green", "red"]},
    }
    assert tables["data"]["partition"] == "by_owner"
    assert "not a feature: id, it numbers the rows" in told
    assert f"  dealfl run {job}" in told
    outcome = simulated(job)
    assert outcome.exact
    assert outcome.learned > 20


def test_classes_are_found_and_learned(tmp_path: Path) -> None:
    job = begun(write(tmp_path, "iris.csv", iris()))
    assert tomllib.loads(job.read_text())["source"]["classes"] == ["setosa", "virginica"]
    outcome = simulated(job)
    assert outcome.exact
    assert outcome.quality is not None
    assert outcome.quality > 0.8


@pytest.mark.parametrize("learner", ["naive_bayes", "neighbors", "tikhonov_classifier"])
def test_every_learner_gets_features_that_suit_it(tmp_path: Path, learner: str) -> None:
    job = begun(write(tmp_path, "iris.csv", iris()), "--learner", learner)
    outcome = simulated(job)
    assert outcome.exact
    assert outcome.quality is not None
    assert outcome.quality > 0.7


def test_ratings_are_seen_by_the_names_of_their_columns(tmp_path: Path) -> None:
    job = begun(write(tmp_path, "ratings.csv", ratings()))
    source = tomllib.loads(job.read_text())["source"]
    assert (source["format"], source["owner"], source["item"]) == ("ratings", "user", "item")
    assert (source["rating"], source["liked_from"], source["time"]) == ("rating", 4.0, "timestamp")
    assert (source["first_item"], source["last_item"]) == (1, 20)
    assert simulated(job).exact


def test_owners_and_histories_that_are_left_out_are_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [f"short {owner},{owner % 20 + 1},5,1" for owner in range(10)]
    lines += [f"never pleased {owner},3,1,1" for owner in range(3)]
    data = write(tmp_path, "ratings.csv", "\n".join([ratings(10), *lines]))
    job = begun(data)
    note = "3 of 23 owners have no item with a rating of at least 4 (source.liked_from)"
    assert f"Skipped: {note}" in capsys.readouterr().out
    outcome = simulated(job)
    assert outcome.notes[0].startswith(note)
    assert "histories of the test share have one item only" in outcome.notes[1]
    assert main(["run", str(job), "--no-compare", "--out", str(tmp_path / "run")]) == 0
    assert f"Skipped: {note}" in capsys.readouterr().out


def test_missing_values_are_filled_by_what_the_file_says_from_then_on(tmp_path: Path) -> None:
    text = houses().replace(",3,", ",,").replace("green", "NA")
    job = begun(write(tmp_path, "holes.csv", text), "--target", "price")
    columns = tomllib.loads(job.read_text())["source"]["columns"]
    assert columns["rooms"]["missing"] > 0
    assert columns["colour"] == {"words": ["(none)", "blue", "red"], "missing": "(none)"}
    assert simulated(job).exact


@pytest.mark.parametrize(
    ("delimiter", "end", "encoding"),
    [(";", "\n", "utf-8"), ("\t", "\r\n", "utf-8"), (",", "\r\n", "utf-8-sig"),
     (",", "\n", "windows-1252"), ("|", "\n", "utf-16")],
)  # fmt: skip
def test_other_delimiters_line_ends_and_encodings_give_the_same_examples(
    tmp_path: Path, delimiter: str, end: str, encoding: str
) -> None:
    plain = houses().replace("person", "Zoë")
    one = begun(write(tmp_path, "one.csv", plain), "--target", "price")
    text = houses(delimiter=delimiter, end=end).replace("person", "Zoë")
    other = begun(write(tmp_path, "other.csv", text, encoding), "--target", "price")
    assert simulated(one).digest == simulated(other).digest


def test_a_mark_at_the_start_is_no_part_of_the_first_name(tmp_path: Path) -> None:
    text = iris().replace("length,width,label", "label,width,length")
    rows = [",".join(reversed(line.split(","))) for line in text.splitlines()[1:]]
    data = write(tmp_path, "bom.csv", "\n".join(["label,width,length", *rows]), "utf-8-sig")
    assert tomllib.loads(begun(data).read_text())["source"]["target"] == "label"


def test_decimal_commas_are_read(tmp_path: Path) -> None:
    text = houses(delimiter=";").replace(".", ",")
    job = begun(write(tmp_path, "german.csv", text), "--target", "price")
    plain = begun(write(tmp_path, "plain.csv", houses()), "--target", "price")
    assert tomllib.loads(job.read_text())["source"]["decimal_comma"] is True
    assert simulated(job).digest == simulated(plain).digest


def test_quoted_cells_may_hold_delimiters_and_line_ends(tmp_path: Path) -> None:
    text = houses().replace("red", '"dark, ""red""\nor so"')
    job = begun(write(tmp_path, "quoted.csv", text), "--target", "price")
    words = tomllib.loads(job.read_text())["source"]["columns"]["colour"]["words"]
    assert 'dark, "red"\nor so' in words
    assert simulated(job).exact


def test_without_a_header_columns_are_numbered(tmp_path: Path) -> None:
    body = houses().partition("\n")[2]
    job = begun(write(tmp_path, "bare.csv", body), "--target", "c7")
    assert tomllib.loads(job.read_text())["source"]["header"] is False
    assert simulated(job).exact


def test_columns_that_are_no_features_are_reported_with_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = ["row,same,empty,huge,note,yes,x,y"]
    lines += [f"{n},7,,{n}e300,text {n},{n % 2 == 0},{n % 5},{n * 1.5}" for n in range(40)]
    data = write(tmp_path, "odd.csv", "\n".join(lines))
    job = begun(data, "--target", "y", "--json")
    told = json.loads(capsys.readouterr().out)
    assert set(told["left_out"]) == {"row", "same", "empty", "huge", "note"}
    assert "divide it" in told["left_out"]["huge"]
    assert "every row" in told["left_out"]["same"]
    assert told["next"] == f"dealfl run {job}"
    columns = tomllib.loads(job.read_text())["source"]["columns"]
    assert columns["yes"] == {"words": ["False", "True"]}
    assert simulated(job).exact


def test_cells_that_are_not_finite_are_quarantined_and_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = ["a,b,y", *(f"{n},{n / 3},{n * 2}.5" for n in range(50)), "inf,1,2", "3,-inf,4,5"]
    begun(write(tmp_path, "inf.csv", "\n".join(lines)), "--target", "y", "--json")
    told = json.loads(capsys.readouterr().out)
    assert told["quarantined_by_column"] == {"": 1, "a": 1}
    assert told["examples"] == 50


def test_names_with_strange_characters_are_quoted(tmp_path: Path) -> None:
    text = houses().replace("rooms", '"rooms (in ""all"").x = #"').replace("age", "Größe m²")
    job = begun(write(tmp_path, "strange.csv", text), "--target", "price")
    assert simulated(job).exact


@pytest.mark.parametrize(
    ("text", "words", "told"),
    [
        ("", [], "is empty"),
        ("a,b\n", ["--target", "a"], "no row has a value; add rows"),
        ("a\n1\n2\n", ["--target", "a"], "one column only, 'a'"),
        ("a,a,y\n1,2,3\n", ["--target", "y"], "columns 1 and 2 are both named 'a'; rename"),
        ("a,b,y\n1,2,3\n2,3,4\n", [], "Give --target with one of: a, b"),
        ("a,b,z\n1,2,3\n2,3,4\n", [], "--yes uses the last, 'z'"),
        ("a,b,y\n1,2,3\n", ["--target", "x"], "--target x: no such column; valid: "),
        ("a,b,z\n1,2,3\n", ["--target", "z", "--owner", "z"], "--owner z: it is already"),
        ("a,b,z\n1,2,3\n2,2,3\n", ["--target", "z"], "the target 'z' has only one value"),
        ("a,b,z\n1,2,3e300\n2,2,4\n", ["--target", "z"], "'z' reaches 3e+300, which is too large"),
        ("a,b,z\n1,1,3\n1,1,4\n", ["--target", "z"], "no column is left as a feature"),
        ("a,b,z\n1,2,q\n2,2,w\n", ["--target", "z", "--learner", "tikhonov"], "holds texts"),
        ("a,b,z\n1,2,3\n", ["--learner", "forest"], "no learner called 'forest'"),
        ("a,b,z\n1,2,3\n", ["--rounds", "-1"], "--rounds is -1; it must be ≥ 0"),
        ("user,item,rating\nann,x,good\n", [], "the rating column 'rating' holds texts"),
    ],
)  # fmt: skip
def test_what_cannot_be_a_job_is_reported_with_column_and_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, words: list[str], told: str
) -> None:
    data, out = write(tmp_path, "data.csv", text), tmp_path / "job.toml"
    if "Give --target" in told:
        data = write(tmp_path, "data.csv", text.replace("y", "z"))
    assert main(["job", "init", str(data), "--out", str(out), *words]) == 2
    assert told in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data.csv"], "half a file is left"


def test_what_is_no_text_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "job.toml")
    (tmp_path / "binary.csv").write_bytes(bytes(range(256)) * 4)
    (tmp_path / "odd.csv").write_bytes(b"a,b\n\x81\x8d,\xff\n")
    (tmp_path / "cut.csv.gz").write_bytes(b"\x1f\x8b\x08\x00\x00")
    for name, told in (
        ("binary.csv", "is not text: it contains zero bytes"),
        ("odd.csv", "neither UTF-8 nor Windows-1252"),
        ("cut.csv.gz", "truncated or damaged"),
        ("none.csv", "none.csv does not exist"),
        ("", "is a directory; name a file in it"),
    ):
        assert main(["job", "init", str(tmp_path / name), "--out", out]) == 2
        assert told in capsys.readouterr().err


def test_a_file_that_is_there_is_not_written_over_without_force(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, out = write(tmp_path, "iris.csv", iris()), write(tmp_path, "iris.toml", "mine")
    assert main(["job", "init", str(data), "--out", str(out)]) == 2
    assert "use --force" in capsys.readouterr().err
    assert out.read_text() == "mine"
    assert main(["job", "init", str(data), "--out", str(out), "--force"]) == 0
    assert read_fleet(Document.read(out)).learner == "tikhonov_classifier"


def test_a_terminal_is_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter(["prise\n", "price\n", "none\n", "\n"])
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stdin.readline", lambda: next(answers), raising=False)
    job = begun(write(tmp_path, "houses.csv", houses()))
    told = capsys.readouterr().err
    assert "no column 'prise'" in told
    source = tomllib.loads(job.read_text())["source"]
    assert (source["target"], source.get("owner"), source["time"]) == ("price", None, "sold")
