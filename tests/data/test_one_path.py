"""A row means the same on every way in: a run, the feed of a worker, a file, arrays, the socket."""

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dealfl.errors import BadInput
from dealfl.jobs import Document, GrowingSource, Plan, read_job, read_plan, records_of
from dealfl.learners import RowLearner
from dealfl.network.predict_socket import PredictSocket
from dealfl.runs import predict

JOB = """
[job]
learner = "tikhonov"
[source]
file = "data.csv"
format = "csv"
target = "price"
target_bound = 1000
[source.columns]
size = { low = 0, high = 300, missing = 50.0 }
town = { words = ["Bern", "Basel"] }
built = { low = 0, high = 30000, date = true }
floor = { low = -2, high = 40 }
[[devices]]
count = 2
"""
HEADER = "remark,size,town,built,floor,price\n"  # the remark is a column that nobody needs
ROWS: list[tuple[list[Any], str]] = [
    ([100, "Bern", "1990-05-01", 1], ""),
    ([100.5, " Basel ", "1970-01-01", -2], ""),
    ([None, "Bern", "2001-02-03 12:00", 3], ""),  # a missing size is filled
    (["120", "Bern", "1990-05-01", "7"], ""),  # numbers as texts
    ([100, None, "1990-05-01", 1], "column 'town': it is missing"),
    ([100, "Paris", "1990-05-01", 1], "column 'town': 'Paris' is none of: Bern, Basel"),
    ([100, "Bern", "May 1990", 1], "column 'built': 'May 1990' is not an ISO date"),
    ([100, "Bern", "1990-05-01", "high"], "column 'floor': 'high' is not a number"),
    ([100, "Bern", "1990-05-01", 41], "column 'floor': '41' is outside -2 … 40"),
    (["NA", "Basel", "1990-05-01", None], "column 'floor': it is missing"),
]
GOOD = [number for number, (_, reason) in enumerate(ROWS) if not reason]


def as_text(cells: list[Any]) -> str:
    return ",".join("" if cell is None else str(cell) for cell in ["nice", *cells, 10])


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    lines = [as_text(cells) for cells, _ in ROWS]
    (tmp_path / "data.csv").write_text(HEADER + "\n".join(lines) + "\n")
    document = Document.parse(JOB, "job.toml", tmp_path)
    return read_plan(document, read_job(document))


@pytest.fixture
def model(plan: Plan) -> RowLearner:
    reading, X = plan.read()
    learner = plan.make()
    assert isinstance(learner, RowLearner)
    learner.learn(X, reading.examples.targets)
    return learner


def test_a_run_and_a_feed_pack_the_same_integers_and_refuse_the_same_rows(
    plan: Plan, tmp_path: Path
) -> None:
    reading, X = plan.read()
    assert [str(row) for row in reading.quarantine.first] == [
        f"line {number + 2}, {reason}" for number, (_, reason) in enumerate(ROWS) if reason
    ]
    packed = list(records_of(plan.make(), reading, X, np.arange(len(GOOD)), "w1"))
    source = GrowingSource(Document.parse(JOB, "job.toml", tmp_path), plan)
    data = (tmp_path / "data.csv").read_bytes()
    head = source.read_head("data.csv", data)
    assert head is not None
    part = source.read("data.csv", head, source.split_rows(data[head.size :]), "w1")
    assert part.records == packed
    assert part.bad == reading.quarantine.by_column
    learner = plan.make()
    assert isinstance(learner, RowLearner)
    assert reading.examples.targets is not None
    assert learner.pack_rows(X, reading.examples.targets) == [body for _, body in packed]


def test_rows_in_memory_are_read_like_a_file(plan: Plan) -> None:
    _, X = plan.read()
    assert np.array_equal(plan.take([ROWS[number][0] for number in GOOD]), X)
    for cells, reason in ROWS:
        if reason:
            with pytest.raises(BadInput) as error:
                plan.take([cells])
            assert str(error.value) == f"X, row 0, {reason}"


@pytest.mark.parametrize("cells", [[100, "Bern", "1990-05-01"], [100, "Bern", "1990-05-01", 1, 2]])
def test_missing_and_extra_columns_are_refused(plan: Plan, cells: list[Any]) -> None:
    with pytest.raises(BadInput, match=f"X has {len(cells)} columns; the job has 4"):
        plan.take([cells])


def test_a_file_and_the_socket_get_the_same_predictions_and_reasons(
    plan: Plan, model: RowLearner, tmp_path: Path
) -> None:
    document = Document.parse(JOB, "job.toml", tmp_path)
    opened: Any = SimpleNamespace(learner=model, document=document)
    worker = SimpleNamespace(model_version=1, predict=model.predict)
    offline = SimpleNamespace(connection=SimpleNamespace(is_up=False, is_resting=False))
    socket = PredictSocket(tmp_path / "s", plan, {"w1": worker}, offline)  # type: ignore[dict-item, arg-type]
    for (cells, reason), row in zip(ROWS, predict(opened, tmp_path / "data.csv"), strict=True):
        request = json.dumps({"features": [cells]}).encode()
        answer = asyncio.run(socket._answer(request))
        if reason:
            assert row.problem is not None
            assert f"column {row.problem.column!r}: {row.problem.reason}" == reason
            assert answer["error"] == f"X, row 0, {reason}"
        else:
            assert answer["predictions"] == [row.value]
