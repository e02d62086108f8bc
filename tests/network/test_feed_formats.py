"""What a growing file may contain: every format of a [source], and what cannot be used."""

from contextlib import closing
from pathlib import Path

import pytest

from dealfl.erasure import owner_hash
from dealfl.errors import BadInput
from dealfl.jobs import Document, GrowingSource, plan_without_data
from dealfl.learners import NaiveBayes
from dealfl.worker import Journal, State
from tests.network.feeding import HEADER, KEY, NUMBERS, Following, row

OWNERS = NUMBERS.replace('target = "y"', 'target = "y"\nowner = "who"')
RATINGS = """\
[job]
name = "test"
[source]
format = "ratings"
file = "data.csv"
owner = "who"
item = "film"
rating = "stars"
liked_from = 3
items = ["alien", "brazil", "casablanca"]
"""
LIBSVM = """\
[job]
name = "test"
[source]
format = "libsvm"
file = "data.csv"
n_features = 2
low = 0.0
high = 1e6
target_bound = 1e6
"""


def stored(one: Following, owner: str) -> int:
    with closing(Journal(one.folder.parent / "journal.db")) as journal:
        return len(journal.records_of([owner_hash(KEY, owner)])[State.WAITING])


def test_the_owner_is_named_by_a_column_or_is_the_worker(tmp_path: Path) -> None:
    one = Following(tmp_path, OWNERS)
    one.append("who,y,x\nann,1,1\nbob,2,2\nann,3,3\n")
    assert one.poll() == 3
    assert (stored(one, "ann"), stored(one, "bob"), stored(one, "w")) == (2, 1, 0)
    (tmp_path / "other").mkdir()
    nameless = Following(tmp_path / "other")
    nameless.append(HEADER + row(1) + row(2))
    nameless.poll()
    assert stored(nameless, "w") == 2


def test_libsvm_and_ratings_are_read_as_they_grow(tmp_path: Path) -> None:
    one = Following(tmp_path, LIBSVM)
    one.append("# made by hand\n1 1:7 2:3\nx 1:1\n2 1:")
    assert one.poll() == 1
    one.append("8\n")
    assert one.poll() == 1
    assert one.rows == [7, 8]
    (tmp_path / "films").mkdir()
    films = Following(tmp_path / "films", RATINGS)
    films.append("who,film,stars\nann,alien,5\nann,brazil,1\n")
    assert films.poll() == 1
    films.append("ann,dune,5\nbob,brazil,2\n")  # unknown, and not liked
    assert films.poll() == 0
    films.append("bob,casablanca,3\n")
    assert films.poll() == 1
    assert films.items == [0, 2]


@pytest.mark.parametrize(
    ("keys", "before"),
    [("header = false", ""), ("skip_lines = 2", "made by\nmyself\nc1,c2\n"), ("", "\nc1,c2\n"),
     ('delimiter = ";"\nheader = false', "")],
)  # fmt: skip
def test_headers_of_all_kinds(tmp_path: Path, keys: str, before: str) -> None:
    text = NUMBERS.replace("x =", "c1 =").replace('"y"', f'"c2"\n{keys}')
    one = Following(tmp_path, text)
    mark = ";" if "delimiter" in keys else ","
    one.append(before + row(1).replace(",", mark))
    one.poll()
    one.append(row(2).replace(",", mark) + "3\n" + row(4).replace(",", mark))
    one.poll()
    assert one.rows == [1, 2, 4]


def test_a_header_in_parts_and_files_with_other_columns(tmp_path: Path) -> None:
    one = Following(tmp_path, name="")
    one.append("x,")
    assert one.poll() == 0
    one.append("y\n1,1")
    assert one.poll() == 0
    one.append("\n")
    assert one.poll() == 1
    one.append("z,y,x\n0,1,2\n", "more.csv")
    one.append("z,y\n1,2\n", "wrong.csv")
    assert one.poll() == 1
    assert one.rows == [1, 2]
    assert any("wrong.csv has no column 'x'" in line for line in one.said)


def test_bad_rows_are_counted_and_their_values_are_not_reported(tmp_path: Path) -> None:
    one = Following(tmp_path)
    one.append(HEADER + "".join(map(row, range(500))))
    with one.file.open("ab") as file:
        file.write(b"secret,1\n1,2,3\n\xff\xfe,1\n7000000,1\n")
    one.append(row(500) + "\n\n" + row(501))
    assert one.poll() == 502
    assert one.said == ["data.csv: 4 rows cannot be used (whole rows, column 'x')"]
    with closing(Journal(tmp_path / "journal.db")) as journal:
        feed = one.feed(journal)
        assert feed.bad == 4
        assert not journal.quarantined()
    assert b"secret" not in (tmp_path / "journal.db").read_bytes()


def test_a_quoted_cell_with_line_ends_is_one_row_and_an_open_quotation_mark_waits(
    tmp_path: Path,
) -> None:
    one = Following(tmp_path, OWNERS)
    one.append('who,y,x\n"ann\nof ""Ulm""",1,1\nbob,2,2\n"cle\n')
    assert one.poll() == 2
    one.append('o",3,3\n')
    assert one.poll() == 1
    assert stored(one, 'ann\nof "Ulm"') == stored(one, "cle\no") == 1
    one.append('"never closed,4,4\n' + "dora,5,5\n" * 20_000)
    assert one.poll() == 20_000  # only the line of the mark is lost


def test_a_file_without_line_ends_is_not_read_and_does_not_block_others(tmp_path: Path) -> None:
    one = Following(tmp_path, name="")
    one.append(HEADER + "1" * 1_100_000, "zeros.csv")
    one.append(HEADER + row(1))
    assert one.poll() == 1
    assert one.said == ["zeros.csv: no line end in 1048576 bytes; the rest is not read"]


def test_features_are_mapped_as_in_a_simulation(tmp_path: Path) -> None:
    mapped = NUMBERS.replace('"tikhonov"', '"naive_bayes"').replace(
        "target_bound = 1e6", 'classes = ["a", "b"]'
    )
    one = Following(
        tmp_path, mapped + '\n[features]\nmap = "bins"\nbins = 4\nlow = 0.0\nhigh = 1e6\n'
    )
    one.append(HEADER + "1,a\n999999,b\n")
    assert one.poll() == 2
    with closing(Journal(tmp_path / "journal.db")) as journal:
        features, labels = NaiveBayes(4, ["a", "b"]).rows_of(journal.records(State.WAITING))
    assert features.tolist() == [[1, 0, 0, 0], [0, 0, 0, 1]]
    assert labels.tolist() == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [('[job]\ndataset = "digits"', r"no \[source\]"),
     (NUMBERS.replace('"y"', '"y"\nencoding = "utf-16"'), "must be utf-8 or windows-1252")],
)  # fmt: skip
def test_a_job_whose_files_cannot_grow_is_refused(text: str, reason: str) -> None:
    document = Document.parse(text, "job.toml")
    with pytest.raises(BadInput, match=reason):
        GrowingSource(document, plan_without_data(document))
