"""Small federations for tests: one learner, honest messages, a meter that costs what it is told."""

from __future__ import annotations

import random
import sqlite3
from typing import Any

from dealfl.exact import Statistics
from dealfl.learners import Histories, NaiveBayes, PersonalizedPageRank, Rows, statistics_of
from dealfl.power import Training
from dealfl.protocol.messages import Announce, Assignment, Message, Update, Welcome
from dealfl.server import Ledger, Rules, Server
from dealfl.server.selection import Everyone
from dealfl.worker import Cost, Journal, Record, State, Worker

KEY = b"key of the job"


def draw_kept_rounds(seed: int) -> int:
    """Return a length of the ledger's history: short, thinned all the time, or long."""
    return random.Random(f"kept rounds {seed}").choice((3, 1_000))


class Connect:
    """Opens databases; `db` is the last one, for tests that damage or watch what is stored."""

    db: sqlite3.Connection

    def __call__(self, path: str, **options: Any) -> sqlite3.Connection:
        self.db = sqlite3.connect(path, **options)
        return self.db


def bayes() -> NaiveBayes:
    return NaiveBayes(3, ["a", "b"], feature_bound=1.0, fraction_bits=8)


def pagerank() -> PersonalizedPageRank:
    return PersonalizedPageRank(12)


def row(*features: float, target: object = "a") -> bytes:
    return Rows.encode(features, target)


def item(number: int) -> bytes:
    return Histories.encode(number)


class FixedMeter:
    """Every training costs the same."""

    def __init__(self, elapsed_s: float = 0.0, energy_j: float = 0.0) -> None:
        self.elapsed_s, self.energy_j = elapsed_s, energy_j

    def start(self) -> None:
        pass

    def cost(self, training: Training) -> Cost:
        return Cost(self.elapsed_s, self.energy_j)


def worker(make: Any = bayes, journal: Journal | None = None, **other: Any) -> Worker:
    meter = other.pop("meter", FixedMeter())
    store = journal or Journal(journal_id="mark")
    return Worker("job", "w", make, store, meter, **({"key": KEY} | other))


def welcomed(make: Any = bayes, journal: Journal | None = None, **other: Any) -> Worker:
    store = journal or Journal(journal_id="mark")
    one = worker(make, store, **other)
    one.handle([welcome(store)], 0.0)
    return one


def welcome(journal: Journal, incarnation: int = 1, **other: Any) -> Welcome:
    """Return a welcome for the process that works on a journal."""
    session = journal.state.session
    plain: dict[str, Any] = {"session": session, "journal_id": journal.id}
    return Welcome(job="job", worker="w", incarnation=incarnation, **(plain | other))


def assignment(number: int, name: str = "w", **other: Any) -> Assignment:
    return Assignment(job="job", worker=name, round=number, deadline_s=1e9, **other)


def updates(messages: tuple[Message, ...]) -> list[Update]:
    return [message for message in messages if isinstance(message, Update)]


def delta_of(update: Update) -> Statistics:
    return Statistics.from_bytes(update.delta)


def learned_statistics(journal: Journal, make: Any = bayes) -> Statistics:
    """Return the statistics of everything a journal says was learned."""
    return statistics_of(make, journal.records(State.LEARNED))[0]


def examples(count: int, make: Any = bayes) -> Statistics:
    """Return the statistics of so many equal examples."""
    body = item(3) if make is pagerank else row(0.0, 0.5, 1.0)
    records = [Record(number, b"owner %d" % number, body) for number in range(count)]
    return statistics_of(make, records)[0]


def announce(name: str = "w", incarnation: int = 1, make: Any = bayes, **other: Any) -> Announce:
    plain: dict[str, Any] = {"journal_id": f"journal of {name}", "waiting": 1, "held": 0}
    plain["schema_digest"] = make().schema.digest()
    return Announce(job="job", worker=name, incarnation=incarnation, **(plain | other))


def update(sequence: int, count: int = 1, name: str = "w", **other: Any) -> Update:
    plain: dict[str, Any] = {"incarnation": 1, "round": None, "learned": max(count, 0)}
    plain["evicted"] = max(-count, 0)
    delta = other.pop("delta", None)
    body = (examples(count) if delta is None else delta).to_bytes()
    return Update(job="job", worker=name, sequence=sequence, delta=body, **(plain | other))


def server(ledger: Ledger | None = None, make: Any = bayes, **rules: Any) -> Server:
    plain: dict[str, Any] = {"rounds": 1000, "ttl_s": 60.0}
    return Server("job", make, ledger or Ledger(), Rules(**(plain | rules)), Everyone())


def joined(*names: str, ledger: Ledger | None = None, make: Any = bayes, **rules: Any) -> Server:
    """Return a server at which workers have joined, with its first round open for all of them."""
    one = server(ledger, make, **rules)
    one.handle([announce(name, 0, make) for name in names or ("w",)], 0.0)
    return one


def kinds(messages: tuple[Message, ...]) -> list[str]:
    return [type(message).__name__ for message in messages]
