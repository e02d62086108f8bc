"""A resident worker: its live model equals central training on what it holds, whatever happens."""

import os
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dealfl.erasure import owner_hash
from dealfl.errors import BadInput, MissingExtra, NotLearned
from dealfl.learners import (
    Change,
    Histories,
    Learner,
    NaiveBayes,
    Neighbors,
    PersonalizedPageRank,
    Rows,
    StoredRecord,
    Tikhonov,
    statistics_of,
)
from dealfl.protocol.messages import Erase, Update
from dealfl.worker import Journal, Memory, State, Worker, WorkerKeys
from tests.federation.parts import KEY, Connect, assignment, welcome, worker

RESIDENT = WorkerKeys(model="resident")
ITEMS = 80
FULL = """CREATE TEMP TRIGGER full BEFORE INSERT ON outbox
BEGIN SELECT RAISE(ABORT, 'full'); END"""

try:
    import_module("scipy")
except ModuleNotFoundError:
    SOLVER = "cholesky"
else:
    SOLVER = "qr"
MAKERS: dict[str, Callable[[], Learner]] = {
    "tikhonov": lambda: Tikhonov(5, feature_bound=2.0, target_bound=8.0, solver=SOLVER),
    "naive_bayes": lambda: NaiveBayes(5, [0, 1], feature_bound=2.0),
    "neighbors": lambda: Neighbors(5, [0, 1], k=3, tables=4, bits=20, vote_bits=6),
    "personalized_pagerank": lambda: PersonalizedPageRank(ITEMS),
}
every_learner = pytest.mark.parametrize("name", MAKERS)


def records(name: str, draw: np.random.Generator, count: int) -> list[tuple[str, bytes]]:
    if name == "personalized_pagerank":
        pairs = zip(draw.integers(0, 8, count), draw.integers(0, ITEMS, count), strict=True)
        return [(f"owner {owner}", Histories.encode(int(item))) for owner, item in pairs]
    rows = draw.uniform(0, 1, (count, 5))
    targets = rows.sum(axis=1) if name == "tikhonov" else (rows[:, 0] > 0.5).astype(int)
    return [
        (f"owner {n % 8}", Rows.encode(*row))
        for n, row in enumerate(zip(rows, targets, strict=True))
    ]


def started(name: str, journal: Journal, **other: Any) -> Worker:
    keys = other.pop("keys", RESIDENT)
    one = worker(MAKERS[name], journal, keys=keys, forget_fraction="0.1", **other)
    one.handle([welcome(journal)], 0.0)
    return one


def require_equal(one: Worker, journal: Journal, name: str) -> None:
    """Require that the live model is that of central training on what the journal holds."""
    central = MAKERS[name]()
    central.merge(statistics_of(MAKERS[name], journal.records(State.LEARNED))[0])
    assert one.own_model.digest() == central.digest()


@every_learner
@pytest.mark.parametrize("share", [0.0, 0.3])
@pytest.mark.parametrize("memory", [None, Memory(frames=3)])
def test_the_live_model_is_that_of_central_training_after_every_training(
    name: str, share: float, memory: Memory | None
) -> None:
    journal, draw = Journal(), np.random.default_rng(1)
    keys = WorkerKeys(model="resident", memory=memory, validation_share=share)
    one = started(name, journal, keys=keys)
    plain_journal = Journal()
    plain = started(name, plain_journal, keys=WorkerKeys(validation_share=share))
    for number in range(1, 8):
        new = records(name, draw, 25)
        for each in (one, plain):
            each.ingest(new)
            each.handle([assignment(number)], float(number))
        require_equal(one, journal, name)
    sent = [[each.read_update(n).delta for n in each.outgoing] for each in (journal, plain_journal)]
    assert sent[0] == sent[1], "a resident worker sends what a stateless one sends"
    order = Erase(job="job", worker="", request="r", owners=(owner_hash(KEY, "owner 3"),))
    one.handle([order], 99.0)
    require_equal(one, journal, name)


@every_learner
def test_a_transaction_that_fails_leaves_the_model_of_before(name: str, tmp_path: Path) -> None:
    connect, draw = Connect(), np.random.default_rng(2)
    journal = Journal(tmp_path / "j.db", connect=connect)
    one = started(name, journal)
    for number in range(1, 4):
        one.ingest(records(name, draw, 20))
        if number == 2:
            connect.db.execute(FULL)
            with pytest.raises(sqlite3.Error, match="full"):
                one.handle([assignment(number)], float(number))
            connect.db.execute("DROP TRIGGER full")
            require_equal(one, journal, name)
        one.handle([assignment(number)], float(number))
        require_equal(one, journal, name)
    journal.close()


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "none": lambda content: content,
    "cut short": lambda content: content[: len(content) // 2],
    "empty": lambda content: content[:0],
    "another version": lambda content: content[:8] + b"\x63" + content[9:],
}


@every_learner
@pytest.mark.parametrize("memory", [None, Memory(frames=2, policy="lru")])
def test_a_restarted_worker_builds_its_model_from_the_journal(
    name: str, memory: Memory | None, tmp_path: Path
) -> None:
    draw, keys = np.random.default_rng(3), WorkerKeys(model="resident", memory=memory)
    for number, damage in enumerate(DAMAGES.values(), 1):
        journal = Journal(tmp_path / "j.db")
        one = started(name, journal, keys=keys)
        central = MAKERS[name]()
        central.merge(statistics_of(MAKERS[name], journal.records(State.LEARNED))[0])
        assert one.own_model.digest() == central.digest()
        one.ingest(records(name, draw, 20))
        one.handle([assignment(number)], float(number))
        require_equal(one, journal, name)
        pages = list((tmp_path / "j.db-pages").glob("*.pages"))
        assert bool(pages) == (memory is not None)
        for path in pages:
            path.write_bytes(damage(path.read_bytes()))
        journal.close()


