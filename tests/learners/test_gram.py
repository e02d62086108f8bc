"""Gram matrices are exact, whichever way is the fastest for the numbers."""

from typing import Any

import numpy as np
import pytest

from dealfl.exact import CHOICE
from dealfl.learners import TikhonovClassifier
from dealfl.learners.ridge.moments import block_rows, exact_gram, shorten, signed_gram


@pytest.mark.parametrize("bits", [1, 8, 19, 20, 22, 23, 30])
@pytest.mark.parametrize("rows", [1, 4, 5, 60])
def test_gram_matrices_are_exact_up_to_the_bound(bits: int, rows: int) -> None:
    top = 1 << bits
    table = np.random.default_rng(bits).integers(-top, top, (rows, 5), endpoint=True)
    table[0], table[-1] = top, -top
    expected = [
        sum(int(row[i]) * int(row[j]) for row in table) for i in range(5) for j in range(i + 1)
    ]
    assert exact_gram(table, bits, wide=True).tolist() == expected


def test_the_largest_block_of_extreme_values_is_exact() -> None:
    for bits in (22, 30):
        rows = block_rows(2, bits)
        top = (1 << bits) - 1  # odd, so that it cannot be shortened
        table = np.full((rows, 2), top)
        assert exact_gram(table, bits, wide=True).tolist() == [rows * top * top] * 3


@pytest.mark.parametrize("mode", ["never", "always"])
@pytest.mark.parametrize("length", [3, 7, 11, 12, 13, 20, 24, 25, 26])
def test_numbers_that_end_with_zero_bits_are_multiplied_exactly(
    length: int, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("numba")
    monkeypatch.setattr(CHOICE, "mode", mode)
    draw = np.random.default_rng(length)
    table = draw.integers(-(1 << length), 1 << length, (90, 6), endpoint=True)
    table[0], table[-1] = 1 << length, -(1 << length)
    table <<= draw.integers(0, 31 - length, 6)
    table[:, 1], table[:, 2] = 1, 0
    signs = draw.choice([-1, 1], 90)
    for chosen in (signs, np.ones_like(signs), -np.ones_like(signs)):
        whole = (table.astype(object).T * chosen) @ table.astype(object)
        expected = [int(whole[i, j]) for i in range(6) for j in range(i + 1)]
        assert signed_gram(table, chosen, 30, wide=True).tolist() == expected
    assert (shorten(table) is not None) == (length < 24)


def test_only_numbers_with_common_zero_bits_are_short() -> None:
    fine = np.full((20, 2), 1 << 29)
    assert shorten(fine) is not None
    fine[-1, 0] += 1
    assert shorten(fine) is None


@pytest.mark.parametrize("mode", ["never", "always"])
def test_integer_features_on_a_fine_grid_have_the_moments_of_single_rows(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("numba")
    monkeypatch.setattr(CHOICE, "mode", mode)
    draw = np.random.default_rng(0)
    X, y = draw.integers(0, 145, (40, 12)).astype(np.uint8), draw.integers(0, 3, 40)
    settings: dict[str, Any] = {"n_features": 12, "classes": [0, 1, 2], "feature_bound": 144.0}
    together, single = TikhonovClassifier(**settings), TikhonovClassifier(**settings)
    together.learn(X, y)
    for row, label in zip(X, y, strict=True):
        single.learn(row[None], [label])
    assert together.digest() == single.digest()
    together.update_records((), together.records_of(X[:30], y[:30]))
    single.forget(X[:30], y[:30])
    assert together.digest() == single.digest()
