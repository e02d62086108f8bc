from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dealfl.data.readers import Cifar, Columns, Content, Libsvm, Table, TargetColumn
from dealfl.errors import BadInput

NUMBERS = st.floats(allow_nan=False, allow_infinity=False, width=64)
DENSE = [[0.5, 0.0, 2.0], [0.0, -0.001, 0.0], [0.0, 0.0, 0.0]]


def text(*lines: str, name: str = "tiny.csv") -> Content:
    return Content(name, "\n".join(lines).encode())


def dense(table: Table | None) -> NDArray[Any]:
    assert table is not None
    assert isinstance(table.features, np.ndarray)
    return table.features


class TestColumns:
    def test_reads_the_numbers_that_are_written(self) -> None:
        table = Columns(width=3).read(text("1,-2.5,3e2", "4,5,6"))
        assert table.tolist() == [[1.0, -2.5, 300.0], [4.0, 5.0, 6.0]]
        assert table.dtype == np.float64

    def test_skips_lines_and_keeps_columns_in_the_order_asked_for(self) -> None:
        columns = Columns(width=3, dtype=np.int64, skip_lines=1, keep=(2, 0))
        assert columns.read(text("a,b,c", "1,view,3", "4,,6")).tolist() == [[3, 1], [6, 4]]

    def test_reads_one_row_as_a_table(self) -> None:
        assert Columns(width=2).read(text("1,2")).shape == (1, 2)

    @pytest.mark.parametrize("ending", ["\r\n", "\n", "\n\n"])
    def test_line_endings_blank_lines_and_byte_order_marks_do_not_matter(self, ending: str) -> None:
        content = Content("a.csv", ("\ufeff1,2" + ending + "3,4" + ending).encode())
        assert Columns(width=2, dtype=np.int16).read(content).tolist() == [[1, 2], [3, 4]]

    @given(st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS), min_size=1))
    def test_reads_back_what_was_printed(self, rows: list[tuple[float, ...]]) -> None:
        content = text(*(",".join(map(repr, row)) for row in rows))
        assert Columns(width=3).read(content).tolist() == [list(row) for row in rows]

    @pytest.mark.parametrize(
        ("lines", "complaint"),
        [
            (["1,2", "3"], "line 2: 1 columns in '3', expected 2"),
            (["1,2", "3,4,5"], "line 2: 3 columns in '3,4,5', expected 2"),
            (["1", "2"], "line 1: 1 columns in '1', expected 2"),
            (["1,2", "", "3,x"], "line 3: 'x' in column 2 is not a finite float64"),
            (["1,2", "3,"], "line 2: '' in column 2 is not a finite float64"),
            (["1,2", "nan,4"], "line 2: 'nan' in column 1 is not a finite float64"),
            (["1,inf"], "line 1: 'inf' in column 2 is not a finite float64"),
            (["1,2 # hi"], "line 1: '2 # hi' in column 2 is not a finite float64"),
            (["1,2", "# 3,4"], "line 2: '# 3' in column 1 is not a finite float64"),
        ],
    )
    def test_bad_content_is_named_by_file_line_and_value(
        self, lines: list[str], complaint: str
    ) -> None:
        with pytest.raises(BadInput) as error:
            Columns(width=2).read(text(*lines))
        assert str(error.value) == f"tiny.csv, {complaint}"

    @pytest.mark.parametrize("value", ["40000", "1.5", "-32769", "99999999999999999999"])
    def test_a_number_the_type_cannot_hold_is_refused_not_wrapped(self, value: str) -> None:
        with pytest.raises(BadInput, match=f"line 2: '{value}' in column 1 is not a finite int16"):
            Columns(width=1, dtype=np.int16).read(text("1", value))

    def test_a_short_line_is_refused_also_when_the_columns_kept_are_there(self) -> None:
        with pytest.raises(BadInput, match="line 2: 2 columns"):
            Columns(width=3, dtype=np.int64, keep=(0, 1)).read(text("1,2,3", "4,5"))

    @pytest.mark.parametrize("data", [b"", b"\n\n", b"header", b"header\n"])
    def test_a_file_without_rows_is_refused(self, data: bytes) -> None:
        with pytest.raises(BadInput, match=r"tiny\.csv has no rows; expected 2 columns"):
            Columns(width=2, skip_lines=1).read(Content("tiny.csv", data))

    def test_binary_rubbish_is_refused(self) -> None:
        with pytest.raises(BadInput, match=r"tiny\.csv"):
            Columns(width=2).read(Content("tiny.csv", bytes(range(256)) * 3))

    def test_a_row_is_found_again_behind_headers_and_blank_lines(self) -> None:
        columns = Columns(width=1, skip_lines=1)
        with pytest.raises(BadInput, match="line 5: it is even"):
            columns.require(text("head", "", "1", "", "2"), np.array([True, False]), "it is even")


