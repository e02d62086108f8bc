"""Multinomial naive Bayes: the model is two tables of counts, so forgetting is subtraction."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

import numpy as np
from msgspec import Meta
from numpy.typing import ArrayLike, NDArray

from dealfl.errors import Impossible
from dealfl.exact import (
    BLOCK,
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
from dealfl.learners.base import Arrays, SparseVector, Undo
from dealfl.learners.description import LABELLED, DataLimits, Workload, labelled_rows
from dealfl.learners.inputs import (
    Clip,
    FeatureBound,
    FractionBits,
    Labels,
    Matrix,
    Offset,
    dense_blocks,
    require_amount,
    require_integer,
)
from dealfl.learners.naive_bayes.plain import (
    add_changes,
    add_points,
    add_stored,
    are_possible,
    change_rows,
    sum_points,
    sum_rows,
    sum_stored,
    undo_changes,
)
from dealfl.learners.row_learner import Classifier
from dealfl.settings import Positive

Floats = NDArray[np.float64]
Int64s = NDArray[np.int64]
Points = NDArray[np.int32]

_MAX_FEATURES = 1 << 24
_MAX_BITS = 30
_BLOCK_VALUES = 1 << 20  # of rows that are dense at a time; float64 sums of them are exact
_FLOATS = np.dtype(np.float64)
_FIRST = np.zeros(1, dtype=np.int64)


class NaiveBayes(Classifier):
    """Multinomial naive Bayes on non-negative features; x − offset must lie in [0, bound].

    The statistics are the number of examples and the sum of each feature, by class.

    Parameters
    ----------
    n_features : int
        Number of features.
    classes : array_like
        Distinct numbers or strings.
    smoothing : float, default 1.0
        Count added to every feature of every class, > 0.
    feature_bound : float or array_like, default 1.0
        Largest value of the features after the offset, one number or one per feature.
    offset : float or array_like, default 0.0
        Smallest value of the features, one number or one per feature; it is subtracted.
    fraction_bits : int, default 30
        Bits that features are rounded to, 1 to 30.
    clip : bool, default False
        Move values outside the bounds to the nearest bound instead of raising an error.
    storage : callable, optional
        Creates the cells of an array; by default in memory.

    References
    ----------
    .. [1] A. McCallum, K. Nigam: A comparison of event models for naive Bayes text classification.
       AAAI-98 Workshop on Learning for Text Categorization.

    Examples
    --------
    >>> model = NaiveBayes(n_features=2, classes=["ham", "spam"], feature_bound=8)
    >>> delta = model.learn([[1, 0], [0, 3]], ["ham", "spam"])
    >>> model.predict([[0, 1]]).tolist()
    ['spam']
    >>> model.forget([[1, 0]], ["ham"]).is_zero
    False
    """

    name = "naive_bayes"
    tasks = ("classification",)
    feature_map = "bins"
    cycles = LearnerCycles(
        Cycles(1.163, 70920),
        Cycles(1.02, 26630),
        Cycles(6.717, 86300),
        Cycles(8.096, 163000),
        Cycles(2.006, 193100),
    )
    workload = Workload(LABELLED, labelled_rows, 10, 2_000)

    def __init__(
        self,
        n_features: int,
        classes: ArrayLike,
        smoothing: Annotated[
            Positive, Meta(description="count added to every feature of every class")
        ] = 1.0,
        feature_bound: FeatureBound = 1.0,
        offset: Offset = 0.0,
        *,
        fraction_bits: FractionBits = 30,
        clip: Clip = False,
        storage: Storage | None = None,
    ) -> None:
        features = require_integer(n_features, "n_features", 1, _MAX_FEATURES)
        bits = require_integer(fraction_bits, "fraction_bits", 1, _MAX_BITS)
        self._smoothing = require_amount(smoothing, "smoothing", zero=False)
        self._labels = Labels(classes)
        self._clip = clip
        self._row_shape = (features,)
        self._grid = FixedPoint.of(features, feature_bound, bits, offset=offset, signed=False)
        shape: dict[str, Setting] = {"n_features": features, "classes": self._labels.tolist()}
        count = len(self._labels)
        arrays = ArraySpec("counts", count), ArraySpec("sums", count * features)
        shape |= self._grid.settings(clip=clip)
        super().__init__(Schema(self.name, shape, arrays), storage)
        grid = self._grid
        self._grid_parts = np.stack([grid.offset, grid.bound, grid.scale])
        self._limits = grid.limits
        self._model: tuple[Floats, Floats] | None = None

    @classmethod
    def settings_for(cls, data: DataLimits) -> dict[str, Any]:
        """Return the constructor arguments for data with these limits."""
        domain = data.domain_for(cls.name)
        return {
            "n_features": domain.n_features,
            "classes": data.classes,
            "feature_bound": domain.span,
            "offset": domain.lowest,
        }

    @property
    def settings(self) -> dict[str, Any]:
        """The constructor arguments of an equal, empty learner."""
        return {
            "n_features": self.n_features,
            "classes": self._labels.tolist(),
            "smoothing": self._smoothing,
            "feature_bound": self._grid.bound.tolist(),
            "offset": self._grid.offset.tolist(),
            "fraction_bits": self._grid.fraction_bits,
            "clip": self._clip,
        }

    def count_records(self, statistics: Statistics) -> int:
        """Return the number of examples in statistics."""
        return sum(statistics["counts"].values.tolist())

    @property
    def max_entry(self) -> int:
        """The largest integer that one example adds to a sum."""
        return max(int(np.max(self._limits)), 1)

    # -- statistics -----------------------------------------------------------------------------

    def _change_batch(self, X: Matrix, y: object, sign: int, undo: Undo) -> Statistics:
        live = self._live_tables()
        if (
            live is not None
            and type(X) is np.ndarray
            and X.dtype is _FLOATS
            and X.flags.c_contiguous
        ):
            delta = self._change_live(live, X, y, sign, undo)
            if delta is not None:
                return delta
        codes = self._labels.encode(y, X.shape[0])
        counts = np.bincount(codes, minlength=len(self._labels))
        sums = self._sums_of(X, codes)
        delta = self._delta_of(0, counts, sums, sign)
        if live is not None:
            back = undo_changes, *live, 0, counts, sums, sign
            undo.append((self._take_back, live[0], slice(None), live[0].sum(), *back))
            if add_changes(*live, self._limits, 0, counts, sums, sign):
                self._mark_changed(0, len(counts))
                return delta
        self._apply(delta, undo, forgetting=sign < 0)
        self._model = None
        return delta

    def _change_live(
        self, live: tuple[Int64s, Int64s], X: Floats, y: object, sign: int, undo: Undo
    ) -> Statistics | None:
        """Change tables in memory; None if that fails, or is not clearly possible."""
        first, classes = 0, len(self._labels)
        if len(X) == 1:  # only the tables of its class change
            first, classes, lookup = int(self._labels.encode(y, 1)[0]), 1, (_FIRST, 0, _FIRST)
        else:
            lookup = self._labels.numbered(y, len(X))
        counts = np.zeros(classes, np.int64)
        sums = np.zeros((classes, X.shape[1]), np.int64)
        delta = self._delta_of(first, counts, sums, sign)
        before = live[0].item(first) if classes == 1 else live[0].sum()
        back = undo_changes, *live, first, counts, sums, sign
        undo.append((self._take_back, live[0], slice(first, first + classes), before, *back))
        grid = self._grid_parts, self._limits
        if not change_rows(X, *lookup, *grid, *live, first, counts, sums, sign):
            return None
        self._mark_changed(first, classes)
        return delta

    def _delta_of(self, first: int, counts: Int64s, sums: Int64s, sign: int) -> Statistics:
        """Return the statistics of tables of classes from `first` on, computed when read."""
        arrays = Deferred(self.schema, lambda: self._entries(first, sign * counts, sign * sums))
        return Statistics(self.schema, arrays)

    def _cost_of(self, rows: int, stored: int, delta: Statistics) -> Callable[[], Work]:
        return lambda: Work(stored + rows, 8 * stored + 2 * 8 * delta.count_nonzero())

    def _live_tables(self) -> tuple[Int64s, Int64s] | None:
        counts, sums = self._state.cells("counts"), self._state.cells("sums")
        if isinstance(counts, DenseCells) and isinstance(sums, DenseCells):
            return counts.low, sums.low
        return None

    def _mark_changed(self, first: int, classes: int) -> None:
        self._model = None
        columns = self._row_shape[0]
        for name, width in (("counts", 1), ("sums", columns)):
            stale = self._state.stale(name)
            start, end = first * width // BLOCK, ((first + classes) * width - 1) // BLOCK
            if start == end:
                stale[start] = True  # in half the time
            else:
                stale[start : end + 1] = True

    def _sums_of(self, X: Matrix, codes: Int64s) -> Int64s:
        """Return the sums of the rows of each class on the grid."""
        sums = np.zeros((len(self._labels), self.n_features), dtype=np.int64)
        if not isinstance(X, np.ndarray) and not self._grid_parts[0].any():
            stored = np.asarray(X.data, dtype=np.float64), X.indices, X.indptr
            if not sum_stored(*stored, codes, self._grid_parts, sums):
                points = self._grid.quantise_stored(*stored, clip=self._clip)
                add_stored(points, X.indices, X.indptr, codes, sums)
            return sums
        for first, block in dense_blocks(X, max(1, _BLOCK_VALUES // self.n_features)):
            part = codes[first : first + len(block)]
            if not sum_rows(np.ascontiguousarray(block), part, self._grid_parts, sums):
                add_points(self._grid.rounded(block, first, clip=self._clip), part, sums)
        return sums

    def _cost(self, rows: int) -> Work:
        return Work(rows * (self.n_features + 1), 8 * rows * self.n_features)

    def _signed(self, points: Points, signs: Int64s) -> Statistics:
        table = np.zeros((len(self._labels), points.shape[1] - 1), dtype=np.int64)
        sum_points(points, signs, table)
        return Statistics(self.schema, self._entries(0, table[:, 0], table[:, 1:]))

    def _entries(self, first: int, counts: Int64s, sums: Int64s) -> dict[str, Entries]:
        """Return the non-zeros of tables of classes from `first` on."""
        return {
            "counts": Entries.of_dense(Integers(counts), first),
            "sums": Entries.of_dense(Integers(sums.ravel()), first * self.n_features),
        }

    def _refuse_unlearned(self, proposals: Mapping[str, Proposal]) -> None:
        counts, sums = (self._state.after(name, proposals).low for name in ("counts", "sums"))
        self._require_possible(counts, sums.reshape(len(counts), -1))

    def check(self) -> None:
        """Raise `Impossible` if no set of examples has these statistics."""
        self._require_possible(*self._tables())

    def check_statistics(self, statistics: Statistics) -> None:
        """Raise `Impossible` if no set of examples has some statistics."""
        counts = statistics["counts"].dense(len(self._labels)).low
        sums = statistics["sums"].dense(len(counts) * self.n_features).low
        self._require_possible(counts, sums.reshape(len(counts), -1))

    def _require_possible(self, counts: Int64s, sums: Int64s) -> None:
        if are_possible(counts, sums, self._limits):
            return
        most = counts[:, None] * self._limits
        outside = (sums < 0) | (sums > most)
        row = int(np.argmax((counts < 0) | outside.any(axis=1)))
        label, count = self._labels.tolist()[row], counts[row]
        if count < 0:
            raise Impossible(f"class {label!r} has {count} examples")
        column = int(np.argmax(outside[row]))
        raise Impossible(
            f"feature {column} of {count} examples of class {label!r} has the sum "
            f"{sums[row, column]} grid points, outside [0, {most[row, column]}]"
        )

    def _tables(self) -> tuple[Int64s, Int64s]:
        with self._lock:
            counts = self._state.whole("counts").low
            return counts, self._state.whole("sums").low.reshape(len(counts), -1)

    # -- the model ------------------------------------------------------------------------------

    def _logarithms(self) -> tuple[Floats, Floats]:
        """Return the logarithms of the shares of classes, and of features in each class."""
        with self._lock:
            if self._model is None:
                self._model = self._compute_logarithms()
            return self._model

    def _compute_logarithms(self) -> tuple[Floats, Floats]:
        counts, sums = self._tables()
        self._require_learned(counts)
        self.check()
        with np.errstate(divide="ignore"):
            priors = np.log(counts / counts.sum())
        weights = sums / self._grid.scale + self._smoothing
        return priors, np.log(weights) - np.log(weights.sum(axis=1, keepdims=True))

    def _forget_model(self) -> None:
        self._model = None

    @property
    def log_priors(self) -> Floats:
        """The logarithm of the share of each class; −∞ for a class without examples."""
        return self._logarithms()[0].copy()

    @property
    def log_probabilities(self) -> Floats:
        """The logarithm of the share of each feature in a class, one row per class."""
        return self._logarithms()[1].copy()

    def derived_arrays(self) -> Arrays:
        """Return the arrays `classes`, `class_counts`, `log_priors` and `log_probabilities`."""
        with self._lock:
            return {
                **super().derived_arrays(),
                "class_counts": self._state.whole("counts").low,
                "log_priors": self.log_priors,
                "log_probabilities": self.log_probabilities,
            }

    def _derived(self) -> SparseVector:
        classes = np.flatnonzero(self._tables()[0] > 0)
        if not len(classes):
            return np.empty(0, dtype=np.int64), np.empty(0)
        priors, features = self._logarithms()
        width = 1 + self.n_features
        table = np.column_stack([priors, features])[classes]
        cells = classes[:, None] * width + np.arange(width)
        return cells.ravel(), table.ravel()

    def _joint(self, X: object) -> Floats:
        matrix = self._as_rows(X)
        priors, features = self._logarithms()
        values = matrix.shape[0] * self.n_features
        self._work = Work(values * len(priors), 8 * values)
        if not isinstance(matrix, np.ndarray) and not np.any(self._grid.offset):
            require_finite(np.asarray(matrix.data, dtype=np.float64)[None, :])
            return np.asarray(matrix @ features.T + priors)
        joint = np.empty((matrix.shape[0], len(priors)))
        for first, block in dense_blocks(matrix, max(1, _BLOCK_VALUES // self.n_features)):
            require_finite(block, first)
            joint[first : first + len(block)] = (block - self._grid.offset) @ features.T + priors
        return joint

    def predict(self, X: object) -> NDArray[Any]:
        """Return the class of each row; a class without examples is never predicted."""
        return self._labels.decode(np.argmax(self._joint(X), axis=1))

    def predict_log_proba(self, X: object) -> Floats:
        """Return the logarithm of the probability of each class for each row.

        Parameters
        ----------
        X
            See `predict`.

        Returns
        -------
        ndarray of float64
            Rows by classes.
        """
        joint = self._joint(X)
        top = joint.max(axis=1, keepdims=True)
        shares: Floats = joint - top - np.log(np.exp(joint - top).sum(axis=1, keepdims=True))
        return shares
