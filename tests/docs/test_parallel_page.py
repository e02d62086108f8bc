"""The blocks of docs/parallel.md print what the page says."""

import contextlib
import io
from pathlib import Path

import pytest

from tests.docs.blocks import Block, find_blocks, matches

PAGE = Path(__file__).parents[2] / "docs" / "parallel.md"
PLAIN, DASK = [one for one in find_blocks(PAGE.read_text("utf-8")) if one.language == "python"]


def _run(block: Block) -> None:
    told = io.StringIO()
    with contextlib.redirect_stdout(told):
        exec(block.code, {"__name__": "page"})
    assert block.expected is not None
    assert matches(block.expected, told.getvalue())


def test_parts_are_learned_and_forgotten() -> None:
    _run(PLAIN)


@pytest.mark.soak
@pytest.mark.filterwarnings("default")
def test_the_partitions_of_a_dask_frame_are_learned() -> None:
    pytest.importorskip("dask.dataframe")
    pytest.importorskip("distributed")
    _run(DASK)
