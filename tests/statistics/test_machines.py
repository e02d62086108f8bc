"""Machines on which integers have other bytes or sizes are refused before anything is computed."""

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dealfl.errors import DealError
from dealfl.exact import machine
from dealfl.features import Patches, Relu, relu
from dealfl.features import patches as patches_module
from dealfl.learners import Tikhonov
from dealfl.learners.ridge import moments


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


def only_adds(left: NDArray[Any], right: NDArray[Any], out: NDArray[Any]) -> NDArray[Any]:
    """Add a product to what memory held, as kernels do that multiply it by zero."""
    out *= 0
    out += left @ right
    return out


def test_where_products_of_short_floats_are_wrong_long_ones_are_used() -> None:
    def wrong(left: NDArray[Any], right: NDArray[Any], out: NDArray[Any]) -> NDArray[Any]:
        known = np.matmul if out.dtype == np.float64 else only_adds
        return known(left, right, out=out)

    assert machine.short_float() is np.float32
    assert machine.short_float(wrong) is np.float64


def test_a_library_that_multiplies_wrong_is_refused() -> None:
    with pytest.raises(DealError, match="computes wrong products on this machine; choose other"):
        machine.short_float(only_adds)


def test_models_do_not_depend_on_the_floats_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(0)
    pixels = draw.integers(0, 256, (30, 108)).astype(float)

    def results() -> list[object]:
        model = Tikhonov(108, feature_bound=256.0, target_bound=8.0)
        model.learn(np.floor(pixels / 16), np.arange(30) % 7)
        dense = Relu(n_inputs=108, low=0, high=255, width=20)
        maps = (dense, Patches(n_inputs=108, image=(3, 6, 6), size=3, filters=4, pool=2))
        return [model.digest(), *(one.transform(pixels).tolist() for one in maps)]

    short = results()
    for module in (moments, relu, patches_module):
        monkeypatch.setattr(module, "short_float", lambda: np.float64)
    assert results() == short
