"""Predictions for files: columns by name or order, bad rows told and left empty."""

import csv
import json
from pathlib import Path

import pytest

from dealfl.cli import main
from dealfl.data import find_dataset
from dealfl.data import load as load_dataset
from dealfl.errors import BadInput
from dealfl.features import feature_map
from dealfl.learners import Neighbors, PersonalizedPageRank, Tikhonov
from dealfl.runs import export_model, open_model, predict, recommend
from tests.runs.made_runs import digits, make_run

Captured = pytest.CaptureFixture[str]


def values(model: Path, data: Path) -> list[object]:
    return [one.value for one in predict(open_model(model), data)]


def test_columns_are_matched_by_name_and_words_by_vocabulary(
    houses_run: Path, tmp_path: Path
) -> None:
    data = tmp_path / "new.csv"
    data.write_text("remark,town,size\nnice,Basel,100\nold,Bern,100\n")
    basel, bern = values(houses_run, data)
    assert basel == pytest.approx(310.0, abs=3.0)
    assert bern == pytest.approx(300.0, abs=3.0)
    export_model(open_model(houses_run), tmp_path / "model.deal")
    assert values(tmp_path / "model.deal", data) == [basel, bern], "the job goes with the model"
    data.write_text("100,Basel\n100,Bern\n")
    assert values(houses_run, data) == [basel, bern], "without a header: in the job's order"


def test_bad_rows_are_reported_and_get_no_prediction(
    houses_run: Path, tmp_path: Path, capsys: Captured
) -> None:
    data, out = tmp_path / "new.csv", tmp_path / "out.csv"
    data.write_text("size,town\n100,Bern\n1e9,Bern\n100,Paris\n,Chur\n100\nbig,Chur\n90,Chur\n")
    assert main(["model", "predict", str(houses_run), str(data), "--out", str(out)]) == 0
    told = capsys.readouterr().err.splitlines()
    assert [line.split("new.csv, ")[1] for line in told] == [
        "line 3, column 'size': '1e9' is outside 0 … 300",
        "line 4, column 'town': 'Paris' is none of: Bern, Basel, Chur",
        "line 5, column 'size': it is missing",
        "line 6: 1 cells, expected 2",
        "line 7, column 'size': 'big' is not a number",
    ]
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert [row["line"] for row in rows] == ["2", "3", "4", "5", "6", "7", "8"]
    assert [bool(row["prediction"]) for row in rows] == [True, *[False] * 5, True]


