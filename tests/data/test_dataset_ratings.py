import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dealfl.data.readers import Content, Events, Interactions, RatingMatrix, Ratings
from dealfl.errors import BadInput

TSV = Content("u.data", b"7\t1\t5\t100\n9\t3\t4\t50\n7\t3\t1\t300\n7\t2\t4\t200\n")


class TestRatings:
    def test_one_row_an_owner_holds_the_items_liked(self) -> None:
        histories = Ratings(n_items=3)([TSV]).histories(4)
        assert np.asarray(histories.owners).tolist() == [7, 9]
        assert histories.histories.toarray().tolist() == [[1, 1, 0], [0, 0, 1]]
        assert histories.times is not None
        assert histories.times.tolist() == [100, 200, 50]

    def test_an_owner_who_likes_nothing_has_no_row(self) -> None:
        histories = Ratings(n_items=3)([TSV]).histories(5)
        assert np.asarray(histories.owners).tolist() == [7]
        assert histories.histories.toarray().tolist() == [[1, 0, 0]]

    @pytest.mark.parametrize("item", ["0", "4", "-1"])
    def test_an_item_out_of_range_is_named_by_file_line_and_value(self, item: str) -> None:
        content = Content("u.data", f"7\t1\t5\t1\n\n7\t{item}\t5\t1\n".encode())
        with pytest.raises(BadInput, match=rf"^u.data, line 3: item {item} is not in 1..3$"):
            Ratings(n_items=3)([content])

    @pytest.mark.parametrize(
        ("line", "complaint"),
        [("7\t1\t5", "3 columns in"), ("7\tone\t5\t1", "'one' in column 2 is not a finite int64")],
    )
    def test_bad_lines_are_named(self, line: str, complaint: str) -> None:
        with pytest.raises(BadInput, match=rf"u.data, line 2: {complaint}"):
            Ratings(n_items=3)([Content("u.data", f"7\t1\t5\t1\n{line}\n".encode())])


class TestRatingMatrix:
    def test_unrated_items_and_low_ratings_are_not_in_the_history(self) -> None:
        content = Content("jester.csv", b"2,-9.5,99,0.01\n1,99,0,99\n3,1,2,3\n")
        interactions = RatingMatrix(n_items=3, limit=10)([content])
        assert interactions.records == 3
        histories = interactions.histories(0.01)
        assert np.asarray(histories.owners).tolist() == [0, 2]
        assert histories.histories.toarray().tolist() == [[0, 0, 1], [1, 1, 1]]
        assert histories.times is None

    def test_a_wrong_count_of_ratings_is_refused(self) -> None:
        content = Content("jester.csv", b"1,99,1,99\n2,99,1,99\n")
        with pytest.raises(BadInput, match=r"jester.csv, line 2: the count of ratings is wrong"):
            RatingMatrix(n_items=3, limit=10)([content])

    def test_a_rating_beyond_the_limit_is_refused(self) -> None:
        with pytest.raises(BadInput, match=r"jester.csv, line 1: a rating beyond ±10 is wrong"):
            RatingMatrix(n_items=2, limit=10)([Content("jester.csv", b"2,-11,1\n")])


class TestEvents:
    HEADER = "timestamp,visitorid,event,itemid,transactionid\n"

    def test_items_become_columns_in_ascending_order(self) -> None:
        lines = "30,5,view,900,\n10,5,addtocart,20,\n40,5,transaction,900,77\n10,2,view,20,\n"
        interactions = Events(n_items=2)([Content("e.csv", (self.HEADER + lines).encode())])
        histories = interactions.histories()
        assert interactions.records == 4
        assert np.asarray(histories.owners).tolist() == [2, 5]
        assert histories.histories.toarray().tolist() == [[1, 0], [1, 1]]
        assert histories.times is not None
        assert histories.times.tolist() == [10, 10, 40]  # the latest meeting with item 900

    def test_a_missing_column_is_named(self) -> None:
        with pytest.raises(BadInput, match=r"e.csv, line 1: no column 'visitorid' in 'time"):
            Events(n_items=1)([Content("e.csv", b"timestamp,itemid\n1,2\n")])

    def test_an_empty_file_is_refused(self) -> None:
        with pytest.raises(BadInput, match=r"e.csv, line 1: no column"):
            Events(n_items=1)([Content("e.csv", b"")])

    def test_another_number_of_items_is_refused(self) -> None:
        content = Content("e.csv", (self.HEADER + "1,2,view,3,\n").encode())
        with pytest.raises(BadInput, match="1 distinct items, expected 2"):
            Events(n_items=2)([content])


class TestHistories:
    @given(
        st.lists(
            st.tuples(st.integers(0, 5), st.integers(0, 6), st.integers(1, 5), st.integers(0, 9)),
            min_size=1,
        ),
        st.integers(1, 5),
    )
    def test_histories_are_what_a_dictionary_of_sets_would_be(
        self, rows: list[tuple[int, int, int, int]], liked_from: int
    ) -> None:
        owners, items, values, times = np.array(rows).T
        some = Interactions(owners, items, 7, len(rows), values.astype(float), times)
        made = some.histories(liked_from)
        expected: dict[int, dict[int, int]] = {}
        for owner, item, value, time in rows:
            if value >= liked_from:
                liked = expected.setdefault(owner, {})
                liked[item] = max(time, liked.get(item, 0))
        assert np.asarray(made.owners).tolist() == sorted(expected)
        assert made.times is not None
        for row, owner in enumerate(np.asarray(made.owners).tolist()):
            start, end = made.histories.indptr[row], made.histories.indptr[row + 1]
            pairs = zip(made.histories.indices[start:end], made.times[start:end], strict=True)
            assert {int(i): int(t) for i, t in pairs} == expected[owner]
        assert made.histories.has_canonical_format
        assert (made.histories.data == 1).all()
