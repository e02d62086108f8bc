"""A message that fails is undone alone, in ledger and memory; the others of its batch count."""

from typing import Any
from unittest.mock import patch

import pytest
from msgspec.structs import replace

from dealfl.errors import BadBytes, WriteFailed
from dealfl.exact import Statistics
from dealfl.protocol.messages import Erased, Message, Receipt, Withdraw
from dealfl.server import Ledger, Rules, Server
from dealfl.server.selection import FairUpperConfidence
from tests.federation.parts import announce, bayes, examples, kinds, update

NAMES = ("anna", "bob", "carl", "dora", "mallory")
HONEST = [update(1, 2, name=name, round=1, elapsed_s=1.0) for name in NAMES[:4]]


@pytest.fixture(autouse=True, params=["small", "large"])
def deltas(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each test with deltas that are written at once, and at the end of a transaction."""
    if request.param == "large":
        monkeypatch.setattr("dealfl.server.ledger._LARGE", 1)


def federation(ledger: Ledger) -> Server:
    """Return a server in its first round, for which all workers were selected."""
    ledger.change_state(epoch="the same in all")
    rules = Rules(rounds=1000, ttl_s=60.0, workers_per_round=5)
    with patch("secrets.token_hex", lambda count: "e" * 2 * count):
        one = Server("job", bayes, ledger, rules, FairUpperConfidence(fairness=0.01))
    messages = one.handle([announce(name, 0) for name in NAMES], 0.0).messages
    assert kinds(messages).count("Assignment") == 5
    return one


def state(one: Server, ledger: Ledger) -> dict[str, Any]:
    """Return all that server and ledger hold, but for mallory's row."""
    rows = {name: row for name, row in one.workers.items() if name != "mallory"}
    tables = ("sums", "updates", "selections", "rounds", "answers", "versions", "pages", "parts")
    stored = {table: ledger.execute(f"SELECT * FROM {table}").fetchall() for table in tables}
    stored["sums"] = [row[::2] for row in stored["sums"]]  # fingerprints are keyed
    stored["updates"] = [row[:3] for row in stored["updates"]]
    return {"rows": rows, "model": one.model.digest(), **stored}


def fail_when_received(patched: pytest.MonkeyPatch, error: type[BaseException]) -> None:
    """Let every message of mallory fail when all that it changes was changed."""
    receive = Server._receive

    def failing(self: Server, message: Message, problem: str | None, now_s: float) -> list[Message]:
        replies = receive(self, message, problem, now_s)
        if message.worker == "mallory":
            raise error("4711")
        return replies

    patched.setattr(Server, "_receive", failing)


POISON: dict[str, Message] = {
    "announcement": announce("mallory", held=3),
    "new journal": announce("mallory", 0, journal_id="another", epoch="unknown"),
    "update": update(1, 3, name="mallory", round=1, elapsed_s=1.0),
    "late update": update(2, 3, name="mallory"),
    "withdrawal": Withdraw(job="job", worker="mallory", incarnation=1, sequence=1),
    "answer": Erased(job="job", worker="mallory", request="r", examples=1),
}


@pytest.mark.parametrize("place", [0, 2, 4])
@pytest.mark.parametrize("name", sorted(POISON))
def test_the_others_of_a_batch_count_as_if_it_had_not_come(
    name: str, place: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, ledger = Ledger(), Ledger()
    expected, one = federation(plain), federation(ledger)
    batch = [*HONEST[:place], POISON[name], *HONEST[place:]]
    with monkeypatch.context() as patched:
        fail_when_received(patched, ZeroDivisionError)
        step = one.handle(batch, 1.0)
    assert step == expected.handle(HONEST, 1.0)
    assert len([m for m in step.messages if isinstance(m, Receipt)]) == 4
    assert state(one, ledger) == state(expected, plain)
    flag = f"{type(POISON[name]).__name__} message: ZeroDivisionError; it was skipped"
    assert one.workers["mallory"] == replace(expected.workers["mallory"], flag=flag)
    for number in range(2, 6):  # memory follows: both go on alike
        later = [update(number, 1, name=who, round=number, elapsed_s=2.0) for who in NAMES[:4]]
        told = [announce(who, waiting=3) for who in NAMES[:4]]
        steps = [each.handle([*later, *told], 10.0 * number) for each in (one, expected)]
        assert steps[0] == steps[1]
    assert state(one, ledger) == state(expected, plain)


def test_a_flag_that_cannot_be_put_harms_nobody_either(monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger()
    one = federation(ledger)

    def fail(*_: Any) -> None:
        raise OverflowError("4711")

    with monkeypatch.context() as patched:
        patched.setattr(Server, "_flag", fail)
        fail_when_received(patched, ZeroDivisionError)
        batch = [HONEST[0], POISON["update"], POISON["late update"], *HONEST[1:]]
        one.handle(batch, 1.0)
    assert one.workers["mallory"].flag == ""
    assert ledger.workers() == one.workers
    assert one.model.statistics == examples(8)


def test_an_epoch_that_was_undone_can_be_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger()
    one = federation(ledger)
    before, restored = one.epoch, announce("mallory", 7, epoch="of a later ledger")
    with monkeypatch.context() as patched:
        fail_when_received(patched, ZeroDivisionError)
        one.handle([restored], 1.0)
    assert one.epoch == ledger.state.epoch == before
    one.handle([restored], 2.0)
    assert one.epoch == ledger.state.epoch != before


@pytest.mark.parametrize("error", [OSError, MemoryError, WriteFailed, BadBytes, KeyboardInterrupt])
def test_a_failure_of_the_machine_is_no_fault_of_a_message(
    error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger()
    one = federation(ledger)
    before = state(one, ledger)
    with monkeypatch.context() as patched:
        fail_when_received(patched, error)
        with pytest.raises(error):
            one.handle([*HONEST, POISON["update"]], 1.0)
    assert state(one, ledger) == before
    assert one.workers["mallory"].flag == ""
    one.handle([*HONEST, POISON["update"]], 1.0)
    assert one.model.statistics == examples(11)


def test_a_sum_that_cannot_even_be_checked_is_its_workers_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = federation(Ledger())
    check = type(one.model).check_statistics

    def failing(self: Any, statistics: Statistics) -> None:
        if statistics == examples(3):
            raise OverflowError("int too large")
        check(self, statistics)

    monkeypatch.setattr(type(one.model), "check_statistics", failing)
    one.handle([*HONEST, POISON["update"]], 1.0)
    assert one.workers["mallory"].flag == "diverged: no examples have this sum"
    assert one.model.statistics == examples(8)
