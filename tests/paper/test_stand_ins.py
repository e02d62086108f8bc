"""Stand-ins of MovieLens: their shape and skew, and the row about the growth of the ratio."""

import numpy as np

from dealfl_paper.figure import Row, Verdict
from dealfl_paper.figures.time import FIGURE
from dealfl_paper.problems import SHAPES, Shape, as_table, draw_meetings


def test_histories_have_the_shape_and_skew_of_movielens_100k() -> None:
    shape = SHAPES["movielens-100k-like"]
    meetings = draw_meetings(shape)
    table = as_table(meetings, shape.items)
    assert table.shape == (shape.people, shape.items)
    assert abs(table.nnz / shape.ratings - 1.0) < 0.02
    assert all(len(set(items)) == len(items) >= 20 for items in meetings)
    popularity = np.sort(table.sum(axis=0))
    assert 60 <= np.median([len(items) for items in meetings]) <= 70, "65 in the real one"
    assert 24 <= np.median(popularity) <= 30, "27 in the real one"
    assert popularity[-1] > 15 * np.median(popularity), "583 in the real one"


def test_histories_depend_on_the_seed_only() -> None:
    shape = Shape(50, 100, 2_000)
    assert draw_meetings(shape, 3) == draw_meetings(shape, 3) != draw_meetings(shape, 4)


def _rows(dataset: str, original_ms: float) -> list[Row]:
    base = {"learner": "personalized_pagerank", "dataset": dataset, "of": 10, "user": 0}
    times = {"original": original_ms, "deal": 2.0, "newfl": 1.0}
    return [
        {**base, **kind, "scheme": scheme, "host_ms": host_ms}
        for kind in (
            {"panel": "size", "way": "fast"},
            {"panel": "size", "way": "row at a time"},
            {"panel": "one user"},
        )
        for scheme, host_ms in times.items()
    ]


def test_the_growth_of_the_ratio_is_shown_and_not_judged() -> None:
    rows = _rows("movielens-100k-like", 40.0) + _rows("movielens-1m-like", 500.0)
    (claim,) = [one for one in FIGURE.claims(rows) if "stand-ins" in one.claim]
    assert claim.verdict is Verdict.NOT_COMPARABLE
    for text in (claim.here, claim.replica):
        assert "100k-like 20 times" in text
        assert "1m-like 250 times" in text
        assert text.endswith("it grows 12.5 times")


def test_a_quick_run_is_too_small_to_judge_the_growth_of_the_ratio() -> None:
    assert not [one for one in FIGURE.settings(True) if one["panel"] == "size"]
    rows = [row for row in _rows("movielens-100k-like", 40.0) if row["panel"] == "one user"]
    (claim,) = [one for one in FIGURE.claims(rows) if "stand-ins" in one.claim]
    assert (claim.verdict, claim.here) == (Verdict.TOO_SMALL, "left out")
