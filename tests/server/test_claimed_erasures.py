"""What a worker claims to have deleted is bounded; what left its sum is derived from updates."""

import msgspec
import pytest

from dealfl.erasure import hash_request
from dealfl.protocol.messages import Erased, Message
from dealfl.server import Rules
from tests.federation.parts import announce, examples, joined, update

REQUEST, OWNER = "r", b"o" * 32


def answer(claimed: int, request: str = REQUEST) -> Erased:
    hashed = hash_request(request, [OWNER])
    return Erased(job="job", worker="w", request=request, hash=hashed, examples=claimed)


def removal(sequence: int, count: int) -> Message:
    whole = update(sequence, 1, round=None)
    return msgspec.structs.replace(whole, delta=(-examples(count)).to_bytes(), learned=0)


def test_a_lying_answer_is_bounded_and_the_removed_examples_are_derived() -> None:
    server = joined("w", rounds=10)
    server.handle([update(1, 5, round=1)], 1.0)
    server.erase(REQUEST, [OWNER], 2.0)
    server.handle([removal(2, 3), answer(10**9)], 3.0)
    reader = server.reader
    assert reader.count_deleted(REQUEST)[0] == 3
    assert reader.answers(REQUEST) == {"w": Rules().max_examples}


@pytest.mark.parametrize("together", [True, False])
def test_examples_that_were_never_learned_are_claimed_only(together: bool) -> None:
    server = joined("w", rounds=10)
    server.handle([update(1, 5, round=1)], 1.0)
    server.erase(REQUEST, [OWNER], 2.0)
    messages = [answer(4), removal(2, 3)]
    for batch in [messages] if together else [[message] for message in messages]:
        server.handle(batch, 3.0)
    assert server.reader.count_deleted(REQUEST) == (3, 4)
    server.handle([removal(2, 3), answer(4)], 4.0)
    assert server.reader.count_deleted(REQUEST)[0] == 3, "a repetition removes nothing"


def test_a_later_request_does_not_account_for_an_earlier_one() -> None:
    server = joined("w", rounds=10)
    server.handle([update(1, 5, round=1)], 1.0)
    for number, request in enumerate(("first", "second")):
        server.erase(request, [OWNER], 2.0)
        server.handle([removal(2 + number, 1 + number), answer(4, request)], 3.0 + number)
    assert [server.reader.count_deleted(one)[0] for one in ("first", "second")] == [1, 2]


def test_a_training_is_no_erasure() -> None:
    server = joined("w", rounds=10)
    server.handle([update(1, 5, round=1)], 1.0)
    server.erase(REQUEST, [OWNER], 2.0)
    evicting = msgspec.structs.replace(removal(2, 3), round=1, evicted=3)
    server.handle([evicting, announce("w"), answer(3)], 3.0)
    assert server.reader.count_deleted(REQUEST)[0] == 0
