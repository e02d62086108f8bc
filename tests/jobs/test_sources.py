"""A [source]: what fits is learned, what does not is set aside with line, column and reason."""

import logging
from pathlib import Path

import numpy as np
import pytest

from dealfl.data.sources import report_progress
from dealfl.errors import BadInput
from dealfl.jobs import Document
from dealfl.learners import Tikhonov
from dealfl.simulate import read_fleet, run_fleet, split_examples
from tests.jobs.foreign_files import DATA, JOB, houses, iris, plan, reading, refused, write


def test_a_table_is_read_as_the_job_says(tmp_path: Path) -> None:
    found = reading(tmp_path)
    assert np.asarray(found.examples.features).tolist() == [
        [1.0, 0.25, 1.0, 0.0, 1.0],
        [2.0, 0.5, 0.0, 1.0, 2.0],
        [3.0, -1.0, 1.0, 0.0, 3.0],
    ]
    assert found.examples.targets is not None
    assert found.examples.targets.tolist() == [1.0, 2.0, -8.0]
    assert [found.owner(row) for row in range(3)] == ["ann", "bob", "ann"]
    assert found.examples.times is not None
    assert found.examples.times.tolist() == [1, 0, 2]
    assert len(found.quarantine) == 0


def test_the_learner_gets_the_limits_of_the_columns(tmp_path: Path) -> None:
    settings = plan(tmp_path).settings
    assert settings["n_features"] == 5
    assert settings["feature_bound"] == (4.0, 1.0, 1.0, 1.0, 32.0)
    assert (settings["target_bound"], settings["intercept"]) == (8.0, True)


