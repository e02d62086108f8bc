"""Compiled loops for the factors of ridge regression: tables that are filled, updated, solved."""

from __future__ import annotations

from typing import Any

import numpy as np

from dealfl.exact import compile_loop

__all__ = ["fill_matrix", "follow", "solve_table", "update_table"]

Array = Any  # a contiguous array; numba derives the types
Number = Any

_TWO_32 = 4294967296.0
_MIN_SLACK = 1e-3  # as in `factors`


@compile_loop
def fill_matrix(low: Array, high: Array, units: Array, matrix: Array) -> None:
    """Write packed moments as a symmetric matrix, in units of each column."""
    place = 0
    for row in range(len(matrix)):
        for column in range(row + 1):
            value = high[place] * _TWO_32 + low[place] if len(high) else float(low[place])
            matrix[row, column] = value * (units[row] * units[column])
            matrix[column, row] = matrix[row, column]
            place += 1


def _step(
    first: Array, second: Array, rest: Array, along: float, by: float, add: float, along_2: float,
    by_2: float, add_2: float,
) -> None:  # fmt: skip
    """Change two rows of a table and the rest of a row; see `update_table`."""
    for place in range(len(rest)):
        left = rest[place] - along * first[place]
        first[place] = first[place] * by + left * add
        left -= along_2 * second[place]
        second[place] = second[place] * by_2 + left * add_2
        rest[place] = left


_step = compile_loop(_step, reorder=True)


@compile_loop
def update_table(table: Array, row: Array, sign: int, min_slack: float) -> bool:
    """Update [U, U⁻ᵀB] of UᵀU = A to A ± x·xᵀ and B ± x·bᵀ, for a row [x, b] that is used up.

    Return False if that loses accuracy. After Gill, Golub, Murray and Saunders (1974), method C1,
    with two rows of the table at a time.
    """
    slack, root = 1.0, 1.0
    if len(table) % 2:
        along = row[0] / table[0, 0]
        slack += sign * along * along
        root = np.sqrt(max(slack, 0.0))
        row[1:] -= along * table[0, 1:]
        table[0, 0] *= root
        table[0, 1:] = table[0, 1:] * root + row[1:] * (sign * along / root)
    for column in range(len(table) % 2, len(table), 2):
        first, second, after = table[column], table[column + 1], column + 2
        along = row[column] / first[column]
        middle = slack + sign * along * along
        left = row[column + 1] - along * first[column + 1]
        along_2 = left / second[column + 1]
        slack = middle + sign * along_2 * along_2
        if not min(middle, slack) >= min_slack:
            return False
        half, before, root = np.sqrt(middle), root, np.sqrt(slack)
        by, add = half / before, sign * along / (half * before)
        by_2, add_2 = root / half, sign * along_2 / (root * half)
        first[column] *= by
        first[column + 1] = first[column + 1] * by + left * add
        second[column + 1] *= by_2
        _step(first[after:], second[after:], row[after:], along, by, add, along_2, by_2, add_2)
    return bool(slack >= min_slack)


def _products(first: Array, second: Array, solution: Array) -> Number:
    total, total_2 = 0.0, 0.0
    for place in range(len(solution)):
        total += first[place] * solution[place]
        total_2 += second[place] * solution[place]
    return total, total_2


_products = compile_loop(_products, reorder=True)


@compile_loop
def _substitute(table: Array, solution: Array, right: int) -> None:
    """Solve for one column of the table, two rows at a time from the end."""
    size = len(table)
    for last in range(size - 1, 0, -2):
        first, second, after = table[last - 1], table[last], last + 1
        rest, rest_2 = _products(first[after:size], second[after:size], solution[after:])
        solution[last] = (second[right] - rest_2) / second[last]
        rest += first[last] * solution[last]
        solution[last - 1] = (first[right] - rest) / first[last - 1]
    if size % 2:
        rest, _ = _products(table[0, 1:size], table[0, 1:size], solution[1:])
        solution[0] = (table[0, right] - rest) / table[0, 0]


@compile_loop
def solve_table(table: Array, units: Array, weights: Array) -> None:
    """Write the weights of [1, features], one column per target, from the table of a factor.

    The table has a row for each of the last weights; the others are 0.
    """
    skipped, solution = len(weights) - len(table), np.empty(len(table))
    weights[:skipped] = 0.0
    for target in range(weights.shape[1]):
        _substitute(table, solution, len(table) + target)
        for column in range(len(table)):
            weights[skipped + column, target] = solution[column] * units[1, skipped + column]


@compile_loop
def follow(row: Array, sign: int, table: Array, scales: Array, weights: Array) -> bool:
    """Update a table by a row of integers, and compute the weights if there is room for them."""
    size, scaled = len(table), np.empty(table.shape[1])
    skipped = len(row) - len(scaled)
    for place in range(len(scaled)):
        scaled[place] = row[skipped + place] * scales[0, skipped + place]
    scaled[size:] += scales[1, skipped + size :]
    if not update_table(table, scaled, sign, _MIN_SLACK):
        return False
    if len(weights):
        solve_table(table, scales, weights)
    return True
