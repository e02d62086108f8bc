"""How many bytes a worker writes to its disk for one training, counted where files are written."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dealfl.learners import Rows, Tikhonov
from dealfl.protocol.messages import Assignment, Receipt, Update, Welcome
from dealfl.worker import Journal, MeasuredMeter, Worker

ROWS = 10


@dataclass(frozen=True)
class Flash:
    """The bytes of a training, from new rows to the receipt."""

    written: float  # to files
    needed: float  # by the update and its records


def written_bytes() -> int:
    """Return the bytes that this process has given to `write` so far."""
    try:
        lines = Path("/proc/self/io").read_text().splitlines()
    except OSError:
        pytest.skip("NO /proc/self/io: the kernel does not count written bytes")
    return int(dict(line.split(": ") for line in lines)["wchar"])


def train(folder: Path, features: int, trainings: int = 20, *, calls: bool = False) -> Flash:
    """Let a worker train some times, with evictions; what closing its journal writes counts, too.

    With `calls`, each training has a process of its own: the journal is opened and closed.
    """
    draw = np.random.default_rng(0)
    before = needed = 0
    for first in range(trainings + 2) if calls else (0,):
        with closing(Journal(folder / "journal.db")) as journal:
            worker = start(journal, features)
            for number in (first,) if calls else range(trainings + 2):
                if number == 2:  # the file is complete now
                    before, needed = written_bytes(), 0
                rows = [
                    Rows.encode(draw.uniform(-1, 1, features).tolist(), float(draw.uniform(-1, 1)))
                    for _ in range(ROWS)
                ]
                update = train_once(worker, journal, rows, number + 1)
                needed += len(update.delta) + sum(map(len, rows))
    return Flash((written_bytes() - before) / trainings, needed / trainings)


def start(journal: Journal, features: int) -> Worker:
    """Return a worker that the server has welcomed."""

    def make() -> Tikhonov:
        return Tikhonov(n_features=features, feature_bound=1.0, target_bound=1.0)

    worker = Worker("job", "w", make, journal, MeasuredMeter(), key=bytes(32))
    welcome = Welcome(**about(journal), epoch="e", journal_id=journal.state.journal_id)
    worker.handle([welcome], 0.0)
    return worker


def about(journal: Journal) -> dict[str, Any]:
    """Return what every message to the worker names."""
    return {"job": "job", "worker": "w", "session": journal.state.session, "incarnation": 1}


def train_once(worker: Worker, journal: Journal, rows: list[bytes], number: int) -> Update:
    """Give new rows to a worker, and an assignment and a receipt; return its update."""
    now_s = 100.0 * number
    worker.ingest([(f"p{number % 3}", row) for row in rows])
    order = Assignment(job="job", worker="w", epoch="e", round=number, deadline_s=now_s + 60.0)
    messages = worker.handle([order], now_s).messages
    (update,) = (message for message in messages if isinstance(message, Update))
    assert update.learned == ROWS
    worker.handle([Receipt(**about(journal), sequence=update.sequence, term="t")], now_s + 1.0)
    return update


@pytest.mark.parametrize(("features", "times"), [(256, 1.5), (70, 2.5)])
def test_a_training_writes_less_than_three_times_the_bytes_of_its_update_and_records(
    tmp_path: Path, features: int, times: float
) -> None:
    flash = train(tmp_path, features)
    assert flash.needed > 25_000
    assert flash.written <= times * flash.needed


def test_a_small_training_writes_a_bounded_number_of_small_pages(tmp_path: Path) -> None:
    flash = train(tmp_path, features=13)
    assert flash.written <= 1.1 * flash.needed + 18_000


def test_a_call_that_lives_for_one_training_copies_its_pages_once_more(tmp_path: Path) -> None:
    flash = train(tmp_path, features=256, trainings=5, calls=True)
    assert flash.written <= 2.4 * flash.needed
