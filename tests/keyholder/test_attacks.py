"""Servers, strangers and sybils that want to see one person's numbers: none succeeds."""

from typing import Any

import pytest
from msgspec.structs import replace

from dealfl.keyholder import Keyholder, KeyholderJournal
from dealfl.masks import SERVER, Answer, Asker, Masker, draw_private_key
from dealfl.protocol import Header
from dealfl.server import masked
from tests.keyholder.chaos import CarelessKeyholder, MaskedChaos
from tests.keyholder.parts import COHORT, Table


class Careless(Keyholder):
    """Counts every worker as one with fresh examples."""

    def _is_fresh(self, header: Header) -> bool:
        return True


class Disorderly(Keyholder):
    """Opens the updates of a worker in any order."""

    def _is_in_order(self, place: tuple[int, int], before: tuple[int, int]) -> bool:
        return True


def fresh_cohort(table: Table, first: int, sequence: int, incarnation: int = 1) -> list[Header]:
    """Return updates of COHORT workers, each with one new example."""
    cells = {name: {first + i: 1} for i, name in enumerate(table.names[:COHORT])}
    return [table.header(n, sequence, c, incarnation=incarnation) for n, c in cells.items()]


def test_an_honest_opening_shows_the_sum_of_the_cohort_and_nothing_else() -> None:
    table = Table()
    answer = table.ask(fresh_cohort(table, 0, 1))
    assert (answer.refused, answer.workers) == ("", COHORT)
    assert table.shown == [{0: 1, 1: 1, 2: 1}]
    assert table.find_isolated() is None


def test_the_identical_request_gets_the_identical_answer_also_after_a_restart() -> None:
    table = Table()
    request = table.request(fresh_cohort(table, 0, 1))
    first = table.keyholder.handle([request], 0.0).messages
    table.keyholder = table.start()
    again = [m for m in table.keyholder.handle([request], 9.0).messages if m == first[-1]]
    assert again == [first[-1]]
    assert table.journal.count_openings() == 1


# -- fewer than t workers --------------------------------------------------------------------------


def surround_with_zeros(table: Table) -> None:
    zeros = [table.header(name) for name in table.names[1:]]
    table.ask([table.header("w0", 1, {0: 1}), *zeros])


def force_incarnations(table: Table) -> None:
    """Open everybody's sum again without one worker: the difference is that worker."""
    table.ask(fresh_cohort(table, 0, 1))
    again = [table.header(f"w{i}", 1, {i: 1}, incarnation=2, fresh=0) for i in range(COHORT - 1)]
    table.ask([*again, table.header("w7")])


def erase_at_once(table: Table) -> None:
    """Let workers learn examples and erase them before anything is opened."""
    plus = [table.header("w0", 1, {0: 1})]
    for number in range(1, COHORT):
        learned = table.header(f"w{number}", 1, {number: 1})
        plus += [learned, table.header(f"w{number}", 2, {number: -1})]
    table.ask(plus)


def open_evictions_first(table: Table) -> None:
    """Show first that examples leave, then that they come; both times with fresh ones of others."""
    first = {name: {i: 1} for i, name in enumerate(table.names[:3])}
    second = {name: {10 + i: 1} for i, name in enumerate(table.names[3:6])}
    come = {n: table.header(n, 1, cells) for n, cells in (first | second).items()}
    left = {
        n: table.header(n, 2, dict.fromkeys(cells, -1)) for n, cells in (first | second).items()
    }
    table.ask([*(come[name] for name in second), *(left[name] for name in first)])
    victim = table.header("w7", 1, {20: 1})
    table.ask([*(come[name] for name in first), *(left[name] for name in second), victim])


