"""A long list of erasures comes in messages of a bounded size, until all of it has arrived."""

import pytest

from dealfl.errors import BadInput
from dealfl.protocol.messages import Erase
from dealfl.protocol.transport import encode
from dealfl.server import Ledger, Server
from dealfl.worker import Journal, Worker
from tests.federation.parts import server, worker

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


def test_the_largest_request_is_one_message_and_a_larger_one_is_refused() -> None:
    one = server(Ledger())
    with pytest.raises(BadInput, match="cut a longer list into several requests"):
        one.erase("r", entries(0, 5_001), 0.0)
    assert len(encode(one.erase("r", entries(0, 5_000), 0.0).messages)) <= MAX_BYTES
    journal = Journal(journal_id="mark")
    newcomer = worker(journal=journal)
    step = newcomer.handle((), 1.0)
    for _ in range(4):
        step = newcomer.handle(one.handle(step.messages, 1.0).messages, 1.0)
    assert journal.suppresses(entries(4_999, 1)[0])
