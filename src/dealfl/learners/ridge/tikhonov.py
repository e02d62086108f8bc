"""Tikhonov (ridge) regression and classification that forget exactly.

The statistics are the moments of the columns [1, features, targets]: one example adds its products
to them. Weights are solved from the moments when they are read.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from msgspec import Meta
from numpy.typing import ArrayLike, NDArray

from dealfl.errors import BadInput, Impossible
from dealfl.exact import (
    ArraySpec,
    Cycles,
    Deferred,
    DenseCells,
    Entries,
    FixedPoint,
    Integers,
    LearnerCycles,
    Proposal,
    Schema,
    Setting,
    Statistics,
    Storage,
    Work,
    require_finite,
)
from dealfl.learners.base import Arrays, Undo
from dealfl.learners.description import (
    LABELLED,
    NUMBERED,
    DataLimits,
    Workload,
    labelled_rows,
    numbered_rows,
)
from dealfl.learners.inputs import (
    Clip,
    FeatureBound,
    FractionBits,
    Labels,
    Matrix,
    Offset,
    as_vector,
    dense_blocks,
    require_integer,
)
from dealfl.learners.ridge.moments import (
    MAX_BITS,
    add_rounded_gram,
    are_possible,
    block_rows,
    exact_gram,
    is_sparse_enough,
    packed,
    require_one_class_each,
    require_products,
    signed_gram,
    sparse_gram,
)
from dealfl.learners.ridge.plain import (
    FOLLOWED,
    LOST,
    SAME,
    change_moments,
    change_row,
    shift_row,
)
from dealfl.learners.ridge.weights import Intercept, Penalty, RidgeWeights, Solver
from dealfl.learners.row_learner import Classifier, RowLearner
from dealfl.settings import Positive

if TYPE_CHECKING:
    from scipy import sparse

Floats = NDArray[np.float64]
Int64s = NDArray[np.int64]
Points = NDArray[np.int32]

_FLOATS = np.dtype(np.float64)
_MAX_FEATURES = 1 << 15
_MAX_ROWS_BITS = 24  # sums of 2^24 rows never overflow
_FEW = 16  # rows that a factor follows at the most; see `follows`


class NormalEquations(RowLearner):
    """Ridge regression on the packed moments of the columns [1, features, targets].

    `moments` holds the lower triangle row by row: the number of examples, then for each feature
    and each target its sum and its products with the columns before it.
    """

    def __init__(
        self,
        shape: dict[str, Setting],
        grid: FixedPoint,
        targets: int,
        weights: RidgeWeights,
        target_grid: tuple[float, float],
        *,
        clip: bool,
        storage: Storage | None,
    ) -> None:
        bits = grid.fraction_bits
        columns = 1 + len(grid.bound) + targets
        width = 64 if 2 * bits + _MAX_ROWS_BITS <= 62 else 96
        moments = ArraySpec("moments", columns * (columns + 1) // 2, width)
        shape |= grid.settings(clip=clip)
        super().__init__(Schema(self.name, shape, (moments,)), storage)
        self._grid, self._targets, self._columns, self._wide = grid, targets, columns, moments.wide
        self._clip, self._weights, self._size = clip, weights, moments.size
        # of each column: bound, scale, size of a grid step in the factor, unit of a weight or goal
        self._scales = np.zeros((4, columns))
        self._scales[:2, 1 : columns - targets] = grid.bound, grid.scale
        self._scales[:2, columns - targets :] = np.array(target_grid)[:, None]
        self._scales[2:, : columns - targets] = weights.units
        self._scales[2:, columns - targets :] = weights.goal[:, None]
        self._limit = 4.0**bits  # of a square
        self._row_cost = self._cost(1)
        self._row_shape = grid.bound.shape

    @classmethod
    def settings_for(cls, data: DataLimits) -> dict[str, Any]:
        """Return the constructor arguments that both learners share."""
        domain = data.domain_for(cls.name)
        return {"n_features": domain.n_features, "feature_bound": domain.magnitude}

    @property
    def settings(self) -> dict[str, Any]:
        """The constructor arguments that both learners share."""
        return {
            "n_features": self.n_features,
            **({"offset": self._grid.offset.tolist()} if self._grid.offset.any() else {}),
            "penalty": self._weights.penalty,
            "feature_bound": self._grid.bound.tolist(),
            "fraction_bits": self._grid.fraction_bits,
            "solver": self._weights.solver,
            "intercept": self._weights.intercept,
            "clip": self._clip,
        }

    @abstractmethod
    def _target_values(self, y: object, rows: int) -> Floats:
        """Return the targets of all rows, one after the other."""

    @abstractmethod
    def _target_columns(self, y: object, rows: int) -> Int64s:
        """Return the targets of all rows as integers, one column per target."""

    def _rows_at(self, points: Points) -> NDArray[np.integer]:
        """Return the columns [1, features, targets] of rows of integers."""
        return points

    def count_records(self, statistics: Statistics) -> int:
        """Return the number of examples in statistics: the first of the moments."""
        return statistics["moments"].between(0, 1).dense(1).tolist()[0]

    @property
    def max_entry(self) -> int:
        """The largest integer that one example adds to a moment."""
        return 1 << 2 * self._grid.fraction_bits

    @property
    @abstractmethod
    def weights(self) -> Floats:
        """The weights of the features, in the original units."""

    @property
    @abstractmethod
    def bias(self) -> float | Floats:
        """The constant that is added to every output."""

    @property
    def factorisations(self) -> int:
        """The number of factors that were computed from the moments; others followed rows."""
        return self._weights.factorisations

    def derived_arrays(self) -> Arrays:
        """Return the arrays `weights` and `bias`."""
        with self._lock:
            return {"weights": self.weights, "bias": np.asarray(self.bias)}

    def _change_batch(self, X: Matrix, y: object, sign: int, undo: Undo) -> Statistics:
        rows = X.shape[0]
        delta = self._change_row(X, y, sign, undo) if rows == 1 else None
        if delta is None:
            moments, last = self._moments(X, self._target_columns(y, rows))
            delta = self._add(moments, sign, undo)
            self._weights.follow(last[:_FEW], sign, rows)
        return delta

    def _change_row(self, X: Matrix, y: object, sign: int, undo: Undo) -> Statistics | None:
        """Learn or forget one row in place; None if that is not possible, and nothing changed."""
        state, weights = self._state, self._weights
        cells = state.cells("moments")
        if weights.is_shifted or not (isinstance(cells, DenseCells) and isinstance(X, np.ndarray)):
            return None
        low, high = cells.low, cells.low[:0] if cells.high is None else cells.high
        row = np.empty((2, self._columns), np.int32)
        table, fresh = weights.table()
        schema = state.schema
        delta = Statistics(schema, Deferred(schema, partial(self._row_entries, row, sign)))
        # the first moment is the number of examples
        undo.append((self._take_back, low, 0, low.item(0), _shift_back, low, high, row, -sign))
        outcome = change_row(
            X if X.dtype is _FLOATS and X.flags.c_contiguous else np.ascontiguousarray(X, _FLOATS),
            self._target_values(y, 1),
            self._scales,
            self._limit,
            low,
            high,
            state.stale("moments"),
            sign,
            row,
            table,
            fresh,
        )
        if outcome > 0 and not self._is_possible(row[1, :outcome]):
            _shift_back(low, high, row, -sign)
            outcome = SAME
        if outcome == SAME:
            return None
        if outcome == FOLLOWED:
            weights.take(fresh)
        elif outcome == LOST:
            weights.drop()
        else:
            weights.follow(row[:1], sign, 1)
        return delta

    def _add(self, moments: Integers, sign: int, undo: Undo) -> Statistics:
        """Add or subtract the moments of a batch, or raise `NotLearned` and change nothing."""
        schema = self._state.schema
        delta = Statistics(schema, Deferred(schema, partial(_entries, moments, sign)))
        cells = self._state.cells("moments")
        if isinstance(cells, DenseCells):
            low, high = Integers(cells.low, cells.high).parts
            doubtful = np.empty(self._columns, np.int32)
            live = low, high, self._limit, self._state.stale("moments"), *moments.parts
            back = change_moments, *live, -sign, doubtful
            undo.append((self._take_back, low, 0, low.item(0), *back))
            count = change_moments(*live, sign, doubtful)
            if count == 0 or (count > 0 and self._is_possible(doubtful[:count])):
                return delta
            if count > 0:
                change_moments(*live, -sign, doubtful)
        return self._apply(delta, undo, forgetting=sign < 0)

    def _row_entries(self, row: Points, sign: int) -> dict[str, Entries]:
        """Return the statistics of one row of integers, times a sign."""
        bits = self._grid.fraction_bits
        return _entries(exact_gram(row[:1].astype(np.int64), bits, wide=self._wide), sign)

    def _now(self) -> Integers:
        """Return the present moments; not a copy, if they are in memory."""
        cells = self._state.cells("moments")
        if isinstance(cells, DenseCells):
            return cells.view(slice(None))
        return self._state.whole("moments")

    def _cost_of(self, rows: int, stored: int, delta: Statistics) -> Work:
        del stored, delta
        return self._row_cost if rows == 1 else self._cost(rows)

    def _cost(self, rows: int) -> Work:
        return Work(rows * self._size, 8 * rows * self._columns + 2 * 8 * self._size)

    def _moments(self, X: Matrix, targets: Int64s) -> tuple[Integers, Int64s]:
        """Return the moments of a batch, and its last block of rows, if they are few."""
        bits, wide, shifted = self._grid.fraction_bits, self._wide, self._weights.is_shifted
        rows = np.empty((0, self._columns), dtype=np.int64)
        many = not shifted and X.shape[0] > _FEW
        if many and not isinstance(X, np.ndarray) and is_sparse_enough(X, self._columns):
            return sparse_gram(self._stored_rows(X, targets), wide=wide), rows
        total = Integers.zeros(self._size, wide)
        for first, block in dense_blocks(X, block_rows(self._columns, bits)):
            goals = targets[first : first + len(block)]
            if not many or not add_rounded_gram(block, goals, self._grid, total):
                points = self._grid.quantise(block, first, clip=self._clip)
                rows = np.column_stack([np.ones(len(block), np.int64), points, goals])
                moments = exact_gram(rows, bits, wide=wide)
                total = moments if first == 0 else total + moments
        return total, rows

    def _stored_rows(self, X: sparse.csr_array, targets: Int64s) -> sparse.csr_array:
        """Return the rows [1, features, targets] of a sparse batch, as integers."""
        from scipy import sparse

        points = self._grid.quantise_stored(X.data, X.indices, X.indptr, clip=self._clip)
        features = sparse.csr_array((points, X.indices, X.indptr), shape=X.shape)
        ones = sparse.csr_array(np.ones((X.shape[0], 1), np.int64))
        whole: sparse.csr_array = sparse.hstack(
            [ones, features, sparse.csr_array(targets)], format="csr"
        )
        return whole

    def _signed(self, points: Points, signs: Int64s) -> Statistics:
        rows, bits = self._rows_at(points), self._grid.fraction_bits
        moments = signed_gram(rows, signs, bits, wide=self._wide)
        return Statistics(self.schema, {"moments": Entries.of_dense(moments)})

    def _follow_points(self, points: Points, signs: Int64s, ids: Sequence[int]) -> None:
        del ids
        rows = self._rows_at(points).astype(np.int64)
        for sign in (+1, -1):
            some = rows[signs == sign]
            self._weights.follow(some, sign, len(some))

    def _refuse_unlearned(self, proposals: Mapping[str, Proposal]) -> None:
        self._require_possible(self._state.after("moments", proposals), pairs=False)

    def check(self) -> None:
        """Raise `Impossible` if no set of examples has these statistics."""
        with self._lock:
            self._require_possible(self._now(), pairs=True)

    def check_statistics(self, statistics: Statistics) -> None:
        """Raise `Impossible` if no set of examples has some statistics."""
        self._require_possible(statistics["moments"].dense(self._size), pairs=True)

    def _require_possible(self, moments: Integers, *, pairs: bool) -> None:
        limits = [1, *[1 << self._grid.fraction_bits] * (self.n_features + self._targets)]
        require_products(moments, limits, pairs=pairs)

    def _is_possible(self, columns: Points) -> bool:
        return are_possible(self._now(), columns.tolist(), 1 << self._grid.fraction_bits)

    # -- the model ------------------------------------------------------------------------------

    def _solved(self) -> Floats:
        """Return the weights of [1, features] in the original units, one column per target."""
        with self._lock:
            return self._weights.read(self._now).copy()

    def _forget_model(self) -> None:
        self._weights.drop()

    def require_packages(self) -> None:
        """Raise `MissingExtra` if the solver needs a package that is not installed."""
        self._weights.require_packages()

    def _derived(self) -> tuple[Int64s, Floats]:
        weights = self._solved().ravel()
        return np.arange(len(weights)), weights

    def _outputs(self, X: object) -> Floats:
        """Return the value of each target for each row."""
        matrix, weights = self._as_rows(X), self._solved()
        outputs = np.empty((matrix.shape[0], weights.shape[1]))
        for first, block in dense_blocks(matrix, 4096):
            require_finite(block, first)
            outputs[first : first + len(block)] = block @ weights[1:] + weights[0]
        operations = outputs.size * self.n_features + self._weights.take_operations()
        self._work = Work(operations, 8 * matrix.shape[0] * self.n_features)
        return outputs


def _shift_back(low: Int64s, high: Int64s, row: Points, sign: int) -> None:
    shift_row(low, high, row[0], sign)


def _entries(moments: Integers, sign: int) -> dict[str, Entries]:
    return {"moments": Entries.of_dense(moments if sign > 0 else -moments)}


class Tikhonov(NormalEquations):
    """Ridge (Tikhonov) regression; its state is exact integer moments, and the weights are a cache.

    Parameters
    ----------
    n_features : int
        Number of features.
    penalty : float, default 1.0
        Weight of the squared norm of the weights, like `alpha` of scikit-learn, ≥ 0.
    feature_bound : float or array_like, default 1.0
        Largest magnitude of the features after the offset, one number or one per feature; a tight
        bound gives a finer grid.
    target_bound : float, default 1.0
        Largest magnitude of the target after its offset.
    fraction_bits : int, default 30
        Bits that features and targets are rounded to, 1 to 30.
    solver : {"auto", "cholesky", "qr", "refactor"}, default "auto"
        How weights are computed; it does not affect the statistics.
    intercept : bool, default False
        Whether to learn a constant in addition to the weights.
    offset, target_offset : float or array_like, default 0.0
        Numbers that are subtracted from features and target before they are rounded, for values
        that are close together and far from 0; predictions have the original units.
    clip : bool, default False
        Move values outside the bounds to the nearest bound instead of raising an error.
    storage : callable, optional
        Creates the cells of an array; by default in memory.

    References
    ----------
    .. [1] A. E. Hoerl, R. W. Kennard: Ridge regression: biased estimation for nonorthogonal
       problems. Technometrics 12(1), 1970.

    Examples
    --------
    >>> model = Tikhonov(n_features=1, penalty=0.0, feature_bound=4.0, target_bound=8.0)
    >>> delta = model.learn([[1.0], [2.0], [3.0]], [2.0, 4.0, 7.0])
    >>> delta = model.forget([[3.0]], [7.0])
    >>> model.weights.tolist()
    [2.0]
    """

    name = "tikhonov"
    tasks = ("regression",)
    dips_at_features = True
    cycles = LearnerCycles(
        Cycles(0.975, 260900),
        Cycles(0.953, 340600),
        Cycles(0.997, 219200),
        Cycles(1.047, 363900),
        Cycles(0.523, 578400),
    )
    workload = Workload(NUMBERED, numbered_rows, 10, 2_000)

    def __init__(
        self,
        n_features: int,
        penalty: Penalty = 1.0,
        feature_bound: FeatureBound = 1.0,
        target_bound: Annotated[
            Positive, Meta(description="largest magnitude of the target")
        ] = 1.0,
        fraction_bits: FractionBits = 30,
        solver: Solver = "auto",
        *,
        intercept: Intercept = False,
        offset: Offset = 0.0,
        target_offset: Annotated[
            float, Meta(description="number subtracted from the target")
        ] = 0.0,
        clip: Clip = False,
        storage: Storage | None = None,
    ) -> None:
        features = require_integer(n_features, "n_features", 1, _MAX_FEATURES)
        bits = require_integer(fraction_bits, "fraction_bits", 1, MAX_BITS)
        grid = FixedPoint.of(features, feature_bound, bits, offset=offset)
        self._target_grid = FixedPoint.of(
            1, target_bound, bits, offset=target_offset, what="target"
        )
        self._target_scale = float(self._target_grid.scale[0])
        shape: dict[str, Setting] = {"n_features": features}
        shape |= self._target_grid.settings(clip=clip)
        weights = RidgeWeights(
            grid,
            1,
            (1.0 / self._target_scale, 0.0),
            penalty=penalty,
            solver=solver,
            intercept=intercept,
            target_offset=float(self._target_grid.offset[0]),
        )
        edges = float(self._target_grid.bound[0]), self._target_scale
        super().__init__(shape, grid, 1, weights, edges, clip=clip, storage=storage)

    @classmethod
    def settings_for(cls, data: DataLimits) -> dict[str, Any]:
        """Return the constructor arguments for data with these limits."""
        more = {"target_bound": data.target_bound, "intercept": True}
        return {**super().settings_for(data), **more}

    @property
    def settings(self) -> dict[str, Any]:
        """The constructor arguments of an equal, empty learner."""
        shift = self._weights.target_offset
        more = {"target_offset": shift} if shift else {}
        return {**super().settings, "target_bound": float(self._target_grid.bound[0]), **more}

    @property
    def weights(self) -> Floats:
        """One weight per feature, in the original units; a new array after every call."""
        return self._solved()[1:, 0].copy()

    @property
    def bias(self) -> float:
        """The constant that is added to every prediction; 0.0 without `intercept` and offsets."""
        return float(self._solved()[0, 0])

    def predict(self, X: object) -> Floats:
        """Return the predicted target of each row."""
        return self._outputs(X)[:, 0]

    def score(self, X: object, y: object) -> float:
        """Return R², the explained fraction of the variance of the targets; nan without rows."""
        predicted = self.predict(X)
        targets = self._target_values(y, len(predicted))
        if not np.isfinite(targets).all():
            raise BadInput("y holds a value that is not a finite number")
        with np.errstate(over="ignore"):
            residual = float(np.sum((targets - predicted) ** 2))
            spread = float(np.sum((targets - targets.mean()) ** 2)) if len(targets) else np.nan
        return 1.0 - residual / spread if spread else float(residual == 0.0)

    def _target_points(self, y: object, rows: int) -> Int64s:
        return self._target_columns(y, rows)[:, 0]

    def _targets_at(self, points: Points) -> Floats:
        return np.asarray(points / self._target_scale + self._weights.target_offset)

    def _target_values(self, y: object, rows: int) -> Floats:
        if type(y) is np.ndarray and y.dtype is _FLOATS and y.shape == (rows,):
            return y
        targets = as_vector(y, rows)
        if targets.dtype.kind not in "biuf":
            raise BadInput(f"y holds {targets.dtype} values; it must hold real numbers")
        with np.errstate(over="ignore"):  # a long double beyond float64 becomes inf
            return targets.astype(np.float64)

    def _target_columns(self, y: object, rows: int) -> Int64s:
        return self._target_grid.quantise(self._target_values(y, rows)[:, None], clip=self._clip)


class TikhonovClassifier(NormalEquations, Classifier):
    """One-vs-rest ridge classification; all classes share one matrix of moments.

    Parameters
    ----------
    n_features : int
        Number of features.
    classes : array_like
        Distinct numbers or strings.
    penalty, feature_bound, fraction_bits, solver, offset, clip, storage
        See `Tikhonov`.
    intercept : bool, default True
        Whether to learn a constant in addition to the weights.

    Examples
    --------
    >>> model = TikhonovClassifier(n_features=2, classes=["cat", "dog"])
    >>> delta = model.learn([[1, 0], [0, 1], [0, 1]], ["cat", "dog", "dog"])
    >>> model.predict([[1, 0], [0, 1]]).tolist()
    ['cat', 'dog']
    """

    name = "tikhonov_classifier"
    tasks = ("classification",)
    dips_at_features = True
    cycles = LearnerCycles(
        Cycles(0.6756, 220700),
        Cycles(0.5914, 149400),
        Cycles(0.8606, 272900),
        Cycles(1.01, 435500),
        Cycles(0.4951, 629200),
    )
    workload = Workload(LABELLED, labelled_rows, 10, 2_000)

    def __init__(
        self,
        n_features: int,
        classes: ArrayLike,
        penalty: Penalty = 1.0,
        feature_bound: FeatureBound = 1.0,
        fraction_bits: FractionBits = 30,
        solver: Solver = "auto",
        *,
        intercept: Intercept = True,
        offset: Offset = 0.0,
        clip: Clip = False,
        storage: Storage | None = None,
    ) -> None:
        features = require_integer(n_features, "n_features", 1, _MAX_FEATURES)
        bits = require_integer(fraction_bits, "fraction_bits", 1, MAX_BITS)
        self._labels = Labels(classes)
        self._one_hot = np.eye(len(self._labels))
        grid = FixedPoint.of(features, feature_bound, bits, offset=offset)
        shape: dict[str, Setting] = {"n_features": features, "classes": self._labels.tolist()}
        weights = RidgeWeights(  # the goal is +1 for the class and -1 for the rest
            grid,
            len(self._labels),
            (2.0, -1.0),
            penalty=penalty,
            solver=solver,
            intercept=intercept,
        )
        super().__init__(
            shape, grid, len(self._labels), weights, (1.0, 1.0), clip=clip, storage=storage
        )

    @classmethod
    def settings_for(cls, data: DataLimits) -> dict[str, Any]:
        """Return the constructor arguments for data with these limits."""
        return {**super().settings_for(data), "classes": data.classes}

    @property
    def settings(self) -> dict[str, Any]:
        """The constructor arguments of an equal, empty learner."""
        return {**super().settings, "classes": self._labels.tolist()}

    @property
    def weights(self) -> Floats:
        """One row of weights per class, in the original units; a new array after every call."""
        weights: Floats = self._solved()[1:].T.copy()
        return weights

    @property
    def bias(self) -> Floats:
        """The constant that is added to the output of each class."""
        bias: Floats = self._solved()[0].copy()
        return bias

    def derived_arrays(self) -> Arrays:
        """Return the arrays `classes`, `weights` and `bias`."""
        return {**Classifier.derived_arrays(self), **super().derived_arrays()}

    def predict(self, X: object) -> NDArray[Any]:
        """Return the class of each row; a class without examples is never predicted."""
        with self._lock:
            counts = self._class_counts(self._state.whole("moments"))
            self._require_learned(counts)
            outputs = np.where(counts > 0, self._outputs(X), -np.inf)
        return self._labels.decode(np.argmax(outputs, axis=1))

    def _require_possible(self, moments: Integers, *, pairs: bool) -> None:
        super()._require_possible(moments, pairs=pairs)
        counts = self._class_counts(moments)
        if np.any(counts < 0):
            worst = int(np.argmin(counts))
            label = self._labels.values[worst]
            raise Impossible(f"class {label} has {int(counts[worst])} examples")
        if pairs:
            require_one_class_each(moments, 1 + self.n_features, self._labels.tolist())

    def _class_counts(self, moments: Integers) -> Floats:
        first = 1 + self.n_features
        starts = np.array([packed(first + target, 0) for target in range(self._targets)])
        return moments[starts].to_float()

    def _target_values(self, y: object, rows: int) -> Floats:
        return self._one_hot[self._labels.encode(y, rows)].ravel()

    def _target_columns(self, y: object, rows: int) -> Int64s:
        return self._target_values(y, rows).reshape(-1, len(self._labels)).astype(np.int64)

    def _rows_at(self, points: Points) -> NDArray[np.integer]:
        return np.hstack([points[:, :-1], np.eye(len(self._labels), dtype=np.int32)[points[:, -1]]])
