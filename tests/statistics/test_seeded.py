"""The same integers for the same seed and purpose, for ever."""

import hashlib
import itertools

import numpy as np
import pytest

from dealfl.exact import seeded_bytes, seeded_sums


def test_bytes_never_change() -> None:
    assert seeded_bytes(0, "hyperplanes", 8).tolist() == [47, 219, 114, 227, 44, 188, 50, 159]
    assert seeded_bytes(-3, "µ", 3).tolist() == [141, 231, 43]
    stream = seeded_bytes(7, "weights", 100_000).tobytes()
    digest = "06519ba0dc1756e8a5a2e764833b1d818ea86c6197b3dffe5ed60280f7b8c47b"
    assert hashlib.sha256(stream).hexdigest() == digest


def test_sums_never_change() -> None:
    assert seeded_sums(0, "hyperplanes", (2, 3)).tolist() == [[97, -69, 196], [102, 45, -57]]
    whole = seeded_sums(2**40, "filters", (10, 20, 30))
    digest = "91f39d5240164997d73dd10ba3186429d9c1962d1517056aa36709067e965878"
    assert hashlib.sha256(whole.astype("<i8").tobytes()).hexdigest() == digest


def test_seeds_and_purposes_have_streams_of_their_own() -> None:
    asked = itertools.product([0, 1, -1, 10, 2**64], ["", "a", "A", "a/1", "a/", "hyperplanes"])
    streams = [seeded_bytes(seed, purpose, 32).tobytes() for seed, purpose in asked]
    assert len(set(streams)) == len(streams)


def test_asking_for_more_begins_with_the_same() -> None:
    assert seeded_bytes(5, "a", 10).tolist() == seeded_bytes(5, "a", 1000)[:10].tolist()
    assert seeded_sums(5, "a", (6,)).tolist() == seeded_sums(5, "a", (50,))[:6].tolist()
    assert seeded_sums(5, "a", (2, 3)).ravel().tolist() == seeded_sums(5, "a", (6,)).tolist()


@pytest.mark.parametrize("shape", [(0,), (3, 0), (), (1,), (4, 5)])
def test_sums_have_the_shape_asked_for(shape: tuple[int, ...]) -> None:
    sums = seeded_sums(1, "a", shape)
    assert sums.shape == shape
    assert sums.dtype == np.int64


def test_each_sum_is_one_of_four_bytes_about_zero() -> None:
    four = seeded_bytes(3, "a", 400).reshape(100, 4).astype(int)
    assert seeded_sums(3, "a", (100,)).tolist() == (four.sum(axis=1) - 510).tolist()


def test_bytes_are_uniform() -> None:
    counts = np.bincount(seeded_bytes(0, "uniform", 256 * 400), minlength=256)
    surplus = (counts - 400) ** 2 / 400
    assert abs(surplus.sum() - 255) < 4 * np.sqrt(2 * 255)  # chi-square of 255 degrees


def test_sums_are_symmetric_and_nearly_normal() -> None:
    sums = seeded_sums(0, "normal", (100_000,))
    deviation = np.sqrt((256**2 - 1) / 3)  # of four uniform bytes
    assert abs(sums.mean()) < 4 * deviation / np.sqrt(100_000)
    assert sums.std() == pytest.approx(deviation, rel=0.01)
    assert np.mean(abs(sums) < deviation) == pytest.approx(0.67, abs=0.01)
    assert -510 <= sums.min() < -400
    assert 400 < sums.max() <= 510
    assert abs(np.corrcoef(sums[:-1], sums[1:])[0, 1]) < 0.02