def test_a_file_of_bad_rows_alone_fails(houses_run: Path, tmp_path: Path, capsys: Captured) -> None:
    data = tmp_path / "new.csv"
    data.write_text("size,town\nbig,Bern\n")
    assert main(["model", "predict", str(houses_run), str(data), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["predictions"] == [{"line": 2, "prediction": None}]
    assert found["problems"][0]["column"] == "size"


def test_a_missing_column_is_named(houses_run: Path, tmp_path: Path) -> None:
    data = tmp_path / "new.csv"
    data.write_text("size,place\n100,Bern\n")
    with pytest.raises(BadInput, match=r"no column 'town'; its columns are: size, place"):
        values(houses_run, data)
    data.write_text("area,place\n100,Bern\n")
    with pytest.raises(BadInput, match=r"no column 'size', 'town'; its columns are: area, place;"):
        values(houses_run, data)
    data.write_text("1e9,Paris\n100,Bern\n")
    assert values(houses_run, data)[0] is None, "a bad first row is no header"
    data.write_text("1,2,3,4\n")
    with pytest.raises(BadInput, match=r"4 columns; 2 are expected \(size, town\)"):
        values(houses_run, data)
    data.write_text("size;town\n100;Bern\n")
    with pytest.raises(BadInput, match="has one column, 'size;town'; 2 are expected"):
        values(houses_run, data)
    data.write_text("")
    with pytest.raises(BadInput, match="is empty"):
        values(houses_run, data)


@pytest.mark.parametrize("learner", ["naive_bayes", "tikhonov_classifier", "neighbors"])
def test_digits_go_through_the_feature_map_of_the_job(learner: str, tmp_path: Path) -> None:
    make_run(tmp_path / "run", digits(learner))
    raw = load_dataset("digits").features[:40]
    lines = [",".join(f"{value:g}" for value in row) for row in raw]
    header = ",".join(f"pixel{place}" for place in range(64))
    data = tmp_path / "digits.csv"
    data.write_text("\n".join([header, *lines]) + "\n")
    model = open_model(tmp_path / "run")
    found = [one.value for one in predict(model, data)]
    table = find_dataset("digits").feature_map(learner)
    features = raw if table is None else feature_map(table, 64).transform(raw)
    learned = model.learner
    votes = isinstance(learned, Neighbors)
    answer = learned.predict_votes if votes else learned.predict  # type: ignore[attr-defined]
    assert found == answer(features).tolist()
    targets = load_dataset("digits").targets
    assert targets is not None
    assert sum(a == b for a, b in zip(found, targets[:40].tolist(), strict=True)) > 20


def test_a_model_without_a_job_takes_numbers_in_order(tmp_path: Path) -> None:
    model = Tikhonov(2, penalty=0.0, feature_bound=8.0, target_bound=64.0)
    model.learn([[1, 0], [0, 1], [1, 1]], [2, 3, 5])
    model.save(tmp_path / "m.deal")
    data = tmp_path / "new.csv"
    data.write_text("a,b\n2,1\n0,nonsense\n1,inf\n")
    found = list(predict(open_model(tmp_path / "m.deal"), data))
    assert found[0].value == pytest.approx(7.0)
    assert [one.value for one in found[1:]] == [None, None]
    data.write_text("2,1,0\n")
    with pytest.raises(BadInput, match="give the job file with --job"):
        values(tmp_path / "m.deal", data)


# -- histories ----------------------------------------------------------------------------------


def test_items_are_recommended_by_the_names_of_the_job(
    films_run: Path, tmp_path: Path, capsys: Captured
) -> None:
    data = tmp_path / "people.csv"
    data.write_text("who,film,stars\nann,alien,5\nann,emma,1\nbob,emma,4\nann,ghost,5\n")
    words = ["model", "predict", str(films_run), str(data), "--top", "2"]
    assert main(words) == 0
    captured = capsys.readouterr()
    rows = list(csv.DictReader(captured.out.splitlines()))
    assert {row["item"] for row in rows if row["owner"] == "ann"} == {"brazil", "dune"}
    assert {row["item"] for row in rows if row["owner"] == "bob"} == {"casablanca", "fargo"}
    assert [row["rank"] for row in rows] == ["1", "2", "1", "2"]
    assert "line 5, column 'film': 'ghost' is none of: alien" in captured.err


def test_items_without_a_job_are_numbers(tmp_path: Path) -> None:
    model = PersonalizedPageRank(4)
    model.learn([[1, 1, 0, 0], [1, 1, 1, 0], [0, 0, 1, 1]])
    model.save(tmp_path / "m.deal")
    data = tmp_path / "people.csv"
    data.write_text("owner,item\nann,0\nbob,9\nbob,1.5\nbob\nbob,3\n")
    found, wrong, rows = recommend(open_model(tmp_path / "m.deal"), data, 1)
    assert [(one.owner, one.item) for one in found] == [("ann", 1), ("bob", 2)]
    assert [one.line for one in wrong] == [3, 4, 5]
    assert rows == 5


def test_the_items_of_another_job_are_refused(films_run: Path, tmp_path: Path) -> None:
    export_model(open_model(films_run), tmp_path / "m.deal")
    text = (films_run / "job.toml").read_text().replace(', "fargo"', "")
    (tmp_path / "other.toml").write_text(text)
    data = tmp_path / "people.csv"
    data.write_text("who,film,stars\nann,alien,5\n")
    with pytest.raises(BadInput, match=r"other\.toml has 5 items, but the model has 6"):
        recommend(open_model(tmp_path / "m.deal", tmp_path / "other.toml"), data, 3)


def test_the_columns_of_another_job_are_refused(
    houses_run: Path, digits_run: Path, tmp_path: Path
) -> None:
    export_model(open_model(houses_run), tmp_path / "m.deal")
    model = open_model(tmp_path / "m.deal", digits_run / "job.toml")
    with pytest.raises(BadInput, match="is naive_bayes, but that of the model is tikhonov"):
        list(predict(model, tmp_path / "m.deal"))


def test_top_is_for_items_only(
    digits_run: Path, films_run: Path, tmp_path: Path, capsys: Captured
) -> None:
    data = tmp_path / "x.csv"
    data.write_text("1\n")
    assert main(["model", "predict", str(digits_run), str(data), "--top", "3"]) == 2
    assert "--top is for items; naive_bayes predicts" in capsys.readouterr().err
    assert main(["model", "predict", str(films_run), str(data), "--top", "0"]) == 2
    assert "--top is 0; it must be a whole number ≥ 1" in capsys.readouterr().err
