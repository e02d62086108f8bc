import hashlib
from typing import Any
from unittest import mock

import numpy as np
import pytest
from numpy.typing import NDArray

import dealfl.features.patches
from dealfl.errors import BadInput, OutOfBounds
from dealfl.features import Patches
from dealfl.features.patches import (
    Grid,
    cosine_basis,
    frequency_gain,
    mixed_filters,
    steady_round,
)


def by_hand(patches: Patches, image: NDArray[Any]) -> list[int]:
    """The features of one image by plain loops over Python integers."""
    channels, height, width = patches.image
    pixels = image.reshape(patches.image).tolist()
    filters = mixed_filters(patches.seed, patches.filters, channels, patches.size, patches.gain)
    tops = range(0, height - patches.size + 1, patches.stride)
    lefts = range(0, width - patches.size + 1, patches.stride)
    features = []
    for weights in filters.tolist():
        sums = {
            (side, v, h): 0
            for side in (1, -1)
            for v in range(patches.pool)
            for h in range(patches.pool)
        }
        for v, top in enumerate(tops):
            for h, left in enumerate(lefts):
                response = sum(
                    weights[c][y][x] * pixels[c][top + y][left + x]
                    for c in range(channels)
                    for y in range(patches.size)
                    for x in range(patches.size)
                )
                cell = (cell_of(v, len(tops), patches.pool), cell_of(h, len(lefts), patches.pool))
                for side in (1, -1):
                    excess = max(side * response - round(256 * patches.threshold), 0)
                    sums[side, *cell] += excess
        features += [min(total >> (patches.shift or 0), 65_535) for total in sums.values()]
    return features


