"""Maps are declared by tables; what can not be used is refused by key, value and remedy."""

import re
import subprocess
import sys
import tomllib
from typing import Any

import numpy as np
import pytest

from dealfl.errors import BadInput
from dealfl.features import Bins, Identity, Relu, Thermometer, feature_map

RANGE: dict[str, object] = {"low": 0, "high": 1}


def test_a_toml_table_declares_a_map() -> None:
    declared = tomllib.loads('map = "bins"\nlow = 0\nhigh = [1, 2.5]\nbins = 4')
    assert feature_map(declared, 2) == Bins(n_inputs=2, low=0.0, high=(1.0, 2.5), bins=4)


def test_a_plain_number_may_be_of_numpy() -> None:
    declared = {"map": "relu", "width": np.int32(7), "high": np.float32(4), "low": np.zeros(3)}
    fitted = feature_map(declared, np.int64(3))  # type: ignore[arg-type]  # as callers do
    assert fitted == Relu(n_inputs=3, width=7, high=4.0, low=(0.0, 0.0, 0.0))
    assert [type(value) for value in fitted.settings().values()][1] is int


def test_the_table_that_is_read_is_not_changed() -> None:
    declared: dict[str, object] = {"map": "identity", "bound": [1, 2]}
    feature_map(declared, 2)
    assert declared == {"map": "identity", "bound": [1, 2]}


def test_maps_differ_when_a_setting_differs() -> None:
    assert Relu(n_inputs=3, seed=1) != Relu(n_inputs=3)
    assert Relu(n_inputs=3) != Relu(n_inputs=4)


@pytest.mark.parametrize("name", ["fourier", "", None, 3, ["relu"]])
def test_an_unknown_map_is_refused_with_the_known_ones(name: object) -> None:
    listed = 'it takes one of "bins", "identity", "patches", "relu", "thermometer"'
    with pytest.raises(BadInput, match=re.escape(f"features.map is {name!r}; {listed}")):
        feature_map({"map": name}, 3)


def test_a_table_without_a_map_is_refused() -> None:
    with pytest.raises(BadInput, match="the key 'map' is missing in features; it takes one of"):
        feature_map({"width": 3}, 3)


@pytest.mark.parametrize("settings", [None, "relu", ["map"]])
def test_what_is_no_table_is_refused(settings: Any) -> None:
    with pytest.raises(BadInput, match="declare it with a table"):
        feature_map(settings, 3)


