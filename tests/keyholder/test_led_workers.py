"""A server that tells real workers whatever it likes, and asks for every sum it can think of.

It begins incarnations and epochs, lies about what has counted or was withdrawn, asks single workers
to erase people, keeps updates back, and opens them in odd company. Each example has a feature of
its own, so that an exact search over all sums finds whether a combination isolates somebody.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partialmethod
from typing import Any

import pytest
from msgspec.structs import replace

from dealfl.erasure import owner_hash
from dealfl.keyholder import Keyholder, KeyholderJournal, KeyholderRules
from dealfl.learners import NaiveBayes, Rows
from dealfl.masks import SERVER, Asker, Enrolment, Masker, Ring, Total, draw_private_key, header_of
from dealfl.protocol import (
    Announce,
    Assignment,
    Erase,
    Header,
    MaskedUpdate,
    Message,
    Open,
    Opened,
    Position,
    Receipt,
    Update,
    Verdict,
    Welcome,
)
from dealfl.worker import Journal, Worker, outbox
from tests.federation.parts import KEY, FixedMeter
from tests.keyholder.openings import Row, find_isolated
from tests.keyholder.parts import COHORT

FEATURES = 160
WORKERS = 6


def make() -> NaiveBayes:
    return NaiveBayes(FEATURES, ["a", "b"], feature_bound=1.0, fraction_bits=4)


RING = Ring(make().schema)


class Watched(Masker):
    """Remembers what is under each mask, for the search."""

    def __init__(self, enrolment: Enrolment, plain: dict[bytes, bytes]) -> None:
        super().__init__(enrolment)
        self._plain = plain

    def mask(self, update: MaskedUpdate, ring: Ring, schema: str, vector: bytes) -> MaskedUpdate:
        assert self._plain.setdefault(update.nonce, vector) == vector, "one nonce, two deltas"
        return super().mask(update, ring, schema, vector)


class Puppet:
    """An honest worker whose server lies."""

    def __init__(self, name: str, masker: Masker, features: dict[int, str]) -> None:
        self.name, self.features, self.masker = name, features, masker
        self.journal, self.seen = Journal(journal_id=name), dict[bytes, MaskedUpdate]()
        self.epoch, self.incarnation, self.session, self._round = "e1", 0, 0, 0
        self._now_s, self._position, self.owners = 0.0, Position(0, b""), list[str]()
        self.start()
        self.welcome("e1", 1)

    def start(self) -> None:
        """Start its process, also after a kill."""
        self.worker = Worker(
            "job", self.name, make, self.journal, FixedMeter(), key=KEY, forget_fraction="0",
            masker=self.masker,
        )  # fmt: skip
        self.hear()

    def hear(self, *messages: Message) -> None:
        self._now_s += 50.0  # what was not settled is sent again
        for message in self.worker.handle(messages, self._now_s).messages:
            if isinstance(message, MaskedUpdate):
                self.seen[message.nonce] = message
            elif isinstance(message, Announce):
                self.session = message.session

    def say(self, kind: type[Message], **fields: Any) -> None:
        self.hear(kind(job="job", worker=self.name, **fields))

    def welcome(self, epoch: str, incarnation: int) -> None:
        self.epoch, self.incarnation = epoch, max(incarnation, self.incarnation)
        self.say(
            Welcome, epoch=epoch, journal_id=self.name, session=self.session,
            incarnation=incarnation, erased=self._position,
        )  # fmt: skip

    def learn(self, count: int) -> None:
        """Let examples arrive; each has a feature and an owner of its own."""
        rows = []
        for _ in range(count):
            feature = len(self.features)
            if feature == FEATURES:
                return
            self.features[feature] = self.name
            self.owners.append(f"owner {feature}")
            values = [float(number == feature) for number in range(FEATURES)]
            rows.append((self.owners[-1], Rows.encode(values, "a")))
        self.worker.ingest(rows)

    def assign(self, forget_fraction: str) -> None:
        self._round += 1
        self.say(
            Assignment, epoch=self.epoch, round=self._round, deadline_s=1e9,
            forget_fraction=forget_fraction, erased=self._position,
        )  # fmt: skip

    def erase(self, owner: str) -> None:
        number = self._position.number + 1
        after = Position(number, number.to_bytes(32, "big"))
        before, self._position = self._position, after
        self.say(
            Erase, request=f"r{number}", owners=(owner_hash(KEY, owner),), before=before,
            after=after,
        )  # fmt: skip

    def settle(self, sequence: int, *, withdrawn: bool | None) -> None:
        """Say that an update was withdrawn, that it was not, or that it is received."""
        key = {"session": self.session, "incarnation": self.incarnation, "sequence": sequence}
        if withdrawn is None:
            self.say(Receipt, **key, term="t")
        else:
            self.say(Verdict, **key, withdrawn=withdrawn, term="t")


class Adversary:
    """The server; the same for a seed."""

    def __init__(self, seed: int, kind: type[Keyholder] = Keyholder) -> None:
        self.seed, self.draw, self.features = seed, random.Random(seed), dict[int, str]()
        self.plain: dict[bytes, bytes] = {}
        self.kind, self.epoch, self.number = kind, "e1", 0
        self.inside: list[Header] = []  # opened in this epoch, and not taken out
        self.rows: list[Row] = []
        self.found_keyholder()
        self.puppets = [
            Puppet(f"w{number}", self.enrol(f"w{number}"), self.features)
            for number in range(WORKERS)
        ]

    def found_keyholder(self) -> None:
        rules = KeyholderRules(COHORT)
        self.keyholder = self.kind("keyholder", KeyholderJournal(), draw_private_key(), rules)
        self.asker = Asker(self.keyholder.enrol("server", SERVER))

    def enrol(self, name: str) -> Masker:
        return Watched(self.keyholder.enrol(name), self.plain)

    def step(self) -> None:
        actions, weights = zip(*self.ACTIONS, strict=True)
        self.draw.choices(actions, weights)[0](self, self.draw.choice(self.puppets))

    def train(self, puppet: Puppet) -> None:
        puppet.learn(self.draw.choice((1, 2)))
        if self.draw.random() < 0.9:
            puppet.assign(self.draw.choice(("0", "0", "0.5", "1")))

    def erase(self, puppet: Puppet) -> None:
        if puppet.owners:
            puppet.erase(self.draw.choice(puppet.owners[-3:]))

    def lie(self, puppet: Puppet) -> None:
        """Say that an update was withdrawn, or not, whatever is true."""
        own = [one for one in puppet.seen.values() if one.incarnation == puppet.incarnation]
        last = max((update.sequence for update in own), default=1)
        sequence = max(last - self.draw.choice((0, 0, 1, 2)), 1)
        puppet.settle(sequence, withdrawn=self.draw.choice((True, True, False, None)))

    def erase_and_lie(self, puppet: Puppet) -> None:
        self.erase(puppet)
        self.lie(puppet)

    def begin_incarnation(self, puppet: Puppet) -> None:
        puppet.welcome(self.epoch, puppet.incarnation + self.draw.choice((0, 1, 1, 2)))

    def kill(self, puppet: Puppet) -> None:
        puppet.start()

    def begin_epoch(self, _: Puppet) -> None:
        self.epoch, self.number, self.inside = f"{self.epoch}+", 0, []
        for puppet in self.puppets:
            puppet.welcome(self.epoch, puppet.incarnation + self.draw.choice((0, 1)))

    def lose_keyholder(self, victim: Puppet) -> None:
        """Have everybody enrolled with another keyholder, which knows of no opening."""
        self.found_keyholder()
        for puppet in self.puppets:
            puppet.masker = self.enrol(puppet.name)
            puppet.start()
            puppet.incarnation = 0
        self.begin_epoch(victim)

    def ask(self, _: Puppet) -> None:
        """Ask for a sum in odd company; what is refused shows nothing."""
        draw, plus = self.draw, list[Header]()
        for puppet in draw.sample(self.puppets, draw.randint(COHORT + 1, WORKERS)):
            key_name = self.keyholder.key_name
            updates = [
                each
                for each in puppet.seen.values()
                if (each.epoch, each.keyholder) == (self.epoch, key_name)
            ]
            updates.sort(key=lambda each: (each.incarnation, each.sequence))
            fitting = [each for each in updates if self.is_later(each)]
            skips = draw.random() < 0.2
            kept = [each for each in fitting if not skips or draw.random() < 0.5]
            plus += [header_of(each) for each in kept[: draw.choice((1, 2, 99, 99))]]
        if draw.random() < 0.1:
            draw.shuffle(plus)
        minus = [header for header in self.inside if draw.random() < 0.2]
        request = self.asker.seal(
            Open(
                job="job", worker="keyholder", epoch=self.epoch, number=self.number + 1,
                cohort=2, schema=make().schema.canonical(), plus=tuple(plus), minus=tuple(minus),
            )
        )  # fmt: skip
        (opened,) = [
            message for message in self.keyholder.handle([request], 0.0).messages
            if isinstance(message, Opened)
        ]  # fmt: skip
        answer = self.asker.read(opened)
        assert answer is not None
        if not answer.refused:
            self.note(plus, minus)

    def is_later(self, update: MaskedUpdate) -> bool:
        reached = self.keyholder._journal.reached("job", update.worker)
        late = self.draw.random() < 0.05  # try it all the same
        return late or (update.incarnation, update.sequence) > reached

    def note(self, plus: list[Header], minus: list[Header]) -> None:
        self.number += 1
        total = Total(RING)
        for header in plus:
            total.add(self.plain[header.nonce])
        for header in minus:
            total.subtract(self.plain[header.nonce])
        gone = {header.nonce for header in minus}
        self.inside = [one for one in [*self.inside, *plus] if one.nonce not in gone]
        sums = RING.statistics(total.vector())["sums"].to_dict()
        self.rows.append({cell % FEATURES: value for cell, value in sums.items()})

    ACTIONS = (
        (train, 120), (erase, 8), (lie, 16), (erase_and_lie, 12), (begin_incarnation, 10),
        (begin_epoch, 0.6), (lose_keyholder, 0.4), (kill, 8), (ask, 30),
    )  # fmt: skip

    def play(self, steps: int = 150) -> Adversary:
        for _ in range(steps):
            self.step()
        return self

    def find_isolated(self) -> tuple[str, ...] | None:
        return find_isolated(self.rows, self.features, COHORT)

    def count_claims(self) -> tuple[int, int]:
        """Return how many updates claim fresh examples, and how many of these have none.

        An example is fresh if no other update contains it that was sent before, or that the
        keyholder would open before.
        """
        claims = false = 0
        for puppet in self.puppets:
            before: list[tuple[MaskedUpdate, set[int]]] = []
            later = [(each, self.examples_in(each)) for each in puppet.seen.values()]
            while later:
                update, examples = later.pop(0)
                if update.fresh:
                    others = [one for _, one in before]
                    others += [one for each, one in later if _is_before(each, update)]
                    claims += 1
                    false += not examples.difference(*others)
                before.append((update, examples))
        return claims, false

    def examples_in(self, update: MaskedUpdate) -> set[int]:
        sums = RING.statistics(self.plain[update.nonce])["sums"].to_dict()
        return {cell % FEATURES for cell in sums}


def _is_before(first: MaskedUpdate, second: MaskedUpdate) -> bool:
    places = [(update.incarnation, update.sequence) for update in (first, second)]
    return first.keyholder == second.keyholder and places[0] < places[1]


def check(seeds: range) -> tuple[int, int]:
    """Return how many sums were opened, and how many updates claim fresh examples."""
    opened = claimed = 0
    for seed in seeds:
        played = Adversary(seed).play()
        claims, false = played.count_claims()
        assert false == 0, f"seed {seed}: an example that is not fresh"
        assert played.find_isolated() is None, f"seed {seed}: somebody is isolated"
        opened, claimed = opened + len(played.rows), claimed + claims
    return opened, claimed


def test_no_combination_of_what_a_malicious_server_opens_isolates_anybody() -> None:
    opened, claimed = check(range(8))
    assert opened > 20, "hardly anything was ever opened"
    assert claimed > 200


@pytest.mark.soak
def test_hundreds_of_malicious_servers_isolate_nobody() -> None:
    check(range(1000, 1300))


def finds_false_claims(
    monkeypatch: pytest.MonkeyPatch, where: object, name: str, change: object
) -> bool:
    """Return whether the search finds a false claim after a change of the worker."""
    with monkeypatch.context() as context:
        context.setattr(where, name, change)
        return any(Adversary(seed).play().count_claims()[1] for seed in range(8))


def test_the_search_finds_false_claims_of_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each change is a mistake that a worker could make when it counts fresh examples."""
    whole = partialmethod(_always_first, outbox.UnderMasks.prepare)
    assert finds_false_claims(monkeypatch, outbox.UnderMasks, "prepare", whole), "full sums"
    assert finds_false_claims(monkeypatch, outbox, "_fresh", lambda _: 1), "rebuilt updates"


def _always_first(
    self: outbox.UnderMasks, prepare: Callable[..., Update], update: Update, fresh: int
) -> Update:
    is_whole = update.incarnation > 1 and update.sequence == 1
    return (
        prepare(self, update, fresh)
        if not is_whole
        else replace(prepare(self, update, fresh), fresh=1)
    )
