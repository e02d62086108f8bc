"""A [source] of ratings or of LIBSVM's text."""

from pathlib import Path

import numpy as np
import pytest

from dealfl.errors import BadInput
from dealfl.jobs import Document
from dealfl.learners import Histories
from dealfl.simulate import read_fleet, split_examples
from tests.jobs.foreign_files import ratings, reading, refused, write


def test_ratings_become_histories_of_named_owners(tmp_path: Path) -> None:
    job = """\
[job]
[source]
file = "data.csv"
format = "ratings"
owner = "user"
item = "item"
rating = "rating"
liked_from = 4
time = "when"
items = ["tea", "milk", "rum"]
[[devices]]
count = 1
"""
    data = (
        "user,item,rating,when\nann,tea,5,3\nann,rum,4,1\nann,milk,3,2\nbob,gin,5,1\nbob,tea,4,1\n"
    )
    found = reading(tmp_path, data, job)
    assert sorted(found.owner(row) for row in range(2)) == ["ann", "bob"]
    ann = next(row for row in range(2) if found.owner(row) == "ann")
    assert found.examples.histories.toarray()[ann].tolist() == [1, 0, 1]
    assert [str(one) for one in found.quarantine.first] == [
        "line 5, column 'item': 'gin' is none of: tea, milk, rum"
    ]
    write(tmp_path, "data.csv", data + "cid,tea,5,9\ncid,milk,5,2\ncid,rum,5,5\n" * 2)
    fleet = read_fleet(Document.parse(job, "job.toml", tmp_path))
    streams = split_examples(fleet.plan, fleet.data, fleet.workers, 1).streams
    items = [Histories.decode(body) for owner, body in streams[0] if owner == "cid"]
    assert items in ([], [1, 2, 0])


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("liked_from = 4\n", "", "source takes rating and liked_from together"),
        ("last_item = 20\n", "", "source takes either items or last_item"),
        ("last_item = 20", "last_item = 0\nitems = [1]\nfirst_itm = 2", "no key 'first_itm'"),
        ("first_item = 1", "first_item = 30", "source.last_item is 20; it takes a whole number"),
        ('item = "item"', 'item = "user"', "the column 'user' cannot have two roles"),
        ("liked_from = 4", "liked_from = 9", ""),
    ],
)
def test_what_ratings_cannot_be_is_reported(tmp_path: Path, old: str, new: str, told: str) -> None:
    job = """\
[job]
[source]
file = "data.csv"
format = "ratings"
owner = "user"
item = "item"
rating = "rating"
liked_from = 4
first_item = 1
last_item = 20
[[devices]]
count = 2
"""
    if told:
        assert told in refused(tmp_path, old, new, job, ratings())
    else:
        with pytest.raises(BadInput, match=r"no rating reaches source\.liked_from = 9; lower it"):
            reading(tmp_path, ratings(), job.replace(old, new))


def test_libsvm_rows_that_do_not_fit_are_set_aside(tmp_path: Path) -> None:
    job = """\
[job]
[source]
file = "data.csv"
format = "libsvm"
n_features = 3
low = [0, 0, -1]
high = 4
classes = [1, 2]
[[devices]]
count = 2
"""
    data = "1 1:1 3:-1 # fine\n2 2:4\n3 1:1\n1 1:5\n1 4:1\n1 2:1 1:1\n1 1:x\n2\n"
    found = reading(tmp_path, data, job)
    assert np.asarray(found.examples.features).tolist() == [[1, 0, -1], [0, 4, 0], [0, 0, 0]]
    assert [one.line for one in found.quarantine.first] == [3, 4, 5, 6, 7]
    for old, new, told in (
        ("low = [0, 0, -1]", "low = [0, 0]", "line 6: source.low has 2 numbers for 3 features"),
        ("low = [0, 0, -1]", "low = 1", "line 6: source.low and source.high exclude 0"),
        ("high = 4", "high = 0", "line 7: source.low and source.high: feature 0: low is"),
        ("data.csv", "none.csv", "line 3: file "),
    ):
        assert told in refused(tmp_path, old, new, job, data)
