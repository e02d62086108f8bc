"""The recommender computes what brute force does, has the shape of `implicit`, and forgets."""

import pickle
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone  # type: ignore[import-untyped]

import dealfl.sklearn
from dealfl.errors import BadInput, NotLearned
from dealfl.sklearn import ItemRecommender
from tests.learners import test_interrupts as interrupts

RNG = np.random.default_rng(0)
TABLE = (RNG.random((30, 12)) < RNG.random(12)).astype(float)
TABLE[:, 11] = 0  # an item that nobody has


def jaccard(table: NDArray[Any]) -> NDArray[Any]:
    """Return the similarities of all items; each item is similar to itself."""
    held = table != 0
    both = held.T.astype(int) @ held.astype(int)
    either = both.diagonal()[:, None] + both.diagonal() - both
    similarity: NDArray[Any] = np.where(either > 0, both / np.maximum(either, 1), 0.0)
    np.fill_diagonal(similarity, 1.0)
    return similarity


def best(scores: NDArray[Any], count: int) -> tuple[list[int], list[float]]:
    order = [item for item in np.lexsort((np.arange(len(scores)), -scores)) if scores[item] > 0]
    return [int(item) for item in order[:count]], scores[order[:count]].tolist()


@pytest.mark.parametrize("keep_liked", [False, True])
@pytest.mark.parametrize("hidden", [[], [3, 5]])
def test_recommendations_are_those_of_brute_force(keep_liked: bool, hidden: list[int]) -> None:
    model = ItemRecommender().fit(sparse.csr_matrix(TABLE))
    for user, row in enumerate(TABLE):
        scores = jaccard(TABLE) @ row
        scores[hidden] = 0
        if not keep_liked:
            scores[row > 0] = 0
        ids, found = model.recommend(
            user, sparse.csr_matrix(row), 6, not keep_liked, filter_items=hidden
        )
        expected = best(scores.round(12), 6)
        assert ids.tolist() == expected[0]
        np.testing.assert_allclose(found, expected[1])


def test_similar_items_are_those_of_brute_force() -> None:
    model = ItemRecommender().fit(TABLE)
    for item, row in enumerate(jaccard(TABLE)):
        ids, scores = model.similar_items(item, 5)
        assert ids[0] == item
        others = row.copy()
        others[item] = 2.0  # itself first, also before an equal one
        assert ids.tolist() == best(others, 5)[0]
        np.testing.assert_allclose(scores, row[ids])
    ranked = model.similar_items(4, 7)[0].tolist()
    assert model.similar_items(4, 3, filter_items=ranked[:4])[0].tolist() == ranked[4:]


def test_implicit_recommends_the_same_with_these_similarities() -> None:
    nearest = pytest.importorskip("implicit.nearest_neighbours")
    scorer = pytest.importorskip("implicit._nearest_neighbours").NearestNeighboursScorer
    users = sparse.csr_matrix(TABLE)
    theirs = nearest.ItemItemRecommender(K=12)
    theirs.similarity = sparse.csr_matrix(jaccard(TABLE))
    theirs.scorer = scorer(theirs.similarity)
    mine = ItemRecommender().fit(users)
    for keep_liked in (False, True):
        some = np.array([3, 7, 20])
        ids, scores = mine.recommend(some, users[some], 4, not keep_liked)
        known, expected = theirs.recommend(some, users[some], 4, not keep_liked)
        assert ids.shape == known.shape
        np.testing.assert_allclose(scores, expected)
    known, expected = theirs.similar_items(2, 5)
    np.testing.assert_allclose(mine.similar_items(2, 5)[1], expected)


def test_several_users_and_items_are_rows_filled_up() -> None:
    model = ItemRecommender().fit([[0, 1], [0, 2], [3]])
    ids, scores = model.recommend([2, 0], N=2)
    assert ids.tolist() == [[-1, -1], [2, -1]]
    assert scores[1].tolist() == [0.5, float(-np.finfo(np.float32).max)]
    assert model.similar_items([0, 3], 2)[0].tolist() == [[0, 1], [3, -1]]


