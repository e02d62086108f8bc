"""Item-to-item similarity: answers known on paper, brute force, exact order, layouts."""

import resource
import tracemalloc
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import sparse

from dealfl.errors import BadInput, Impossible, NotLearned
from dealfl.exact import CHOICE, ArraySpec, Cells, Entries, SparseCells, Statistics, Work, in_memory
from dealfl.exact import state as storage_module
from dealfl.learners import PersonalizedPageRank
from dealfl.learners.pagerank import model as pagerank_module
from dealfl.learners.pagerank.model import top_ratios, top_sums
from dealfl.learners.pagerank.pairs import items_of, pair_number

RNG = np.random.default_rng(4)
TABLE = (RNG.random((80, 30)) < np.linspace(0.5, 0.02, 30)).astype(int)
HISTORIES = sparse.csr_array(TABLE)


def learned(**other: Any) -> PersonalizedPageRank:
    model = PersonalizedPageRank(30, **other)
    model.learn(HISTORIES)
    return model


def jaccard(table: Any, i: int, j: int) -> Fraction:
    both = int(np.sum(table[:, i] & table[:, j]))
    either = int(np.sum(table[:, i] | table[:, j]))
    return Fraction(both, either) if either else Fraction(0)


def brute_similar(table: Any, item: int, k: int) -> list[int]:
    scores = {j: jaccard(table, item, j) for j in range(table.shape[1]) if j != item}
    met = [j for j in scores if scores[j] > 0]
    return sorted(met, key=lambda j: (-scores[j], j))[:k]


def brute_recommend(table: Any, history: list[int], k: int) -> list[int]:
    scores = {
        j: sum((jaccard(table, i, j) for i in history), Fraction())
        for j in range(table.shape[1])
        if j not in history
    }
    return sorted((j for j in scores if scores[j] > 0), key=lambda j: (-scores[j], j))[:k]


def test_counts_are_those_of_the_definition() -> None:
    model = PersonalizedPageRank(3)
    model.learn(np.array([[1, 1, 0], [1, 1, 1], [0, 0, 1]]))
    assert model.statistics["items"].to_dict() == {0: 2, 1: 2, 2: 2}
    assert model.statistics["pairs"].to_dict() == {0: 2, 1: 1, 2: 1}
    assert model.similar(0, 1)[1].tolist() == [1.0]
    assert model.similar(2, 2)[1].tolist() == [1 / 3, 1 / 3]


@pytest.mark.parametrize("k", [1, 5, 100])
def test_similar_items_are_those_of_brute_force(k: int) -> None:
    model = learned()
    for item in range(30):
        items, scores = model.similar(item, k)
        assert items.tolist() == brute_similar(TABLE, item, k)
        assert scores.tolist() == [float(jaccard(TABLE, item, j)) for j in items.tolist()]


@pytest.mark.parametrize("k", [1, 5, 100])
def test_recommendations_are_those_of_brute_force(k: int) -> None:
    model = learned()
    for row in range(0, 80, 7):
        history = np.flatnonzero(TABLE[row]).tolist()
        assert model.recommend(history, k)[0].tolist() == brute_recommend(TABLE, history, k)
        assert model.recommend(HISTORIES[[row]], k)[0].tolist() == brute_recommend(
            TABLE, history, k
        )


def test_forgetting_changes_rows_of_items_the_history_never_had() -> None:
    model = PersonalizedPageRank(3)
    model.learn(np.array([[1, 1, 0], [1, 0, 1]]))
    before = model.similar(1)[1].tolist()
    model.forget(np.array([[1, 0, 1]]))
    assert (before, model.similar(1)[1].tolist()) == ([0.5], [1.0])


def test_a_history_that_only_its_untouched_pairs_betray_is_refused() -> None:
    model = PersonalizedPageRank(3)
    model.learn(np.array([[1, 1, 0], [0, 1, 1]]))
    with pytest.raises(NotLearned, match="item 0 would be in 0 histories, but"):
        model.forget(np.array([[1, 0, 0]]))
    model.learn(np.array([[1, 0, 0]]))
    model.forget(np.array([[1, 0, 0]]))


def test_an_item_in_fewer_than_no_histories_is_impossible() -> None:
    model = PersonalizedPageRank(3)
    alone = model.learn(np.array([[1, 0, 0]]))
    with pytest.raises(Impossible, match="item 0 is in -1 histories"):
        model.check_statistics(-alone)


