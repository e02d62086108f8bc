"""k nearest neighbours: exact search where nothing is left out, votes, ids, what is wiped."""

import math
import pickle
import sys
from collections import Counter
from typing import Any

import numpy as np
import pytest

from dealfl.errors import BadInput, NotLearned
from dealfl.exact import seeded_bytes, seeded_sums
from dealfl.learners import Neighbors
from dealfl.learners.neighbors import examples as examples_module
from dealfl.learners.neighbors.examples import HeldExamples, PrefixForest
from dealfl.learners.neighbors.plain import near_rows
from dealfl.learners.neighbors.signatures import Signatures

RNG = np.random.default_rng(2)
X = np.concatenate([RNG.normal(c, 1.0, (60, 5)) for c in (-2, 0, 2)]).clip(-8, 8)
Y = np.repeat(["low", "middle", "high"], 60)
SETTINGS: dict[str, Any] = {
    "n_features": 5,
    "classes": ["low", "middle", "high"],
    "feature_bound": 8.0,
    "k": 7,
}


def made(**other: Any) -> Neighbors:
    return Neighbors(**(SETTINGS | other))


def learned(**other: Any) -> Neighbors:
    model = made(**other)
    model.learn(X, Y, ids=np.arange(1000, 1180))
    return model


def brute_force(points: Any, k: int) -> list[list[int]]:
    distances = ((points[:, None, :] - X[None]) ** 2).sum(axis=2)
    return [np.lexsort((np.arange(180), row))[:k].tolist() for row in distances]


def test_the_nearest_are_found_exactly_when_every_example_is_a_candidate() -> None:
    model = learned(enough=180)
    points = RNG.uniform(-8, 8, (40, 5))
    found = [(ids - 1000).tolist() for ids, _ in model.nearest(points, 7)]
    assert found == brute_force(points, 7)
    distances = model.nearest(points[:1], 3)[0][1]
    expected = np.linalg.norm(X[brute_force(points[:1], 3)[0]] - points[0], axis=1)
    assert distances == pytest.approx(expected, abs=1e-4)


def test_most_of_the_nearest_are_found_by_signature() -> None:
    model = learned()
    hits = [
        len(set((ids - 1000).tolist()) & set(true))
        for (ids, _), true in zip(model.nearest(X, 7), brute_force(X, 7), strict=True)
    ]
    assert np.mean(hits) / 7 > 0.95


def test_examples_tied_at_the_last_place_share_it() -> None:
    model = Neighbors(1, ["a", "b"], k=2, feature_bound=8.0)
    model.learn([[0.0], [2.0], [-2.0], [2.0]], ["a", "b", "b", "b"])
    assert model.predict([[0.0]]).tolist() == ["a"]  # one a, and one place shared by three b: tie
    model.learn([[0.0]], ["b"])
    assert model.predict([[0.0]]).tolist() == ["a"]  # one each: the first class
    model.forget([[0.0]], ["a"])
    assert model.predict([[0.0]]).tolist() == ["b"]


def test_places_left_go_to_the_tied_by_their_share() -> None:
    model = Neighbors(1, ["a", "b"], k=4, feature_bound=8.0)
    model.learn([[0.0], [2.0], [-2.0], [2.0], [2.0]], ["a", "b", "b", "b", "b"])
    assert model.predict([[0.0]]).tolist() == ["b"]  # one a, three places shared by four b
    assert model.predict_proba([[0.0]]).tolist() == [[0.25, 0.75]]
    assert model.predict_proba(np.empty((0, 1))).shape == (0, 2)


def test_predictions_do_not_depend_on_ids_or_order() -> None:
    first = learned().predict(X)
    order = RNG.permutation(180)
    model = made()
    model.learn(X[order], Y[order], ids=RNG.permutation(10_000)[:180])
    assert model.predict(X).tolist() == first.tolist()


