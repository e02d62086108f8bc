"""A resident worker after an error or under other settings: no half change, no old page."""

from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dealfl.erasure import owner_hash
from dealfl.protocol.messages import Erase
from dealfl.worker import Journal, Memory, WorkerKeys
from tests.federation.parts import KEY, assignment
from tests.worker.test_resident_model import (
    MAKERS,
    RESIDENT,
    every_learner,
    records,
    require_equal,
    started,
)

PAGED = WorkerKeys(model="resident", memory=Memory(frames=2))


def erase(owners: Iterable[str]) -> Erase:
    hashes = tuple(sorted(owner_hash(KEY, owner) for owner in set(owners)))
    return Erase(job="job", worker="", request="r", owners=hashes)


@every_learner
@pytest.mark.parametrize("keys", [RESIDENT, PAGED], ids=["memory", "pages"])
def test_a_model_that_changed_before_an_error_is_not_used_again(
    name: str, keys: WorkerKeys, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal, draw = Journal(), np.random.default_rng(7)
    one = started(name, journal, keys=keys)
    learned = records(name, draw, 12)
    one.ingest(learned)
    one.handle([assignment(1)], 1.0)
    more = records(name, draw, 12)
    one.ingest(more)
    kind = type(MAKERS[name]())
    update = kind.update_records

    def fail(*given: Any) -> None:
        update(*given)
        raise MemoryError

    with monkeypatch.context() as broken:
        broken.setattr(kind, "update_records", fail)
        with pytest.raises(MemoryError):
            one.handle([assignment(2)], 2.0)
    require_equal(one, journal, name)
    one.handle([assignment(3)], 3.0)
    require_equal(one, journal, name)
    one.handle([erase(owner for owner, _ in learned + more)], 4.0)
    assert one.own_model.statistics.is_zero


@every_learner
def test_a_worker_whose_retraining_failed_can_erase(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = np.random.default_rng(8)
    with closing(Journal(tmp_path / "j.db")) as journal:
        one = started(name, journal, keys=PAGED, scheme_name="original")
        learned = records(name, draw, 12)
        one.ingest(learned)
        one.handle([assignment(1)], 1.0)
        one.ingest(records(name, draw, 12))

        def fail(*_: Any) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as broken:
            broken.setattr(type(MAKERS[name]()), "update_records", fail)
            with pytest.raises(OSError, match="No space left"):
                one.handle([assignment(2)], 2.0)
        one.handle([erase([learned[0][0]])], 3.0)
        require_equal(one, journal, name)


@pytest.mark.parametrize("after", [WorkerKeys(), RESIDENT, PAGED], ids=["none", "memory", "pages"])
def test_no_page_of_an_earlier_process_is_left(after: WorkerKeys, tmp_path: Path) -> None:
    name = "personalized_pagerank"
    with closing(Journal(tmp_path / "j.db")) as journal:
        one = started(name, journal, keys=PAGED)
        one.ingest(records(name, np.random.default_rng(9), 12))
        one.handle([assignment(1)], 1.0)
    pages = tmp_path / "j.db-pages"
    assert any(pages.iterdir())
    with closing(Journal(tmp_path / "j.db")) as journal:
        started(name, journal, keys=after)
        assert not pages.exists()
