from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dealfl.data import split_by_label, split_by_owner, split_uniformly

Parts = list[NDArray[np.int64]]
OWNERS = st.lists(st.sampled_from(["ann", "bob", "cleo", "dan", "eve", "flo"]), max_size=60)
LABELS = st.lists(st.integers(-3, 3), max_size=60)
WORKERS = st.integers(1, 80)
SEEDS = st.integers(0, 2**63)
CONCENTRATIONS = st.floats(1e-6, 1e6)


def assert_everything_is_dealt_once(parts: Parts, workers: int, count: int) -> None:
    assert len(parts) == workers
    assert sorted(np.concatenate(parts).tolist()) == list(range(count))
    for part in parts:
        assert part.dtype == np.int64
        assert (np.diff(part) > 0).all()


def lists(parts: Parts) -> list[list[int]]:
    return [part.tolist() for part in parts]


@given(OWNERS, WORKERS, SEEDS)
def test_owners_are_dealt_out_whole_and_evenly(owners: list[str], workers: int, seed: int) -> None:
    parts = split_by_owner(np.array(owners, dtype="U4"), workers, seed)
    assert_everything_is_dealt_once(parts, workers, len(owners))
    held = [{owners[index] for index in part} for part in parts]
    assert sum(map(len, held)) == len(set(owners))
    assert max(map(len, held)) - min(map(len, held)) <= 1


@given(OWNERS, WORKERS, SEEDS)
def test_the_worker_of_an_owner_does_not_depend_on_the_order_of_examples(
    owners: list[str], workers: int, seed: int
) -> None:
    def worker_of(names: list[str]) -> dict[str, int]:
        parts = split_by_owner(np.array(names, dtype="U4"), workers, seed)
        return {names[index]: worker for worker, part in enumerate(parts) for index in part}

    assert worker_of(owners) == worker_of(sorted(owners)[::-1])


@given(st.integers(0, 200), WORKERS, SEEDS)
def test_uniform_parts_cover_all_and_differ_by_one_at_most(
    count: int, workers: int, seed: int
) -> None:
    parts = split_uniformly(count, workers, seed)
    assert_everything_is_dealt_once(parts, workers, count)
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= 1


@given(LABELS, WORKERS, CONCENTRATIONS, SEEDS)
def test_label_skewed_parts_cover_all(
    labels: list[int], workers: int, concentration: float, seed: int
) -> None:
    parts = split_by_label(np.array(labels, dtype=np.int64), workers, concentration, seed)
    assert_everything_is_dealt_once(parts, workers, len(labels))


@given(LABELS, WORKERS, SEEDS)
def test_the_same_seed_deals_the_same_way(labels: list[int], workers: int, seed: int) -> None:
    array = np.array(labels, dtype=np.int64)
    assert lists(split_by_owner(array, workers, seed)) == lists(
        split_by_owner(array, workers, seed)
    )
    assert lists(split_uniformly(len(array), workers, seed)) == lists(
        split_uniformly(len(array), workers, seed)
    )
    skewed = [lists(split_by_label(array, workers, 0.5, seed)) for _ in range(2)]
    assert skewed[0] == skewed[1]


def test_another_seed_deals_another_way() -> None:
    labels = np.arange(1000) % 7
    assert lists(split_uniformly(1000, 5, 0)) != lists(split_uniformly(1000, 5, 1))
    assert lists(split_by_owner(labels, 3, 0)) != lists(split_by_owner(labels, 3, 1))
    assert lists(split_by_label(labels, 5, 1.0, 0)) != lists(split_by_label(labels, 5, 1.0, 1))


def test_a_small_concentration_gives_a_class_to_few_workers_and_a_large_one_to_all() -> None:
    labels = np.arange(10_000) % 10

    def workers_per_class(concentration: float) -> float:
        parts = split_by_label(labels, 20, concentration, seed=3)
        holders = Counter(label for part in parts for label in set(labels[part].tolist()))
        return sum(holders.values()) / len(holders)

    assert workers_per_class(0.01) < 3
    assert workers_per_class(1000.0) == 20


def test_more_workers_than_examples_leaves_some_without() -> None:
    assert sum(len(part) == 0 for part in split_uniformly(3, 10, 0)) == 7
    assert sum(len(part) == 0 for part in split_by_owner(["a", "a", "b"], 10, 0)) == 8