def repeat_before_it_comes(table: Table) -> None:
    """The same with full sums of forced incarnations in place of evictions."""
    first = {name: {i: 1} for i, name in enumerate(table.names[:3])}
    second = {name: {10 + i: 1} for i, name in enumerate(table.names[3:6])}
    come = {n: table.header(n, 1, cells) for n, cells in (first | second).items()}
    again = {
        n: table.header(n, 1, cells, incarnation=2, fresh=0)
        for n, cells in (first | second).items()
    }
    table.ask([*(come[name] for name in second), *(again[name] for name in first)])
    victim = table.header("w7", 1, {20: 1})
    table.ask([*(come[name] for name in first), *(again[name] for name in second), victim])


@pytest.mark.parametrize("attack", [surround_with_zeros, force_incarnations])
def test_the_rule_on_fresh_examples_stops_what_succeeds_without_it(attack: Any) -> None:
    table = Table()
    attack(table)
    assert table.find_isolated() is None
    careless = Table(kind=Careless)
    attack(careless)
    assert careless.find_isolated() is not None, "the search must find what this keyholder allows"


@pytest.mark.parametrize("attack", [open_evictions_first, repeat_before_it_comes])
def test_the_order_of_updates_stops_what_succeeds_without_it(attack: Any) -> None:
    table = Table()
    attack(table)
    assert table.find_isolated() is None
    disorderly = Table(kind=Disorderly)
    attack(disorderly)
    assert disorderly.find_isolated() is not None


def test_examples_that_leave_in_the_same_opening_are_not_fresh() -> None:
    table = Table()
    erase_at_once(table)
    assert table.shown == []


class ForcedChaos(MaskedChaos):
    """The server forces new incarnations again and again, and opens whatever it has."""

    def attack(self) -> None:
        for _ in range(8):
            for name in self.journals:
                self.arrive(name, most=1)
            self.simulation.run(self.simulation.now_s + 90.0)
            for name in self.random.sample(sorted(self.simulation.server.workers), 3):
                step = self.simulation.server.remove(name, self.simulation.now_s)
                self.simulation.send("", step)


class CarelessForcedChaos(ForcedChaos):
    keyholder_type = CarelessKeyholder


