"""The example for Termux:API, on answers that were written after its source; no phone was used."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dealfl.jobs import MachineKeys
from dealfl.network.machine import MachineDevice

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "examples" / "network" / "termux_device.py"
PHONES: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parent / "termux" / "answers.json").read_text()
)
Phone = Callable[[str], None]


@pytest.fixture
def phone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Phone:
    """Commands of Termux:API that print what a phone in some state would."""
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")

    def show(state: str) -> None:
        for name, answer in PHONES[state].items():
            if name.startswith("termux-"):
                (tmp_path / f"{name}.txt").write_text(answer)
                (tmp_path / name).write_text(f"#!/bin/sh\ncat {tmp_path / name}.txt\n")
                (tmp_path / name).chmod(0o755)

    return show


def script() -> Any:
    """Return the example as a module."""
    spec = importlib.util.spec_from_file_location("termux_device", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("state", PHONES)
def test_the_answers_of_termux_become_the_state_of_the_device(phone: Phone, state: str) -> None:
    phone(state)
    assert script().read_state() == PHONES[state]["expected"]


def test_a_phone_on_a_mobile_network_declines_and_tells_of_its_traffic(
    phone: Phone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dealfl.network.machine._COMMAND_S", 30.0)  # this machine may be busy
    phone("mobile network, active")
    words = f"{sys.executable} {SCRIPT} --every 0.05"
    device = MachineDevice(MachineKeys(sysfs=str(tmp_path), device_command=words))
    try:
        assert device(0.0).reason_to_decline() == "metered network"
        assert device.network_active is True
        phone("unplugged, wifi")
        while device(1.0).metered:
            pass
        assert device(1.0).battery == 0.78
        assert device.network_active is None, "the counters of the interfaces tell"
    finally:
        device.close()


def test_a_command_of_termux_that_hangs_or_is_missing_is_left_out(
    phone: Phone, tmp_path: Path
) -> None:
    phone("unplugged, wifi")
    (tmp_path / "termux-battery-status").write_text("#!/bin/sh\nexec sleep 60\n")
    (tmp_path / "termux-telephony-deviceinfo").unlink()
    module = script()
    module.PATIENCE_S = 0.5
    assert "battery" not in module.read_state()
