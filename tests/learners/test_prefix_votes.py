"""The federated neighbours model: votes of prefixes, and what a published one may hold."""

from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dealfl.errors import NotLearned
from dealfl.exact import Entries
from dealfl.learners import Neighbors, from_schema
from dealfl.learners.neighbors.signatures import Buckets, winners

CLASSES = ["low", "middle", "high"]
RNG = np.random.default_rng(5)
X = np.concatenate([RNG.normal(c, 1.0, (90, 5)) for c in (-2, 0, 2)]).clip(-8, 8)
Y = np.repeat(CLASSES, 90)


def made(**other: Any) -> Neighbors:
    settings = {"feature_bound": 8.0, "k": 7, "tables": 5, "bits": 20, "vote_bits": 12}
    return Neighbors(5, CLASSES, **(settings | other))


def learned(**other: Any) -> Neighbors:
    model = made(**other)
    model.learn(X, Y)
    return model


def served(statistics: Any, **other: Any) -> Neighbors:
    model = made(**other)
    model.merge(statistics)
    return model


def by_definition(counts: dict[int, int], bits: int, least: int) -> dict[int, int]:
    """Return where the examples of one table go: down the tree, to a side with enough of them."""

    def held(prefix: str) -> int:
        return sum(n for number, n in counts.items() if f"{number:0{bits}b}".startswith(prefix))

    places: Counter[int] = Counter()
    for number, count in counts.items():
        own, prefix = f"{number:0{bits}b}", ""
        while len(prefix) < bits:
            sides = own[len(prefix)], "10"[int(own[len(prefix)])]
            usable = [prefix + side for side in sides if held(prefix + side) >= least]
            if not usable:
                break
            prefix = usable[0]
        places[int(prefix.ljust(bits, "0"), 2)] += count
    return dict(places)


@pytest.mark.parametrize("least", [1, 2, 5, 20])
@pytest.mark.parametrize("seed", range(6))
def test_small_buckets_are_merged_down_the_tree(seed: int, least: int) -> None:
    rng = np.random.default_rng(seed)
    numbers = (rng.random(60) ** 3 * 256).astype(int).tolist()
    counts = dict(Counter(numbers))
    merged = Buckets(Entries.of(counts), classes=1, bits=8).merged(least)
    assert merged.to_dict() == by_definition(counts, 8, least)


def test_an_example_moves_once_at_each_bit_at_most() -> None:
    merged = Buckets(Entries.of({0b000: 1, 0b111: 2}), classes=1, bits=3).merged(2)
    assert merged.to_dict() == {0b111: 3}


@pytest.mark.parametrize("least", [1, 5, 40, 270])
def test_a_published_model_holds_no_small_bucket(least: int) -> None:
    model = learned(min_bucket=least)
    published = model.publish()
    buckets: Counter[int] = Counter()
    for index, count in published["votes"].to_dict().items():
        buckets[index // 3] += count
    assert min(buckets.values()) >= least
    assert sum(buckets.values()) == 5 * 270
    server = served(published, min_bucket=least)
    server.check()  # each table counts every example
    assert server.publish() == published
    points = RNG.uniform(-8, 8, (100, 5))
    assert server.predict_votes(points).tolist() == model.predict_votes(points).tolist()


def test_too_few_examples_are_not_published() -> None:
    model = made(min_bucket=5)
    model.learn(X[:4], Y[:4])
    assert model.publish().is_zero
    with pytest.raises(NotLearned, match=r"4 examples are learned.* at least min_bucket = 5"):
        model.predict_votes(X)
    model.learn(X[4:5], Y[4:5])
    assert model.predict_votes(X[-1:]).tolist() == ["low"]


def test_votes_are_exact_shares_of_the_longest_prefixes() -> None:
    model = learned(min_bucket=9)
    votes = model.publish()["votes"].to_dict()
    numbers = model._signatures.buckets_of(model._signatures.of(model._queries(X)))
    for row, label in zip(numbers.tolist(), model.predict_votes(X).tolist(), strict=True):
        scores = [Fraction(0)] * 3
        for number in row:
            counts = next(found for found in _prefixes(votes, number) if sum(found) >= 9)
            scores = [
                s + Fraction(c, sum(counts) ** 2) for s, c in zip(scores, counts, strict=True)
            ]
        assert label == CLASSES[scores.index(max(scores))]
    assert model.score_federated(X, Y) > 0.8


def _prefixes(votes: dict[int, int], number: int) -> Any:
    """Yield the class counts of the prefixes of a bucket, the longest first."""
    for free in range(13):
        yield [
            sum(n for i, n in votes.items() if (i // 3) >> free == number >> free and i % 3 == code)
            for code in range(3)
        ]


def test_equal_votes_go_to_the_first_class_however_floats_round() -> None:
    shares = [[1, 2], [1, 5], [5, 1], [2, 1]]  # 1/9 + 1/36 + 5/36 + 2/9 for both, in other orders
    votes = np.array([shares, shares[::-1]])
    assert winners(votes, commonest=1).tolist() == [0, 0]
    assert winners(np.zeros((1, 4, 2), np.int64), commonest=1).tolist() == [1]
    small = np.array([[[600, 400], [0, 2]]])  # a small bucket is nearer than a large one
    assert winners(small, commonest=0).tolist() == [1]


def test_a_server_without_examples_can_only_vote() -> None:
    server = served(learned().statistics)
    with pytest.raises(NotLearned, match="predict_votes needs statistics only"):
        server.predict(X)
    assert server.predict_votes(X).tolist() == learned().predict_votes(X).tolist()
    with pytest.raises(NotLearned):
        made().predict_votes(X)


def test_a_model_changes_by_the_shares_of_classes_in_its_buckets() -> None:
    model = made()
    before = model.learn(np.zeros((4, 5)), ["low", "low", "low", "high"])  # 3/4 and 1/4
    assert model.change(before) == 0.0
    model.learn(np.zeros((2, 5)), ["high", "high"])  # 1/2 and 1/2
    assert model.change(before) == pytest.approx(((1 / 4) ** 2 * 2 / (9 / 16 + 1 / 16)) ** 0.5)


def test_the_work_of_a_prediction_contains_the_votes_it_reads() -> None:
    model = learned()
    model.predict_votes(X[:10])
    votes = 10 * 5 * 3  # one of each class in each table, for each row
    signatures = 10 * (5 * 5 * 10 + 5 + 1)  # 5 features, 5 tables of 20 bits, two per direction
    assert model.last_work.operations == signatures + votes
    assert model.last_work.bytes == 8 * votes


def test_statistics_alone_determine_the_directions() -> None:
    bounds = [8.0, 8.0, 100.0, 8.0, 8.5]
    model = learned(feature_bound=bounds, direction_features=1)
    again = from_schema(model.schema)
    assert isinstance(again, Neighbors)
    again.merge(model.statistics)
    assert again.predict_votes(X).tolist() == model.predict_votes(X).tolist()


def test_an_example_that_merged_statistics_took_back_cannot_be_forgotten() -> None:
    model = made()
    delta = model.learn(X[:3], Y[:3], ids=[0, 1, 2])
    model.merge(-delta)
    assert model.statistics.is_zero
    with pytest.raises(NotLearned, match="a count would be negative"):
        model.forget(ids=[1])
    assert len(model) == 3
    model.merge(delta)
    model.forget(ids=[1])
    model.check()


def test_long_votes_are_kept_sparsely() -> None:
    model = learned(bits=60, vote_bits=48)
    assert model.statistics.nbytes < 30_000
    model.forget(X, Y)
    assert model.statistics.is_zero