def test_the_search_finds_what_forced_incarnations_show_without_the_rule_on_fresh_examples(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The same server, workers and search, with and without the keyholder's rule."""
    monkeypatch.setattr(masked._Candidate, "is_fresh", property(lambda one: bool(one.headers)))
    isolated = dict.fromkeys((ForcedChaos, CarelessForcedChaos), 0)
    for kind in isolated:
        for seed in (2, 3):
            chaos = kind(seed)
            chaos.attack()
            isolated[kind] += chaos.find_isolated() is not None
    assert isolated == {ForcedChaos: 0, CarelessForcedChaos: 2}


def test_a_cohort_below_that_of_the_file_is_refused() -> None:
    table = Table()
    headers = fresh_cohort(table, 0, 1)[: COHORT - 1]
    answer = table.ask(headers, cohort=1)
    assert answer.code == "cohort"
    assert answer.refused == "2 workers have fresh examples; 3 are required"


def test_a_larger_cohort_of_the_job_counts() -> None:
    table = Table()
    assert table.ask(fresh_cohort(table, 0, 1), cohort=COHORT + 1).code == "cohort"


def test_fewer_workers_only_after_the_time_in_the_keyholders_file() -> None:
    table = Table(alone_after_s=100.0)
    table.ask(fresh_cohort(table, 0, 1))
    one = [table.header("w0", 2, {30: 1})]
    table.now_s = 60.0
    early = table.ask(one)
    assert (early.code, early.retry_s) == ("cohort", 40.0)
    table.now_s = 100.0
    assert table.ask(one).workers == 1


# -- keys ------------------------------------------------------------------------------------------


def refused(table: Table, plus: list[Header], minus: list[Header] | None = None) -> str:
    answer = table.ask(plus, minus)
    assert answer.code == "headers", answer
    assert answer.masks == b""
    return answer.bad[0].reason


def test_a_key_opens_once() -> None:
    table = Table()
    first = fresh_cohort(table, 0, 1)
    table.ask(first)
    assert "not later" in refused(table, [first[0], *fresh_cohort(table, 10, 2)[1:]])


def test_the_same_key_twice_in_one_request_is_refused() -> None:
    table = Table()
    first = fresh_cohort(table, 0, 1)
    assert "not later" in refused(table, [*first, first[0]])


def test_a_key_leaves_only_after_it_was_opened_and_once() -> None:
    table = Table()
    first, second = fresh_cohort(table, 0, 1), fresh_cohort(table, 10, 2)
    assert "never opened" in refused(table, first, [second[0]])
    assert "never opened" in refused(table, first, [first[0]]), "not in the same opening"
    table.ask(first)
    assert "already" in refused(table, second, [first[0], first[0]])
    assert not table.ask(second, [first[0]]).refused
    third = fresh_cohort(table, 20, 3)
    assert "already" in refused(table, third, [first[0]])
    assert table.shown == [{0: 1, 1: 1, 2: 1}, {0: -1, 10: 1, 11: 1, 12: 1}]


def test_one_nonce_under_two_sequences_is_refused() -> None:
    table = Table()
    first = fresh_cohort(table, 0, 1)
    table.ask(first)
    nonce = first[0].nonce
    twice = table.header("w0", 2, {30: 1}, nonce=nonce)
    assert "nonce" in refused(table, [twice, *fresh_cohort(table, 10, 2)[1:]])


@pytest.mark.parametrize(
    "change",
    [
        {"fresh": 5}, {"incarnation": 2}, {"sequence": 9}, {"nonce": b"n" * 32},
        {"hash": b"h" * 32}, {"seal": b"s" * 32}, {"worker": "w5"},
    ],
)  # fmt: skip
def test_a_changed_header_is_not_authentic(change: dict[str, Any]) -> None:
    table = Table()
    first = fresh_cohort(table, 0, 1)
    zero = table.header("w4")
    assert "not authentic" in refused(table, [*first, replace(zero, **change)])


@pytest.mark.parametrize("other", [{"job": "other"}, {"epoch": "e2"}])
def test_a_key_of_another_job_or_epoch_is_refused(other: dict[str, Any]) -> None:
    table = Table()
    foreign = table.header("w4", 1, {9: 1}, **other)
    assert "not authentic" in refused(table, [*fresh_cohort(table, 0, 1), foreign])


def open_in_two_jobs(table: Table) -> Answer:
    """Open the same examples in two jobs, in one of them with those of another worker."""
    table.ask(fresh_cohort(table, 0, 1))
    same = [
        table.header(name, 1, {i: 1}, job="other") for i, name in enumerate(table.names[:COHORT])
    ]
    victim = table.header("w7", 1, {20: 1}, job="other")
    return table.ask([*same, victim], job="other", number=1)


def test_a_second_job_with_the_same_examples_needs_another_keyholder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The difference of two jobs' sums would show the one worker that is in one of them only."""
    table = Table()
    answer = open_in_two_jobs(table)
    assert answer.code == "request"
    assert "serves the job 'job'" in answer.refused
    assert table.find_isolated() is None
    monkeypatch.setattr(KeyholderJournal, "find_other_job", lambda *_: None)
    shared = Table()
    assert not open_in_two_jobs(shared).refused
    isolated = shared.find_isolated()
    assert isolated is not None
    assert "w7" in isolated


def test_an_epoch_that_has_ended_is_refused() -> None:
    table = Table()
    table.ask(fresh_cohort(table, 0, 1))
    later = [
        table.header(name, 1, {40 + i: 1}, incarnation=2, epoch="e2")
        for i, name in enumerate(table.names[:3])
    ]
    assert not table.ask(later, epoch="e2", number=1).refused
    table.number = 1
    assert table.ask(fresh_cohort(table, 10, 2)).code == "ledger"


def test_a_ledger_from_a_backup_cannot_open_other_cohorts_again() -> None:
    table = Table()
    first = fresh_cohort(table, 0, 1)
    table.ask(first)
    table.number = 0
    others = [table.header(f"w{i}", 1, {50 + i: 1}) for i in range(4, 7)]
    assert table.ask([*first[:1], *others]).code == "ledger"


def test_a_journal_of_the_keyholder_that_is_older_than_the_ledger_is_noticed() -> None:
    table = Table()
    before = table.journal.content()
    table.ask(fresh_cohort(table, 0, 1))
    table.journal.replace_content(before)
    table.keyholder = table.start()
    answer = table.ask(fresh_cohort(table, 10, 2))
    assert answer.code == "keyholder"
    assert "dealfl keyholder restore" in answer.refused


def test_a_restored_keyholder_has_a_new_key_for_which_old_headers_mean_nothing() -> None:
    table = Table()
    first = fresh_cohort(table, 0, 1)
    table.ask(first)
    with table.journal.transaction():
        table.journal.forget_openings()
        table.journal.put_key_name("")
    table.key = draw_private_key()
    table.keyholder = table.start()
    table.asker = Asker(table.keyholder.enrol("server", SERVER, again=True))
    table.number = 0
    assert "not authentic" in refused(table, first)


# -- strangers -------------------------------------------------------------------------------------


def test_a_stranger_gets_no_answer() -> None:
    table = Table()
    headers = fresh_cohort(table, 0, 1)
    honest = table.request(headers)
    stranger = Asker(replace(table.server, private_key=draw_private_key().hex()))
    for request in (replace(honest, tag=b""), stranger.seal(honest), replace(honest, cohort=1)):
        assert table.keyholder.handle([request], 0.0).messages[1:] == ()
        assert table.send(request) is None
    assert table.keyholder.strangers == 6
    assert table.journal.count_openings() == 0


def test_an_answer_is_for_the_server_alone_and_cannot_be_forged() -> None:
    table = Table()
    step = table.keyholder.handle([table.request(fresh_cohort(table, 0, 1))], 0.0)
    opened = step.messages[-1]
    other = Asker(replace(table.server, private_key=draw_private_key().hex()))
    assert other.read(opened) is None  # type: ignore[arg-type]
    sealed = opened.sealed  # type: ignore[union-attr]
    forged = replace(opened, sealed=sealed[:-1] + bytes([sealed[-1] ^ 1]))
    assert table.asker.read(forged) is None  # type: ignore[arg-type]
    assert table.asker.read(replace(opened, request=b"r" * 32)) is None  # type: ignore[arg-type]


def test_sybils_that_the_server_invents_are_not_enrolled() -> None:
    table = Table()
    own = Table(workers=0)
    sybils = [
        table.header(f"s{i}", 1, {50 + i: 1}, masker=Masker(own.keyholder.enrol(f"s{i}")))
        for i in range(COHORT)
    ]
    assert "not enrolled" in refused(table, [table.header("w0", 1, {0: 1}), *sybils])


def test_a_substituted_key_of_the_keyholder_opens_nothing() -> None:
    """A worker that was given another public key masks for nobody that the server can ask."""
    table, other = Table(), Table()
    deceived = table.header("w0", 1, {0: 1}, masker=other.maskers["w0"])
    assert "not authentic" in refused(table, [deceived, *fresh_cohort(table, 0, 1)[1:]])


def test_a_worker_that_is_enrolled_again_begins_again_and_its_old_sum_can_leave() -> None:
    table = Table()
    first = fresh_cohort(table, 0, 1)
    table.ask(first)
    table.maskers["w0"] = Masker(table.keyholder.enrol("w0", again=True))
    with pytest.raises(ValueError, match="is enrolled"):
        table.keyholder.enrol("w0")
    others = [table.header(f"w{i}", 2, {20 + i: 1}) for i in range(1, COHORT)]
    (bad,) = table.ask([table.header("w0", 1, {20: 1}), *others], [first[0]]).bad
    assert (bad.worker, bad.above) == ("w0", 1)  # the server begins a later incarnation
    again = table.header("w0", 2, {20: 1}, incarnation=2)
    assert not table.ask([again, *others], [first[0]]).refused
    assert table.shown[-1] == {0: -1, 20: 1, 21: 1, 22: 1}
