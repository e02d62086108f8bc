"""Gram matrices are exact, whichever way is the fastest for the numbers."""

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from dealfl.errors import OutOfBounds
from dealfl.exact import CHOICE
from dealfl.learners import Tikhonov, TikhonovClassifier
from dealfl.learners.ridge import moments, plain
from dealfl.learners.ridge.moments import (
    block_rows,
    exact_gram,
    is_sparse_enough,
    shorten,
    signed_gram,
    sparse_gram,
)


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


def test_signed_rows_of_more_than_one_block_are_summed() -> None:
    rows = 2 * block_rows(2, 22) + 9
    table = np.random.default_rng(1).integers(-(1 << 22), 1 << 22, (rows, 2), endpoint=True)
    signs = np.where(np.arange(rows) % 3 == 0, -1, 1)
    whole = (table.astype(object).T * signs) @ table.astype(object)
    expected = [int(whole[0, 0]), int(whole[1, 0]), int(whole[1, 1])]
    assert signed_gram(table, signs, 22, wide=True).tolist() == expected


@pytest.mark.parametrize("mode", ["never", "always"])
@pytest.mark.parametrize("length", [3, 7, 9, 10, 11, 12, 13, 20, 24, 25, 26])
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


@pytest.mark.parametrize("bits", [1, 22, 30])
def test_products_of_stored_values_are_exact_up_to_the_bound(bits: int) -> None:
    top = 1 << bits
    table = np.random.default_rng(bits).integers(-top, top, (60, 5), endpoint=True)
    table[table % 3 == 0], table[:, 2] = 0, -top
    stored = sparse.csr_array(table)
    assert sparse_gram(stored, wide=True).same(exact_gram(table, bits, wide=True))
    if bits < 30:
        assert sparse_gram(stored, wide=False).same(exact_gram(table, bits, wide=False))


@pytest.mark.parametrize("fraction_bits", [8, 30])
@pytest.mark.parametrize("kind", ["regression", "classification"])
def test_sparse_rows_have_the_statistics_of_dense_ones(
    kind: str, fraction_bits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moments, "_SAFE_SUM", 2.0**60)  # few rows, but all ways
    rows: Any = sparse.random_array((90, 40), density=0.05, format="csr", rng=1)
    rows.data *= 7.9
    rows.data[::2] *= -1
    rows.data[3] = 0.0  # stored, and zero
    assert is_sparse_enough(rows, 44)
    assert not is_sparse_enough(sparse.csr_array(np.ones((90, 40))), 44)
    shape: dict[str, Any] = {"n_features": 40, "feature_bound": 8.0, "fraction_bits": fraction_bits}

    def made() -> Tikhonov | TikhonovClassifier:
        if kind == "regression":
            return Tikhonov(**shape, target_bound=2.0)
        return TikhonovClassifier(**shape, classes=[0, 1])

    targets = np.arange(90) % 2
    ours, dense = made(), made()
    added = ours.learn(rows, targets), dense.learn(rows.toarray(), targets)
    assert added[0].to_bytes() == added[1].to_bytes()
    assert ours.digest() == dense.digest()
    ours.forget(rows[:50], targets[:50])
    dense.forget(rows[:50].toarray(), targets[:50])
    assert ours.digest() == dense.digest()
    np.testing.assert_allclose(ours.predict(rows), dense.predict(rows.toarray()), rtol=1e-9)


def test_sparse_rows_with_an_offset_or_out_of_bounds_are_treated_like_dense_ones() -> None:
    rows: Any = sparse.random_array((30, 20), density=0.05, format="csr", rng=1)
    targets = np.zeros(30)
    ours, dense = Tikhonov(20, offset=0.25), Tikhonov(20, offset=0.25)
    ours.learn(rows, targets)
    dense.learn(rows.toarray(), targets)
    assert ours.digest() == dense.digest()
    bad = rows.copy()
    bad.data[2] = 9.0
    row = int(np.searchsorted(bad.indptr, 2, side="right")) - 1
    with pytest.raises(OutOfBounds, match=f"row {row}, feature {bad.indices[2]} is 9.0"):
        Tikhonov(20).learn(bad, targets)


def test_moments_of_many_columns_become_the_same_matrix() -> None:
    rows = np.random.default_rng(3).integers(-9, 9, (20, 40))
    parts = exact_gram(rows, 30, wide=True).parts
    units, matrices = np.ldexp(1.0, np.arange(40) % 5), np.zeros((2, 40, 40))
    for matrix, wide in zip(matrices, (512, 8), strict=True):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(plain, "_WIDE", wide)
            plain.fill_matrix(*parts, units, matrix)
    assert (matrices[0] == matrices[1]).all()
    assert (matrices[0] == rows.T @ rows * units * units[:, None]).all()
