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
TRAININGS = 12


@dataclass(frozen=True)
class Flash:
    """The bytes of some trainings."""

    written: float  # to files
    needed: float  # by the updates and their records


def written_bytes() -> int:
    """Return the bytes that this process has given to `write` so far."""
    try:
        lines = Path("/proc/self/io").read_text().splitlines()
    except OSError:
        pytest.skip("NO /proc/self/io: the kernel does not count written bytes")
    return int(dict(line.split(": ") for line in lines)["wchar"])


def train(folder: Path, features: int) -> Flash:
    """Let a worker train some times, with evictions; count from new rows to the receipt."""
    draw = np.random.default_rng(0)

    def make() -> Tikhonov:
        return Tikhonov(n_features=features, feature_bound=1.0, target_bound=1.0)

    written = needed = 0
    with closing(Journal(folder / "journal.db")) as journal:
        worker = Worker("job", "w", make, journal, MeasuredMeter(), key=bytes(32))
        state = journal.state
        names: dict[str, Any] = {"job": "job", "worker": "w"}
        one = {**names, "session": state.session, "incarnation": 1}
        worker.handle([Welcome(**one, epoch="e", journal_id=state.journal_id)], 0.0)
        for number in range(1, TRAININGS + 1):
            now_s = 100.0 * number
            before = written_bytes()
            rows = [
                Rows.encode(draw.uniform(-1, 1, features).tolist(), float(draw.uniform(-1, 1)))
                for _ in range(ROWS)
            ]
            worker.ingest([(f"p{number % 3}", row) for row in rows])
            order = Assignment(**names, epoch="e", round=number, deadline_s=now_s + 60.0)
            (update,) = (
                message
                for message in worker.handle([order], now_s).messages
                if isinstance(message, Update)
            )
            assert update.learned == ROWS
            worker.handle([Receipt(**one, sequence=update.sequence, term="t")], now_s + 1.0)
            if number > 2:  # the file grows at first
                written += written_bytes() - before
                needed += len(update.delta) + sum(map(len, rows))
    return Flash(written / (TRAININGS - 2), needed / (TRAININGS - 2))


def test_a_training_with_a_large_update_writes_less_than_three_times_its_bytes(
    tmp_path: Path,
) -> None:
    flash = train(tmp_path, features=256)
    assert flash.needed > 250_000
    assert flash.written <= 3.0 * flash.needed


def test_a_training_writes_a_bounded_number_of_pages_beside_twice_its_bytes(
    tmp_path: Path,
) -> None:
    flash = train(tmp_path, features=13)
    assert flash.written <= 2.2 * flash.needed + 32 * 4_120, "pages of tables and indexes"