@pytest.mark.parametrize("min_merge", [0, 3, 10_000])
def test_what_is_found_depends_on_the_examples_held_alone(
    min_merge: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(examples_module, "MIN_MERGE", min_merge)
    model = learned(enough=3)
    for step in range(60):
        model.forget(ids=[1000 + 3 * step])
        if step % 2:
            model.learn(X[[3 * step]], Y[[3 * step]], ids=[1000 + 3 * step])
    kept = [i for i in range(180) if i % 6 != 0]
    scratch = made(enough=3)
    scratch.learn(X[kept], Y[kept], ids=1000 + np.array(kept))
    assert model.digest() == scratch.digest()
    for (ids, far), (other, away) in zip(model.nearest(X), scratch.nearest(X), strict=True):
        assert ids.tolist() == other.tolist()
        assert far.tolist() == away.tolist()


def candidates(forest: PrefixForest, query: Any, enough: int) -> list[int]:
    nothing = np.zeros((300, 0), np.int32)
    rows = near_rows(*forest.arrays, query, enough, nothing, nothing[:1])
    return list(next(rows)[1].slots.tolist())


def removed(forest: PrefixForest, slots: Any) -> list[list[int]]:
    """Remove examples; return their keys."""
    vectors = np.zeros((300, 0), np.int32)
    codes, ids = np.zeros(300, np.int32), np.zeros(300, np.int64)
    return list(forest.remove(np.array(slots), vectors, codes, ids)[0].tolist())


def test_a_forest_finds_enough_examples_with_the_longest_prefixes() -> None:
    keys = np.array([0b0000, 0b0001, 0b0011, 0b0111, 0b1111], dtype=np.uint64)[:, None]
    forest = PrefixForest(tables=1)
    forest.add(np.arange(5), keys)
    query = np.array([[0b0000]], dtype=np.uint64)
    found = [candidates(forest, query, enough) for enough in (1, 2, 3, 4, 5, 6)]
    assert found == [[0], [0, 1], [0, 1, 2], [0, 1, 2, 3], [0, 1, 2, 3, 4], [0, 1, 2, 3, 4]]


@pytest.mark.parametrize("min_merge", [0, 4, 10_000])
def test_a_forest_finds_what_is_left_after_removals(
    min_merge: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(examples_module, "MIN_MERGE", min_merge)
    generator = np.random.default_rng(9)
    keys = generator.integers(0, 1 << 12, (300, 1)).astype(np.uint64)
    forest = PrefixForest(tables=1)
    forest.add(np.arange(200), keys[:200])
    forest.add(np.arange(200, 300), keys[200:])
    gone = generator.permutation(300)[:150]
    assert removed(forest, gone) == keys[gone].tolist()
    kept = np.setdiff1d(np.arange(300), gone)
    for enough in (1, 5, 40):
        for key in range(0, 1 << 12, 97):
            query = np.array([[key]], dtype=np.uint64)
            expected = _nearest_keys(key, keys[:, 0], kept, enough)
            assert candidates(forest, query, enough) == expected


@pytest.mark.parametrize("min_merge", [0, 4, 10_000])
def test_a_forest_keeps_no_key_of_what_was_removed(
    min_merge: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = np.random.default_rng(1).integers(1 << 59, 1 << 60, (40, 1)).astype(np.uint64)
    monkeypatch.setattr(examples_module, "MIN_MERGE", 0)
    forest = PrefixForest(tables=1)
    forest.add(np.arange(30), keys[:30])
    monkeypatch.setattr(examples_module, "MIN_MERGE", min_merge)
    forest.add(np.arange(30, 40), keys[30:])
    left = set(range(40))
    for slot in np.random.default_rng(2).permutation(40).tolist():
        removed(forest, [slot])
        left.remove(slot)
        memory = pickle.dumps(forest)
        assert left == {one for one in range(40) if keys[one].tobytes() in memory}
        assert set(candidates(forest, np.array([[0]], dtype=np.uint64), 40)) == left


def test_a_forest_gives_back_the_room_of_what_was_removed() -> None:
    count = 4 * examples_module.MIN_MERGE
    keys = np.random.default_rng(1).integers(0, 1 << 60, (count, 1)).astype(np.uint64)
    forest = PrefixForest(tables=1)
    forest.add(np.arange(count), keys)
    nothing = np.zeros((count, 0), np.int32), np.zeros(count, np.int32), np.zeros(count, np.int64)
    forest.remove(np.arange(count - 9), *nothing)
    assert forest.arrays[0].shape[1] < count // 2


def _nearest_keys(key: int, keys: Any, kept: Any, enough: int) -> list[int]:
    """Return all examples whose keys are among those of the `enough` best ones."""

    def rank(one: int) -> tuple[int, int]:
        other = int(keys[one])
        return (key ^ other).bit_length(), abs(key - other)

    best = {rank(one) for one in sorted(kept.tolist(), key=rank)[:enough]}
    return [one for one in kept.tolist() if rank(one) in best]


def test_the_last_example_can_leave_a_forest() -> None:
    forest = PrefixForest(tables=2)
    keys = np.array([[1, 2]], dtype=np.uint64)
    forest.add(np.array([0]), keys)
    assert removed(forest, [0]) == keys.tolist()
    assert candidates(forest, keys, 1) == []


def test_a_removed_example_is_wiped_and_its_place_used_again() -> None:
    signatures = Signatures(np.array([8, 8]), tables=1, bits=8, vote_bits=2, seed=0, digits=1)
    held = HeldExamples(signatures, columns=2, classes=3)
    vectors = np.array([[11, 12], [13, 14]], dtype=np.int32)
    held.add(np.array([5, 6]), vectors, np.array([1, 2]), signatures.of(vectors))
    slots = held.slots_of(np.array([5]))
    keys, codes = held.remove(slots)
    assert (keys.tolist(), codes.tolist()) == (signatures.of(vectors[:1]).tolist(), [1])
    assert held.vectors[slots].tolist() == [[0, 0]]
    assert (held.codes[slots].tolist(), held.ids[slots].tolist()) == ([0], [0])
    held.add(np.array([7]), vectors[:1], np.array([0]), signatures.of(vectors[:1]))
    assert held.slots_of(np.array([7])).tolist() == slots.tolist()


def test_signatures_are_the_same_for_every_batch_size() -> None:
    signatures = Signatures(np.full(7, 1 << 20), 5, bits=60, vote_bits=12, seed=3, digits=6)
    vectors = RNG.integers(-(1 << 20), 1 << 20, (50, 7))
    together = signatures.of(vectors)
    assert together.tolist() == [signatures.of(vectors[[i]])[0].tolist() for i in range(50)]


def test_signatures_are_digits_of_integer_projections() -> None:
    limits = np.array([1020, 2040, 510])
    signatures = Signatures(limits, tables=2, bits=8, vote_bits=2, seed=0, digits=4)
    entries = seeded_sums(0, "directions", (4, 3)).tolist()  # two per table
    points = (2 * seeded_bytes(0, "points", 12).astype(int) - 255).reshape(4, 3) * limits // 1020
    assert np.all(abs(points) <= limits / 4)
    vectors = np.array([[5, -3, 1], [0, 0, 0], [900, -70, 400], [-1020, 2040, -510]])
    for vector, keys in zip(vectors, signatures.of(vectors).tolist(), strict=True):
        digits = []
        for direction, point in zip(entries, (vector - points).tolist(), strict=True):
            length = sum((a * b) ** 2 for a, b in zip(direction, limits.tolist(), strict=True))
            width = 1 << math.isqrt(length).bit_length()
            projection = sum(a * b for a, b in zip(direction, point, strict=True))
            cell = (projection + width // 2) * 16 // width
            digits.append(f"{min(max(cell, 0), 15):04b}")
        pairs = [(digits[0], digits[1]), (digits[2], digits[3])]
        assert keys == [int("".join(a + b for a, b in zip(*two, strict=True)), 2) for two in pairs]


def test_directions_of_few_features_prefer_those_with_large_limits() -> None:
    limits = np.array([1, 1, 2000])
    signatures = Signatures(limits, 8, 60, 48, seed=1, digits=1, direction_features=1)
    vectors = np.array([[0, 0, 1500], [1, -1, 1500], [0, 0, -1500]])
    first, small, large = signatures.of(vectors)
    assert first.tolist() == small.tolist()
    assert all(int(a ^ b).bit_count() > 55 for a, b in zip(first, large, strict=True))


def test_signatures_never_change() -> None:
    limits, vector = np.array([8, 8]), np.array([[3, -4]])
    whole = Signatures(limits, tables=2, bits=60, vote_bits=12, seed=0, digits=6)
    assert whole.of(vector).tolist() == [[294217164879515837, 781991852408677473]]
    sparse = Signatures(limits, 2, 60, 12, seed=0, digits=2, direction_features=1)
    assert sparse.of(vector).tolist() == [[457181858345363554, 333370802723365416]]


def test_nothing_learned_predicts_nothing() -> None:
    with pytest.raises(NotLearned):
        made().predict(X)
    with pytest.raises(NotLearned):
        made().predict_votes(X)


def test_queries_outside_the_bounds_are_moved_there() -> None:
    model = learned()
    assert model.predict([[99.0] * 5]).tolist() == model.predict([[8.0] * 5]).tolist()
    with pytest.raises(BadInput, match="nan"):
        model.predict([[np.nan] * 5])


def test_ids_are_given_or_those_after_the_largest_held() -> None:
    model, other = made(), made()
    model.learn(X[:3], Y[:3])
    model.forget(ids=[1])
    other.learn(X[[0, 2]], Y[[0, 2]], ids=[0, 2])  # holds the same, forgot nothing
    for one in (model, other):
        one.learn(X[3:5], Y[3:5])
        assert [ids[0] for ids, _ in one.nearest(X[[0, 2, 3, 4]], 1)] == [0, 2, 3, 4]


def test_ids_leave_numbers_for_those_after_them() -> None:
    model = made()
    with pytest.raises(BadInput, match=r"ids is \[4611686018427387904\]; .* below 2\^62"):
        model.learn(X[:1], Y[:1], ids=[2**62])
    model.learn(X[:1], Y[:1], ids=[2**62 - 1])
    model.learn(X[1:2], Y[1:2])
    assert model.nearest(X[1:2], 1)[0][0].tolist() == [2**62]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"vote_bits": 64}, "vote_bits is 64; it must be a whole number from 1 to 63"),
        ({"bits": 64}, "bits is .*; it must be"),
        ({"tables": 0}, "tables is .*; it must be"),
        ({"k": 0}, "k is .*; it must be"),
        ({"k": (1 << 20) + 1}, "k is .*; it must be"),
        ({"seed": -1}, "seed is .*; it must be"),
        ({"tables": 1024, "vote_bits": 52}, "lower vote_bits"),
        ({"min_bucket": 0}, "min_bucket is .*; it must be"),
        ({"direction_features": -1}, "direction_features is .*; it must be"),
        ({"digits": 0}, "digits is .*; it must be"),
        ({"fraction_bits": 25}, "fraction_bits is .*; it must be"),
        ({"n_features": 2**15 + 1}, "n_features is .*; it must be"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        made(**settings)


def test_as_many_buckets_as_have_numbers_are_taken() -> None:
    signatures = Signatures(np.array([8]), 4, bits=60, vote_bits=48, seed=0, digits=1)
    assert signatures.cells(1 << 12) == 1 << 62
    with pytest.raises(BadInput, match="lower vote_bits"):
        signatures.cells((1 << 12) + 1)


def test_the_seed_is_part_of_the_digest_but_k_is_not() -> None:
    assert made(k=1, min_bucket=9).digest() == made(k=9).digest()
    assert made(seed=1).digest() != made(seed=2).digest()


def test_a_search_in_numpy_takes_all_rows_at_a_time() -> None:
    model, calls = learned(), Counter[str]()
    sys.setprofile(lambda _, event, __: calls.update([event]))
    try:
        model.predict(X)
    finally:
        sys.setprofile(None)
    assert calls["call"] + calls["c_call"] < 10 * len(X)  # of a search row by row, hundreds each


def test_one_update_takes_the_arguments_of_learn_and_of_forget() -> None:
    model = made()
    model.learn(X[:9], Y[:9], [*range(50, 59)])
    model.update(learn=(X[9:12], Y[9:12], [7, 8, 9]), forget=(None, None, [50, 58]))
    alone = made()
    alone.learn(X[1:8], Y[1:8], [*range(51, 58)])
    alone.learn(X[9:12], Y[9:12], [7, 8, 9])
    assert model.digest() == alone.digest()
    assert [ids.tolist() for ids, _ in model.nearest(X[9:12], 1)] == [[7], [8], [9]]
