"""`dealfl model score` on labelled files, and predictions for LIBSVM: the format is the job's."""

import json
import random
from pathlib import Path

import pytest

from dealfl.cli import main
from dealfl.errors import BadInput
from dealfl.learners import NaiveBayes, Tikhonov
from dealfl.runs import export_model, open_model, predict, score
from tests.runs.made_runs import make_run

Captured = pytest.CaptureFixture[str]

LIBSVM = """\
[job]
name = "points"
rounds = 3
workers_per_round = 2

[source]
format = "libsvm"
file = "points.svm"
n_features = 3
low = 0
high = 4
classes = [-1, 1]

[[devices]]
count = 2
"""


def points(rows: int = 60, labelled: bool = True) -> str:
    """Return LIBSVM text: the class is that of the larger of the first two features."""
    draw, lines = random.Random(4), []
    for _ in range(rows):
        first, third = draw.choice([True, False]), draw.randint(1, 2)
        pairs = f"{1 if first else 2}:{draw.randint(2, 4)} 3:{third}"
        lines.append(f"{1 if first else -1} {pairs}" if labelled else pairs)
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def points_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "points"
    folder.mkdir()
    (folder / "points.svm").write_text(points())
    assert make_run(folder, LIBSVM).exact
    return folder


# -- predictions for LIBSVM ---------------------------------------------------------------------


@pytest.mark.parametrize("exported", [False, True])
def test_a_model_of_libsvm_predicts_libsvm_with_and_without_labels(
    points_run: Path, tmp_path: Path, exported: bool
) -> None:
    model = points_run
    if exported:
        model = tmp_path / "m.deal"
        export_model(open_model(points_run), model)
    data = tmp_path / "new.svm"
    data.write_text("1:4\n2:4 3:1 # no label\n")
    assert [one.value for one in predict(open_model(model), data)] == [1, -1]
    data.write_text("1 1:4\n\n0 2:4 3:1\n")
    found = list(predict(open_model(model), data))
    assert [(one.line, one.value) for one in found] == [(1, 1), (3, -1)], "labels do not matter"


def test_bad_rows_of_libsvm_are_reported(
    points_run: Path, tmp_path: Path, capsys: Captured
) -> None:
    data = tmp_path / "new.svm"
    data.write_text("1 1:4\n1 1:9\n1 9:1\n1 1=4\n")
    assert main(["model", "predict", str(points_run), str(data)]) == 0
    told = capsys.readouterr()
    assert told.out.splitlines() == ["line,prediction", "1,1", "2,", "3,", "4,"]
    assert "line 2: feature 1 is 9, outside 0 … 4" in told.err
    assert "line 3: index 9 in '9:1'" in told.err
    assert "line 4: '1=4' is not an index:value pair" in told.err


def test_a_model_of_libsvm_still_takes_numbers_in_order(points_run: Path, tmp_path: Path) -> None:
    data = tmp_path / "new.csv"
    data.write_text("a,b,c\n4,0,1\n0,4,1\n")
    assert [one.value for one in predict(open_model(points_run), data)] == [1, -1]


def test_libsvm_is_recognised_for_a_model_without_a_job(tmp_path: Path) -> None:
    model = Tikhonov(2, penalty=0.0, feature_bound=8.0, target_bound=64.0)
    model.learn([[1, 0], [0, 1], [1, 1]], [2, 3, 5])
    model.save(tmp_path / "m.deal")
    data = tmp_path / "new.svm"
    data.write_text("7 1:2 2:1\n2 1:1\n")
    opened = open_model(tmp_path / "m.deal")
    assert [one.value for one in predict(opened, data)] == pytest.approx([7.0, 2.0])
    assert score(opened, data).value == pytest.approx(1.0)


# -- scores -------------------------------------------------------------------------------------


