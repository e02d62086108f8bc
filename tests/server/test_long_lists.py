"""A long list of erasures comes in messages of a bounded size, until all of it has arrived."""

import pytest

from dealfl.erasure import owner_hash
from dealfl.errors import BadInput
from dealfl.protocol.messages import Erase
from dealfl.protocol.transport import encode
from dealfl.server import Ledger, Server
from dealfl.worker import Journal, Worker
from tests.federation.parts import (
    KEY,
    FixedMeter,
    announce,
    bayes,
    examples,
    joined,
    row,
    server,
    worker,
)
from tests.server.test_thinned_history import talk

MAX_BYTES = 200_000


def entries(first: int, count: int) -> list[bytes]:
    return [number.to_bytes(32, "big") for number in range(first, first + count)]


def read_list(one: Server, newcomer: Worker) -> list[int]:
    """Let a newcomer read the list; return the size in bytes of each answer that carries it."""
    sizes = []
    step = newcomer.handle((), 1.0)
    for _ in range(100):
        back = one.handle(step.messages, 1.0)
        orders = [message for message in back.messages if isinstance(message, Erase)]
        if orders:
            sizes.append(sum(34 * len(order.owners) for order in orders))
            assert len(encode(orders)) <= MAX_BYTES
        step = newcomer.handle(back.messages, 1.0)
        if not step.messages:
            break
    return sizes


@pytest.mark.parametrize("size", [1, 700])
def test_a_newcomer_gets_a_long_list_in_messages_of_a_bounded_size(size: int) -> None:
    one = server(Ledger())
    for first in range(0, 14_000, 700):
        if size == 1:
            with one._transaction():
                for number in range(first, first + 700):
                    one._ledger.erasures.put(f"r{number}", tuple(entries(number, 1)), 0.0)
        else:
            one.erase(f"r{first}", entries(first, size), 0.0)
    journal = Journal(journal_id="mark")
    sizes = read_list(one, worker(journal=journal))
    assert len(sizes) == 3
    assert journal.has_reached(one._ledger.erasures.end())
    assert journal.suppresses(entries(13_999, 1)[0])


def test_announcements_that_arrive_together_get_the_list_once() -> None:
    one = joined("w", "honest")
    one.erase("r", entries(0, 5_000), 0.0)
    flood = [announce("w", waiting=number) for number in range(200)]
    replies = one.handle([*flood, announce("honest")], 1.0).messages
    assert [m.worker for m in replies if isinstance(m, Erase)] == ["w", "honest"]


def test_a_worker_that_lacks_many_requests_gets_them_in_turn() -> None:
    one = server(Ledger())
    journal = Journal(journal_id="mark")
    known = worker(journal=journal)
    read_list(one, known)
    for first in range(0, 12_000, 3_000):
        one.erase(f"r{first}", entries(first, 3_000), 0.0)
    known.reconnect()
    assert len(read_list(one, known)) == 4
    assert journal.has_reached(one._ledger.erasures.end())


def test_a_request_of_many_owners_becomes_several_messages_and_stays_one_request() -> None:
    one = server(Ledger(), publish_every_s=0.0)
    journal = Journal(journal_id="mark")
    phone = worker(journal=journal)
    read_list(one, phone)
    orders = one.erase("r", entries(0, 12_001), 2.0).messages
    assert [len(encode([order])) <= MAX_BYTES for order in orders] == [True] * 3
    assert one.erase("r", entries(0, 12_001)[::-1], 3.0).messages == orders, "a repetition"
    for changed in (entries(0, 12_000), entries(1, 12_001), entries(0, 5_000)):
        with pytest.raises(BadInput, match="with other owners exists"):
            one.erase("r", changed, 3.0)
    for number, order in enumerate(orders):
        assert one.reader.answers("r") == {}, "no worker has answered the whole request"
        one.handle(phone.handle([order], 4.0 + number).messages, 4.0 + number)
        phone = worker(journal=journal)  # killed between two messages
    read_list(one, phone)
    assert one.reader.answers("r") == {"w": 0}
    (listed,) = one.reader.erasures()
    assert sorted(listed.owners) == entries(0, 12_001)
    assert journal.suppresses(entries(12_000, 1)[0])
    assert journal.has_reached(one._ledger.erasures.end())


def test_a_request_of_many_owners_is_shown_by_the_version_that_contains_all_of_it() -> None:
    one = server(Ledger(), rounds=10**6, publish_every_s=0.0)
    phone = worker(forget_fraction="0")
    names = {owner_hash(KEY, f"person {number}"): f"person {number}" for number in range(12_001)}
    hashes = sorted(names)
    held = [names[hashes[index]] for index in (0, 6_000, 12_000)]  # one person in each message
    phone.ingest([(owner, row(0.0, 0.5, 1.0)) for owner in [*held, "somebody else"]])
    talk(one, phone, 1.0)
    last = one.reader.last_version()
    for number, order in enumerate(one.erase("r", hashes, 2.0).messages):
        assert one.reader.versions_around("r") == (last, None)
        assert not one.reader.erasures("r")[0].published
        assert one.reader.count_deleted("r")[1] == number
        one.handle(phone.handle([order], 3.0 + number).messages, 3.0 + number)
    for now_s in (100.0, 200.0):
        talk(one, phone, now_s)
    before, after = one.reader.versions_around("r")
    assert before == last
    assert after is not None
    assert after.digest == one.model.digest()
    assert one.reader.erasures("r")[0].published
    assert one.reader.count_deleted("r") == (3, 3)
    assert one.model.statistics == examples(1)


def test_the_version_before_an_erasure_lacks_nothing_of_the_person() -> None:
    one = server(Ledger(), rounds=10**6, publish_every_s=0.0)
    phones = [
        Worker("job", name, bayes, Journal(), FixedMeter(), key=KEY, forget_fraction="0")
        for name in ("v", "w")
    ]
    for now_s, phone in enumerate(phones):
        phone.ingest([(owner, row(0.0, 0.5, 1.0)) for owner in ("ann", "bob")])
        talk(one, phone, float(now_s))
    last = one.reader.last_version()
    assert last is not None
    orders = one.erase("r", [owner_hash(KEY, "ann")], 10.0).messages
    one.handle(phones[0].handle(orders, 20.0).messages, 20.0)
    talk(one, phones[0], 120.0)
    between = one.reader.last_version()
    assert between is not None
    assert between.number > last.number, "one of two workers has answered"
    one.handle(phones[1].handle(orders, 220.0).messages, 220.0)
    talk(one, phones[1], 320.0)
    before, after = one.reader.versions_around("r")
    assert before is not None
    assert after is not None
    assert (before.number, before.digest) == (last.number, last.digest)
    assert after.digest == one.model.digest() not in (before.digest, between.digest)


@pytest.mark.parametrize(("name", "owners"), [("r", []), ("", [b"a"]), ("r", [b"a" * 65])])
def test_a_request_that_no_worker_could_read_is_refused(name: str, owners: list[bytes]) -> None:
    one = server(Ledger())
    with pytest.raises(BadInput, match="1 or more owners"):
        one.erase(name, owners, 0.0)
    assert one.reader.count_erasures() == (0, 0)