@pytest.mark.parametrize("moment", ["before the review", "before the erasure"])
def test_a_page_file_cut_short_ends_neither_a_review_nor_an_erasure(
    moment: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, draw, plain = "naive_bayes", np.random.default_rng(8), NaiveBayes.update_records

    def cut_after(self: NaiveBayes, *change: Any) -> Change:
        monkeypatch.setattr(NaiveBayes, "update_records", plain)
        done = plain(self, *change)
        for path in (tmp_path / "j.db-pages").glob("*.pages"):
            os.truncate(path, 0)
        return done

    with closing(Journal(tmp_path / "j.db")) as journal:
        keys = WorkerKeys(model="resident", memory=Memory(frames=2), validation_share=0.3)
        one = started(name, journal, keys=keys)
        for number in (1, 2):
            one.ingest(records(name, draw, 30))
            one.handle([assignment(number)], float(number))
        one.ingest(records(name, draw, 30))
        monkeypatch.setattr(NaiveBayes, "update_records", cut_after)
        if moment == "before the review":
            step = one.handle([assignment(3)], 3.0)
            assert any(isinstance(message, Update) for message in step.messages)
        else:
            order = Erase(job="job", worker="", request="r", owners=(owner_hash(KEY, "owner 3"),))
            one.handle([order], 3.0)
        require_equal(one, journal, name)
    assert "bytes instead of" in caplog.text


def test_a_page_file_cut_short_under_a_live_model_is_named_and_the_training_is_done(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    name, draw = "personalized_pagerank", np.random.default_rng(6)
    with closing(Journal(tmp_path / "j.db")) as journal:
        keys = WorkerKeys(model="resident", memory=Memory(frames=2))
        one = started(name, journal, keys=keys)
        for number in range(1, 4):
            one.ingest(records(name, draw, 30))
            one.handle([assignment(number)], float(number))
            require_equal(one, journal, name)
            for path in (tmp_path / "j.db-pages").glob("*.pages"):
                os.truncate(path, 0)
    assert "bytes instead of" in caplog.text
    assert caplog.text.count("built again") == 2


def test_a_damaged_page_is_named_and_the_model_is_built_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    journal, draw = Journal(tmp_path / "j.db"), np.random.default_rng(4)
    one = started(
        "personalized_pagerank", journal, keys=WorkerKeys(model="resident", memory=Memory(frames=1))
    )
    for number in range(1, 5):
        one.ingest(records("personalized_pagerank", draw, 40))
        if number == 3:
            for path in (tmp_path / "j.db-pages").glob("*.pages"):
                content = bytearray(path.read_bytes())
                content[4096 + 40 :] = b"\x55" * (len(content) - 4096 - 40)
                path.write_bytes(content)
        one.handle([assignment(number)], float(number))
        require_equal(one, journal, "personalized_pagerank")
    assert ".pages" in caplog.text
    assert "built again" in caplog.text
    journal.close()


def test_no_frames_and_no_model_are_clear_errors() -> None:
    none = WorkerKeys(model="resident", memory=Memory(frames=0))
    with pytest.raises(BadInput, match="frames is 0"):
        started("naive_bayes", Journal(), keys=none).own_model.digest()
    with pytest.raises(BadInput, match='live model; set model = "resident", or remove memory'):
        WorkerKeys(memory=Memory(frames=3))
    with pytest.raises(NotLearned, match='model = "resident"'):
        started("naive_bayes", Journal(), keys=WorkerKeys()).own_model.digest()


def test_a_resident_model_whose_solver_needs_scipy_says_so_before_any_training(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "scipy", None)
    make = partial(Tikhonov, 5, feature_bound=2.0, target_bound=8.0, solver="qr")
    with pytest.raises(MissingExtra, match=r"""solver = "qr" needs scipy; .*'dealfl\[scipy\]'"""):
        worker(make, Journal(), keys=RESIDENT)
    journal = Journal()
    one = worker(make, journal)  # its statistics need no factor
    one.handle([welcome(journal)], 0.0)
    one.ingest(records("tikhonov", np.random.default_rng(5), 9))
    one.handle([assignment(1)], 1.0)
    assert len(journal.records(State.LEARNED)) == 9


@pytest.mark.skipif(SOLVER != "qr", reason='solver = "qr" needs scipy')
def test_a_qr_factor_follows_the_rows_of_almost_all_trainings() -> None:
    journal, draw = Journal(), np.random.default_rng(5)
    one = started("tikhonov", journal)
    for number in range(1, 41):
        one.ingest(records("tikhonov", draw, 60 if number == 1 else 3))
        one.handle([assignment(number)], float(number))
        own = one.own_model
        assert isinstance(own, Tikhonov)
        expected = MAKERS["tikhonov"]()
        assert isinstance(expected, Tikhonov)
        expected.merge(own.statistics)
        np.testing.assert_allclose(own.weights, expected.weights, rtol=1e-6)
        assert own.factorisations <= 4, "the factor is not computed again"


def test_evictions_of_histories_are_reviewed_by_the_items_held_back() -> None:
    model = PersonalizedPageRank(ITEMS)
    model.learn([[1, 2, 3], [1, 2, 3], [7, 8]])
    known = model.records_of(np.eye(1, ITEMS, 1))  # owner 0 has item 1
    hidden = [StoredRecord(known[0].owner, Histories.encode(item)) for item in (2, 3, 7, 50)]
    assert model.score_records(hidden, known) == 0.5
    model.forget([[1, 2, 3], [1, 2, 3]])
    assert model.score_records(hidden, known) == 0.0
    assert model.score_records(hidden) is None, "nothing is known of their owner"
