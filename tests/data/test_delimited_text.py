"""Delimited text: the same rows whichever way a block is parsed, and the line of each."""

import csv
import gzip
import io
import math
import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dealfl.data.readers import Block, Content, DelimitedText, Layout
from dealfl.errors import BadInput

CELLS = st.one_of(
    st.floats().map(repr),
    st.integers().map(str),
    st.sampled_from(["", "NA", "1_0", " 2.5", "x", "1e400", "٣", "0x10", "+7"]),
)
# Texts that are almost plain decimals; ':' follows '9'
DECIMALS = st.one_of(
    st.from_regex(r"-?[0-9]{0,9}(\.[0-9]{0,9})?", fullmatch=True),
    st.sampled_from(["1:", "/1", "1.2.3", "--1", "1-", "-", ".", "+1", " 1", "1\0", "-0", "1e5"]),
)


def read(text: str, width: int, **layout: object) -> list[Block]:
    table = DelimitedText(Content("t.csv", text.encode()), Layout(**{"header": False, **layout}))  # type: ignore[arg-type]
    return list(table.read_blocks(width))


@given(st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=1))
def test_a_block_with_quotation_marks_reads_as_the_same_numbers(
    rows: list[tuple[str, ...]],
) -> None:
    (plain,) = read("\n".join(",".join(row) for row in rows), 3)
    (quoted,) = read("\n".join(",".join(f'"{cell}"' for cell in row) for row in rows), 3)
    assert plain.lines == quoted.lines == list(range(1, len(rows) + 1))
    for column in range(3):
        assert plain.texts(column) == quoted.texts(column) == [row[column] for row in rows]
        np.testing.assert_array_equal(plain.numbers(column), quoted.numbers(column))


@given(st.lists(st.floats(allow_nan=False), min_size=1))
def test_a_column_in_bulk_equals_its_cells_one_by_one(numbers: list[float]) -> None:
    (block,) = read("\n".join(f"{number!r},a" for number in numbers), 2)
    assert block.numbers(0).tolist() == numbers
    assert block.table([0], np.float64)[:, 0].tolist() == numbers


def python_float(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return math.nan


@given(
    st.lists(st.tuples(DECIMALS, DECIMALS), min_size=1, max_size=4),
    st.sampled_from([",", ";", "\t", "é"]),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.booleans(),
)
def test_decimals_are_the_floats_of_python(
    rows: list[tuple[str, str]], delimiter: str, end: str, ended: bool
) -> None:
    text = end.join(delimiter.join(row) for row in rows) + end * ended
    (block,) = read(text, 2, delimiter=delimiter)
    for column in range(2):
        expected = np.array([python_float(row[column]) for row in rows])
        assert block.numbers(column).tobytes() == expected.tobytes()


@pytest.mark.parametrize("digits", range(1, 19))
def test_decimals_of_any_length_are_the_floats_of_python(digits: int) -> None:
    draw = random.Random(digits)
    texts = [f"{draw.randrange(10**digits):0{digits}}" for _ in range(400)]
    cells = [f"-{text[:n]}.{text[n:]}" for text in texts for n in [draw.randint(0, digits)]]
    (block,) = read("\n".join(f"{cell},{cell[1:]}" for cell in cells), 2)
    assert block.numbers(0).tolist() == [float(cell) for cell in cells]
    assert block.numbers(1).tolist() == [-float(cell) for cell in cells]


def test_rows_and_lines_stay_whole_across_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dealfl.data.readers.delimited.BLOCK_CHARACTERS", 64)
    draw = random.Random(0)
    notes = ["plain", "two\nlines", "a, comma", 'so "quoted"', ""]
    cells = [[str(row), draw.choice(notes[: 1 + row // 100]), "x"] for row in range(500)]
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(cells)
    blocks = read(text.getvalue(), 3)
    assert len(blocks) > 50
    assert [n for block in blocks for n in block.numbers(0).tolist()] == list(range(500))
    assert [note for block in blocks for note in block.texts(1)] == [row[1] for row in cells]
    reader = csv.reader(io.StringIO(text.getvalue(), newline=""))
    assert [line for block in blocks for line in block.lines] == [reader.line_num for _ in reader]


@pytest.mark.parametrize("quote", ["", '"'])
def test_rows_of_another_width_are_apart_and_blank_lines_are_none(quote: str) -> None:
    (block,) = read(f"1,{quote}2{quote}\n\n3\n  \n4,5,6\r\n,\n7,8", 2)
    assert block.lines == [1, 6, 7]
    assert block.texts(0) == ["1", "", "7"]
    assert list(block.ragged) == [(3, ["3"]), (5, ["4", "5", "6"])]
    assert len(block) == 5


def test_skipped_lines_and_the_header_count_as_lines() -> None:
    text = 'remark\n\n"a\nname",b\n1,2\n'
    table = DelimitedText(Content("t.csv", text.encode()), Layout(skip_lines=1))
    assert table.read_names() == ["a\nname", "b"]
    (block,) = table.read_blocks(2)
    assert block.lines == [5]


def test_spaces_and_decimal_commas() -> None:
    (block,) = read("1   2\n3 4\n", 2, delimiter=" ")
    assert block.numbers(1).tolist() == [2.0, 4.0]
    (block,) = read("1.234,5;x\n", 2, delimiter=";", decimal_comma=True)
    assert block.numbers(0).tolist() == [1234.5]
    assert np.isnan(block.numbers(1)).all()


def test_a_packed_file_is_read_a_block_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n" + b"1,2\n" * 500_000))
    blocks = DelimitedText(path).read_blocks(2)
    assert len(next(blocks)) < 500_000
    assert sum(map(len, blocks)) > 0
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(BadInput, match=r"t\.csv\.gz: truncated or damaged"):
        list(DelimitedText(path).read_blocks(2))
