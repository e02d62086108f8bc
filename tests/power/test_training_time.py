"""The law of training time, and following it as it changes."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest

from dealfl.errors import BadInput
from dealfl.power import REFERENCE_HZ, TimeEstimate, TrainingTime

TRUE = TrainingTime(seconds_per_operation=2e-9, overhead_s=2e-3)
PROFILE = TrainingTime(seconds_per_operation=3e-9, overhead_s=1e-3)
PROBES = np.geomspace(1e5, 1e7, 9).tolist()
NOISE = 0.1


def rounds(
    estimate: TimeEstimate,
    truth: TrainingTime,
    count: int,
    generator: np.random.Generator,
    operations: float | None = None,
) -> Iterator[TimeEstimate]:
    for _ in range(count):
        size = operations or math.exp(generator.uniform(math.log(1e5), math.log(1e7)))
        noise = math.exp(NOISE * generator.standard_normal())
        estimate = estimate.with_measurement(size, truth.predicted_s(size) * noise)
        yield estimate


def error(estimate: TimeEstimate, truth: TrainingTime, probes: list[float] = PROBES) -> float:
    errors = [abs(estimate.time.predicted_s(f) / truth.predicted_s(f) - 1) for f in probes]
    return float(np.median(errors))


# -- the law ------------------------------------------------------------------------------------


def test_cores_and_clock_divide_the_work_but_not_the_overhead() -> None:
    law = TrainingTime(1e-9, 0.5, core_exponent=0.5, clock_exponent=2.0)
    assert law.predicted_s(1e9) == pytest.approx(1.5)
    assert law.predicted_s(1e9, cores=4) == pytest.approx(1.0)
    assert law.predicted_s(1e9, frequency_hz=2 * REFERENCE_HZ) == pytest.approx(0.75)
    assert law.predicted_s(0) == 0.5


@pytest.mark.parametrize("bad", [-1.0, math.nan, math.inf, "1", None])
def test_a_law_of_impossible_numbers_is_refused(bad: float) -> None:
    with pytest.raises(BadInput, match="seconds_per_operation"):
        TrainingTime(bad, 0.0)
    with pytest.raises(BadInput, match="overhead_s"):
        TrainingTime(0.0, bad)
    with pytest.raises(BadInput, match="operations"):
        TRUE.predicted_s(bad)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan])
def test_no_cores_and_no_clock_are_refused(bad: float) -> None:
    with pytest.raises(BadInput, match="cores"):
        TRUE.predicted_s(1.0, cores=bad)
    with pytest.raises(BadInput, match="frequency_hz"):
        TRUE.predicted_s(1.0, frequency_hz=bad)


# -- following it -------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("factor", [2.0, 0.5])
def test_when_the_slope_changes_predictions_are_good_again_within_40_rounds(
    seed: int, factor: float
) -> None:
    generator = np.random.default_rng(seed)
    *_, estimate = rounds(TimeEstimate.prior(PROFILE), TRUE, 200, generator)
    slower = TrainingTime(factor * TRUE.seconds_per_operation, TRUE.overhead_s)
    assert error(estimate, slower) > 0.25
    after = list(rounds(estimate, slower, 60, generator))
    assert max(error(each, slower) for each in after[39:]) < 0.1


@pytest.mark.parametrize("seed", range(8))
def test_without_a_change_nothing_drifts(seed: int) -> None:
    generator = np.random.default_rng(seed)
    estimates = list(rounds(TimeEstimate.prior(PROFILE), TRUE, 2000, generator))[200:]
    slopes = np.array([each.time.seconds_per_operation for each in estimates])
    off = slopes / TRUE.seconds_per_operation - 1
    assert abs(off.mean()) < 0.02
    assert np.median(np.abs(off)) < 0.02
    assert np.sqrt(np.mean(off**2)) < 0.025


@pytest.mark.parametrize("seed", range(3))
def test_a_slow_creep_is_followed_closely(seed: int) -> None:
    generator = np.random.default_rng(seed)
    *_, estimate = rounds(TimeEstimate.prior(PROFILE), TRUE, 100, generator)
    errors = []
    for step in range(140):  # to twice the slope, half a percent a round
        creeping = TrainingTime(TRUE.seconds_per_operation * 1.005**step, TRUE.overhead_s)
        (estimate,) = rounds(estimate, creeping, 1, generator)
        errors.append(error(estimate, creeping))
    assert max(errors) < 0.25
    assert np.median(errors) < 0.1


@pytest.mark.parametrize("seed", range(3))
def test_a_constant_size_for_10000_rounds_winds_nothing_up(seed: int) -> None:
    generator = np.random.default_rng(seed)
    *_, estimate = rounds(TimeEstimate.prior(PROFILE), TRUE, 200, generator)
    aa, ab, bb = estimate.information
    known_before = aa - ab * ab / bb
    *_, estimate = rounds(estimate, TRUE, 10_000, generator, operations=3e6)
    aa, ab, bb = estimate.information
    assert aa - ab * ab / bb > 0.1 * known_before  # what a constant F says nothing of stays known
    assert error(estimate, TRUE) < 0.1
    first_after = list(rounds(estimate, TRUE, 20, generator))
    assert max(error(each, TRUE) for each in first_after) < 0.1


def test_a_device_that_only_ever_saw_one_size_learns_the_next_quickly() -> None:
    generator = np.random.default_rng(0)
    *_, estimate = rounds(TimeEstimate.prior(PROFILE), TRUE, 10_000, generator, operations=3e6)
    after = list(rounds(estimate, TRUE, 40, generator))
    assert max(error(each, TRUE) for each in after) < 0.25
    assert error(after[-1], TRUE) < 0.1


def test_a_change_is_noticed_at_a_constant_size_too() -> None:
    generator = np.random.default_rng(0)
    *_, estimate = rounds(TimeEstimate.prior(PROFILE), TRUE, 10_000, generator, operations=3e6)
    slower = TrainingTime(2 * TRUE.seconds_per_operation, TRUE.overhead_s)
    *_, estimate = rounds(estimate, slower, 40, generator, operations=3e6)
    assert error(estimate, slower, [3e6]) < 0.1


def test_changes_without_end_at_a_constant_size_wind_nothing_up() -> None:
    generator = np.random.default_rng(0)
    *_, estimate = rounds(TimeEstimate.prior(PROFILE), TRUE, 200, generator)
    for count in range(10_000):
        slower = 3.0 if count // 10 % 2 else 1.0
        estimate = estimate.with_measurement(3e6, slower * TRUE.predicted_s(3e6))
    aa, ab, bb = estimate.information
    assert 1 - ab * ab / (aa * bb) > 1e-3  # slope and overhead are still two things
    *_, estimate = rounds(estimate, TRUE, 40, generator)
    assert error(estimate, TRUE) < 0.1


def test_one_wild_time_moves_little() -> None:
    generator = np.random.default_rng(0)
    *_, estimate = rounds(TimeEstimate.prior(PROFILE), TRUE, 100, generator)
    assert (
        error(estimate.with_measurement(1e6, elapsed_s=1e4), TRUE) < 0.1
    )  # the phone slept meanwhile


def test_neither_slope_nor_overhead_becomes_negative() -> None:
    falling = TimeEstimate.prior(PROFILE)
    rising = TimeEstimate.prior(PROFILE)
    for _ in range(50):  # times that fall, and that rise faster than any law with both above 0
        for operations, elapsed_s in ((1e5, 0.03), (1e7, 0.02)):
            falling = falling.with_measurement(operations, elapsed_s)
            assert falling.time.seconds_per_operation >= 0.0
        for operations, elapsed_s in ((1e6, 0.001), (2e6, 0.02)):
            rising = rising.with_measurement(operations, elapsed_s)
            assert rising.time.overhead_s >= 0.0
    assert falling.time.seconds_per_operation < 1e-12
    assert falling.time.predicted_s(1e6) == pytest.approx(0.025, rel=0.2)
    assert rising.time.overhead_s < 1e-6


@pytest.mark.parametrize("elapsed_s", [0.0, -1.0, math.nan, math.inf])
def test_a_bad_measurement_is_refused_and_changes_nothing(elapsed_s: float) -> None:
    estimate = TimeEstimate.prior(PROFILE)
    with pytest.raises(BadInput, match="elapsed_s"):
        estimate.with_measurement(1e6, elapsed_s)
    assert estimate == TimeEstimate.prior(PROFILE)


@pytest.mark.parametrize("operations", [-1.0, math.nan])
def test_bad_operations_are_refused(operations: float) -> None:
    with pytest.raises(BadInput, match="operations"):
        TimeEstimate.prior(PROFILE).with_measurement(operations, 1.0)


def test_no_operations_show_the_overhead_alone() -> None:
    estimate = TimeEstimate.prior(TrainingTime(1e-9, 0.0))
    for _ in range(50):
        estimate = estimate.with_measurement(0.0, elapsed_s=0.25)
    assert estimate.time.seconds_per_operation == 1e-9
    assert estimate.time.overhead_s == pytest.approx(0.25, rel=0.05)


def test_clock_and_cores_are_taken_out_of_an_observation() -> None:
    estimate = TimeEstimate.prior(PROFILE)
    for operations in (1e5, 1e6, 1e7) * 30:
        elapsed_s = TRUE.predicted_s(operations, cores=2, frequency_hz=5e8)
        estimate = estimate.with_measurement(operations, elapsed_s, cores=2, frequency_hz=5e8)
    assert error(estimate, TRUE) < 0.01


# -- files --------------------------------------------------------------------------------------


def test_an_estimate_survives_json_exactly() -> None:
    generator = np.random.default_rng(0)
    *_, estimate = rounds(TimeEstimate.prior(PROFILE), TRUE, 30, generator)
    written = msgspec.json.encode(estimate)
    assert msgspec.json.decode(written, type=TimeEstimate) == estimate
    assert estimate.observations == 30
    assert estimate.is_sound


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("time", None),
        ("time", {"overhead_s": 1}),
        ("time", {"seconds_per_operation": -1, "overhead_s": 1}),
        ("information", [1, 2]),
        ("information", [1.0, None, 1.0]),
        ("persistent_error", "0"),
    ],
)
def test_a_damaged_estimate_is_refused_by_name(key: str, value: object) -> None:
    table = msgspec.to_builtins(TimeEstimate.prior(PROFILE)) | {key: value}
    with pytest.raises(msgspec.ValidationError, match=key):
        msgspec.convert(table, TimeEstimate)


@pytest.mark.parametrize(
    "damage",
    [{"information": (1.0, 2.0, 1.0)}, {"information": (0.0, 0.0, 0.0)}, {"observations": -1}],
)
def test_an_impossible_estimate_is_not_sound(damage: dict[str, Any]) -> None:
    assert not replace(TimeEstimate.prior(PROFILE), **damage).is_sound


def test_a_prior_without_a_slope_says_nothing_and_is_refused() -> None:
    with pytest.raises(BadInput, match="seconds_per_operation"):
        TimeEstimate.prior(TrainingTime(0.0, 1.0))
