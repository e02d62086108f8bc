"""k nearest neighbours: exact search where nothing is left out, votes, ids, what is wiped."""

import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dealfl.errors import BadInput, NotLearned
from dealfl.fixedpoint import FixedPoint
from dealfl.learners import Neighbors
from dealfl.learners import forest as forest_module
from dealfl.learners.forest import PrefixForest
from dealfl.learners.held_examples import HeldExamples
from dealfl.learners.votes import Signatures, winners
from dealfl.seeded import seeded_sums

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
    monkeypatch.setattr(forest_module, "MIN_MERGE", min_merge)
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


def test_a_forest_finds_the_longest_prefix_that_enough_examples_share() -> None:
    keys = np.array([0b0000, 0b0001, 0b0011, 0b0111, 0b1111], dtype=np.uint64)[:, None]
    forest = PrefixForest(tables=1, bits=4)
    forest.add(np.arange(5), keys)
    query = np.array([[0b0000]], dtype=np.uint64)
    found = [forest.candidates(query, enough)[0].tolist() for enough in (1, 2, 3, 4, 5, 6)]
    assert found == [[0], [0, 1], [0, 1, 2], [0, 1, 2, 3], [0, 1, 2, 3, 4], [0, 1, 2, 3, 4]]


@pytest.mark.parametrize("min_merge", [0, 4, 10_000])
def test_a_forest_finds_what_is_left_after_removals(
    min_merge: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forest_module, "MIN_MERGE", min_merge)
    generator = np.random.default_rng(9)
    keys = generator.integers(0, 1 << 12, (300, 1)).astype(np.uint64)
    forest = PrefixForest(tables=1, bits=12)
    forest.add(np.arange(200), keys[:200])
    forest.add(np.arange(200, 300), keys[200:])
    gone = generator.permutation(300)[:150]
    forest.remove(gone, keys[gone])
    kept = np.setdiff1d(np.arange(300), gone)
    for enough in (1, 5, 40):
        for key in range(0, 1 << 12, 97):
            query = np.array([[key]], dtype=np.uint64)
            expected = _longest_prefix(key, keys[:, 0], kept, enough)
            assert forest.candidates(query, enough)[0].tolist() == expected


