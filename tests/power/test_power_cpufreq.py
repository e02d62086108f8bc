"""The clocks of Linux machines, on trees of files like those the kernel shows."""

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from dealfl.power import FrequencyControl, phone
from dealfl.power.clocks import NoClock
from dealfl.power.cpufreq import CpufreqClock, cpufreq_clock, default_repair_path

LITTLE = (480000, 807000, 1306000, 1709000)
BIG = (1402000, 1805000, 2016000, 2112000)


def policy(root: Path, number: int, table: tuple[int, ...] = (), **files: int | str | None) -> Path:
    """Make the folder of one policy; a file given as None is left out."""
    cpus = root / "devices/system/cpu"
    folder = cpus / f"cpufreq/policy{number}"
    folder.mkdir(parents=True)
    low, high = (table[0], table[-1]) if table else (800000, 4000000)
    content: dict[str, int | str | None] = {
        "cpuinfo_min_freq": low,
        "cpuinfo_max_freq": high,
        "scaling_min_freq": low,
        "scaling_max_freq": high,
        "scaling_governor": "interactive",
        "scaling_available_frequencies": " ".join(map(str, reversed(table))) + " \n",
    }
    if not table:
        content["scaling_available_frequencies"] = None
    for name, value in {**content, **files}.items():
        if value is not None:
            (folder / name).write_text(f"{value}\n")
    return folder


def limit(folder: Path) -> int:
    return int((folder / "scaling_max_freq").read_text())


@pytest.fixture
def repair(tmp_path: Path) -> Path:
    return tmp_path / "repair.json"


@pytest.fixture
def honor(tmp_path: Path) -> tuple[Path, Path, Path]:
    root = tmp_path / "sys"
    return root, policy(root, 0, LITTLE), policy(root, 4, BIG)


def test_every_policy_is_limited_to_its_own_nearest_frequency_and_put_back(
    honor: tuple[Path, Path, Path], repair: Path
) -> None:
    root, little, big = honor
    with cpufreq_clock(root, repair) as clock:
        assert clock.frequencies_hz == tuple(sorted(khz * 1000 for khz in LITTLE + BIG))
        clock.set_frequency(1_402_000_000)
        assert (limit(little), limit(big)) == (1306000, 1402000)
        clock.set_frequency(1_000_000)
        assert (limit(little), limit(big)) == (480000, 1402000)
        clock.release()
        assert (limit(little), limit(big)) == (1709000, 2112000)
        clock.set_frequency(1_805_000_000)
    assert (limit(little), limit(big)) == (1709000, 2112000)
    assert repair.read_text() == ""


def test_control_walks_a_phones_frontier_on_its_real_files(
    honor: tuple[Path, Path, Path], repair: Path
) -> None:
    root, _, big = honor
    with cpufreq_clock(root, repair) as clock:
        control = FrequencyControl.for_phone(phone("honor"), clock)
        limits = []
        for _ in range(3):
            control.signal(-1)
            limits.append(limit(big))
        assert limits == [1805000, 1402000, 1402000]
        control.signal(0)
        assert limit(big) == 2112000


def test_the_limit_is_put_back_after_an_exception(
    honor: tuple[Path, Path, Path], repair: Path
) -> None:
    root, _, big = honor

    def fail() -> None:
        with cpufreq_clock(root, repair) as clock:
            clock.set_frequency(1_402_000_000)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert limit(big) == 2112000


def test_a_users_own_limits_bound_ours(tmp_path: Path, repair: Path) -> None:
    folder = policy(tmp_path, 0, BIG, scaling_max_freq=2016000, scaling_min_freq=1805000)
    with cpufreq_clock(tmp_path, repair) as clock:
        assert clock.frequencies_hz == (1_805_000_000, 2_016_000_000)
        clock.set_frequency(2_112_000_000)
        assert limit(folder) == 2016000
        clock.set_frequency(1)
        assert limit(folder) == 1805000
    assert limit(folder) == 2016000


def test_intel_pstate_has_no_table_and_gets_steps_of_100_mhz(tmp_path: Path, repair: Path) -> None:
    for number in range(4):
        policy(tmp_path, number, scaling_driver="intel_pstate", scaling_governor="powersave")
    with cpufreq_clock(tmp_path, repair) as clock:
        assert clock.frequencies_hz[0] == 900_000_000
        assert clock.frequencies_hz[-1] == 4_000_000_000
        assert len(clock.frequencies_hz) == 32
        clock.set_frequency(1_500_000_000)
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
    with cpufreq_clock(tmp_path, repair) as clock:
        assert clock.frequencies_hz[0] == 1_701_000_000
        assert clock.frequencies_hz[-1] == 3_501_000_000


