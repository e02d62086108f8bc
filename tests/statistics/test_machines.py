"""Machines on which integers have other bytes or sizes are refused before anything is computed."""

import subprocess
import sys

import pytest

from dealfl.errors import DealError
from dealfl.exact import machine


@pytest.mark.parametrize(
    ("byte_order", "bits", "problem"),
    [
        ("big", 64, "this machine is big-endian; dealfl needs little-endian and 64 bits"),
        ("little", 32, "this Python has 32 bits; dealfl needs little-endian and 64 bits"),
    ],
)
def test_a_machine_that_cannot_be_right_is_refused(
    byte_order: str, bits: int, problem: str
) -> None:
    with pytest.raises(DealError, match=problem):
        machine.require_machine(byte_order, bits)
    machine.require_machine("little", 64)


def test_it_is_refused_when_a_command_starts() -> None:
    code = (
        "import sys, numpy; sys.byteorder = 'big'; from dealfl.cli import main; "
        "sys.exit(main(['model', 'info', 'nothing']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == (
        "dealfl: this machine is big-endian; dealfl needs little-endian and 64 bits\n"
    )
