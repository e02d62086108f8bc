"""A region with a keyholder in a tree: it opens sums of its cohorts, and the root sees only those.

Every example has a feature of its own, so that sums show whose examples they contain.
"""

from __future__ import annotations

from typing import Any

import pytest

from dealfl.errors import BadInput
from dealfl.exact import Statistics
from dealfl.keyholder import Keyholder, KeyholderJournal, KeyholderRules
from dealfl.learners import Rows
from dealfl.masks import SERVER, Asker, Enrolment, Masker, draw_private_key
from dealfl.protocol import Message, Rules, Update
from dealfl.server import Ledger, Privacy, Region, Server
from dealfl.server.selection import Everyone
from dealfl.worker import Worker
from tests.federation.parts import KEY, FixedMeter
from tests.federation.trees import PEOPLE, ROOT, Tree
from tests.keyholder.chaos import COHORT, FEATURES, make
from tests.keyholder.openings import Row, find_isolated

MASKED, PLAIN = "a", "b"


class MaskedTree(Tree):
    """A tree in which one of two regions has a keyholder of its own."""

    make: Any = staticmethod(make)

    def __init__(self, seed: int) -> None:
        self.worker_of: dict[int, str] = {}  # by feature
        self.reported: dict[str, list[Row]] = {MASKED: [], PLAIN: []}  # to the root
        self.vault = KeyholderJournal()
        self.vault_key = draw_private_key()
        self.keyholder = self.new_keyholder()
        self.enrolments: dict[str, Enrolment] = {SERVER: self.keyholder.enrol(SERVER, SERVER)}
        super().__init__(seed, (MASKED, PLAIN), workers=4, max_examples=1000)
        self.restart(f"{MASKED}/keyholder")

    def new_keyholder(self) -> Keyholder:
        rules = KeyholderRules(COHORT)
        return Keyholder("keyholder", self.vault, self.vault_key, rules, jobs=["job"])

    def new_region(self, name: str) -> Region:
        if name != MASKED:
            return super().new_region(name)
        privacy = Privacy(Asker(self.enrolments[SERVER]), "job", cohort=COHORT, max_workers=100)
        return Region(
            "job", name, self.make, self.ledgers[name], self.rules, Everyone(), privacy,
            retry_after_s=10.0, announce_every_s=20.0,
        )  # fmt: skip

    def restart(self, name: str) -> None:
        region, _, worker = name.partition("/")
        if worker == "keyholder":
            self.keyholder = self.nodes[name] = self.new_keyholder()
            self.wake(name)
        elif worker and region == MASKED:
            if worker not in self.enrolments:
                self.enrolments[worker] = self.keyholder.enrol(worker)
            self.nodes[name] = Worker(
                "job", worker, self.make, self.journals[name], FixedMeter(1.0), key=KEY,
                forget_fraction="0", announce_every_s=20.0, retry_after_s=10.0,
                masker=Masker(self.enrolments[worker]),
            )  # fmt: skip
            self.wake(name)
        else:
            super().restart(name)

    def arrive(self, name: str, count: int = 1, *, erased: bool = True) -> None:
        for _ in range(count):
            feature = len(self.worker_of)
            assert feature < FEATURES
            self.worker_of[feature] = name
            values = [float(index == feature) for index in range(FEATURES)]
            owner = f"person {self.random.randrange(PEOPLE)}"
            accepted = self.nodes[name].ingest([(owner, Rows.encode(values, "a"))])
            self.ingested[name, owner] += accepted.waiting
        self.wake(name)

    def receivers(self, sender: str, message: Message) -> list[str]:
        if sender in self.reported and isinstance(message, Update):
            sums = Statistics.from_bytes(message.delta)["sums"].to_dict()
            self.reported[sender].append({cell % FEATURES: value for cell, value in sums.items()})
        return super().receivers(sender, message)

    def open_all(self) -> None:
        """Bring fresh examples until no update waits for a cohort, and the root has all."""
        for _ in range(20):
            for name in self.journals:
                self.arrive(name)
            self.run(200.0)
            if not self.ledgers[MASKED].updates.waiting():
                return
        raise AssertionError("an update waits for a cohort")


def test_the_root_of_a_masked_region_is_exact_after_an_erasure_and_sees_sums_of_cohorts() -> None:
    tree = MaskedTree(1)
    tree.run(60.0)
    tree.open_all()
    tree.heal(300.0)
    tree.check()
    for owner in ("person 1", "person 2"):
        assert any(count for (_, person), count in tree.ingested.items() if person == owner)
        tree.erase(owner)
        for name in (MASKED, ROOT, f"{MASKED}/w1", f"{MASKED}/keyholder"):
            tree.restart(name)
            tree.run(7.0)
        tree.open_all()
        tree.heal(300.0)
        tree.check()
    assert tree.keyholder.openings > 3
    shown = tree.reported[MASKED]
    assert find_isolated(shown, tree.worker_of, COHORT) is None
    plain = tree.reported[PLAIN]
    assert find_isolated(plain, tree.worker_of, COHORT) is not None, "the search finds workers"


def test_a_root_with_regions_has_no_masks() -> None:
    privacy = Privacy(None, "job")  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="masks end at a region"):
        Server("job", make, Ledger(), Rules(regions=("a",)), Everyone(), privacy)