def test_older_kernels_have_the_folder_in_each_cpu(tmp_path: Path, repair: Path) -> None:
    cpus = tmp_path / "devices/system/cpu"
    made = policy(tmp_path, 0, BIG)
    for number in range(2):
        (cpus / f"cpu{number}").mkdir()
    folder = made.rename(cpus / "cpu0/cpufreq")
    (cpus / "cpu1/cpufreq").symlink_to(folder)
    with cpufreq_clock(tmp_path, repair) as clock:
        assert json.loads(repair.read_text()) == {"cpu0": 2112000}
        clock.set_frequency(1_402_000_000)
        assert limit(folder) == 1402000
    assert limit(folder) == 2112000


def test_ten_policies_are_in_the_order_of_their_numbers(tmp_path: Path, repair: Path) -> None:
    for number in (10, 2, 0):
        policy(tmp_path, number, BIG)
    with cpufreq_clock(tmp_path, repair):
        assert list(json.loads(repair.read_text())) == ["policy0", "policy2", "policy10"]


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({"cpuinfo_max_freq": None}, "cpuinfo_max_freq: No such file"),
        ({"scaling_max_freq": None}, "scaling_max_freq: No such file"),
        ({"scaling_min_freq": None}, "scaling_min_freq: No such file"),
        ({"scaling_max_freq": "<unknown>"}, "scaling_max_freq: does not contain a number"),
    ],
)
def test_missing_and_senseless_files_are_told_once_and_work_goes_on(
    tmp_path: Path,
    repair: Path,
    files: dict[str, str | None],
    told: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    policy(tmp_path, 0, BIG, **files)
    with cpufreq_clock(tmp_path, repair) as clock:
        assert isinstance(clock, NoClock)
        control = FrequencyControl.for_phone(phone("honor"), clock)
        assert control.signal(-1).frequency_hz is None
    (message,) = caplog.messages
    assert told in message
    assert "work continues without it" in message


def test_a_machine_without_cpufreq_is_told_once(
    tmp_path: Path, repair: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with cpufreq_clock(tmp_path, repair) as clock:
        clock.set_frequency(1)
        clock.release()
    (message,) = caplog.messages
    assert "no cpufreq policy found" in message


def test_no_permission_is_told_once_and_work_goes_on(
    honor: tuple[Path, Path, Path],
    repair: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    root, little, big = honor
    real = os.open

    def refuse(path: object, flags: int, *rest: int) -> int:  # root is refused nothing
        if str(path).endswith("policy4/scaling_max_freq"):
            raise PermissionError(13, "Permission denied", str(path))
        return real(str(path), flags, *rest)

    monkeypatch.setattr(os, "open", refuse)
    with cpufreq_clock(root, repair) as clock:
        clock.set_frequency(1_402_000_000)
        assert (limit(little), limit(big)) == (1709000, 2112000)
    (message,) = caplog.messages
    assert "no permission to write" in message
    assert "policy4/scaling_max_freq" in message
    assert "run as root" in message


def test_a_write_that_fails_later_ends_control_with_one_message(
    honor: tuple[Path, Path, Path], repair: Path, caplog: pytest.LogCaptureFixture
) -> None:
    root, little, big = honor
    with cpufreq_clock(root, repair) as clock:
        clock.set_frequency(1_402_000_000)
        (big / "scaling_max_freq").unlink()
        (big / "scaling_max_freq").mkdir()  # not even root writes into that
        clock.set_frequency(1_805_000_000)
        clock.set_frequency(1_402_000_000)
        assert limit(little) == 1709000
    (message,) = caplog.messages
    assert message.startswith("clock control stopped: ")
    # what could not be put back stays written down
    assert json.loads(repair.read_text())["policy4"] == 2112000


def test_a_place_for_the_repair_file_that_is_not_there_means_no_control(
    honor: tuple[Path, Path, Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with cpufreq_clock(honor[0], tmp_path / "none" / "repair.json") as clock:
        assert isinstance(clock, NoClock)
    assert len(caplog.messages) == 1


def test_the_repair_file_lies_where_a_reboot_empties() -> None:
    assert default_repair_path({}) == Path("/run/dealfl-cpufreq.json")
    assert default_repair_path({"XDG_RUNTIME_DIR": "here"}) == Path("here/dealfl-cpufreq.json")


def test_two_at_once_do_not_fight(
    honor: tuple[Path, Path, Path], repair: Path, caplog: pytest.LogCaptureFixture
) -> None:
    root, _, big = honor
    with cpufreq_clock(root, repair) as first:
        first.set_frequency(1_402_000_000)
        with cpufreq_clock(root, repair) as second:
            assert isinstance(second, NoClock)
        assert limit(big) == 1402000
    assert limit(big) == 2112000
    (message,) = caplog.messages
    assert "another process controls the clocks" in message


def test_a_leftover_limit_is_repaired_at_the_next_start(
    honor: tuple[Path, Path, Path], repair: Path, caplog: pytest.LogCaptureFixture
) -> None:
    root, little, big = honor
    repair.write_text(json.dumps({"policy0": 1709000, "policy4": 2112000}))
    (big / "scaling_max_freq").write_text("1402000\n")
    with cpufreq_clock(root, repair) as clock:
        assert (limit(little), limit(big)) == (1709000, 2112000)
        assert clock.frequencies_hz[-1] == 2_112_000_000
    assert caplog.messages == ["restored policy4 to 2112000 kHz: an earlier run left it limited"]


@pytest.mark.parametrize(
    "content",
    ["", "not json", "[1]", '{"policy4": "2112000"}', '{"policy4": true}',
     '{"policy4": 99000000}', '{"policy4": -1}', '{"../../etc": 2112000}', '{"policy9": 1}'],
)  # fmt: skip
def test_a_repair_file_that_makes_no_sense_changes_nothing(
    honor: tuple[Path, Path, Path], repair: Path, content: str
) -> None:
    root, _, big = honor
    (big / "scaling_max_freq").write_text("1805000\n")
    repair.write_text(content)
    with cpufreq_clock(root, repair) as clock:
        assert isinstance(clock, CpufreqClock)
        assert limit(big) == 1805000


def test_a_repair_file_is_not_followed_where_a_link_leads(
    honor: tuple[Path, Path, Path], repair: Path, tmp_path: Path
) -> None:
    precious = tmp_path / "precious"
    precious.write_text("keep")
    repair.symlink_to(precious)
    with cpufreq_clock(honor[0], repair) as clock:
        assert isinstance(clock, NoClock)
    assert precious.read_text() == "keep"


def test_in_another_thread_the_clock_is_set_and_put_back_too(
    honor: tuple[Path, Path, Path], repair: Path
) -> None:
    root, _, big = honor
    seen = []

    def work() -> None:
        with cpufreq_clock(root, repair) as clock:
            clock.set_frequency(1_402_000_000)
            seen.append(limit(big))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [1402000]
    assert limit(big) == 2112000


def test_a_handler_that_was_there_before_is_called_and_comes_back(
    honor: tuple[Path, Path, Path], repair: Path
) -> None:
    root, _, big = honor
    heard: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: heard.append(limit(big)))
    try:
        ours = signal.getsignal(signal.SIGTERM)
        with cpufreq_clock(root, repair) as clock:
            clock.set_frequency(1_402_000_000)
            os.kill(os.getpid(), signal.SIGTERM)
            assert heard == [2112000]  # put back before anyone else heard of it
            clock.set_frequency(1_402_000_000)
            assert limit(big) == 2112000  # on the way out, clocks are left alone
        assert signal.getsignal(signal.SIGTERM) is ours
    finally:
        signal.signal(signal.SIGTERM, before)


_CHILD = """
import sys, time
from pathlib import Path
from dealfl.power.cpufreq import cpufreq_clock
with cpufreq_clock(Path(sys.argv[1]), Path(sys.argv[2])) as clock:
    clock.set_frequency(1_402_000_000)
    print("limited", flush=True)
    time.sleep(60)
"""


def _killed(root: Path, repair: Path, number: int) -> int:
    command = [sys.executable, "-c", _CHILD, str(root), str(repair)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "limited\n"
        child.send_signal(number)
        return child.wait(timeout=20)


def test_sigterm_puts_the_limit_back_and_still_ends_the_process(
    honor: tuple[Path, Path, Path], repair: Path
) -> None:
    root, _, big = honor
    assert _killed(root, repair, signal.SIGTERM) == -signal.SIGTERM
    assert limit(big) == 2112000


def test_what_kill_9_leaves_is_repaired_by_the_next_run(
    honor: tuple[Path, Path, Path], repair: Path, caplog: pytest.LogCaptureFixture
) -> None:
    root, _, big = honor
    assert _killed(root, repair, signal.SIGKILL) == -signal.SIGKILL
    assert limit(big) == 1402000
    with cpufreq_clock(root, repair):
        assert limit(big) == 2112000
    assert limit(big) == 2112000
    assert repair.read_text() == ""
    assert len([r for r in caplog.records if r.levelno == logging.WARNING]) == 2


def test_a_step_that_writes_files_is_quick(honor: tuple[Path, Path, Path], repair: Path) -> None:
    with cpufreq_clock(honor[0], repair) as clock:
        start = time.perf_counter()
        for _ in range(100):
            clock.set_frequency(1_402_000_000)
        assert time.perf_counter() - start < 2.0
