"""This machine as a worker's device: keys and flags, its state, the user's command, its clock."""

import json
from contextlib import ExitStack
from pathlib import Path

import pytest

from dealfl.errors import BadInput
from dealfl.jobs import MachineKeys, read_machine_keys
from dealfl.network.machine import MachineDevice, open_clock
from dealfl.power import phone
from dealfl.settings import Document
from dealfl.worker import Device
from tests.power.cpufreq_tree import BIG, limit, policy
from tests.power.test_machine_state import LAPTOP
from tests.power.test_meter_sysfs import tree


def device(root: Path, **keys: object) -> Device:
    return MachineDevice(MachineKeys(sysfs=str(root), **keys))(0.0)  # type: ignore[arg-type]


def test_flags_replace_the_keys_of_the_section() -> None:
    document = Document.parse('[machine]\nmeter = "model"\nclock = "deal"', "job.toml")
    keys = read_machine_keys(document, {"meter": "rapl", "clock": None})
    assert (keys.meter, keys.clock, keys.sysfs) == ("rapl", "deal", "/sys")
    with pytest.raises(BadInput, match="min_batery"):
        read_machine_keys(Document.parse("[machine]\nmin_batery = 1", "job.toml"), {})


def test_a_worker_on_a_low_battery_or_a_hot_machine_declines(tmp_path: Path) -> None:
    root = tree(tmp_path, LAPTOP)
    assert device(root).reason_to_decline() == ""
    assert device(root, max_temperature_c=45.0).reason_to_decline() == "hot"
    (root / "class/power_supply/BAT0/energy_now").write_text("5000000\n")
    assert device(root).reason_to_decline() == "low battery"
    (root / "class/power_supply/AC/online").write_text("1\n")
    assert device(root).reason_to_decline() == ""


def test_what_cannot_be_read_does_not_keep_a_machine_from_training(tmp_path: Path) -> None:
    assert device(tmp_path) == Device(charging=True)
    named = MachineDevice(MachineKeys(sysfs=str(tmp_path)), phone("honor"))(0.0)
    assert named.name == "honor"
    assert named.capacity_j == pytest.approx(3.0 * 3600 * 3.82)


def command(folder: Path, printed: str) -> str:
    (folder / "answer").write_text(printed)
    return f"cat {folder / 'answer'}"


def test_the_users_command_answers_the_rest(tmp_path: Path) -> None:
    told = json.dumps({"metered": True, "battery": 0.5})
    one = device(tmp_path, device_command=command(tmp_path, told))
    assert (one.reason_to_decline(), one.battery) == ("metered network", 0.5)


@pytest.mark.parametrize("wrong", ["", "yes", '{"meterd": true}', '{"battery": 40}'])
def test_a_command_that_fails_is_named_once_and_ignored(
    tmp_path: Path, wrong: str, caplog: pytest.LogCaptureFixture
) -> None:
    keys = MachineKeys(sysfs=str(tmp_path), device_command=command(tmp_path, wrong))
    one = MachineDevice(keys)
    assert [one(now_s) for now_s in (0.0, 60.0, 120.0)] == [Device(charging=True)] * 3
    assert caplog.text.count("device_command 'cat' is ignored") == 1


def test_a_command_is_not_run_more_often_than_every_ten_seconds(tmp_path: Path) -> None:
    keys = MachineKeys(sysfs=str(tmp_path), device_command=command(tmp_path, '{"busy": true}'))
    one = MachineDevice(keys)
    assert one(0.0).busy
    command(tmp_path, "{}")
    assert one(9.0).busy
    assert not one(11.0).busy


def test_the_clock_of_a_killed_worker_is_restored_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    big = policy(tmp_path, 4, BIG, scaling_max_freq=1402000)
    (tmp_path / "dealfl-cpufreq.json").write_text('{"policy4": 2112000}')
    with ExitStack() as stack:
        clock = open_clock(MachineKeys(clock="deal", sysfs=str(tmp_path)), phone("honor"), stack)
        assert clock is not None
        assert limit(big) == 2112000
        clock.signal(-1)
        assert limit(big) == 1402000
    assert limit(big) == 2112000


def test_no_clock_is_set_unless_asked_for_and_a_wrong_one_is_named(tmp_path: Path) -> None:
    with ExitStack() as stack:
        assert open_clock(MachineKeys(sysfs=str(tmp_path)), None, stack) is None
        for wrong in ("fast", "0", "-1402", "inf", "nan"):
            with pytest.raises(BadInput, match=f"clock is '{wrong}'; it must be off, deal, or"):
                open_clock(MachineKeys(clock=wrong), None, stack)