@pytest.mark.parametrize("key", ["widht", "n_inputs", "name", 3])
def test_an_unknown_key_is_refused_with_the_valid_ones(key: str) -> None:
    message = f"no key {key!r} in features; "
    valid = "alid: bias, clip, connections, high, low, map, seed, steps, width"
    with pytest.raises(BadInput, match=f"{message}.*{valid}"):
        feature_map({"map": "relu", key: 5}, 3)


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"map": "identity"}, "bound"),
        ({"map": "bins", "low": 0}, "high"),
        ({"map": "bins", "high": 0}, "low"),
        ({"map": "thermometer"}, "low"),
    ],
)
def test_a_missing_key_is_refused_with_the_valid_ones(settings: Any, key: str) -> None:
    with pytest.raises(BadInput, match=f"the key '{key}' is missing in features; it takes "):
        feature_map(settings, 3)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"map": "relu", "width": "7"}, "width is '7'; it takes a whole number from 1 to 65536"),
        ({"map": "relu", "width": 7.0}, "width is 7.0; it takes a whole number"),
        ({"map": "relu", "width": 0}, "width is 0; it takes a whole number from 1"),
        ({"map": "relu", "width": 65_537}, "width is 65537"),
        ({"map": "relu", "width": True}, "width is True"),
        ({"map": "relu", "seed": -1}, "seed is -1; it takes a whole number from 0 to"),
        ({"map": "relu", "seed": None}, "seed is None"),
        ({"map": "relu", "low": "0"}, "low is '0'; it takes a number from -1e+200 to 1e+200, or a"),
        ({"map": "relu", "low": False}, "low is False"),
        ({"map": "relu", "low": float("nan")}, "low is nan"),
        ({"map": "relu", "high": float("inf")}, "high is inf"),
        ({"map": "relu", "high": 10**400}, "high is 1000"),
        ({"map": "relu", "high": [1, "2", 3]}, "high is [1, '2', 3]"),
        ({"map": "relu", "high": []}, "high is []"),
        ({"map": "relu", "high": [1, 2]}, "high is (1.0, 2.0); it has 2 numbers for 3 columns"),
        ({"map": "relu", "low": 16}, "high is 16.0; it must be above low, which is 16 in col"),
        ({"map": "relu", "low": [0, 20, 0]}, "it must be above low, which is 20 in column 1"),
        ({"map": "relu", "clip": 0}, "clip is 0"),
        ({"map": "identity", "bound": 0}, "bound is 0.0; a bound must be above 0"),
        ({"map": "identity", "bound": [1, 0, 1]}, "a bound must be above 0"),
        (
            {"map": "identity", "bound": 1e16},
            "bound is 1e+16; it takes a number from 0 to 90",
        ),
        ({"map": "bins", **RANGE, "bins": 1}, "bins is 1; it takes a whole number from 2"),
        ({"map": "bins", **RANGE, "columns": 1}, "columns is 1; it takes a list, each a whole"),
        ({"map": "bins", **RANGE, "columns": []}, "columns is []"),
        ({"map": "bins", **RANGE, "columns": [0.0]}, "columns is [0.0]"),
        ({"map": "bins", **RANGE, "columns": [-1]}, "columns is [-1]"),
        ({"map": "bins", **RANGE, "columns": [0, 3]}, "columns is (0, 3); give distinct indices"),
        ({"map": "bins", **RANGE, "columns": [1, 1]}, "columns is (1, 1); give distinct indices"),
        ({"map": "bins", "low": [0], "high": 1}, "low is (0.0,); it has 1 numbers for 3 columns"),
        ({"map": "bins", **RANGE, "columns": [0], "bound": [1]}, "it has 1 numbers for 2 columns"),
        ({"map": "bins", **RANGE, "columns": [0], "bound": 0}, "a bound must be above 0"),
        ({"map": "thermometer", **RANGE, "levels": 0}, "levels is 0"),
        ({"map": "thermometer", "low": 1, "high": 1 + 2**-52}, "the range is too narrow for this"),
        ({"map": "patches"}, "image is (3, 32, 32); give channels, height and width of 3 values"),
        ({"map": "patches", "image": [3]}, "image is (3,)"),
        ({"map": "patches", "image": "3x1x1"}, "image is '3x1x1'"),
        ({"map": "patches", "image": [3, 1, 1]}, "size is 6; a patch must fit an image of [3, 1"),
        ({"map": "patches", "gain": -0.5}, "gain is -0.5; it takes a number from 0 to 2"),
        ({"map": "patches", "threshold": [4]}, "threshold is [4]"),
        ({"map": "patches", "shift": 41}, "shift is 41"),
    ],
)
def test_a_setting_that_cannot_be_used_is_refused(settings: Any, message: str) -> None:
    with pytest.raises(BadInput, match=re.escape(message)):
        feature_map(settings, 3)


@pytest.mark.parametrize("n_inputs", [0, -1, 2.0, "3", None])
def test_a_number_of_inputs_that_is_none_is_refused(n_inputs: Any) -> None:
    with pytest.raises(BadInput, match=f"n_inputs is {n_inputs!r}; it takes a whole number ≥ 1"):
        feature_map({"map": "identity", "bound": 1}, n_inputs)


def test_a_map_made_directly_is_checked_as_well() -> None:
    with pytest.raises(BadInput, match="levels is 'x'"):
        Thermometer(n_inputs=1, low=0.0, high=1.0, levels="x")  # type: ignore[arg-type]
    assert Identity(n_inputs=2, bound=[1, 2]) == Identity(2, (1.0, 2.0))  # type: ignore[arg-type]


def test_scipy_is_imported_only_for_sparse_rows() -> None:
    code = (
        "import sys, numpy, dealfl.features as f\n"
        "f.feature_map({'map': 'relu'}, 2).transform(numpy.zeros((1, 2)))\n"
        "assert not any(name.startswith('scipy') for name in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
