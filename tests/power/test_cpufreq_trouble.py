"""Clock control that fails, is killed, or meets another: limits are restored, work continues."""

import json
import logging
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from dealfl.power import FrequencyControl, phone
from dealfl.power.cpufreq import CpufreqLimit, cpufreq_limit, default_repair_path
from dealfl.power.frequency import NoLimit
from tests.power.cpufreq_tree import BIG, limit, policy


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({"cpuinfo_max_freq": None}, "cpuinfo_max_freq: No such file"),
        ({"scaling_max_freq": None}, "scaling_max_freq: No such file"),
        ({"scaling_min_freq": None}, "scaling_min_freq: No such file"),
        ({"scaling_max_freq": "<unknown>"}, "scaling_max_freq: does not contain a number"),
    ],
)
def test_missing_and_senseless_files_are_logged_once_and_work_continues(
    tmp_path: Path,
    repair: Path,
    files: dict[str, str | None],
    told: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    policy(tmp_path, 0, BIG, **files)
    with cpufreq_limit(tmp_path, repair) as machine:
        assert isinstance(machine, NoLimit)
        control = FrequencyControl(phone("honor"), machine)
        assert control.signal(-1).frequency_hz is None
    (message,) = caplog.messages
    assert told in message
    assert "work continues without it" in message


def test_a_machine_without_cpufreq_is_logged_once(
    tmp_path: Path, repair: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with cpufreq_limit(tmp_path, repair) as machine:
        machine.set(1)
        machine.release()
    (message,) = caplog.messages
    assert "no cpufreq policy found" in message


def test_missing_permission_is_logged_once_and_work_continues(
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
    with cpufreq_limit(root, repair) as machine:
        machine.set(1_402_000_000)
        assert (limit(little), limit(big)) == (1709000, 2112000)
    (message,) = caplog.messages
    assert "no permission to write" in message
    assert "policy4/scaling_max_freq" in message
    assert "run as root" in message


def test_a_write_that_fails_later_ends_control_with_one_message(
    honor: tuple[Path, Path, Path], repair: Path, caplog: pytest.LogCaptureFixture
) -> None:
    root, little, big = honor
    with cpufreq_limit(root, repair) as machine:
        machine.set(1_402_000_000)
        (big / "scaling_max_freq").unlink()
        (big / "scaling_max_freq").mkdir()  # not even root writes into that
        machine.set(1_805_000_000)
        machine.set(1_402_000_000)
        assert limit(little) == 1709000
    (message,) = caplog.messages
    assert message.startswith("clock control stopped: ")
    # what could not be put back stays written down
    assert json.loads(repair.read_text())["policy4"] == 2112000


def test_a_place_for_the_repair_file_that_is_not_there_means_no_control(
    honor: tuple[Path, Path, Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with cpufreq_limit(honor[0], tmp_path / "none" / "repair.json") as machine:
        assert isinstance(machine, NoLimit)
    assert len(caplog.messages) == 1


def test_the_repair_file_lies_where_a_reboot_empties() -> None:
    assert default_repair_path({}) == Path("/run/dealfl-cpufreq.json")
    assert default_repair_path({"XDG_RUNTIME_DIR": "here"}) == Path("here/dealfl-cpufreq.json")


def test_two_at_once_do_not_fight(
    honor: tuple[Path, Path, Path], repair: Path, caplog: pytest.LogCaptureFixture
) -> None:
    root, _, big = honor
    with cpufreq_limit(root, repair) as first:
        first.set(1_402_000_000)
        with cpufreq_limit(root, repair) as second:
            assert isinstance(second, NoLimit)
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
    with cpufreq_limit(root, repair) as machine:
        assert (limit(little), limit(big)) == (1709000, 2112000)
        assert machine.frequencies_hz[-1] == 2_112_000_000
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
    with cpufreq_limit(root, repair) as machine:
        assert isinstance(machine, CpufreqLimit)
        assert limit(big) == 1805000


def test_a_repair_file_is_not_followed_where_a_link_leads(
    honor: tuple[Path, Path, Path], repair: Path, tmp_path: Path
) -> None:
    precious = tmp_path / "precious"
    precious.write_text("keep")
    repair.symlink_to(precious)
    with cpufreq_limit(honor[0], repair) as machine:
        assert isinstance(machine, NoLimit)
    assert precious.read_text() == "keep"


def test_in_another_thread_the_clock_is_set_and_put_back_too(
    honor: tuple[Path, Path, Path], repair: Path
) -> None:
    root, _, big = honor
    seen = []

    def work() -> None:
        with cpufreq_limit(root, repair) as machine:
            machine.set(1_402_000_000)
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
        with cpufreq_limit(root, repair) as machine:
            machine.set(1_402_000_000)
            os.kill(os.getpid(), signal.SIGTERM)
            assert heard == [2112000]  # put back before anyone else heard of it
            machine.set(1_402_000_000)
            assert limit(big) == 2112000  # on the way out, clocks are left alone
        assert signal.getsignal(signal.SIGTERM) is ours
    finally:
        signal.signal(signal.SIGTERM, before)


_CHILD = """
import sys, time
from pathlib import Path
from dealfl.power.cpufreq import cpufreq_limit
with cpufreq_limit(Path(sys.argv[1]), Path(sys.argv[2])) as machine:
    machine.set(1_402_000_000)
    print("limited", flush=True)
    time.sleep(60)
"""


def _killed(root: Path, repair: Path, number: int) -> int:
    command = [sys.executable, "-c", _CHILD, str(root), str(repair)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "limited\n"
        child.send_signal(number)
        return child.wait(timeout=60)


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
    with cpufreq_limit(root, repair):
        assert limit(big) == 2112000
    assert limit(big) == 2112000
    assert repair.read_text() == ""
    assert len([r for r in caplog.records if r.levelno == logging.WARNING]) == 2
