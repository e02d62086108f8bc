"""The law that fits measured times."""

import itertools

import numpy as np
import pytest

from dealfl.errors import BadInput
from dealfl.power.calibration import TimedTraining, identify, relative_errors
from dealfl.power.training_time import TrainingTime

SIZES = np.geomspace(1e5, 1e7, 7).tolist()
CORES = (1, 2, 4)
CLOCKS = (0.5e9, 1.0e9, 2.1e9)


def timed(
    law: TrainingTime,
    noise: float = 0.0,
    cores: tuple[int, ...] = CORES,
    clocks: tuple[float, ...] = CLOCKS,
) -> list[TimedTraining]:
    generator = np.random.default_rng(0)
    return [
        TimedTraining(
            operations,
            law.predicted_s(operations, c, f) * float(np.exp(noise * generator.standard_normal())),
            c,
            f,
        )
        for operations, c, f in itertools.product(SIZES, cores, clocks)
    ]


@pytest.mark.parametrize("overhead_s", [0.0, 1e-3])
def test_exact_times_give_the_exact_law(overhead_s: float) -> None:
    law = TrainingTime(2e-9, overhead_s, core_exponent=0.8, clock_exponent=0.9)
    found = identify(timed(law))
    assert found.seconds_per_operation == pytest.approx(2e-9, rel=1e-5)
    assert found.overhead_s == pytest.approx(overhead_s, rel=1e-4, abs=1e-9)
    assert found.core_exponent == pytest.approx(0.8, abs=1e-5)
    assert found.clock_exponent == pytest.approx(0.9, abs=1e-5)


def test_noisy_times_give_nearly_the_law() -> None:
    law = TrainingTime(2e-9, 1e-3, core_exponent=0.8, clock_exponent=0.9)
    found = identify(timed(law, noise=0.1))
    assert found.core_exponent == pytest.approx(0.8, abs=0.06)
    assert found.clock_exponent == pytest.approx(0.9, abs=0.06)
    assert np.median(np.abs(relative_errors(found, timed(law)))) < 0.05


def test_exponents_that_nothing_shows_are_one() -> None:
    law = TrainingTime(2e-9, 1e-3, core_exponent=0.8)
    found = identify(timed(law, clocks=(2e9,)))
    assert found.core_exponent == pytest.approx(0.8, abs=1e-5)
    assert found.clock_exponent == 1.0
    assert max(np.abs(relative_errors(found, timed(law, clocks=(2e9,))))) < 1e-4


def test_one_odd_size_does_not_bend_the_law() -> None:
    law = TrainingTime(2e-9, 1e-3)
    trainings = timed(law, cores=(1,), clocks=(1e9,))
    odd = trainings[-1]
    trainings[-1] = TimedTraining(odd.operations, 1.6 * odd.elapsed_s)
    errors = np.abs(relative_errors(identify(trainings), trainings[:-1]))
    assert max(errors) < 0.04


def test_neither_slope_nor_overhead_is_negative() -> None:
    falling = identify([TimedTraining(1e5, 0.03), TimedTraining(1e6, 0.02)])
    rising = identify([TimedTraining(1e6, 0.001), TimedTraining(2e6, 0.02)])
    assert falling.seconds_per_operation == 0.0
    assert 0.02 <= falling.overhead_s <= 0.03
    assert rising.overhead_s == 0.0
    assert rising.seconds_per_operation > 0.0


def test_one_size_gives_no_law() -> None:
    with pytest.raises(BadInput, match="1 different sizes were timed"):
        identify([TimedTraining(1e6, 1.0), TimedTraining(1e6, 1.1)])
    with pytest.raises(BadInput, match="0 different sizes"):
        identify([])


@pytest.mark.parametrize("elapsed_s", [0.0, -1.0, float("nan")])
def test_times_that_no_stopwatch_shows_are_refused(elapsed_s: float) -> None:
    with pytest.raises(BadInput, match="elapsed_s"):
        TimedTraining(1e6, elapsed_s)
