"""Backups of ledger and journals come back at any moment, and all ends exact."""

import random
from typing import NamedTuple
from unittest.mock import patch

import msgspec
import pytest

from dealfl.erasure import owner_hash
from dealfl.worker import SCHEMES
from tests.federation.test_chaos import KEY, MAKERS, Chaos, check


class Backup(NamedTuple):
    ledger: bytes
    journals: dict[str, bytes]


class Restores(Chaos):
    """A chaotic federation in which ledgers and journals are restored from backups."""

    rules = msgspec.structs.replace(Chaos.rules, publish_every_s=100.0)

    def __init__(self, learner: str, scheme: str, seed: int) -> None:
        self.backups: list[Backup] = []
        self.restores = 0
        self.names: set[str] = set()  # of requests
        super().__init__(learner, scheme, seed)
        self.backup()

    def backup(self) -> None:
        journals = {name: journal.content() for name, journal in self.journals.items()}
        self.backups.append(Backup(self.ledger.content(), journals))

    def send_erasure(self, request: str, owner: str) -> None:
        self.names.add(request)
        super().send_erasure(request, owner)

    def step(self) -> None:
        what = self.random.random()
        if what < 0.25:
            self.backup()
        elif what < 0.45:
            self.restore()
        else:
            super().step()

    def restore(self) -> None:
        """Restore the ledger, some journals, or both, from the same backup or from different."""
        self.restores += 1
        which = self.random.choice(("ledger", "journals", "both"))
        if which != "ledger":
            names = self.random.sample(sorted(self.journals), self.random.randint(1, 2))
            self.restore_journals(self.random.choice(self.backups), names)
        if which != "journals":
            self.restore_ledger(self.random.choice(self.backups))

    def restore_journals(self, backup: Backup, names: list[str]) -> None:
        for name in names:
            if name in backup.journals:
                self.journals[name].replace_content(backup.journals[name])
                self.simulation.workers[name] = self.new_worker(name)
                self.simulation.wake(name, self.simulation.now_s)

    def restore_ledger(self, backup: Backup) -> None:
        self.ledger.replace_content(backup.ledger)
        if self.random.random() < 0.3:  # by `dealfl restore`, else by copying the file
            with self.ledger.transaction():
                self.ledger.begin_epoch()
        self.simulation.server = self.new_server()
        self.repeat_erasures()

    def repeat_erasures(self) -> None:
        """Request again what the ledger has lost; names may be used again, for others."""
        known = self.ledger.reader.erasures()
        free = sorted(self.names - {request.name for request in known})
        self.random.shuffle(free)
        hashes = {owner for request in known for owner in request.owners}
        for owner in dict.fromkeys(self.erased):
            if owner_hash(KEY, owner) not in hashes:
                self.send_erasure(free.pop(), owner)


def run(learner: str, scheme: str, seed: int) -> Restores:
    print(f"{learner}, {scheme}, seed {seed}")
    draw = random.Random(seed)
    with (
        patch("secrets.randbits", draw.getrandbits),
        patch("secrets.token_hex", lambda count: draw.randbytes(count).hex()),
    ):
        chaos = check(learner, scheme, seed, Restores)
    assert isinstance(chaos, Restores)
    requested, version = chaos.ledger.erasures.end().number, chaos.ledger.reader.last_version()
    shown = 0 if version is None else version.erased
    assert shown == requested, "an erasure is not settled, or no version contains it"
    rows = chaos.simulation.server.workers.values()
    assert not any(row.behind for row in rows), "a worker has not caught up with a restore"
    return chaos


def test_after_restores_of_ledger_and_journals_the_server_ends_exact() -> None:
    combinations = [(learner, scheme) for learner in sorted(MAKERS) for scheme in sorted(SCHEMES)]
    restores = 0
    for seed in range(24):
        learner, scheme = combinations[seed % len(combinations)]
        restores += run(learner, scheme, seed).restores
    assert restores > 60, "hardly anything was restored"


def test_statements_of_before_a_restore_do_not_touch_the_restored_content() -> None:
    """Compiled statements name pages; the same table is elsewhere in another content."""
    run("personalized_pagerank", "deal", 40)


@pytest.mark.soak
@pytest.mark.parametrize("scheme", sorted(SCHEMES))
@pytest.mark.parametrize("learner", sorted(MAKERS))
def test_hundreds_of_runs_with_restores_end_exact(learner: str, scheme: str) -> None:
    draw = random.Random(f"{learner}/{scheme}")
    for _ in range(63):  # with 16 combinations, more than 1,000
        run(learner, scheme, draw.randrange(10**6))