@pytest.mark.parametrize("min_merge", [0, 4, 10_000])
def test_a_forest_keeps_no_key_of_what_was_removed(
    min_merge: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = np.random.default_rng(1).integers(1 << 59, 1 << 60, (40, 1)).astype(np.uint64)
    monkeypatch.setattr(forest_module, "MIN_MERGE", 0)
    forest = PrefixForest(tables=1, bits=60)
    forest.add(np.arange(30), keys[:30])
    monkeypatch.setattr(forest_module, "MIN_MERGE", min_merge)
    forest.add(np.arange(30, 40), keys[30:])
    left = set(range(40))
    for slot in np.random.default_rng(2).permutation(40).tolist():
        forest.remove(np.array([slot]), keys[[slot]])
        left.remove(slot)
        memory = pickle.dumps(forest)
        assert left == {one for one in range(40) if keys[one].tobytes() in memory}
        found = forest.candidates(np.array([[0]], dtype=np.uint64), 40)[0]
        assert set(found.tolist()) == left


def _longest_prefix(key: int, keys: Any, kept: Any, enough: int) -> list[int]:
    for bits in range(12, -1, -1):
        members = [int(i) for i in kept if int(keys[i]) >> (12 - bits) == key >> (12 - bits)]
        if len(members) >= enough or bits == 0:
            return members
    raise AssertionError


def test_the_last_example_can_leave_a_forest() -> None:
    forest = PrefixForest(tables=2, bits=4)
    keys = np.array([[1, 2]], dtype=np.uint64)
    forest.add(np.array([0]), keys)
    forest.remove(np.array([0]), keys)
    assert forest.candidates(keys, 1)[0].tolist() == []


def test_a_removed_example_is_wiped_and_its_place_used_again() -> None:
    signatures = Signatures(columns=2, tables=1, bits=8, vote_bits=2, seed=0)
    held = HeldExamples(signatures, columns=2)
    vectors = np.array([[11, 12], [13, 14]], dtype=np.int32)
    held.add(np.array([5, 6]), vectors, np.array([1, 2]), signatures.of(vectors))
    slots = held.slots_of(np.array([5]))
    held.remove(slots, signatures.of(vectors[:1]))
    assert held.vectors[slots].tolist() == [[0, 0]]
    assert (held.codes[slots].tolist(), held.ids[slots].tolist()) == ([0], [0])
    held.add(np.array([7]), vectors[:1], np.array([0]), signatures.of(vectors[:1]))
    assert held.slots_of(np.array([7])).tolist() == slots.tolist()


def test_signatures_are_the_same_for_every_batch_size() -> None:
    signatures = Signatures(columns=7, tables=5, bits=60, vote_bits=12, seed=3)
    vectors = RNG.integers(-(1 << 20), 1 << 20, (50, 7))
    together = signatures.of(vectors)
    assert together.tolist() == [signatures.of(vectors[[i]])[0].tolist() for i in range(50)]


def test_signatures_are_signs_of_integer_projections() -> None:
    signatures = Signatures(columns=3, tables=2, bits=4, vote_bits=2, seed=0)
    vectors = np.array([[5, -3, 1], [0, 0, 0]])
    planes = seeded_sums(0, "hyperplanes", (8, 3)).tolist()
    for vector, keys in zip(vectors.tolist(), signatures.of(vectors).tolist(), strict=True):
        sides = [sum(a * b for a, b in zip(vector, plane, strict=True)) >= 0 for plane in planes]
        bits = "".join(str(int(side)) for side in sides)
        assert keys == [int(bits[:4], 2), int(bits[4:], 2)]


def test_signatures_never_change() -> None:
    keys = Signatures(columns=2, tables=2, bits=60, vote_bits=12, seed=0).of(np.array([[3, -4]]))
    assert keys.tolist() == [[1015066087115873391, 1015610466634120358]]


def test_votes_are_the_mean_over_tables_of_exact_shares() -> None:
    model = learned(tables=5, vote_bits=4)
    grid = FixedPoint.of(X.shape[1], SETTINGS["feature_bound"], 20, shared=True)
    made_alike = Signatures(X.shape[1], tables=5, bits=60, vote_bits=4, seed=0)
    buckets = made_alike.buckets_of(made_alike.of(grid.quantise(X)))
    votes = model.statistics["votes"].to_dict()
    expected = []
    for row in buckets.tolist():
        shares = [Fraction(0)] * 3
        for bucket in row:
            counts = [votes.get(bucket * 3 + code, 0) for code in range(3)]
            shares = [s + Fraction(c, sum(counts)) for s, c in zip(shares, counts, strict=True)]
        expected.append(SETTINGS["classes"][shares.index(max(shares))])
    assert model.predict_votes(X).tolist() == expected
    assert model.score_federated(X, Y) > 0.6


def test_equal_shares_go_to_the_first_class_however_floats_round() -> None:
    shares = [[1, 2], [1, 5], [5, 1], [2, 1]]  # 1/3 + 1/6 + 5/6 + 2/3 for both, in other orders
    votes = np.array([shares, shares[::-1]])
    assert winners(votes, commonest=1).tolist() == [0, 0]
    tenths = np.array([[[3, 1, *[1] * 6], [0, 2, 1, 1, 1, 1, 2, 2]]])  # 1/10 + 2/10 > 3/10
    assert winners(tenths, commonest=7).tolist() == [0]


def test_a_server_without_examples_can_only_vote() -> None:
    server = made()
    server.merge(learned().statistics)
    with pytest.raises(NotLearned, match="predict_votes needs statistics only"):
        server.predict(X)
    assert server.predict_votes(X).tolist() == learned().predict_votes(X).tolist()


def test_a_query_in_empty_buckets_gets_the_commonest_class() -> None:
    model = Neighbors(2, ["a", "b"], feature_bound=1.0, tables=1, vote_bits=20)
    model.learn([[1.0, 1.0], [1.0, 0.9], [1.0, 0.8]], ["b", "b", "a"])
    assert model.predict_votes([[-1.0, -1.0]]).tolist() == ["b"]


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


def test_ids_are_given_or_the_smallest_free_ones() -> None:
    model = made()
    model.learn(X[:3], Y[:3])
    model.forget(ids=[1])
    model.learn(X[3:5], Y[3:5])
    found = sorted(ids[0] for ids, _ in model.nearest(X[[0, 2, 3, 4]], 1))
    assert found == [0, 1, 2, 3]
    assert len(model) == 4


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"vote_bits": 61}, "vote_bits is 61; it must be a whole number from 1 to 60"),
        ({"bits": 64}, "bits is .*; it must be"),
        ({"tables": 0}, "tables is .*; it must be"),
        ({"k": 0}, "k is .*; it must be"),
        ({"seed": -1}, "seed is .*; it must be"),
        ({"tables": 1024, "vote_bits": 50}, "lower vote_bits"),
        ({"fraction_bits": 25}, "fraction_bits is .*; it must be"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        made(**settings)


def test_long_votes_are_kept_sparsely() -> None:
    model = learned(vote_bits=40)
    assert model.statistics.nbytes < 200_000
    model.forget(X, Y)
    assert model.statistics.is_zero


def test_the_seed_is_part_of_the_digest_but_k_is_not() -> None:
    assert made(k=1).digest() == made(k=9).digest()
    assert made(seed=1).digest() != made(seed=2).digest()