def test_the_score_of_a_table_is_r2(houses_run: Path, tmp_path: Path, capsys: Captured) -> None:
    data = tmp_path / "new.csv"
    data.write_text("price,town,size\n310,Basel,100\n600,Bern,200\n150,Paris,50\n,Bern,9\n")
    assert main(["model", "score", str(houses_run), str(data), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["learner"], found["metric"], found["tested"]) == ("tikhonov", "R²", 2)
    assert found["value"] > 0.99
    assert found["quarantined_by_column"] == {"town": 1, "price": 1}
    assert found["first_quarantined"].startswith("line 4, column 'town': 'Paris' is none of")
    assert main(["model", "score", str(houses_run), str(data)]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[0].split() == ["R²", f"{found['value']:.4f}"]
    assert told[1:3] == ["tested       2 rows", "quarantined  2 rows"]
    assert "first: line 4, column 'town'" in told[3]


def test_the_score_is_that_of_an_exported_model_and_of_a_file_without_names(
    houses_run: Path, tmp_path: Path
) -> None:
    data, bare = tmp_path / "new.csv", tmp_path / "bare.csv"
    data.write_text("note,size,town,price\nx,100,Basel,300\nx,200,Bern,650\n")
    bare.write_text("100,Basel,300\n200,Bern,650\n")
    export_model(open_model(houses_run), tmp_path / "m.deal")
    first = score(open_model(houses_run), data)
    assert score(open_model(tmp_path / "m.deal"), data) == first
    assert score(open_model(houses_run), bare) == first


def test_the_score_of_libsvm_is_the_accuracy(points_run: Path, tmp_path: Path) -> None:
    data = tmp_path / "new.svm"
    data.write_text("1 1:4\n-1 2:4\n-1 1:4\n3 1:1\n")
    found = score(open_model(points_run), data)
    assert (found.metric, found.tested, found.quarantined) == ("accuracy", 3, 1)
    assert found.value == pytest.approx(2 / 3)
    assert "the label '3' is not one of the classes" in found.first_quarantined


def test_the_score_of_ratings_is_the_hit_rate_and_names_what_is_left_out(
    films_run: Path, tmp_path: Path, capsys: Captured
) -> None:
    data = tmp_path / "people.csv"
    data.write_text(
        "who,film,stars\nann,alien,5\nann,brazil,5\nbob,emma,4\ncid,dune,1\ndot,emma,5\ndot,fargo,5\n"
    )
    assert main(["model", "score", str(films_run), str(data), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["metric"], found["tested"], found["value"]) == ("hit rate at 10", 2, 1.0)
    assert found["notes"] == [
        (
            "1 of 4 owners have no item with a rating of at least 3 (source.liked_from): "
            "they have no history"
        ),
        "1 of 3 histories have only one item: not tested",
    ]
    data.write_text("who,film,stars\nann,alien,5\n")
    with pytest.raises(BadInput, match="every history has only one item"):
        score(open_model(films_run), data)


def test_the_target_of_a_model_without_a_job_is_the_last_column(tmp_path: Path) -> None:
    model = NaiveBayes(2, ["ham", "spam"], feature_bound=8)
    model.learn([[5, 0], [0, 5]], ["ham", "spam"])
    model.save(tmp_path / "m.deal")
    data = tmp_path / "new.csv"
    data.write_text("a,b,kind\n4,0,ham\n0,4,spam\n0,3,ham\n1,1,eggs\n")
    found = score(open_model(tmp_path / "m.deal"), data)
    assert (found.tested, found.quarantined) == (3, 1)
    assert found.value == pytest.approx(2 / 3)
    data.write_text("4,0,ham\n0,4,spam\n")
    assert score(open_model(tmp_path / "m.deal"), data).value == 1.0


def test_a_file_that_cannot_be_scored_is_refused(
    houses_run: Path, films_run: Path, tmp_path: Path, capsys: Captured
) -> None:
    data = tmp_path / "new.csv"
    for run, text, problem in (
        (houses_run, "size,town\n100,Bern\n", "has no column 'price'; its columns are: size, town"),
        (houses_run, "size,town,price\nbig,Bern,1\n", "none of 1 rows can"),
        (houses_run, "", "is empty"),
        (films_run, "who,film\nann,alien\n", "has no column 'stars'; its columns are: who, film"),
    ):
        data.write_text(text)
        assert main(["model", "score", str(run), str(data)]) == 2
        assert problem in capsys.readouterr().err
