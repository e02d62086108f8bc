"""A worker that holds a version fetches what changed since: the same bytes as the whole version."""

import hashlib
from typing import Any

import pytest
from msgspec.structs import replace

from dealfl.exact import Statistics
from dealfl.protocol.messages import Erase, Fetch, Message, Published
from dealfl.server import Ledger, Server
from dealfl.worker import Journal
from tests.federation.parts import announce, bayes, joined, pagerank, update, welcomed


def versions(messages: tuple[Message, ...]) -> list[Published]:
    return [one for one in messages if isinstance(one, Published)]


def learned(number: int) -> Statistics:
    """Return what a round learned: histories of many persons in the first, then of one."""
    persons = range(20) if number == 1 else [number]
    return pagerank().learn([[int(bit) for bit in f"{37 * one % 4096:012b}"] for one in persons])


def publish(server: Server, number: int) -> Published:
    """Close a round, and return the version."""
    server.handle([announce(make=pagerank)], float(number))
    done = update(number, round=number, delta=learned(number))
    return versions(server.handle([done], number + 0.5).messages)[-1]


def fetch(server: Server, version: int, **other: Any) -> list[Published]:
    epoch, now_s = other.pop("epoch", server.epoch), other.pop("now_s", 50.0)
    plain = {"job": "job", "worker": "w", "epoch": epoch, "version": version}
    return versions(server.handle([Fetch(**plain | other)], now_s).messages)


def served(rounds: int = 3) -> tuple[Server, list[Published]]:
    server = joined(make=pagerank, ttl_s=1e6)
    return server, [publish(server, number) for number in range(1, rounds + 1)]


def holder(*messages: Published, journal: Journal | None = None) -> Journal:
    """Return the journal of a worker that received versions."""
    store = journal or Journal(journal_id="mark")
    one = welcomed(pagerank, store)
    one.handle([replace(message, epoch="") for message in messages], 1.0)
    return store


def test_a_difference_gives_the_same_bytes_as_the_whole() -> None:
    server, (first, _, last) = served()
    (answer,) = fetch(server, 1)
    assert (answer.base, answer.version, answer.worker) == (1, 3, "w")
    assert len(answer.statistics) < len(last.statistics)
    assert holder(first, answer).published() == holder(last).published() == (3, last.statistics)
    assert last.digest == (learned(1) + learned(2) + learned(3)).digest()


def test_a_version_that_the_server_does_not_have_is_answered_by_the_whole() -> None:
    server, versions_ = served()
    (answer,) = fetch(server, 0)
    assert replace(answer, worker="") == versions_[-1]


@pytest.mark.parametrize(("version", "other"), [(1, 0), (0, 1)])
def test_a_version_is_not_sent_often(version: int, other: int) -> None:
    server, _ = served()
    assert len(fetch(server, version)) == 1
    assert fetch(server, version) == [], "it was sent a moment ago"
    assert len(fetch(server, other)) == 1, "the difference may not fit, and the whole be needed"
    assert len(fetch(server, version, now_s=56.0)) == 1, "the answer may be lost"
    assert len(fetch(server, version, now_s=52.0)) == 1, "the clock has jumped back"
    publish(server, 4)
    assert len(fetch(server, version)) == 1


def test_who_has_the_last_version_learns_so_in_few_bytes() -> None:
    server, (_, _, last) = served()
    for _ in range(2):
        (answer,) = fetch(server, 3)
        assert (answer.version, answer.base, answer.statistics) == (3, 3, b"")
    assert holder(last, answer).published() == (3, last.statistics)


@pytest.mark.parametrize("wrong", [{"worker": "x"}, {"epoch": "other"}])
def test_who_does_not_belong_here_gets_no_answer(wrong: Any) -> None:
    server, _ = served()
    assert fetch(server, **{"version": 1} | wrong) == []


def test_a_server_that_starts_again_has_the_last_version_only() -> None:
    ledger = Ledger()
    server = joined(ledger=ledger, make=pagerank, ttl_s=1e6)
    for number in (1, 2):
        last = publish(server, number)
    again = joined(ledger=ledger, make=pagerank, ttl_s=1e6)
    again.handle([], 50.0)
    assert [replace(one, worker="") for one in fetch(again, 1)] == [last]


def test_after_an_erasure_the_server_keeps_no_version_with_the_person() -> None:
    server, _ = served(2)
    (order,) = server.erase("r", [b"hash"], 3.0).messages
    assert isinstance(order, Erase)
    server.handle([announce(make=pagerank, erased=(order.after,), sequence=2)], 3.5)
    last = publish(server, 3)
    (answer,) = fetch(server, 2)
    assert (answer.base, answer.statistics) == (0, last.statistics)


def wrong_ones(answer: Published) -> dict[str, Published]:
    forged = learned(1).to_bytes()
    return {
        "another change": replace(answer, statistics=forged),
        "another base": replace(answer, base=2),
        "another version": replace(answer, hash=hashlib.sha256(forged).digest()),
        "no hash": replace(answer, hash=b""),
        "no statistics": replace(answer, statistics=b""),
        "bytes that cannot be read": replace(answer, statistics=b"nonsense"),
        "another schema": replace(answer, statistics=bayes().statistics.to_bytes()),
        "cut short": replace(answer, statistics=answer.statistics[:-1]),
    }


@pytest.mark.parametrize("kind", list(wrong_ones(served()[1][0])))
def test_a_wrong_difference_changes_nothing(kind: str) -> None:
    server, (first, _, last) = served()
    wrong = wrong_ones(fetch(server, 1)[0])[kind]
    journal = holder(first, wrong)
    assert journal.published() == (1, first.statistics)
    assert journal.state.refused == "version 3 of the model does not have its hash"
    assert holder(last, journal=journal).published() == (3, last.statistics)


def test_a_difference_to_a_model_that_the_worker_lost_changes_nothing() -> None:
    server, _ = served()
    assert holder(fetch(server, 1)[0]).published() is None


def test_a_whole_version_that_was_damaged_changes_nothing() -> None:
    _, (first, second, _) = served()
    damaged = replace(second, statistics=learned(2).to_bytes())
    assert holder(first, damaged).published() == (1, first.statistics)
