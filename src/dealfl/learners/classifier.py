"""Learners of rows whose targets are classes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dealfl.learners.base import Arrays
from dealfl.learners.inputs import Labels
from dealfl.learners.row_learner import RowLearner

__all__ = ["Classifier"]


Ranked = tuple[NDArray[np.int64], NDArray[np.float64]]


class Classifier(RowLearner):
    """A learner of rows whose targets are classes.

    The classes are a setting of the learner; subclasses set `_labels`.

    Parameters
    ----------
    schema : Schema
        Schema of the statistics.
    storage : callable or None
        Creates the cells of an array; by default in memory.
    """

    _labels: Labels

    def score(self, X: object, y: object) -> float:
        """Return the accuracy: the fraction of rows whose class is predicted correctly.

        Parameters
        ----------
        X : array_like, csr_array or DataFrame
            One row of `n_features` numbers per example.
        y : array_like
            Class of each row.

        Returns
        -------
        float
            A number in [0, 1]; nan if there are no rows.
        """
        return self._labels.share_right(self.predict(X), y)

    def score_federated(self, X: object, y: object) -> float:
        """Return the accuracy of a model that has statistics only.

        Parameters
        ----------
        X : array_like, csr_array or DataFrame
            One row of `n_features` numbers per example.
        y : array_like
            Class of each row.

        Returns
        -------
        float
            A number in [0, 1]; nan if there are no rows.
        """
        return self._labels.share_right(self.predict_federated(X), y)

    def derived_arrays(self) -> Arrays:
        """Return the classes.

        Returns
        -------
        dict of str to ndarray
            Array `classes`.
        """
        return {"classes": self._labels.values}