def test_lists_matrices_and_arrays_are_the_same_histories() -> None:
    lists = [np.flatnonzero(row).tolist() for row in TABLE]
    ratings = TABLE * RNG.integers(1, 6, TABLE.shape)
    stored = sparse.csr_array(np.where(TABLE, TABLE, 7))
    stored.data[stored.data == 7] = 0
    models = [
        ItemRecommender().fit(stored),
        ItemRecommender(n_items=12).fit(lists),
        ItemRecommender().fit(TABLE),
        ItemRecommender().fit(sparse.csc_matrix(ratings)),
        ItemRecommender(item_order=np.arange(12)[::-1]).fit(sparse.coo_array(ratings)),
    ]
    assert len({model.digest() for model in models}) == 1
    for user in (0, 5):
        rows = (
            None,
            lists[user],
            TABLE[user],
            sparse.csr_array(TABLE)[user],
            TABLE[user : user + 1],
        )
        found = [model.recommend(user, row)[0].tolist() for model in models for row in rows]
        assert found[1:] == found[:-1]
    assert pickle.loads(pickle.dumps(models[0])).recommend(5)[0].tolist() == found[0]
    assert clone(models[1]).get_params() == {"n_items": 12, "item_order": None}


histories = st.lists(st.sets(st.integers(0, 7), min_size=1), min_size=2, max_size=10)


@given(rows=histories, pick=st.data())
def test_forgetting_users_gives_the_digest_of_fitting_the_others(
    rows: list[set[int]], pick: st.DataObject
) -> None:
    lists = [sorted(row) for row in rows]
    gone = pick.draw(st.sets(st.integers(0, len(rows) - 1), max_size=len(rows) - 1))
    model = ItemRecommender(n_items=8).fit(lists[:1]).partial_fit(lists[1:]).forget(sorted(gone))
    others = [row for user, row in enumerate(lists) if user not in gone]
    assert model.digest() == ItemRecommender(n_items=8).fit(others).digest()
    assert model.statistics == ItemRecommender(n_items=8).fit(others).statistics


def test_a_new_history_replaces_the_old_one() -> None:
    model = ItemRecommender(n_items=5).fit([[0, 1], [2, 3]])
    model.partial_fit([[1, 4], [0]], users=[0, 7])
    assert model.digest() == ItemRecommender(n_items=5).fit([[1, 4], [2, 3], [0]]).digest()
    assert model.forget(7).digest() == ItemRecommender(n_items=5).fit([[1, 4], [2, 3]]).digest()
    assert model.partial_fit([[3]]).recommend(2, N=1)[0].tolist() == [2]  # the next id is 2


def test_a_forgotten_history_is_overwritten() -> None:
    model = ItemRecommender(n_items=9).fit([[7, 8], [1]])
    history = model._learned[0]
    model.forget([0])
    assert history.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda m: m.forget([0, 99]), NotLearned, "user 99 is not known"),
        (lambda m: m.forget([0, 0]), BadInput, "give each user once"),
        (lambda m: m.forget("ann"), BadInput, "'ann' is not an id"),
        (lambda m: m.recommend(99), NotLearned, "user 99 is not known"),
        (lambda m: m.recommend(0, TABLE), BadInput, r"30 rows .* pass user_items\[userid\]"),
        (lambda m: m.recommend(0, N=0), ValueError, "N == 0, must be >= 1"),
        (lambda m: m.partial_fit([[0, 12]]), BadInput, "item 12 is out of range"),
        (lambda m: m.partial_fit([[3, 3]]), BadInput, "history 0 has item 3 twice"),
        (lambda m: m.partial_fit([["x"]]), BadInput, "lists of item numbers"),
        (lambda m: m.partial_fit([[1], [2]], users=[5]), BadInput, "1 users for 2 rows"),
        (lambda m: m.partial_fit(np.zeros((2, 2, 2))), BadInput, "a row per user"),
        (lambda m: m.similar_items(99), BadInput, "item is 99"),
    ],
)  # fmt: skip
def test_bad_calls_are_refused_and_change_nothing(
    call: Any, error: type[Exception], message: str
) -> None:
    model = ItemRecommender().fit(TABLE)
    before = model.digest()
    with pytest.raises(error, match=message):
        call(model)
    assert model.digest() == before
    assert model.forget(np.arange(29)).digest() == ItemRecommender().fit(TABLE[29:]).digest()


