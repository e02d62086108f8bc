"""The weights of a ridge model: a cache that is computed from its moments by a factor.

The integers are authoritative. A factor is updated one row at a time while that is cheap and
accurate; otherwise it is computed from the integers again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Protocol

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from dealfl.errors import needs_extra, unknown_name
from dealfl.exact import FixedPoint, Integers
from dealfl.learners.inputs import require_amount
from dealfl.learners.ridge.moments import packed
from dealfl.learners.ridge.plain import (
    MIN_SLACK,
    fill_matrix,
    solve_table,
    solve_triangle,
    update_table,
)
from dealfl.settings import Amount, OneOf

Floats = NDArray[np.float64]
Int64s = NDArray[np.int64]

SOLVERS = ("auto", "cholesky", "qr", "refactor")

Penalty = Annotated[
    Amount, Meta(description="penalty of large weights, in the units of the original features")
]
Solver = Annotated[
    str, OneOf(SOLVERS), Meta(description="how weights are computed from the statistics")
]
Intercept = Annotated[bool, Meta(description="learn a constant in addition to the weights")]

_STEPS_BEFORE_REFRESH = 1000  # rank-one steps; a new factor then costs little in comparison
_QR = 13  # multiply-adds of an update of Q and R, for each of their elements
_NOTHING = np.empty((0, 0))
_EPSILON = float(np.finfo(np.float64).eps)
_RANK_ONE_ROWS = 64  # that follow with the solver "qr"


class RidgeWeights:
    """Weights of [1, features] for each target, and the factor that they are computed from.

    A target of the integer t has the goal scale·t + shift. A factor follows single rows; otherwise
    it is computed from the moments when weights are read next.
    """

    def __init__(
        self,
        grid: FixedPoint,
        targets: int,
        goal: tuple[float, float],
        *,
        penalty: float,
        solver: str,
        intercept: bool,
        target_offset: float = 0.0,
    ) -> None:
        if solver not in SOLVERS:
            raise unknown_name("solver", solver, SOLVERS)
        self.penalty = require_amount(penalty, "penalty", zero=True)
        self.solver, self.intercept = solver, intercept
        self.goal, self._offset, self.target_offset = np.array(goal), grid.offset, target_offset
        self.is_shifted = bool(grid.offset.any() or target_offset)
        # of [1, features]: size of a grid step if features lie in [-1, 1], and unit of a weight
        self.units = np.ones((2, 1 + len(grid.bound)))
        self.units[0, 1:] = 2.0**-grid.fraction_bits
        self.units[1, 1:] = np.ldexp(1.0, -grid.exponent.astype(np.int32))
        self._targets = targets
        self._room = np.empty((self.units.shape[1], targets))  # of weights that a loop computes
        self._design = slice(0 if intercept else 1, None)  # columns with weights
        self._factor: Factor | None = None
        self._weights: Floats | None = None
        self._steps = 0
        self.factorisations = 0  # from the moments; all others follow rows
        self._operations = 0  # of factors and weights, since they were last taken
        self._are_read = False  # since the last change
        self._follows_row = follows(solver, 1, self.units.shape[1])

    def require_packages(self) -> None:
        """Raise `MissingExtra` if the solver needs a package that is not installed."""
        if self.solver == "qr":
            import_linalg()

    def read(self, moments_now: Callable[[], Integers]) -> Floats:
        """Return the weights of [1, features] in the original units, one column per target."""
        self._are_read = True
        if self._weights is None:
            if self._factor is None:
                moments = moments_now()
                sides = self._matrix(moments), self._right(moments)
                self._factor, self._steps = factorise(*sides, self.solver), 0
                self.factorisations += 1
                size = len(sides[0])
                self._operations += size**3 // 3 + size**2 * self._targets // 2
            weights = np.zeros((self.units.shape[1], self._targets))
            weights[self._design] = self._factor.solve() * self.units[1, self._design, None]
            if self.is_shifted:
                weights[0] += self.target_offset - self._offset @ weights[1:]
            self._operations += len(weights) ** 2 * self._targets // 2
            self._weights = weights  # at last: an error leaves none that are computed in part
        return self._weights

    def take_operations(self) -> int:
        """Return the operations that kept factor and weights since the last call."""
        operations, self._operations = self._operations, 0
        return operations

    def drop(self) -> None:
        """Drop weights and factor."""
        self._factor, self._weights = None, None

    def follow(self, rows: NDArray[np.integer], sign: int, count: int) -> None:
        """Update the factor with the integers of a small batch; drop it if they are missing."""
        self._weights, self._are_read = None, False
        self._steps += count
        if self._factor is None or count == 0:
            return
        factor, self._factor = self._factor, None  # an error leaves no factor with half a change
        scaled = rows[:, : self.units.shape[1]] * self.units[0]
        goals = rows[:, self.units.shape[1] :] * self.goal[0] + self.goal[1]
        lines = np.hstack([scaled[:, self._design], goals])
        small = follows(self.solver, count, self.units.shape[1])
        small &= self._steps <= _STEPS_BEFORE_REFRESH and len(rows) == count
        products = lines.shape[1] * lines.size * (_QR if self.solver == "qr" else 1)
        self._operations += small * products
        if small and all(factor.update(line, sign) for line in lines):
            self._factor = factor

    def table(self) -> tuple[Floats, Floats]:
        """Return the table of a factor that can follow one row, and an array for weights.

        Both are empty if there is none; weights are wanted if they were read since the last change.
        """
        factor = self._factor
        if (
            not self._follows_row
            or self._steps >= _STEPS_BEFORE_REFRESH
            or not isinstance(factor, CholeskyFactor)
        ):
            return _NOTHING, _NOTHING
        return factor.table, self._room if self._are_read else _NOTHING

    def take(self, weights: Floats) -> None:
        """Use the weights that a loop computed after its factor followed one row."""
        self._steps += 1
        self._operations += self.units.shape[1] * (self.units.shape[1] + self._targets)
        self._weights, self._are_read = weights if len(weights) else None, False

    def _matrix(self, moments: Integers) -> Floats:
        size, (units, weight_units) = self.units.shape[1], self.units
        matrix = np.zeros((size, size))
        fill_matrix(*moments.parts, units, matrix)
        matrix[range(1, size), range(1, size)] += self.penalty * weight_units[1:] ** 2
        return matrix[self._design, self._design]

    def _right(self, moments: Integers) -> Floats:
        size = self.units.shape[1]
        starts = np.array([packed(size + target, 0) for target in range(self._targets)])
        products = moments[(starts + np.arange(size)[:, None]).ravel()].to_float()
        indices = np.arange(size)
        sums = moments[indices * (indices + 1) // 2].to_float()[:, None]
        goals = products.reshape(size, -1) * self.goal[0] + sums * self.goal[1]
        scaled: Floats = goals * self.units[0][:, None]
        return scaled[self._design]


# -- factors ----------------------------------------------------------------------------------


class Factor(Protocol):
    """A factorised symmetric matrix A, and right-hand sides B."""

    def update(self, row: Floats, sign: int) -> bool:
        """Add sign·x·xᵀ to A and sign·x·bᵀ to B, for a row [x, b].

        Return False and end the use of the factor if that would lose accuracy.
        """

    def solve(self) -> Floats:
        """Return the solutions of A·X = B."""


class CholeskyFactor:
    """A table [U, U⁻ᵀB] with UᵀU = A, updated by one row in O(d²)."""

    def __init__(self, matrix: Floats, right: Floats) -> None:
        upper = np.linalg.cholesky(matrix).T
        _require_rank(np.diag(upper) ** 2, np.diag(matrix))
        size = len(upper)
        self.table = np.empty((size, size + right.shape[1]))
        self.table[:, :size] = upper
        self.table[:, size:] = solve_triangle(self.table[:, :size], right, transposed=True)
        self._units = np.ones((2, size))

    def update(self, row: Floats, sign: int) -> bool:
        """Add a row to both sides, or subtract it; return False if it would lose accuracy."""
        return update_table(self.table, row.copy(), sign, MIN_SLACK)

    def solve(self) -> Floats:
        """Return the solutions."""
        solution = np.empty((len(self.table), self.table.shape[1] - len(self.table)))
        solve_table(self.table, self._units, solution)
        return solution


def import_linalg() -> Any:  # noqa: ANN401 - a module
    """Return scipy's linear algebra, which updates a QR factorisation."""
    with needs_extra("scipy", 'solver = "qr"'):
        from scipy import linalg
    return linalg


