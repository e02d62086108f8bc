"""A phone's clocks as files, and a place for the repair file."""

from pathlib import Path

import pytest

from tests.power.cpufreq_tree import BIG, LITTLE, policy


@pytest.fixture
def repair(tmp_path: Path) -> Path:
    return tmp_path / "repair.json"


@pytest.fixture
def honor(tmp_path: Path) -> tuple[Path, Path, Path]:
    root = tmp_path / "sys"
    return root, policy(root, 0, LITTLE), policy(root, 4, BIG)
