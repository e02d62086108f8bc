"""Faults that other systems which claim to forget were found to have, one test each."""

import gc
import pickle
import weakref
from typing import Any

import numpy as np
import pytest

from dealfl.errors import NotLearned
from dealfl.exact import SparseCells
from dealfl.learners import NaiveBayes, Neighbors, PersonalizedPageRank, Tikhonov


def history(*items: int, n_items: int = 8) -> Any:
    row = np.zeros((1, n_items), dtype=int)
    row[0, list(items)] = 1
    return row


def test_no_ghost_keys_stay_behind() -> None:
    model = PersonalizedPageRank(8)
    model.learn(history(0, 1, 2))
    model.learn(history(2, 3))
    model.forget(history(0, 1, 2))
    assert model.statistics["pairs"].to_dict() == {5: 1}
    assert model.similar(2)[0].tolist() == [3], "a forgotten item is still recommended"
    assert model.similar(0)[0].tolist() == []


def test_similarities_of_forgotten_items_are_not_nan() -> None:
    model = PersonalizedPageRank(8)
    model.learn(history(0, 1))
    model.forget(history(0, 1))
    for item in range(8):
        assert len(model.similar(item)[1]) == 0
    assert model.change(model.statistics) == 0.0


def test_equal_examples_of_two_people_do_not_collapse_into_one() -> None:
    model = Neighbors(2, ["a", "b"], k=1, feature_bound=1.0)
    model.learn([[0.5, 0.5], [0.5, 0.5]], ["a", "a"], ids=[1, 2])
    model.forget(ids=[1])
    assert len(model) == 1
    assert model.predict([[0.5, 0.5]]).tolist() == ["a"]
    assert model.nearest([[0.5, 0.5]])[0][0].tolist() == [2]


@pytest.mark.parametrize(
    ("make", "example"),
    [
        (lambda: PersonalizedPageRank(8), (history(1, 2),)),
        (lambda: NaiveBayes(2, [0, 1], feature_bound=4.0), ([[1, 2]], [1])),
        (lambda: Neighbors(2, [0, 1], feature_bound=4.0), ([[1, 2]], [1])),
        (lambda: Tikhonov(2, feature_bound=4.0, target_bound=4.0), ([[1, 2]], [1])),
    ],
)
def test_forgetting_twice_is_refused_instead_of_running_below_zero(make: Any, example: Any) -> None:
    model = make()
    model.learn(*example)
    model.forget(*example)
    empty = model.digest()
    with pytest.raises(NotLearned):
        model.forget(*example)
    assert model.digest() == empty == make().digest()


def test_forgetting_a_row_that_no_mean_allows_is_refused() -> None:
    """One row cannot have the sum 1 + 3 and the sum of squares 1 + 9 that would be left."""
    model = Tikhonov(1, feature_bound=4.0, target_bound=4.0)
    model.learn([[1.0], [3.0]], [0.0, 0.0])
    before = model.digest()
    with pytest.raises(NotLearned):
        model.forget([[0.0]], [0.0])
    assert model.digest() == before


def test_ties_are_ordered_by_item_whatever_came_first() -> None:
    orders = []
    for histories in ([(0, 5), (0, 3), (0, 7)], [(0, 7), (0, 5), (0, 3)]):
        model = PersonalizedPageRank(8)
        for items in histories:
            model.learn(history(*items))
        orders.append(model.similar(0)[0].tolist())
    assert orders == [[3, 5, 7], [3, 5, 7]]


def test_empty_buckets_leave_no_key() -> None:
    model = Neighbors(2, ["a", "b"], feature_bound=1.0, vote_bits=40)
    delta = Neighbors(2, ["a", "b"], feature_bound=1.0, vote_bits=40).learn([[0.1, 0.2]], ["a"])
    model.merge(delta)
    model.merge(-delta)
    assert model.statistics.is_zero
    assert pickle.dumps(model._state.cells("votes")) == pickle.dumps(SparseCells())


def test_negative_zero_is_zero() -> None:
    model = Neighbors(2, ["a", "b"], feature_bound=1.0)
    model.learn([[0.0, 0.5]], ["a"])
    model.forget([[-0.0, 0.5]], ["a"])
    assert model.statistics.is_zero


def test_planes_depend_on_the_seed_alone() -> None:
    first, second = (Neighbors(2, ["a", "b"], feature_bound=1.0, seed=7) for _ in range(2))
    for model in (first, second):
        model.learn([[0.1, 0.9], [0.4, -0.3]], ["a", "b"])
    assert first.digest() == second.digest()


def test_classes_have_their_prior() -> None:
    model = NaiveBayes(1, ["rare", "common"], feature_bound=1.0)
    model.learn(np.ones((10, 1)), ["rare"] + ["common"] * 9)
    assert model.predict([[1.0]]).tolist() == ["common"]


def test_a_large_outlier_leaves_no_residue_once_forgotten() -> None:
    model = Tikhonov(2, penalty=1e-9, feature_bound=1e6, target_bound=1e6)
    table = np.random.default_rng(0).normal(size=(50, 2))
    model.learn(table, table.sum(axis=1))
    before, weights = model.statistics, model.weights
    model.learn([[1e6, -1e6]], [1e6])
    model.forget([[1e6, -1e6]], [1e6])
    assert model.statistics == before
    assert model.weights.tolist() == weights.tolist()


def test_a_learner_that_nobody_uses_leaves_memory_at_once() -> None:
    gc.disable()
    try:
        model = PersonalizedPageRank(8)
        model.learn(history(0, 1, 2))
        gone = weakref.ref(model)
        del model
        assert gone() is None, "a cycle of references keeps it"
    finally:
        gc.enable()
