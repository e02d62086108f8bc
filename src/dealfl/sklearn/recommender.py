"""An item-to-item recommender with the methods of `implicit`, which forgets users exactly."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from numbers import Integral
from operator import index
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.utils import check_scalar  # type: ignore[import-untyped]
from sklearn.utils.validation import check_is_fitted  # type: ignore[import-untyped]

from dealfl.errors import BadInput, NotLearned
from dealfl.learners import PersonalizedPageRank, as_matrix, column_array
from dealfl.sklearn.base import Learned, all_or_nothing, without_mask

Floats = NDArray[np.float64]
Items = NDArray[np.int64]
Ranked = tuple[Items, Floats]

_MAX_ID = (1 << 63) - 1
_NO_SCORE = -float(np.finfo(np.float32).max)  # beside id −1: no further item, as in `implicit`


class ItemRecommender(Learned):
    """Recommend items that the same users have, by Jaccard similarity; users can be forgotten.

    The methods are those of `implicit`. A user's history is a set: each value other than 0 counts
    as 1. The recommender holds the histories, so `forget` needs only the ids of users.

    Parameters
    ----------
    n_items : int, optional
        Number of items; by default the number of columns, or the largest item number + 1.
    item_order : array_like of int, optional
        Order of the items in memory, for example the most popular first; it does not affect
        results.

    Attributes
    ----------
    learner_ : PersonalizedPageRank
        The model; it saves, merges and checks statistics.

    Examples
    --------
    >>> model = ItemRecommender().fit([[0, 1], [0, 1, 2], [2, 3]])
    >>> items, scores = model.recommend(0, N=2)
    >>> items.tolist(), scores.round(2).tolist()
    ([2], [0.67])
    >>> model.forget([1]).recommend(0)[0].tolist()
    []
    """

    learner_: PersonalizedPageRank
    _learned: dict[int, Items]  # the history of each user

    def __init__(self, n_items: int | None = None, *, item_order: ArrayLike | None = None) -> None:
        self.n_items = n_items
        self.item_order = item_order

    def fit(self, user_items: object) -> Self:
        """Forget everything and learn one history per user; row numbers are the users' ids.

        Parameters
        ----------
        user_items : sparse matrix, array_like or list of list of int
            One row per user and one column per item, or one list of item numbers per user.

        Returns
        -------
        ItemRecommender
            The recommender itself.
        """
        with all_or_nothing(self):
            self.__dict__.pop("learner_", None)
            return self.partial_fit(user_items)

    def partial_fit(self, user_items: object, users: ArrayLike | None = None) -> Self:
        """Learn more users; the history of a known user is replaced.

        Parameters
        ----------
        user_items : sparse matrix, array_like or list of list of int
            See `fit`.
        users : array_like of int, optional
            Id of each row; by default the next ids.

        Returns
        -------
        ItemRecommender
            The recommender itself.
        """
        histories, columns = _histories_of(user_items)
        first = not hasattr(self, "learner_")
        learned = {} if first else self._learned
        next_id = max(learned, default=-1) + 1
        ids = range(next_id, next_id + len(histories)) if users is None else _distinct(users)
        if len(ids) != len(histories):
            raise BadInput(f"there are {len(ids)} users for {len(histories)} rows of user_items")
        n_items = columns if self.n_items is None else self.n_items
        learner = PersonalizedPageRank(n_items, self.item_order) if first else self.learner_
        return self._replace(learner, learned, dict(zip(ids, histories, strict=True)), ids)

    def forget(self, users: int | ArrayLike) -> Self:
        """Remove users; the model is then equal to one that never learned their histories.

        Parameters
        ----------
        users : int or array_like of int
            Ids of users.

        Returns
        -------
        ItemRecommender
            The recommender itself.

        Raises
        ------
        NotLearned
            A user is not known; nothing was changed.
        """
        check_is_fitted(self)
        ids = _distinct(users)
        for user in ids:
            self._history(user)
        return self._replace(self.learner_, self._learned, {}, ids)

    def recommend(
        self,
        userid: int | ArrayLike,
        user_items: object = None,
        N: int = 10,
        filter_already_liked_items: bool = True,
        filter_items: ArrayLike | None = None,
    ) -> Ranked:
        """Return the items with the largest sum of similarities to the items of a user.

        Parameters
        ----------
        userid : int or array_like of int
            Id of the user, or ids of several.
        user_items : sparse matrix, array_like or list of int, optional
            One row per user; by default the histories that were learned.
        N : int, default 10
            Largest number of items.
        filter_already_liked_items : bool, default True
            Leave out the items of the user.
        filter_items : array_like of int, optional
            Other items to leave out.

        Returns
        -------
        ids : ndarray of int64
            Items, the best first; for several users one row each, filled up with −1.
        scores : ndarray of float64
            Their scores.
        """
        check_is_fitted(self)
        check_scalar(N, "N", Integral, min_val=1)
        keep_liked = not filter_already_liked_items
        hidden = np.array(_ids([] if filter_items is None else filter_items), np.int64)
        histories = self._given(_ids(userid), user_items)
        rankings = [self._ranked(history, N, hidden, keep_liked) for history in histories]
        return rankings[0] if np.isscalar(userid) else _stacked(rankings, N)

    def similar_items(
        self, itemid: int | ArrayLike, N: int = 10, filter_items: ArrayLike | None = None
    ) -> Ranked:
        """Return the items most similar to an item: the item itself, then others.

        Parameters
        ----------
        itemid : int or array_like of int
            Item number, or several.
        N : int, default 10
            Largest number of items.
        filter_items : array_like of int, optional
            Items to leave out.

        Returns
        -------
        ids : ndarray of int64
            Items, the most similar first; for several items one row each, filled up with −1.
        scores : ndarray of float64
            Jaccard similarities.
        """
        check_is_fitted(self)
        check_scalar(N, "N", Integral, min_val=1)
        hidden = np.array(_ids([] if filter_items is None else filter_items), np.int64)
        rankings = []
        for item in _ids(itemid):
            items, scores = self.learner_.similar(item, N + len(hidden))
            own = np.append(item, items), np.append(1.0, scores)
            rankings.append(_without(own, hidden, N))
        return rankings[0] if np.isscalar(itemid) else _stacked(rankings, N)

    def _replace(
        self,
        learner: PersonalizedPageRank,
        learned: dict[int, Items],
        new: dict[int, Items],
        users: Collection[int],
    ) -> Self:
        """Learn new histories and forget the old ones of some users; on any error neither."""
        old = [learned[user] for user in users if user in learned]
        before, copies = self.__dict__.copy(), [history.copy() for history in old]
        changed = set(users)
        kept = {user: history for user, history in learned.items() if user not in changed}
        parts = [(_matrix(some, learner.n_items),) if some else () for some in (new.values(), old)]
        delta = None
        try:
            delta = learner.update(*parts)
            for history in old:
                history.fill(0)
            self.learner_, self._learned = learner, kept | new
            return self  # noqa: TRY300 - an interrupt here takes back the change, too
        except BaseException:
            self.__dict__ = before
            for history, items in zip(old, copies, strict=True):
                history[:] = items
            if delta is not None:
                learner.merge(-delta)
            raise

    def _history(self, user: int) -> Items:
        if user not in self._learned:
            raise NotLearned(f"user {user} is not known; learn the history by partial_fit first")
        return self._learned[user]

    def _given(self, users: list[int], user_items: object) -> list[Items]:
        """Return the given histories of users, or the learned ones."""
        if user_items is None:
            return [self._history(user) for user in users]
        histories, _ = _histories_of(user_items)
        if len(histories) != len(users):
            rows = f"user_items has {len(histories)} rows for {len(users)} users"
            raise BadInput(f"{rows}; pass user_items[userid]")
        return histories

    def _ranked(self, history: Items, N: int, hidden: Items, keep_liked: bool) -> Ranked:
        items, scores = self.learner_.recommend(history, N + len(hidden))
        if keep_liked:
            own = [1.0 + self._similarity(item, history) for item in history]
            items, scores = np.append(items, history), np.append(scores, own)
            order = np.lexsort((items, -scores))
            items, scores = items[order], scores[order]
        return _without((items, scores), hidden, N)

    def _similarity(self, item: int, history: Items) -> float:
        """Return the sum of similarities of an item to the others of a history."""
        others, scores = self.learner_.similar(item, self.learner_.n_items)
        return float(scores[np.isin(others, history)].sum())


def _histories_of(user_items: object) -> tuple[list[Items], int]:
    """Return the items of each user, and the number of columns."""
    if isinstance(user_items, list | tuple):
        return _listed(user_items)
    if isinstance(user_items, Mapping) and not sparse.issparse(user_items):
        raise BadInput("user_items is a mapping; give a list of the items of each user, or a csr")
    table: Any = without_mask(user_items, "user_items")
    try:
        table = table if sparse.issparse(table) else column_array(table)
        table = table.reshape(1, -1) if table.ndim == 1 else table
        with np.errstate(over="ignore"):  # a long double beyond float64 becomes inf
            matrix = sparse.csr_array(as_matrix(table, table.shape[-1]).astype(np.float64))
    except (TypeError, ValueError, IndexError, OverflowError, NotImplementedError) as error:
        raise BadInput(f"user_items is no table of numbers with a row per user: {error}") from None
    if not np.isfinite(matrix.data).all():
        raise BadInput(
            "user_items has a value that is no finite number; give 0 for what is missing"
        )
    matrix.eliminate_zeros()
    rows = np.split(matrix.indices.astype(np.int64), matrix.indptr[1:])
    return rows[:-1], matrix.shape[1]


def _listed(rows: Sequence[Any]) -> tuple[list[Items], int]:
    """Return the same of lists of item numbers; numbers alone are one list."""
    lists = rows if all(isinstance(row, Collection) for row in rows) else [rows]
    try:
        histories = [np.fromiter(map(index, row), np.int64, len(row)) for row in lists]
    except (TypeError, OverflowError) as error:
        raise BadInput(f"user_items must hold lists of item numbers: {error}") from None
    return histories, max((int(row.max()) + 1 for row in histories if len(row)), default=0)


def _matrix(histories: Collection[Items], n_items: int) -> sparse.csr_array:
    items = np.concatenate([np.empty(0, np.int64), *histories])
    starts = np.cumsum([0, *map(len, histories)])
    shape = (len(histories), n_items)
    return sparse.csr_array((np.ones(len(items)), items, starts), shape=shape)


def _ids(ids: int | ArrayLike) -> list[int]:
    wrong = f"{ids!r} is not an id or a list of ids: give whole numbers of 64 bits"
    try:
        numbers = np.atleast_1d(np.asarray(without_mask(ids, "the list of ids")))
    except ValueError:  # rows of different lengths
        raise BadInput(wrong) from None
    whole = not len(numbers) or numbers.dtype.kind in "iu"
    if numbers.ndim != 1 or not whole or (numbers > _MAX_ID).any():
        raise BadInput(wrong)
    return list(map(int, numbers))


def _distinct(users: int | ArrayLike) -> list[int]:
    ids = _ids(users)
    if len(set(ids)) != len(ids):
        raise BadInput(f"users is {users!r}; give each user once")
    return ids


def _without(ranked: Ranked, hidden: Items, count: int) -> Ranked:
    """Return the first items of a ranking that are not hidden."""
    items, scores = ranked
    shown = np.flatnonzero(~np.isin(items, hidden))[:count]
    return items[shown], scores[shown]


def _stacked(rankings: Sequence[Ranked], width: int) -> Ranked:
    """Return rankings as rows of two tables."""
    ids = np.full((len(rankings), width), -1, dtype=np.int64)
    scores = np.full((len(rankings), width), _NO_SCORE)
    for row, (items, values) in enumerate(rankings):
        ids[row, : len(items)] = items
        scores[row, : len(items)] = values
    return ids, scores