def cell_of(place: int, places: int, pool: int) -> int:
    return next(k for k in range(pool) if place < (k + 1) * places // pool)


def noise(count: int, inputs: int) -> NDArray[np.uint8]:
    return np.random.default_rng(0).integers(0, 256, (count, inputs), dtype=np.uint8)


@pytest.mark.parametrize(
    "settings",
    [
        {"image": (3, 9, 9), "filters": 3},
        {"image": (3, 9, 9), "filters": 3, "stride": 2, "threshold": 0.0, "seed": 4},
        {"image": (1, 8, 11), "filters": 2, "size": 3, "pool": 3, "shift": 3, "gain": 0.0},
        {"image": (2, 7, 5), "filters": 2, "size": 5, "pool": 1, "threshold": 20.3, "gain": 1.0},
    ],
)
def test_features_are_those_of_a_plain_loop(settings: Any) -> None:
    patches = Patches(n_inputs=int(np.prod(settings["image"])), **settings)
    images = noise(2, patches.n_inputs)
    assert patches.transform(images).tolist() == [by_hand(patches, image) for image in images]


def test_a_grey_image_has_next_to_no_features_and_a_step_has_some() -> None:
    patches = Patches(n_inputs=64, image=(1, 8, 8), filters=4, threshold=16.0)
    grey, step = np.full((8, 8), 128), np.repeat([0, 255], 32).reshape(8, 8)
    features = patches.transform(np.stack([grey.ravel(), step.ravel()]))
    assert features[0].max() == 0
    assert features[1].max() > 1000


def test_more_filters_begin_with_fewer_also_across_chunks() -> None:
    images = noise(2, 48)
    many = Patches(n_inputs=48, image=(3, 4, 4), size=2, filters=300)
    few = Patches(n_inputs=48, image=(3, 4, 4), size=2, filters=7)
    np.testing.assert_array_equal(many.transform(images)[:, :56], few.transform(images))
    last = Patches(n_inputs=48, image=(3, 4, 4), size=2, filters=300)
    assert many.transform(images)[0, -8:].tolist() == by_hand(last, images[0])[-8:]


def test_the_shift_turns_sums_into_means_unless_declared() -> None:
    assert Patches(n_inputs=3072).shift == 7  # the smallest cell holds 13 x 13 places
    assert Patches(n_inputs=3072, stride=2).shift == 5
    assert Patches(n_inputs=3072, shift=0).shift == 0
    assert Patches(n_inputs=3072).settings()["shift"] == 7


def test_large_sums_are_capped_and_exact() -> None:
    bright = Patches(n_inputs=64, image=(1, 8, 8), size=2, gain=0.0, filters=8, shift=0)
    features = bright.transform(np.full((1, 64), 255))
    assert features.max() == 65_535
    assert features.tolist() == [by_hand(bright, np.full(64, 255))]


def test_sums_beyond_32_bits_do_not_wrap() -> None:
    white = Patches(
        n_inputs=360_000, image=(1, 600, 600), size=4, gain=0.0, filters=4, pool=1, shift=20
    )
    responses = 255 * mixed_filters(0, 4, 1, 4, 0.0).sum(axis=(1, 2, 3))
    upwards = [max(int(response) - 4 * 256, 0) * 597**2 for response in responses]
    assert max(upwards) > 2**32
    features = white.transform(np.full((1, 360_000), 255))
    assert features[0, ::2].tolist() == [total >> 20 for total in upwards]


def test_the_bound_is_what_the_best_image_reaches() -> None:
    patches = Patches(n_inputs=12, image=(3, 2, 2), size=2, pool=1, filters=2, shift=4)
    weights = mixed_filters(0, 2, 3, 2, 0.5).reshape(2, -1)
    best = [255 * (side * row > 0) for row in weights for side in (1, -1)]
    features = patches.transform(np.array(best))
    assert np.diag(features).tolist() == patches.feature_bound.tolist()


def test_a_pixel_that_is_none_is_refused_by_its_place() -> None:
    patches = Patches(n_inputs=16, image=(1, 4, 4), size=2)
    images = np.zeros((3, 16))
    images[2, 5] = 0.5
    with pytest.raises(BadInput, match=r"X\[2, 5\] is 0.5, not a whole number; a pixel is a whole"):
        patches.transform(images)
    for value in (-1, 256):
        images[2, 5] = value
        with pytest.raises(OutOfBounds, match=rf"X\[2, 5\] is {value}\.0, outside 0 \.\. 255"):
            patches.transform(images)


def test_settings_whose_responses_are_not_exact_are_refused() -> None:
    with (
        mock.patch.object(dealfl.features.patches, "EXACT_32", 100_000),
        pytest.raises(BadInput, match="size is 6; responses reach 2"),
    ):
        Patches(n_inputs=3072)


def test_more_cells_than_places_are_refused() -> None:
    with pytest.raises(BadInput, match="pool is 4; it must be at most 3, so that no cell is empty"):
        Patches(n_inputs=64, image=(1, 8, 8), pool=4)


def test_the_default_filters_never_change() -> None:
    drawn = mixed_filters(seed=0, count=64, channels=3, size=6, gain=0.5)
    digest = hashlib.sha256(drawn.astype("<i8").tobytes()).hexdigest()
    assert digest == "49dfbbc2048c2dea61f75b946f37778abc673953d58d0fd345ab66f106dbfcb4"


def test_filters_are_bytes_of_equal_length() -> None:
    filters = mixed_filters(seed=0, count=200, channels=3, size=6, gain=0.5).reshape(200, -1)
    assert np.abs(filters).max() <= 127
    assert np.abs(np.linalg.norm(filters, axis=1) - 256).max() < 2


def test_filters_with_a_gain_hardly_see_brightness_and_white_ones_do() -> None:
    cosines = mixed_filters(seed=0, count=200, channels=1, size=6, gain=0.5)
    white = mixed_filters(seed=0, count=200, channels=1, size=6, gain=0.0)
    assert np.abs(cosines.sum(axis=(1, 2, 3))).max() <= 10
    assert np.abs(white.sum(axis=(1, 2, 3))).mean() > 100


def test_a_higher_gain_gives_finer_filters() -> None:
    def roughness(gain: float) -> float:
        filters = mixed_filters(seed=0, count=200, channels=1, size=6, gain=gain)
        return float((np.diff(filters, axis=3) ** 2).mean())

    assert roughness(0.0) < roughness(0.5) < roughness(1.0)


def test_cosines_are_nearly_orthogonal() -> None:
    basis = cosine_basis(6)
    products = basis @ basis.T / (64 * 64 * 3)
    np.testing.assert_allclose(products, np.eye(6), atol=0.02)


def test_the_gain_is_the_square_root_of_the_frequency() -> None:
    assert frequency_gain(6, 0.5)[3, 4] == round(16 * 5**0.5)
    assert frequency_gain(6, 0.0).tolist() == [[16] * 6] * 6


def test_what_might_round_either_way_is_refused() -> None:
    with pytest.raises(BadInput, match=r"2\.5 is too close to a half"):
        steady_round(np.array([1.0, 2.5]))
    assert steady_round(np.array([2.49999, -0.50001])).tolist() == [2, -1]


@pytest.mark.parametrize("size", range(2, 65))
def test_every_size_of_patch_rounds_alike_on_every_machine(size: int) -> None:
    cosine_basis(size)
    frequency_gain(size, 0.5)


def test_cells_share_all_places() -> None:
    grid = Grid(height=5, width=7, cells=3)
    assert grid.sizes.tolist() == [2, 2, 3, 4, 4, 6, 4, 4, 6]
    values = np.arange(35).reshape(1, 5, 7, 1)
    assert grid.sums(values).sum() == values.sum()
    assert grid.sums(values)[0, 0, 0] == 0 + 1