@pytest.mark.parametrize(
    ("row", "column", "reason"),
    [
        ("ann,3,9,0,red,1970-01-02,1", "a", "'9' is outside 0 … 4"),
        ("ann,3,x,0,red,1970-01-02,1", "a", "'x' is not a number"),
        ("ann,3,1_0,0,red,1970-01-02,1", "a", "'1_0' is not a number"),
        ("ann,3,inf,0,red,1970-01-02,1", "a", "'inf' is outside 0 … 4"),
        ("ann,3,NaN,0,red,1970-01-02,1", "a", "it is missing"),
        ("ann,3,,0,red,1970-01-02,1", "a", "it is missing"),
        ("ann,3,1,0,green,1970-01-02,1", "colour", "'green' is none of: red, blue"),
        ("ann,3,1,0,,1970-01-02,1", "colour", "it is missing"),
        ("ann,3,1,0,red,soon,1", "day", "'soon' is not an ISO date"),
        ("ann,3,1,0,red,1970-13-02,1", "day", "'1970-13-02' is not an ISO date"),
        ("ann,3,1,0,red,1970-01-02,9", "y", "'9' is outside -8 … 8"),
        ("ann,3,1,0,red,1970-01-02,", "y", "it is missing"),
        (",3,1,0,red,1970-01-02,1", "who", "it is missing"),
        ("ann,then,1,0,red,1970-01-02,1", "when", "'then' is neither a number nor an ISO date"),
        ("ann,,1,0,red,1970-01-02,1", "when", "it is missing"),
        ("ann,3,1,0,red,1970-01-02", "", "6 cells, expected 7"),
    ],
)
def test_a_row_that_does_not_fit_is_set_aside_with_line_column_and_reason(
    tmp_path: Path, row: str, column: str, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    first, *rest = DATA.splitlines()
    found = reading(tmp_path, "\n".join([first, rest[0], "", row, *rest[1:]]))
    (one,) = found.quarantine.first
    assert (one.line, one.column, one.reason) == (4, column, reason)
    assert len(found.examples) == 3, "the others go on"
    assert np.asarray(found.examples.features)[:, 0].tolist() == [1.0, 2.0, 3.0]
    assert "data.csv: 1 of 4 rows cannot be used" in caplog.text


def test_a_file_of_nothing_but_bad_rows_is_refused(tmp_path: Path) -> None:
    bad = DATA.splitlines()[0] + "\nann,3,9,0,red,1970-01-02,1\n" * 3
    with pytest.raises(BadInput, match=r"none of 3 rows can be used; the first is line 2, col"):
        reading(tmp_path, bad)
    with pytest.raises(BadInput, match="none of 0 rows"):
        reading(tmp_path, DATA.splitlines()[0])


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('file = "data.csv"', 'file = "dat.csv"', "line 4: file "),
        ('file = "data.csv"', 'file = "."', "is a directory"),
        ('target = "y"', 'target = "z"', "line 5: data.csv has no column 'z'; valid: "),
        ('owner = "who"', 'owner = "whom"', "line 7: data.csv has no column 'whom'; did you mean"),
        ("a = { low", "aa = { low", "line 10: data.csv has no column 'aa'; did you mean 'a'?"),
        ("a = { low", "y = { low", "line 10: the column 'y' cannot be a feature and also"),
        ("high = 4", "high = 0", "line 10: source.columns.a: low is 0; it must be below high"),
        ("missing = 0.5", "missing = 2", "line 11: source.columns.b.missing is 2.0; it takes a n"),
        ('["red", "blue"]', '["red", "red"]', "line 12: source.columns.colour.words is"),
        ('"blue"] }', '"blue"], missing = "x" }', "line 12: source.columns.colour.missing is 'x'"),
        ("a = { low = 0, high = 4 }", "a = 3", "line 10: source.columns.a is 3; it takes a sec"),
        ("target_bound = 8\n", "", "line 3: source takes either classes (for classification) or"),
        ("target_bound = 8", 'target_bound = 8\nclasses = ["a", "b"]', "both are given"),
        ("rounds = 2", 'dataset = "digits"', "line 2: job.dataset is 'digits', but there is a"),
        ("rounds = 2", 'learner = "naive_bayes"', "job.learner is 'naive_bayes'; data.csv takes:"),
        ('file = "data.csv"', 'file = "data.csv"\ndelimiter = ";;"', "line 5: source.delimiter is"),
        ('file = "data.csv"', 'file = "data.csv"\nformat = "xls"', "line 5: source.format is 'x"),
        ("[source.columns]", "[features]\nmap = 3\n[source.columns]", "line 10: features.map is 3"),
        ("[source.columns]", '[features]\nmap = "identity"\nbound = 2\n[source.columns]',
         "line 9: features: "),
        ("[source.columns]", '[features]\nmap = "relu"\nwidth = 0\n[source.columns]',
         "line 11: features.width is 0; it takes a whole number from 1"),
        ("[source.columns]", '[features]\nmap = "bins"\nlow = 0\n[source.columns]',
         "line 9: the key 'high' is missing in features"),
        ("[[devices]]", "[learner]\npenalty = -1\n[[devices]]", "line 15: learner.penalty is -1"),
        ("[[devices]]", "[learner]\nsolver = 'x'\n[[devices]]", "line 15: learner.solver is 'x'"),
        ("[[devices]]", "[learner]\nn_features = 3\n[[devices]]", "line 15: no key 'n_features'"),
        ("[[devices]]", "[learner]\nfeature_bound = [1]\n[[devices]]", "learner.feature_bound: "),
    ],
)  # fmt: skip
def test_what_a_source_cannot_be_is_reported_with_key_line_and_what_would_do(
    tmp_path: Path, old: str, new: str, told: str
) -> None:
    assert told in refused(tmp_path, old, new)


def test_neither_a_dataset_nor_a_source_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"line 1: the key 'dataset' is missing in job.*\[source\]"):
        read_fleet(Document.parse("[job]\nrounds = 2\n[[devices]]\ncount = 1", "job.toml"))


def test_features_and_settings_reach_the_learner(tmp_path: Path) -> None:
    extra = (
        '[features]\nmap = "thermometer"\nlow = -1\nhigh = 4\nlevels = 3\n[learner]\npenalty = 7'
    )
    made = plan(tmp_path, job=JOB.replace("[[devices]]", f"{extra}\n[[devices]]"))
    _, X = made.read()
    assert X.shape == (3, 15)
    assert (made.settings["n_features"], made.settings["penalty"]) == (15, 7.0)
    model = made.make()
    assert isinstance(model, Tikhonov)
    model.learn(X, [1.0, 2.0, 3.0])


