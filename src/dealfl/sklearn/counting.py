"""Naive Bayes and nearest neighbours as scikit-learn estimators."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp
from sklearn.utils import check_scalar  # type: ignore[import-untyped]
from sklearn.utils.extmath import safe_sparse_dot  # type: ignore[import-untyped]
from sklearn.utils.validation import (  # type: ignore[import-untyped]
    check_is_fitted,
    check_non_negative,
)

from dealfl.errors import BadInput
from dealfl.learners import NaiveBayes, Neighbors, RowLearner
from dealfl.sklearn.base import (
    ForgettingClassifier,
    Matrix,
    centre_of,
    is_auto,
    proposed_bound,
    range_of,
    refusing,
    shared_bound,
)

Floats = NDArray[np.float64]


class MultinomialNB(ForgettingClassifier):
    """Multinomial naive Bayes like `sklearn.naive_bayes.MultinomialNB` that forgets rows exactly.

    Parameters
    ----------
    alpha : float, default 1.0
        Count added to every feature of every class, > 0.
    fit_prior : bool, default True
        Whether the prior of a class is its share of the rows; otherwise all priors are equal.
    class_prior : array_like of shape (n_classes,), optional
        Priors of the classes, instead of learned ones.
    feature_bound : float, array_like or "auto", default "auto"
        Largest value of the features, one number or one per feature; "auto" takes it from the
        first rows, with room for 16,384 times the values of a feature that is small there.
    clip : bool, default False
        Move values outside the bounds to the bounds instead of raising an error.

    Attributes
    ----------
    learner_ : NaiveBayes
        The model; it saves, merges and checks statistics.
    classes_ : ndarray
        The classes, sorted.
    feature_bound_ : ndarray of shape (n_features,)
        Bound of each feature.
    n_features_in_, feature_names_in_
        See `Ridge`.

    Examples
    --------
    >>> model = MultinomialNB().fit([[2, 0], [0, 3], [5, 5]], ["ham", "spam", "spam"])
    >>> model.forget([[5, 5]], ["spam"]).predict([[0, 1]]).tolist()
    ['spam']
    """

    learner_: NaiveBayes

    def __init__(
        self,
        *,
        alpha: float = 1.0,
        fit_prior: bool = True,
        class_prior: ArrayLike | None = None,
        feature_bound: float | ArrayLike | str = "auto",
        clip: bool = False,
    ) -> None:
        self.alpha = alpha
        self.fit_prior = fit_prior
        self.class_prior = class_prior
        self.feature_bound = feature_bound
        self.clip = clip

    def predict(self, X: object) -> NDArray[Any]:
        """Return the most probable class of each row; a class without rows is never predicted."""
        best = np.argmax(self.predict_joint_log_proba(X), axis=1)
        return np.asarray(self.classes_[best])

    def predict_joint_log_proba(self, X: object) -> Floats:
        """Return the logarithm of the joint probability of each row and each class.

        Parameters
        ----------
        X : {array_like, sparse matrix, DataFrame} of shape (n_samples, n_features)
            See `predict`.

        Returns
        -------
        ndarray of float64
            Rows by classes.
        """
        rows = self._rows(X)
        likelihood: Floats = safe_sparse_dot(rows, self.feature_log_prob_.T, dense_output=True)
        has_examples = np.isfinite(self.learner_.log_priors)
        return np.where(has_examples, likelihood + self.class_log_prior_, -np.inf)

    def predict_log_proba(self, X: object) -> Floats:
        """Return the logarithm of the probability of each class for each row.

        Parameters
        ----------
        X : {array_like, sparse matrix, DataFrame} of shape (n_samples, n_features)
            See `predict`.

        Returns
        -------
        ndarray of float64
            Rows by classes.
        """
        joint = self.predict_joint_log_proba(X)
        return np.asarray(joint - logsumexp(joint, axis=1, keepdims=True))

    def predict_proba(self, X: object) -> Floats:
        """Return the probability of each class for each row.

        Parameters
        ----------
        X : {array_like, sparse matrix, DataFrame} of shape (n_samples, n_features)
            See `predict`.

        Returns
        -------
        ndarray of float64
            Rows by classes.
        """
        return np.exp(self.predict_log_proba(X))

    @property
    def class_count_(self) -> Floats:
        """The number of rows of each class."""
        check_is_fitted(self)
        count = len(self.classes_)
        return self.learner_.entries("counts", 0, count).dense(count).to_float()

    @property
    def class_log_prior_(self) -> Floats:
        """The logarithm of the prior of each class."""
        check_is_fitted(self)
        if self.class_prior is not None:
            return np.log(np.asarray(self.class_prior, dtype=np.float64))
        if self.fit_prior:
            return self.learner_.log_priors
        return np.full(len(self.classes_), -np.log(len(self.classes_)))

    @property
    def feature_log_prob_(self) -> Floats:
        """The logarithm of the share of each feature in a class, one row per class."""
        check_is_fitted(self)
        return self.learner_.log_probabilities

    def _empty_learner(self, X: Matrix, y: NDArray[Any]) -> NaiveBayes:  # noqa: ARG002
        check_scalar(self.alpha, "alpha", Real, min_val=0, include_boundaries="neither")
        priors, count = np.asarray(self.class_prior), len(self.classes_)
        usable = priors.shape == (count,) and 0 < priors.min() <= priors.max() < np.inf
        if self.class_prior is not None and not usable:
            raise BadInput(f"class_prior is {priors}; give each of {count} classes a prior > 0")
        bound = shared_bound(range_of(X)[1]) if is_auto(self.feature_bound) else self.feature_bound
        return NaiveBayes(
            X.shape[1],
            self.classes_.tolist(),
            smoothing=self.alpha,
            feature_bound=bound,
            clip=self.clip,
        )

    def _checked(self, X: object, y: object, **checks: Any) -> tuple[Matrix, NDArray[Any]]:  # noqa: ANN401
        rows, labels = super()._checked(X, y, **checks)
        if rows.shape[0]:
            with refusing("X", "give counts"):
                check_non_negative(rows, "MultinomialNB (input X)")
        return rows, labels

    def __sklearn_tags__(self) -> Any:  # noqa: ANN401
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        tags.classifier_tags.poor_score = True  # as in scikit-learn
        return tags


class KNeighborsClassifier(ForgettingClassifier):
    """Nearest neighbours like `sklearn.neighbors.KNeighborsClassifier` that forgets rows exactly.

    Rows with a similar signature are compared by Euclidean distance (locality-sensitive hashing),
    so a neighbour can be missed; with `enough` ≥ the number of rows, none is.

    Parameters
    ----------
    n_neighbors : int, default 5
        Number of neighbours that vote; those tied at the last place share it.
    tables, bits, vote_bits, digits, direction_features, min_bucket, enough
        See `dealfl.learners.Neighbors`: number of hash tables, bits of a signature, bits that are
        counted, digits and features of a direction, size of a bucket, candidates per table.
    random_state : int, default 0
        Seed of the directions.
    feature_bound : float, array_like or "auto", default "auto"
        Largest distance of the features from the offset, one number or one per feature; "auto"
        takes it from the first rows.
    offset : float or array_like, optional
        Centre of the features, one number or one per feature; by default 0 with a given bound, and
        the middle of the first rows with "auto".
    clip : bool, default False
        Move values outside the bounds to the bounds instead of raising an error.

    Attributes
    ----------
    learner_ : Neighbors
        The model with the rows it holds; it saves, merges and checks statistics.
    classes_ : ndarray
        The classes, sorted.
    feature_bound_, offset_ : ndarray of shape (n_features,)
        Bound and centre of each feature.
    n_features_in_, feature_names_in_
        See `Ridge`.

    Examples
    --------
    >>> model = KNeighborsClassifier(n_neighbors=1).fit([[1.0], [6.0], [5.0]], ["a", "b", "a"])
    >>> model.forget([[5.0]], ["a"]).predict([[5.2]]).tolist()
    ['b']
    """

    learner_: Neighbors

    def __init__(
        self,
        n_neighbors: int = 5,
        *,
        tables: int = 16,
        bits: int = 60,
        vote_bits: int = 48,
        digits: int = 4,
        direction_features: int = 0,
        min_bucket: int = 5,
        enough: int = 16,
        random_state: int = 0,
        feature_bound: float | ArrayLike | str = "auto",
        offset: float | ArrayLike | None = None,
        clip: bool = False,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.tables = tables
        self.bits = bits
        self.vote_bits = vote_bits
        self.digits = digits
        self.direction_features = direction_features
        self.min_bucket = min_bucket
        self.enough = enough
        self.random_state = random_state
        self.feature_bound = feature_bound
        self.offset = offset
        self.clip = clip

    def predict(self, X: object) -> NDArray[Any]:
        """Return the most common class among the neighbours of each row."""
        best = np.argmax(self.predict_proba(X), axis=1)
        return np.asarray(self.classes_[best])

    def predict_proba(self, X: object) -> Floats:
        """Return the share of each class among the neighbours of each row.

        Parameters
        ----------
        X : {array_like, sparse matrix, DataFrame} of shape (n_samples, n_features)
            See `predict`.

        Returns
        -------
        ndarray of float64
            Rows by classes.
        """
        rows = self._rows(X)
        return self.learner_.predict_proba(rows)

    def _warn_if_coarse(self, learner: RowLearner, X: Matrix, y: NDArray[Any]) -> None:
        """Do nothing: distances need one grid, and a feature far below the others counts little."""

    def _empty_learner(self, X: Matrix, y: NDArray[Any]) -> Neighbors:  # noqa: ARG002
        check_scalar(self.n_neighbors, "n_neighbors", Integral, min_val=1)
        check_scalar(self.random_state, "random_state", Integral, min_val=0)
        auto = is_auto(self.feature_bound)
        low, high = range_of(X)
        middle = centre_of(low, high) if auto else 0.0
        offset = np.asarray(middle if self.offset is None else self.offset, dtype=np.float64)
        distance = np.maximum(high - offset, offset - low)
        return Neighbors(
            X.shape[1],
            self.classes_.tolist(),
            k=self.n_neighbors,
            tables=self.tables,
            bits=self.bits,
            vote_bits=self.vote_bits,
            seed=self.random_state,
            feature_bound=proposed_bound(distance.max()) if auto else self.feature_bound,
            offset=offset,
            digits=self.digits,
            direction_features=self.direction_features,
            min_bucket=self.min_bucket,
            enough=self.enough,
            clip=self.clip,
        )