class TestTargetColumn:
    def test_the_target_is_taken_out_wherever_it_stands(self) -> None:
        rows = text("1,2,3", "4,5,6")
        last = TargetColumn(width=3, dtype=np.int16)([rows])
        assert dense(last).tolist() == [[1, 2], [4, 5]]
        assert last.targets.tolist() == [3, 6]
        assert last.features.dtype == np.int16
        first = TargetColumn(width=3, target=0)([rows])
        assert dense(first).tolist() == [[2, 3], [5, 6]]
        assert first.targets.tolist() == [1, 4]

    def test_rows_after_the_training_rows_are_the_test_part(self) -> None:
        table = TargetColumn(width=2, train_rows=2)([text("1,2", "3,4", "5,6")])
        assert table.targets.tolist() == [2, 4]
        assert table.test is not None
        assert table.test.targets.tolist() == [6]
        assert table.records == 3


class TestLibsvm:
    CONTENT = Content("tiny.svm", b"1 1:0.5 3:2 \n-1 2:-1e-3\n+1\n")

    def test_reads_dense_rows(self) -> None:
        table = Libsvm(n_features=3)([self.CONTENT])
        assert dense(table).tolist() == DENSE
        assert table.targets.tolist() == [1.0, -1.0, 1.0]

    def test_labels_have_the_type_asked_for(self) -> None:
        table = Libsvm(n_features=3, labels=np.int64)([self.CONTENT])
        assert table.targets.dtype == np.int64
        assert table.targets.tolist() == [1, -1, 1]

    @pytest.mark.parametrize(
        ("line", "complaint"),
        [
            ("spam 1:1", "'spam' is not a number"),
            ("nan 1:1", "'nan' is not a finite number"),
            ("1 1:x", "'x' is not a number"),
            ("1 1:inf", "'inf' is not a finite number"),
            ("1 1:", "'' is not a number"),
            ("1 1", "'1' is not an index:value pair"),
            ("1 x:1", "'x:1' is not an index:value pair"),
            ("1 -1:1", "'-1:1' is not an index:value pair"),
            ("1 0:1", "index 0 in '0:1' must be above 0 and at most 3"),
            ("1 4:1", "index 4 in '4:1' must be above 0 and at most 3"),
            ("1 2:1 2:1", "index 2 in '2:1' must be above 2 and at most 3"),
            ("1 3:1 1:1", "index 1 in '1:1' must be above 3 and at most 3"),
        ],
    )
    def test_bad_content_is_named_by_file_line_and_value(self, line: str, complaint: str) -> None:
        content = Content("tiny.svm", f"1 1:1\n\n{line}\n".encode())
        with pytest.raises(BadInput) as error:
            Libsvm(n_features=3)([content])
        assert str(error.value) == f"tiny.svm, line 3: {complaint}"

    def test_an_empty_file_is_refused(self) -> None:
        with pytest.raises(BadInput, match=r"tiny\.svm has no rows"):
            Libsvm(n_features=3)([Content("tiny.svm", b"\n")])


class TestCifar:
    CIFAR = Cifar(classes=3, pixels=4)

    def test_the_last_file_is_the_test_part(self) -> None:
        one, two = bytes([0, 1, 2, 3, 4, 2, 9, 9, 9, 9]), bytes([1, 255, 0, 0, 0])
        table = self.CIFAR([Content("1", one), Content("2", two), Content("test", two)])
        assert dense(table).tolist() == [[1, 2, 3, 4], [9, 9, 9, 9], [255, 0, 0, 0]]
        assert table.targets.tolist() == [0, 2, 1]
        assert table.features.dtype == np.uint8
        assert dense(table.test).tolist() == [[255, 0, 0, 0]]
        assert table.records == 4

    @pytest.mark.parametrize("size", [0, 4, 9])
    def test_a_file_cut_short_is_refused(self, size: int) -> None:
        whole = Content("whole", bytes(5))
        with pytest.raises(BadInput, match=f"cut has {size} bytes, not a multiple of 5"):
            self.CIFAR([Content("cut", bytes(size)), whole])

    def test_a_label_out_of_range_is_refused(self) -> None:
        content = Content("b.bin", bytes(5) + bytes([3, 0, 0, 0, 0]))
        with pytest.raises(BadInput, match=r"b.bin, row 2: label 3 is not below 3"):
            self.CIFAR([content, content])