@pytest.mark.parametrize("mode", ["never", "always"])
@pytest.mark.parametrize("layout", ["packed", "full"])
def test_learning_a_pair_allows_no_more_forgetting_without_it(
    mode: str, layout: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many single items keep the rule from being checked; it still holds at the end."""
    if mode == "always":
        pytest.importorskip("numba")
    monkeypatch.setattr(CHOICE, "mode", mode)
    together, alone = np.array([[1, 1, 0]]), np.array([[1, 0, 0]])
    model = PersonalizedPageRank(3, layout=layout)
    model.learn(np.repeat(np.concatenate([together, alone]), [5, 40], axis=0))
    for _ in range(20):
        model.forget(alone)
    model.learn(together)
    for _ in range(20):
        model.forget(alone)
    with pytest.raises(NotLearned, match="item 0 would be in 5 histories, but"):
        model.forget(alone)


def test_refusals_also_work_on_what_was_merged() -> None:
    model = PersonalizedPageRank(30)
    model.merge(learned().statistics)
    popular = np.zeros((1, 30), dtype=int)
    popular[0, 0] = 1
    for _ in range(80):
        try:
            model.forget(popular)
        except NotLearned:
            break
        model.check()
    else:
        pytest.fail("an item was forgotten more often than its pairs allow")


@pytest.mark.parametrize("order", [np.arange(30)[::-1], RNG.permutation(30)])
def test_item_order_changes_the_layout_only(order: Any) -> None:
    places: list[Cells] = []

    def storage(spec: ArraySpec) -> Cells:
        places.append(in_memory(spec))
        return places[-1]

    plain, ordered = learned(storage=storage), learned(item_order=order, storage=storage)
    for model in (plain, ordered):
        model.forget(HISTORIES[:11])
    assert ordered.digest() == plain.digest()
    assert ordered.statistics == plain.statistics
    pairs = [places[1].entries(0, 435), places[3].entries(0, 435)]
    assert not pairs[0].same(pairs[1])
    assert ordered.similar(3)[0].tolist() == plain.similar(3)[0].tolist()


@pytest.mark.parametrize("order", [[0, 1], [0] * 30, np.arange(1, 31), "abc"])
def test_an_item_order_lists_each_item_once(order: Any) -> None:
    with pytest.raises(BadInput, match="item_order must contain each of the 30 items once"):
        PersonalizedPageRank(30, item_order=order)


def test_a_catalogue_too_large_for_a_table_gives_the_same_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain = learned()
    monkeypatch.setattr(storage_module, "DENSE_LIMIT", 10)
    monkeypatch.setattr(pagerank_module, "DENSE_LIMIT", 10)
    kinds: list[type] = []

    def storage(spec: ArraySpec) -> Cells:
        found = in_memory(spec)
        kinds.append(type(found))
        return found

    large = learned(item_order=np.arange(30)[::-1], storage=storage)
    assert kinds[1] is SparseCells
    for model in (plain, large):
        model.forget(HISTORIES[5:9])
    assert large.digest() == plain.digest()
    for item in range(30):
        assert large.similar(item)[0].tolist() == plain.similar(item)[0].tolist()
    assert large.recommend([1, 2])[0].tolist() == plain.recommend([1, 2])[0].tolist()
    with pytest.raises(NotLearned):
        large.forget(HISTORIES)


@pytest.mark.parametrize("items", [3, 4])
def test_a_list_as_long_as_the_items_of_zeros_and_ones_is_a_row_of_a_table(items: int) -> None:
    row = [1, *[0] * (items - 2), 1]
    model, same = PersonalizedPageRank(items), PersonalizedPageRank(items)
    model.learn([row])
    same.learn([[0, items - 1]])
    assert model.digest() == same.digest()


@pytest.mark.parametrize("layout", ["packed", "full"])
def test_the_work_of_similarities_is_a_row_and_the_item_counts(layout: str) -> None:
    model = PersonalizedPageRank(30, layout=layout)
    model.learn(HISTORIES)
    model.similar(3)
    assert model.last_work == Work(30, 2 * 4 * 30)


def test_millions_of_items_need_no_memory_until_they_are_seen() -> None:
    model = PersonalizedPageRank(5_000_000)
    row = sparse.csr_array(([1, 1, 1], ([0, 0, 0], [7, 4_999_999, 70_000])), shape=(1, 5_000_000))
    model.learn(row)
    assert model.similar(7)[0].tolist() == [70_000, 4_999_999]
    model.forget(row)
    assert model.statistics.is_zero


@given(st.lists(st.integers(0, 10**12), min_size=1))
@example(
    [high * (high - 1) // 2 + low for high in (1 << 29, (1 << 30) - 1) for low in (0, high - 1)]
)
def test_numbers_of_pairs_are_undone(numbers: list[int]) -> None:
    high, low = items_of(np.array(numbers))
    assert np.all(low < high)
    assert pair_number(high, low).tolist() == numbers
    assert pair_number(low, high).tolist() == numbers


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(1, 50)), max_size=40), st.integers(1, 45))
def test_ratios_are_ranked_exactly(pairs: list[tuple[int, int]], k: int) -> None:
    tops = np.array([a for a, _ in pairs], dtype=np.int64)
    bottoms = np.array([b for _, b in pairs], dtype=np.int64)
    ids = np.arange(len(pairs))[::-1].copy()
    expected = sorted(range(len(pairs)), key=lambda p: (-Fraction(*pairs[p]), int(ids[p])))[:k]
    assert top_ratios(ids, tops, bottoms, k)[0].tolist() == [int(ids[p]) for p in expected]


def test_ratios_that_round_to_the_same_float_keep_their_order() -> None:
    top = 2**30
    tops, bottoms = np.array([top - 1, top]), np.array([top, top + 1])
    assert tops[0] / bottoms[0] == pytest.approx(tops[1] / bottoms[1], abs=1e-17)
    huge = 2**53 + 3
    ids = top_ratios(np.array([0, 1]), np.array([huge - 1, huge]), np.array([huge, huge + 1]), 2)[0]
    assert (huge - 1) / huge == huge / (huge + 1)
    assert ids.tolist() == [1, 0]
    assert top_ratios(np.array([0, 1]), tops, bottoms, 1)[0].tolist() == [1]


def test_equal_sums_of_different_fractions_are_a_tie() -> None:
    terms = [[(1, 3), (1, 6)], [(1, 2)], [(1, 6), (1, 3)], [(1, 10), (2, 10), (2, 10)]]
    scores = np.array([sum(a / b for a, b in term) for term in terms])
    ids = np.array([4, 3, 2, 1])
    assert top_sums(ids, scores, 4, lambda p: terms[p], 3)[0].tolist() == [1, 2, 3, 4]
    nudged = scores * np.array([1.0, 1 + 2e-16, 1.0, 1 - 2e-16])
    assert top_sums(ids, nudged, 2, lambda p: terms[p], 3)[0].tolist() == [1, 2]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: m.similar(30), "item is 30; it must be a whole number from 0 to 29"),
        (lambda m: m.similar(-1), "item is .*; it must be"),
        (lambda m: m.similar(1, 0), "k is .*; it must be"),
        (lambda m: m.recommend([1, 1]), "item 1 is in the history twice"),
        (lambda m: m.recommend([30]), "item 30 is out of range; items are 0 .. 29"),
        (lambda m: m.recommend([[1]]), "give a list of item numbers"),
        (lambda m: m.recommend([0.5]), "give a list of item numbers"),
        (lambda m: m.recommend(HISTORIES[:2]), "history has 2 rows; it must have one"),
        (lambda m: m.learn(HISTORIES * 3), "history 0 has 3 for item"),
        (lambda m: m.learn(HISTORIES[:, :4]), r"shape \(80, 4\); the model has n_items=30"),
        (lambda m: m.learn(np.eye(29)), r"shape \(29, 29\); the model has n_items=30"),
        (lambda m: m.learn(np.eye(31)), r"shape \(31, 31\); the model has n_items=30"),
    ],
)
def test_bad_calls_are_refused_by_name(call: Any, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        call(learned())


def test_an_empty_history_gets_no_recommendation() -> None:
    items, scores = learned().recommend([], 5)
    assert (len(items), len(scores)) == (0, 0)


def test_stored_zeros_are_no_items() -> None:
    row = sparse.csr_array(([1, 0, 1], ([0, 0, 0], [1, 2, 3])), shape=(1, 30))
    model, plain = PersonalizedPageRank(30), PersonalizedPageRank(30)
    model.learn(row)
    plain.learn(np.eye(30, dtype=int)[[1]] + np.eye(30, dtype=int)[[3]])
    assert model.digest() == plain.digest()
    assert row.nnz == 3, "the caller's table was changed"


def test_work_counts_items_and_pairs() -> None:
    model = PersonalizedPageRank(30)
    model.learn(HISTORIES)
    lengths = TABLE.sum(axis=1)
    assert model.last_work.operations == int(np.sum(lengths + lengths * (lengths - 1) // 2))


@pytest.mark.parametrize("layout", ["packed", "full"])
@pytest.mark.parametrize("mode", ["always", "never"])
def test_a_refused_update_takes_back_what_it_learned(
    layout: str, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CHOICE, "mode", mode)
    model = PersonalizedPageRank(n_items=9, layout=layout)
    model.learn([[0, 1, 2], [2, 3]])
    before = model.digest()
    with pytest.raises(NotLearned):
        model.update(([[0, 1, 5], [4, 5]],), ([[0, 3]],))
    assert model.digest() == before
    model.update(([[4, 5]],), ([[2, 3]],))
    never = PersonalizedPageRank(n_items=9, layout=layout)
    never.learn([[0, 1, 2], [4, 5]])
    assert model.digest() == never.digest()


@pytest.mark.parametrize("layout", ["packed", "full"])
@pytest.mark.parametrize("mode", ["never", "always"])
def test_answers_from_counts_that_no_histories_have_are_refused(
    layout: str, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if mode == "always":
        pytest.importorskip("numba")
    monkeypatch.setattr(CHOICE, "mode", mode)
    model = PersonalizedPageRank(4, layout=layout)
    counts = {"items": Entries.of({1: 2, 2: 2}), "pairs": Entries.of({0: 2, 1: 1})}
    model.merge(Statistics(model.schema, counts))
    for call in (lambda: model.similar(0), lambda: model.recommend([0]), model.derived_arrays):
        with pytest.raises(Impossible, match=r"check\(\) names the items"):
            call()


def test_answers_from_impossible_counts_of_very_many_items_are_refused() -> None:
    model = PersonalizedPageRank(1 << 17)
    counts = {"items": Entries.of({1: 2, 2: 2}), "pairs": Entries.of({0: 2, 1: 2})}
    model.merge(Statistics(model.schema, counts))
    for call in (lambda: model.similar(0), lambda: model.recommend([0]), model.derived_arrays):
        with pytest.raises(Impossible, match=r"check\(\) names the items"):
            call()


def test_a_file_of_very_many_items_is_loaded_in_little_memory(tmp_path: Path) -> None:
    model = PersonalizedPageRank(1 << 30)
    model.learn([[3, 1 << 29], [3, 7]])
    model.save(tmp_path / "model")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    loaded = PersonalizedPageRank.load(tmp_path / "model")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10  # KiB
    assert loaded.digest() == model.digest()
    with pytest.raises(NotLearned, match="item 7 would be in 0 histories"):
        loaded.update((), ([[3], [7]],))
    loaded.forget([[3, 1 << 29], [3, 7]])
    assert loaded.statistics.is_zero


def test_a_check_takes_memory_for_the_items_that_statistics_contain() -> None:
    model = PersonalizedPageRank(1 << 30)
    model.learn([[7, 1 << 29]])
    few = model.statistics
    tracemalloc.start()
    model.check_statistics(few)
    pairs = {"items": few["items"], "pairs": few["pairs"] + few["pairs"]}
    with pytest.raises(Impossible, match=f"items {1 << 29} and 7 .* but each in 1 and 1"):
        model.check_statistics(Statistics(model.schema, pairs))
    without = {"items": Entries.of({7: 1}), "pairs": few["pairs"]}
    with pytest.raises(Impossible, match="but each in 0 and 1"):
        model.check_statistics(Statistics(model.schema, without))
    none = {"items": Entries.of({}), "pairs": few["pairs"]}
    with pytest.raises(Impossible, match=f"items {1 << 29} and 7 .* but each in 0 and 0"):
        model.check_statistics(Statistics(model.schema, none))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 20


def test_a_sparse_table_whose_indices_are_no_integers_is_refused() -> None:
    table = sparse.csr_array(np.eye(3))
    table.indices = table.indices.astype(float)
    with pytest.raises(BadInput, match="its indices are float64"):
        PersonalizedPageRank(3).learn(table)
