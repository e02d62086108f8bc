"""Sums at the limits of their width, in numpy and in compiled loops."""

from typing import Any

import numpy as np
import pytest

from dealfl.errors import NotLearned, OutOfBounds
from dealfl.exact import CHOICE, Entries, Statistics
from dealfl.learners import NaiveBayes, Tikhonov

ROWS = np.array([[0.5], [0.25], [0.75], [1.0]])
TARGETS = np.array([0.5, 0.25, 0.125, 1.0])


@pytest.fixture(params=["never", "always"], autouse=True)
def loops(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "always":
        pytest.importorskip("numba")
    monkeypatch.setattr(CHOICE, "mode", request.param)


def merged(model: Any, array: str, changes: dict[int, int]) -> Any:
    """Return a model after statistics of one array were merged."""
    specs = {spec.name: spec for spec in model.schema.arrays}
    entries = {name: Entries.of({}, spec.wide) for name, spec in specs.items()}
    entries[array] = Entries.of(changes, specs[array].wide)
    model.merge(Statistics(model.schema, entries))
    return model


def test_sums_of_more_rows_than_a_float_holds_are_exact() -> None:
    """An odd sum beyond 2^53 is rounded if a block of float sums is too long."""
    rows, point = (1 << 23) + (1 << 15) + 1, (1 << 30) - 1
    model = NaiveBayes(1, [0, 1])
    model.learn(np.full((rows, 1), point / (1 << 30)), np.zeros(rows, dtype=np.int64))
    assert model.statistics["sums"].to_dict() == {0: rows * point}


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize(("bits", "top"), [(19, (1 << 63) - 2), (30, (1 << 95) - 2)])
def test_moments_that_would_overflow_are_refused(bits: int, top: int, rows: int) -> None:
    model = merged(Tikhonov(1, fraction_bits=bits), "moments", {2: top})
    before = model.digest()
    with pytest.raises(OutOfBounds):
        model.learn(ROWS[:rows], TARGETS[:rows])
    assert model.digest() == model.statistics.digest() == before


@pytest.mark.parametrize("rows", [1, 2])
def test_sums_of_features_that_would_overflow_are_refused(rows: int) -> None:
    model = merged(NaiveBayes(1, [0, 1]), "sums", {0: (1 << 63) - 2})
    before = model.digest()
    with pytest.raises(OutOfBounds):
        model.learn(ROWS[:rows], [0] * rows)
    assert model.digest() == model.statistics.digest() == before


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("bits", [19, 30])
def test_moments_of_different_parity_are_refused(bits: int, rows: int) -> None:
    """The sum and the sum of squares of whole numbers are both even or both odd."""
    model = Tikhonov(1, fraction_bits=bits)
    model.learn(ROWS, TARGETS)
    merged(model, "moments", {2: -1})
    before = model.digest()
    with pytest.raises(NotLearned):
        model.forget(ROWS[:rows], TARGETS[:rows])
    assert model.digest() == before
