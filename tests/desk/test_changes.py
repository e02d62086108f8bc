"""What changed since an earlier look: put together it is what a whole look shows."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dealfl.desk.view import View
from dealfl.erasure import hash_request
from dealfl.errors import BadInput
from dealfl.protocol.messages import Announce, Asleep, Assignment, Declined, Erased, Message
from dealfl.runs import Changes, RunFolder, read_changes
from dealfl.runs.changes import ChangesAnswer
from dealfl.server import ChangeLog, Ledger, Server
from tests.federation.parts import announce, joined, update

NAMES = [f"w{number}" for number in range(12)]


class Served:
    """A server on disk, a random day of its workers, and somebody who looks now and then."""

    def __init__(self, folder: Path, seed: int, kept_rounds: int) -> None:
        self._draw, self.now_s = random.Random(seed), 1e9
        self.ledger = Ledger(folder / "ledger.db", kept_rounds=kept_rounds)
        self.run = RunFolder(folder)
        self.changed = self.ledger.log_changes()
        self.server: Server = joined(*NAMES, ledger=self.ledger, ttl_s=5.0, release_batch=1)
        self._sequences = dict.fromkeys(NAMES, 0)
        self._open: list[Assignment] = []
        self.erasures: list[tuple[str, bytes]] = []

    def live(self) -> None:
        """Let a few things happen."""
        self.now_s += self._draw.random() * 4
        messages = [self._message(self._draw.choice(NAMES)) for _ in range(self._draw.randrange(4))]
        step = self.server.handle(filter(None, messages), self.now_s)
        self._open += [each for each in step.messages if isinstance(each, Assignment)]
        for version in self.server.reader.versions():
            self.server.confirm(version.number)
        if self._draw.random() < 0.1:
            name, owners = f"request {len(self.erasures)}", [self._draw.randbytes(32)]
            self.erasures.append((name, hash_request(name, owners)))
            self.server.erase(name, owners, self.now_s, "dpo")
        if self._draw.random() < 0.02:
            self.server.remove(self._draw.choice(NAMES), self.now_s)

    def _message(self, name: str) -> Message | None:
        row, kind = self.server.workers[name], self._draw.randrange(6)
        common: dict[str, Any] = {"job": "job", "worker": name}
        if kind == 0:
            incarnation = max(row.incarnation, 0)
            battery = round(self._draw.random(), 2)
            return announce(name, incarnation, battery=battery)
        if kind == 1:
            return Asleep(**common)
        mine = [each for each in self._open if each.worker == name]
        if kind == 2 and mine:
            self._open.remove(mine[0])
            return Declined(**common, round=mine[0].round, reason="low battery")
        if kind in (3, 4):
            number = mine.pop().round if mine else None
            sequence = self.server.workers[name].counted + 1
            return update(sequence, 1, name, round=number, incarnation=row.incarnation)
        if not self.erasures:
            return None
        request, hashed = self._draw.choice(self.erasures)
        return Erased(**common, request=request, hash=hashed, examples=0)


def plain(view: View, kept_rounds: int) -> dict[str, object]:
    """Return what both ways must agree on."""
    workers = view.workers
    if kept_rounds:  # why a worker declined is forgotten with the round
        replace = msgspec.structs.replace
        workers = {name: replace(line, last_declined="") for name, line in workers.items()}
    return {
        "workers": workers,
        "versions": dict(list(view.versions.items())[-2:]),  # older ones are thinned out
        "rounds": {n: row for n, row in view.rounds.items() if n > max(view.rounds) - 2},
        "erasures": {name: (s.published, s.answered) for name, s in view.erasures.items()},
    }


@pytest.mark.parametrize(("seed", "kept_rounds"), [(0, 0), (1, 3), (2, 0), (3, 3)])
def test_changes_add_up_to_the_whole(tmp_path: Path, seed: int, kept_rounds: int) -> None:
    served = Served(tmp_path, seed, kept_rounds)
    clock_s = 0.0
    answer = ChangesAnswer(served.run, served.changed, lambda: clock_s)
    view, since, sent, draw = View(), "", 0, random.Random(seed)
    for _ in range(60):
        for _ in range(draw.randrange(1, 5)):
            served.live()
        clock_s += 10.0
        changes = msgspec.convert(answer(since), Changes)
        since, sent = changes.since, sent + len(changes.workers)
        view.apply(changes)
        whole = View()
        whole.apply(read_changes(served.run))
        assert plain(view, kept_rounds) == plain(whole, kept_rounds)
    assert served.erasures
    assert sent < 60 * len(NAMES) * 0.6  # not everybody each time


def test_a_large_fleet_comes_in_parts_and_nothing_new_is_short(tmp_path: Path) -> None:
    with_ledger = Ledger(tmp_path / "ledger.db")
    changed = with_ledger.log_changes()
    names = [f"w{number:05}" for number in range(2_500)]
    server = joined(*names, ledger=with_ledger)
    answer, view, since = ChangesAnswer(RunFolder(tmp_path), changed), View(), ""
    parts: list[Changes] = []
    while not parts or parts[-1].more:
        parts.append(msgspec.convert(answer(since), Changes))
        since = parts[-1].since
        view.apply(parts[-1])
    assert [len(part.workers) for part in parts] == [1000, 1000, 500]
    assert [part.whole for part in parts] == [True, False, False]
    assert list(view.workers) == names
    assert msgspec.convert(answer(since), Changes).workers == []
    server.handle([Announce(**msgspec.structs.asdict(announce("w00007", 1, battery=0.5)))], 1.0)
    (line,) = msgspec.convert(answer(since), Changes).workers
    assert (line.name, line.battery) == ("w00007", 0.5)


def test_a_server_that_was_started_again_sends_everything(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.db")
    first = ledger.log_changes()
    joined("a", "b", ledger=ledger)
    since = msgspec.convert(ChangesAnswer(RunFolder(tmp_path), first)(), Changes).since
    later = ledger.log_changes()
    changes = msgspec.convert(ChangesAnswer(RunFolder(tmp_path), later)(since), Changes)
    assert changes.whole
    assert [line.name for line in changes.workers] == ["a", "b"]


@pytest.mark.parametrize("since", ["x", "[]x", '{"a": 1}', "[1, 2]", "9" * 5000])
def test_a_strange_question_is_an_error_not_the_end(tmp_path: Path, since: str) -> None:
    joined("a", ledger=Ledger(tmp_path / "ledger.db"))
    with pytest.raises(BadInput, match="no answer to changes"):
        ChangesAnswer(RunFolder(tmp_path), ChangeLog())(since)


def test_a_worker_that_changed_often_is_sent_once_after_its_last_change() -> None:
    log = ChangeLog()
    log.note(["a", "b", "c"])
    for _ in range(102):
        log.note(["b"])
    assert log.since(0) == (["a", "c", "b"], 105)
    assert log.since(0, most=2) == (["a", "c"], 3)
    assert log.since(3) == (["b"], 105)
    assert log.since(105) == ([], 105)
    assert 3 < len(log._changes) <= 6, "most of what is outdated is forgotten"


def test_all_that_changed_is_listed_unless_a_limit_is_given() -> None:
    log, names = ChangeLog(), [f"w{number}" for number in range(300)]
    log.note(names)
    assert log.since(0) == (names, 300)
