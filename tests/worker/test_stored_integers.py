"""Journals hold examples as the integers of their learner."""

from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from dealfl.errors import BadInput
from dealfl.learners import NaiveBayes
from dealfl.worker import Journal, State
from tests.federation.parts import (
    assignment,
    delta_of,
    learned_statistics,
    row,
    updates,
    welcomed,
    worker,
)

VALUES = (0.125, 0.71875, 0.34375)


def files(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.iterdir()))


def test_a_new_example_is_stored_as_integers_only(tmp_path: Path) -> None:
    with closing(Journal(tmp_path / "j.db")) as journal:
        worker(journal=journal).ingest([("ann", row(*VALUES))])
        (record,) = journal.records(State.WAITING)
    points = [1, *(int(value * 256) for value in VALUES), 0]
    assert np.frombuffer(record.body, "<i4").tolist() == points
    assert row(*VALUES) not in files(tmp_path)


def test_a_row_that_cannot_be_learned_is_not_stored_at_all(tmp_path: Path) -> None:
    bad = row(7.25, 0.0, 0.0)
    with closing(Journal(tmp_path / "j.db")) as journal:
        accepted = worker(journal=journal).ingest([("ann", row(*VALUES)), ("bob", bad)])
        assert (accepted.waiting, accepted.quarantined) == (1, 1)
        assert [reason for _, reason in journal.quarantined()] == ["feature 0 is outside [0, 1]"]
    assert bad not in files(tmp_path)


def test_a_journal_serves_no_learner_with_other_settings() -> None:
    journal = Journal()
    worker(journal=journal).ingest([("ann", row(*VALUES))])
    with pytest.raises(BadInput, match=r"learner with other settings.*another journal"):
        worker(lambda: NaiveBayes(3, ["a", "b"], fraction_bits=9), journal)
    assert worker(journal=journal) is not None


def test_a_training_that_learns_and_evicts_is_one_update_with_both_signs() -> None:
    journal = Journal()
    one = welcomed(journal=journal, forget_fraction="0.5")
    one.ingest([(f"owner {n}", row(*VALUES)) for n in range(4)])
    (first,) = updates(one.handle([assignment(1)], 1.0).messages)
    one.ingest([("new", row(1.0, 0.0, 0.0, target="b"))])
    (second,) = updates(one.handle([assignment(2)], 2.0).messages)
    assert (second.learned, second.evicted) == (1, 2)
    counts = delta_of(second)["counts"].to_dict()
    assert counts == {0: -2, 1: 1}
    assert delta_of(first) + delta_of(second) == learned_statistics(journal)