class QrFactor:
    """Q·R = A, with the rank-one update of Algorithm 2 of the paper."""

    def __init__(self, matrix: Floats, right: Floats) -> None:
        self._q, self._r = np.linalg.qr(matrix)
        self._right = right.copy()
        _require_rank(np.abs(np.diag(self._r)), np.linalg.norm(matrix, axis=0))

    def update(self, row: Floats, sign: int) -> bool:
        """Add a row to both sides, or subtract it; return False if it would lose accuracy."""
        x, goals = np.split(row, [len(self._r)])
        if sign < 0 and 1.0 - x @ self._solve(x) < MIN_SLACK:
            return False
        self._q, self._r = import_linalg().qr_update(
            self._q, self._r, sign * x, x, check_finite=False
        )
        self._right += sign * np.outer(x, goals)
        return True

    def solve(self) -> Floats:
        """Return the solutions."""
        return self._solve(self._right)

    def _solve(self, right: Floats) -> Floats:
        return solve_triangle(self._r, self._q.T @ right, transposed=False)


class PseudoInverse:
    """The minimum-norm solution if a matrix without penalty is singular."""

    def __init__(self, matrix: Floats, right: Floats) -> None:
        inverse = np.linalg.pinv(matrix, rcond=len(matrix) * _EPSILON, hermitian=True)
        self._solution = inverse @ right

    def update(self, row: Floats, sign: int) -> bool:  # noqa: ARG002
        """Return False: it is always computed again."""
        return False

    def solve(self) -> Floats:
        """Return the solutions."""
        return self._solution


def factorise(matrix: Floats, right: Floats, solver: str) -> Factor:
    """Return a factor of a symmetric matrix with right-hand sides, for one of `SOLVERS`."""
    if solver not in SOLVERS:
        raise unknown_name("solver", solver, SOLVERS)
    try:
        return (QrFactor if solver == "qr" else CholeskyFactor)(matrix, right)
    except np.linalg.LinAlgError:
        return PseudoInverse(matrix, right)


def _require_rank(pivots: Floats, columns: Floats) -> None:
    """Raise `LinAlgError` if a pivot is nothing but the rounding error of its column."""
    if np.any(pivots <= len(pivots) * _EPSILON * columns):
        raise np.linalg.LinAlgError("the matrix is singular")


def follows(solver: str, rows: int, size: int) -> bool:
    """Return whether to update a factor of `size` columns by a batch or to compute it again."""
    if solver == "refactor":
        return False
    if solver == "auto":
        return size >= 32 and rows == 1
    if solver == "qr":  # as in the paper: every row of a training is a rank-one update
        return rows <= _RANK_ONE_ROWS
    return rows <= min(max(1, size // 8), 16)  # always less than a block of rows