def test_no_filter_is_none_or_empty() -> None:
    model = ItemRecommender().fit([[0, 1], [0, 1, 2], [2, 3]])
    for ask in (model.recommend, model.similar_items):
        for one, other in zip(ask(0, filter_items=None), ask(0, filter_items=[]), strict=True):
            assert one.tolist() == other.tolist()
        assert 2 not in ask(0, filter_items=[2])[0]


class Interrupted(ItemRecommender):
    """A recommender whose histories cannot be replaced while it is armed."""

    armed = False

    def __setattr__(self, name: str, value: object) -> None:
        if self.armed and name == "_learned":
            raise KeyboardInterrupt
        super().__setattr__(name, value)


def test_an_interrupt_between_model_and_histories_changes_neither() -> None:
    model = Interrupted(n_items=4).fit([[0, 1], [0, 1, 2], [2, 3]])
    before = model.learner_.digest(), {user: row.tolist() for user, row in model._learned.items()}
    Interrupted.armed = True
    try:
        with pytest.raises(KeyboardInterrupt):
            model.partial_fit([[0, 3], [2, 3]], users=[1, 7])
        with pytest.raises(KeyboardInterrupt):
            model.forget([0, 2])
    finally:
        Interrupted.armed = False
    after = model.learner_.digest(), {user: row.tolist() for user, row in model._learned.items()}
    assert after == before
    same = Interrupted(n_items=4).fit([[0, 1], [0, 3], [2, 3]])
    assert model.partial_fit([[0, 3]], users=[1]).learner_.digest() == same.learner_.digest()


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("fit", ([[3]],)), ("partial_fit", ([[0, 3], [2]], [1, 7])), ("forget", ([0, 2],))],
)
def test_a_call_that_is_interrupted_at_any_line_has_changed_nothing(
    name: str, arguments: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interrupts, "FOLDERS", str(Path(dealfl.sklearn.__file__).parent))

    def fitted() -> ItemRecommender:
        return ItemRecommender(n_items=4).fit([[0, 1], [0, 1, 2], [2, 3]])

    def all_of(model: ItemRecommender) -> list[Any]:
        return [model.digest(), {user: row.tolist() for user, row in model._learned.items()}]

    expected, before = fitted(), all_of(fitted())
    getattr(expected, name)(*arguments)
    line, raised = 1, True
    while raised:
        model = fitted()
        call = partial(getattr(model, name), *arguments)
        raised = bool(interrupts.interrupted(call, line, KeyboardInterrupt))
        if raised:
            assert all_of(model) == before, f"after an error at line {line}"
            call()
        assert all_of(model) == all_of(expected)
        line += 1
    assert line > 20


@pytest.mark.parametrize(
    "odd",
    [
        np.array([["a", "b"]]),
        np.array([[object(), None]]),
        np.empty((2, 0)),
        [[1 << 70]],
        [["a"]],
        np.zeros((2, 2, 2)),
    ],
)
def test_odd_tables_raise_the_error_of_bad_input(odd: Any) -> None:
    with pytest.raises(BadInput):
        ItemRecommender().fit(odd)


def test_a_mapping_is_no_table_of_items() -> None:
    with pytest.raises(BadInput, match="a mapping; give a list of the items of each user"):
        ItemRecommender(n_items=3).fit({"ann": [0, 1]})