def test_order_and_layout_of_items_are_keys_of_a_job() -> None:
    job = """\
[job]
dataset = "movielens"
learner = "personalized_pagerank"
[[devices]]
count = 2
[learner]
layout = "full"
item_order = ITEMS
"""
    order = list(range(1681, -1, -1))
    made = read_fleet(Document.parse(job.replace("ITEMS", str(order)), "job.toml")).plan.make()
    assert (made.settings["layout"], made.settings["item_order"]) == ("full", order)
    with pytest.raises(BadInput, match="item_order must contain each of the 1682 items once"):
        read_fleet(Document.parse(job.replace("ITEMS", "[0, 1]"), "job.toml")).plan.make()


def test_a_map_takes_the_place_of_the_one_a_dataset_declares() -> None:
    job, own = '[job]\ndataset = "digits"\n', '[features]\nmap = "identity"\nbound = 16\n'
    devices = "[[devices]]\ncount = 2"
    made = read_fleet(Document.parse(job + own + devices, "job.toml")).plan
    plain = read_fleet(Document.parse(job + devices, "job.toml")).plan
    assert made.settings["n_features"] == 64
    assert plain.settings["n_features"] == 256
    assert made != plain


def test_columns_below_zero_that_pass_through_keep_their_offset(tmp_path: Path) -> None:
    job = """\
[job]
learner = "naive_bayes"
[source]
file = "data.csv"
target = "label"
classes = ["setosa", "virginica"]
[source.columns]
length = { low = -8, high = 8 }
width = { low = 0, high = 4 }
[features]
map = "bins"
low = 0
high = 4
columns = [1]
bins = 2
bound = 16
[[devices]]
count = 2
"""
    made = plan(tmp_path, iris(), job)
    assert made.settings["offset"] == (-8.0, 0.0, 0.0)
    assert made.settings["feature_bound"] == (24.0, 1.0, 1.0)


def test_owners_stay_whole_and_rows_arrive_in_the_order_of_time(tmp_path: Path) -> None:
    job = JOB.replace("colour = ", "# ").replace("day = ", "# ")
    rows = [f"owner {n % 5},{100 - n},{n % 5},0,x,x,{n / 20}" for n in range(100)]
    write(tmp_path, "data.csv", "\n".join([DATA.splitlines()[0], *rows]))
    fleet = read_fleet(Document.parse(job, "job.toml", tmp_path))
    problem = split_examples(fleet.plan, fleet.data, fleet.workers, 1)
    owners = [{owner for owner, _ in stream} for stream in problem.streams]
    assert not owners[0] & owners[1]
    assert owners[0] | owners[1] == {f"owner {n}" for n in range(5)}
    for stream in problem.streams:
        targets = [np.frombuffer(body, "<i4")[-1] for _, body in stream]
        assert targets == sorted(targets, reverse=True)
    assert run_fleet(fleet).exact


def test_a_file_that_changed_is_read_again(tmp_path: Path) -> None:
    one = plan(tmp_path)
    again = read_fleet(Document.parse(JOB, "job.toml", tmp_path)).plan
    assert one == again, "a sweep must not read it for each seed"
    assert one != plan(tmp_path, DATA + "ann,3,1,0,red,1970-01-02,1\n")


def test_reading_for_long_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    parts = iter([["a row"]] * 4)
    moments = iter([0.0, 1.0, 2.5, 2.5, 3.0, 9.0, 9.0])
    with caplog.at_level(logging.WARNING):
        assert len(list(report_progress(parts, "big.csv", lambda: next(moments)))) == 4
    assert [record.message for record in caplog.records] == [
        "reading big.csv: 2 rows so far",
        "reading big.csv: 4 rows so far",
    ]


def test_a_windows_file_without_its_encoding_is_reported_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_bytes(houses().replace("red", "r\xf6t").encode("windows-1252"))
    job = JOB.replace('target = "y"', 'target = "price"').replace('"who"', '"owner"')
    job = job.replace('"when"', '"sold"').partition("[source.columns]")[0]
    job += "[source.columns]\nrooms = { low = 0, high = 16 }\n[[devices]]\ncount = 2"
    with pytest.raises(BadInput, match=r'set source.encoding = "windows-1252"'):
        read_fleet(Document.parse(job, "job.toml", tmp_path)).plan.read()
