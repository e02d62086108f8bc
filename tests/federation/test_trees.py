"""A tree of servers ends with the digest of central training, and with true counts."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from msgspec.structs import replace

from dealfl.learners import Rows
from dealfl.protocol import Erased, ErasedReceipt, Message
from dealfl.server import FromParent, Ledger
from dealfl.simulate import Network
from dealfl.worker import Journal
from tests.federation.trees import PEOPLE, ROOT, Tree, last_of, parent_of


class Storm(Tree):
    """Everything that can go wrong does, the same for a seed."""

    def __init__(
        self, seed: int, workers: int = 3, regions: Iterable[str] = ("a", "b", "c")
    ) -> None:
        super().__init__(seed, regions, workers)
        self.backups: dict[str, tuple[Ledger, int]] = {}
        self.happened: list[str] = []
        if seed % 3 == 0:  # a clock that differs by an hour
            self.clock_off_s = {self.names[0]: 3600.0, self.names[-1]: -3600.0}
        if seed % 4 == 1:  # much comes late, and after what was sent later
            self.network.max_delay_s = 60.0

    def step(self) -> None:
        name = self.random.choice([ROOT, *self.names, *self.names, *sorted(self.journals)])
        what = self.random.choice((
            self.feed, self.feed, self.feed, self.restart, self.restart, self.erase_someone,
            self.back_up, self.restore, self.silence, self.add_worker, self.lose, self.remove,
        ))  # fmt: skip
        self.happened.append(what.__name__)
        what(name)

    def feed(self, name: str) -> None:
        self.arrive(name if name in self.journals else self.random.choice(sorted(self.journals)))

    def erase_someone(self, name: str) -> None:
        self.erase(f"person {self.random.randrange(PEOPLE)}")

    def back_up(self, name: str) -> None:
        if name in self.ledgers:
            self.backups[name] = (self.copy(name), len(self.requests))

    def restore(self, name: str) -> None:
        """Continue from a backup; the operator of the root repeats the requests that it lacks."""
        ledger, requests = self.backups.pop(name, (None, 0))
        if ledger is None:
            return
        self.ledgers[name] = ledger
        with ledger.transaction():
            ledger.begin_epoch()
        self.restart(name)
        lost = list(self.requests.items())[requests:] if name == ROOT else []
        for request, owner in self.random.sample(lost, len(lost)):
            self.request(request, owner)

    def silence(self, name: str) -> None:
        if name != ROOT:
            self.down ^= {name}

    def add_worker(self, name: str) -> None:
        """Let a worker join; what it held of people who were erased before is not counted."""
        region = name if name in self.ledgers else parent_of(name)
        above = [region[:end] for end in range(len(region) + 1) if region[end:][:1] in ("", "/")]
        if region and not self.below(region) and self.down.isdisjoint(above):
            new = f"{region}/w{len(self.journals)}"
            self.join(new)
            while last_of(new) not in self.nodes[region].workers:
                self.run(5.0)

    def lose(self, name: str) -> None:
        """Lose a journal; what it held was deleted by no erasure."""
        if name in self.journals and not self.requests:  # an answer would count what is lost
            for key in [key for key in self.ingested if key[0] == name]:
                del self.ingested[key]
            self.join(name)

    def remove(self, name: str) -> None:
        """Remove a region that has answered all requests at the root; it returns."""
        root = self.nodes[ROOT]
        if name in self.below(ROOT) and root.reader.count_erasures() == (len(self.requests),) * 2:
            self.pump(ROOT).emit(root.remove(name, self.now_s), self.now_s)

    def blow(self, steps: int = 30) -> None:
        self.run(60.0)  # all join
        for _ in range(steps):
            self.step()
            self.run(self.random.choice((1.0, 7.0, 40.0)))
        self.heal()


def test_storms_end_exact_and_with_true_counts() -> None:
    happened: set[str] = set()
    for seed in range(4):
        storm = Storm(seed, workers=2)
        storm.blow(25)
        storm.check()
        happened |= set(storm.happened)
    assert len(happened) == 9


DEEP = ("a", "m", "m/x", "m/y")


@pytest.mark.parametrize("seed", [1, 3])
def test_storms_over_regions_of_a_region_end_exact(seed: int) -> None:
    storm = Storm(seed, 2, DEEP)
    storm.blow(25)
    storm.check()


@pytest.mark.soak
@pytest.mark.parametrize("first", range(1000, 1200, 20))
def test_hundreds_of_storms(first: int) -> None:
    for seed in range(first, first + 20):
        storm = Storm(seed, 8 if seed % 2 else 4, ("a", "b", "c") if seed % 2 else DEEP)
        storm.blow(40)
        storm.check()


def quiet_tree(kind: type[Tree] = Tree, workers: int = 2) -> Tree:
    """Return a tree of one region in which no message is lost or repeated."""
    tree = kind(1, regions=("a",), workers=workers)
    tree.network.loss = tree.network.repetition = 0.0
    tree.network.max_delay_s = 0.1
    return tree


def test_a_region_that_was_away_learns_of_more_requests_than_one_answer_has() -> None:
    tree = quiet_tree(workers=1)
    tree.run(60.0)
    tree.down.add("a")
    for number in range(70):
        tree.erase(f"somebody {number}")
    tree.erase("person 1")
    tree.run(100.0)
    assert not tree.nodes["a"].reader.erasures()
    tree.heal(200.0)
    tree.check()


def test_a_worker_that_moves_to_another_region_counts_there_once_it_is_removed() -> None:
    tree = Tree(5, ["a", "b"], workers=2)
    tree.run(100.0)
    tree.move("a/w0", "b/w5")
    tree.run(100.0)
    tree.pump("a").emit(tree.nodes["a"].remove("w0", tree.now_s), tree.now_s)
    tree.arrive("b/w5", 3)
    tree.heal(400.0)
    tree.check()
    tree.erase("person 3")
    tree.run(300.0)
    assert tree.nodes[ROOT].reader.count_erasures() == (1, 1)
    assert tree.nodes[ROOT].model.digest() == tree.held().digest()


def test_a_restored_region_brings_nobody_back_who_was_erased_before_it_had_posted_them() -> None:
    tree = quiet_tree()
    tree.run(200)
    root = tree.nodes[ROOT]
    root.rules = replace(root.rules, round_every_s=3600.0)
    tree.arrive("a/w0", 1)
    tree.run(3700)
    tree.nodes["a/w0"].ingest([("victim", Rows.encode([1.0, 0.5, 0.25], "a"))])
    tree.wake("a/w0")
    tree.run(60)  # the region has the victim, the root has not
    backup = tree.copy("a")
    tree.erase("victim")
    tree.run(200)
    assert tree.nodes[ROOT].reader.count_erasures() == (1, 1)
    tree.down.add("a/w0")  # the device that could say that the victim was erased sleeps
    tree.ledgers["a"] = backup
    with backup.transaction():
        backup.begin_epoch()
    tree.restart("a")
    tree.run(8000)
    assert tree.nodes[ROOT].model.statistics.is_zero, "the region waits for its device"
    tree.down.clear()
    tree.wake("a/w0")
    tree.run(8000)
    assert tree.nodes[ROOT].model.digest() == tree.held().digest()


class LostAnswer(Tree):
    """The corrected answer of a region is lost once; the receipt of the first arrives again."""

    receipt: ErasedReceipt | None = None
    is_lost = False

    def carry(self, sender: str, messages: Iterable[Message]) -> None:
        kept = []
        for message in messages:
            if sender == ROOT and isinstance(message, ErasedReceipt) and self.receipt is None:
                self.receipt = message
            corrected = sender == "a" and isinstance(message, Erased) and message.examples == 2
            if corrected and not self.is_lost and self.receipt is not None:
                self.is_lost = True
                self.schedule(0.0, "a", FromParent(self.receipt))  # type: ignore[arg-type]
            else:
                kept.append(message)
        super().carry(sender, kept)


def test_a_receipt_of_an_earlier_answer_does_not_settle_a_corrected_one() -> None:
    tree = quiet_tree(LostAnswer, workers=0)
    for name in ("a/w0", "a/w1"):
        tree.journals[name] = Journal()
        tree.restart(name)
        tree.nodes[name].ingest([("victim", Rows.encode([1.0, 0.5, 0.25], "a"))])
        tree.wake(name)
    tree.run(200)
    tree.down.add("a/w1")
    tree.pump("a").emit(tree.nodes["a"].remove("w1", tree.now_s), tree.now_s)
    tree.run(30)
    request = tree.erase("victim")
    tree.run(100)
    assert tree.nodes[ROOT].reader.answers(request) == {"a": 1}
    tree.down.clear()
    tree.wake("a/w1")
    tree.run(3000)
    assert isinstance(tree, LostAnswer)
    assert tree.is_lost
    assert tree.nodes[ROOT].reader.answers(request) == {"a": 2}


def test_answers_of_a_region_that_a_restore_of_the_root_has_lost_are_given_again() -> None:
    """The region has fulfilled the request, and has had its answer confirmed."""
    tree = quiet_tree(workers=1)
    tree.run(60.0)
    tree.erase("person 1")
    tree.erase("person 2")
    backup = tree.copy(ROOT)
    tree.run(200.0)
    tree.check()
    with backup.transaction():
        backup.begin_epoch()
    tree.ledgers[ROOT] = backup
    tree.restart(ROOT)
    tree.run(200.0)
    tree.check()


def test_requests_that_a_region_took_as_a_part_are_settled_by_a_restored_root() -> None:
    """The region has no place between them in the root's list."""
    tree = Tree(1, regions=("a", "b"), workers=2)
    tree.network = Network()
    tree.nodes["b"]._uplink.is_met = False
    tree.run(300.0)
    tree.down.add("b")
    tree.erase("person 1")
    tree.run(300.0)
    tree.down.add("a/w1")
    tree.erase("person 2")
    tree.erase("person 3")
    tree.run(60.0)
    backup = tree.copy(ROOT)
    tree.down.discard("a/w1")
    tree.wake("a/w1")
    tree.run(600.0)
    tree.down.clear()
    tree.meet("b")
    tree.run(600.0)
    assert tree.nodes[ROOT]._members.fulfilled == 3
    tree.ledgers[ROOT] = backup
    tree.restart(ROOT)
    tree.heal(1000.0)
    assert tree.nodes[ROOT]._members.fulfilled == 3
    assert tree.nodes[ROOT].workers["b"].counted > 0
    tree.check()


def test_a_region_with_a_device_that_is_away_counts_though_it_joins_during_an_erasure() -> None:
    tree = Tree(1, regions=("a", "b"), workers=2)
    tree.network = Network()
    tree.nodes["b"]._uplink.is_met = False
    tree.run(300.0)
    tree.down.update({"b/w0", "a/w1"})
    tree.erase("person 1")
    tree.run(60.0)
    tree.meet("b")
    tree.run(300.0)
    assert tree.nodes[ROOT].workers["b"].counted > 0
    assert tree.nodes[ROOT]._members.fulfilled == 0
    tree.heal(600.0)
    assert tree.nodes[ROOT]._members.fulfilled == 1
    tree.check()
