"""The ways of selecting that the figure compares are settings of its fleet."""

from collections.abc import Callable

import pytest

from dealfl_paper.federated import play_fleet
from dealfl_paper.figures.selection import WAYS


@pytest.mark.parametrize("way", WAYS)
def test_a_way_of_selecting_can_be_played(way: str, require_data: Callable[[str], None]) -> None:
    require_data("phishing")
    assert play_fleet(0.92, 2, 0, WAYS[way]).selections
