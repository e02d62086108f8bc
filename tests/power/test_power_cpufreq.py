"""The clocks of Linux machines, on trees of files like those the kernel shows."""

import json
from pathlib import Path

import pytest

from dealfl.power import FrequencyControl, phone
from dealfl.power.cpufreq import cpufreq_limit
from tests.power.cpufreq_tree import BIG, LITTLE, limit, policy


def test_every_policy_is_limited_to_its_own_nearest_frequency_and_put_back(
    honor: tuple[Path, Path, Path], repair: Path
) -> None:
    root, little, big = honor
    with cpufreq_limit(root, repair) as machine:
        assert machine.frequencies_hz == tuple(sorted(khz * 1000 for khz in LITTLE + BIG))
        machine.set(1_402_000_000)
        assert (limit(little), limit(big)) == (1306000, 1402000)
        machine.set(1_000_000)
        assert (limit(little), limit(big)) == (480000, 1402000)
        machine.release()
        assert (limit(little), limit(big)) == (1709000, 2112000)
        machine.set(1_805_000_000)
    assert (limit(little), limit(big)) == (1709000, 2112000)
    assert repair.read_text() == ""


def test_control_walks_a_phones_frontier_on_its_real_files(
    honor: tuple[Path, Path, Path], repair: Path
) -> None:
    root, _, big = honor
    with cpufreq_limit(root, repair) as machine:
        control = FrequencyControl(phone("honor"), machine)
        limits = []
        for signal in (1, -1, -1):
            control.signal(signal)
            limits.append(limit(big))
        assert limits == [1805000, 1402000, 1402000]
        control.signal(0)
        assert limit(big) == 2112000


def test_the_limit_is_put_back_after_an_exception(
    honor: tuple[Path, Path, Path], repair: Path
) -> None:
    root, _, big = honor

    def fail() -> None:
        with cpufreq_limit(root, repair) as machine:
            machine.set(1_402_000_000)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert limit(big) == 2112000


def test_a_users_own_limits_bound_ours(tmp_path: Path, repair: Path) -> None:
    folder = policy(tmp_path, 0, BIG, scaling_max_freq=2016000, scaling_min_freq=1805000)
    with cpufreq_limit(tmp_path, repair) as machine:
        assert machine.frequencies_hz == (1_805_000_000, 2_016_000_000)
        machine.set(2_112_000_000)
        assert limit(folder) == 2016000
        machine.set(1)
        assert limit(folder) == 1805000
    assert limit(folder) == 2016000


def test_intel_pstate_has_no_table_and_gets_steps_of_100_mhz(tmp_path: Path, repair: Path) -> None:
    for number in range(4):
        policy(tmp_path, number, scaling_driver="intel_pstate", scaling_governor="powersave")
    with cpufreq_limit(tmp_path, repair) as machine:
        assert machine.frequencies_hz[0] == 900_000_000
        assert machine.frequencies_hz[-1] == 4_000_000_000
        assert len(machine.frequencies_hz) == 32
        machine.set(1_500_000_000)
        policies = tmp_path.glob("devices/system/cpu/cpufreq/*")
        assert {limit(folder) for folder in policies} == {1500000}


def test_amd_pstate_is_not_slowed_below_its_slowest_efficient_clock(
    tmp_path: Path, repair: Path
) -> None:
    policy(
        tmp_path,
        0,
        scaling_driver="amd-pstate-epp",
        cpuinfo_min_freq=400000,
        cpuinfo_max_freq=3501000,
        scaling_max_freq=3501000,
        scaling_min_freq=400000,
        amd_pstate_lowest_nonlinear_freq=1701000,
    )
    with cpufreq_limit(tmp_path, repair) as machine:
        assert machine.frequencies_hz[0] == 1_701_000_000
        assert machine.frequencies_hz[-1] == 3_501_000_000


def test_older_kernels_have_the_folder_in_each_cpu(tmp_path: Path, repair: Path) -> None:
    cpus = tmp_path / "devices/system/cpu"
    made = policy(tmp_path, 0, BIG)
    for number in range(2):
        (cpus / f"cpu{number}").mkdir()
    folder = made.rename(cpus / "cpu0/cpufreq")
    (cpus / "cpu1/cpufreq").symlink_to(folder)
    with cpufreq_limit(tmp_path, repair) as machine:
        assert json.loads(repair.read_text()) == {"cpu0": 2112000}
        machine.set(1_402_000_000)
        assert limit(folder) == 1402000
    assert limit(folder) == 2112000


def test_ten_policies_are_in_the_order_of_their_numbers(tmp_path: Path, repair: Path) -> None:
    for number in (10, 2, 0):
        policy(tmp_path, number, BIG)
    with cpufreq_limit(tmp_path, repair):
        assert list(json.loads(repair.read_text())) == ["policy0", "policy2", "policy10"]
