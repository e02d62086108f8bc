"""The clock of a real worker's machine: by signals, fixed, refused; on trees like real ones."""

import logging
from pathlib import Path

import pytest

from dealfl.errors import BadInput
from dealfl.power import machine_clock, phone
from tests.power.cpufreq_tree import limit, policy

Tree = tuple[Path, Path, Path]
MHZ = 10**6


def test_signals_step_the_machine_along_its_profiles_frontier(honor: Tree, repair: Path) -> None:
    root, _, big = honor
    seen = []
    with machine_clock(root, phone("honor"), repair=repair) as clock:
        for signal in (+1, -1, 0):
            clock.signal(signal)
            seen.append(limit(big))
    assert seen == [1805000, 1402000, 2112000]


def test_a_fixed_frequency_limits_only_while_the_worker_trains(honor: Tree, repair: Path) -> None:
    root, _, big = honor
    with machine_clock(root, None, 1402 * MHZ, repair) as clock:
        assert limit(big) == 2112000
        clock.signal(+1)
        clock.signal(-1)
        assert limit(big) == 1402000
        clock.signal(0)
        assert limit(big) == 2112000
        clock.signal(+1)
    assert limit(big) == 2112000, "restored although the worker never signalled its end"


def test_a_frequency_that_the_machine_lacks_is_named(honor: Tree, repair: Path) -> None:
    with (
        pytest.raises(BadInput, match=r"no clock frequency of 1400 MHz; it has 480, 807, 1306"),
        machine_clock(honor[0], None, 1400 * MHZ, repair),
    ):
        pass


def test_a_machine_without_a_table_is_stepped_by_its_own_frequencies(
    tmp_path: Path, repair: Path, caplog: pytest.LogCaptureFixture
) -> None:
    one = policy(tmp_path, 0)  # intel_pstate: no scaling_available_frequencies
    with machine_clock(tmp_path, phone("honor"), repair=repair) as clock:
        clock.signal(-1)
        assert limit(one) == 3900000
    assert "no clock frequency of honor's profile is one of this machine" in caplog.text
    assert limit(one) == 4000000


def test_where_the_kernel_does_not_allow_it_the_reason_is_logged_and_work_continues(
    tmp_path: Path, repair: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING), machine_clock(tmp_path, repair=repair) as clock:
        for signal in (+1, -1, 0):
            clock.signal(signal)
    assert "clock control is off" in caplog.text
    assert "no cpufreq policy found" in caplog.text


def test_a_limit_that_vanishes_meanwhile_ends_control_and_not_the_training(
    honor: Tree, repair: Path, caplog: pytest.LogCaptureFixture
) -> None:
    root, little, big = honor
    with machine_clock(root, phone("honor"), repair=repair) as clock:
        clock.signal(+1)
        (big / "scaling_max_freq").unlink()
        big.rmdir() if not any(big.iterdir()) else (big / "scaling_max_freq").mkdir()
        clock.signal(-1)
        clock.signal(0)
    assert "clock control stopped" in caplog.text
    assert limit(little) == 1709000
