"""Sums in pages: equal to whole sums, written where they change, upgraded from older ledgers."""

import random
from contextlib import suppress

import pytest

from dealfl.errors import Impossible, OutOfBounds
from dealfl.exact import ArraySpec, Entries, Integers, Schema, Statistics
from dealfl.learners import Learner, Neighbors, PersonalizedPageRank
from dealfl.server import Ledger, sums
from dealfl.server.sums import SumStore
from tests.federation.parts import Connect

SCHEMA = Schema("test", {}, (ArraySpec("small", 9), ArraySpec("wide", 1 << 40, 96)))
ZERO = Statistics.zero(SCHEMA)


def delta(cells: dict[int, int]) -> Statistics:
    return Statistics(SCHEMA, {"small": Entries.of({3: 1}), "wide": Entries.of(cells, wide=True)})


def pages_of(ledger: Ledger, owner: str) -> dict[int, bytes]:
    query = "SELECT first, content FROM pages WHERE owner = ? AND array = 1"
    return dict(ledger.execute(query, (owner,)).fetchall())


def draw(chance: random.Random, whole: Statistics) -> Statistics:
    """Return a delta that adds cells, and makes some of those there are zero."""
    held = whole["wide"].to_dict()
    gone = {index: -held[index] for index in chance.sample(sorted(held), len(held) // 4)}
    near = chance.choice([50, 1 << 40])
    new = {chance.randrange(near): chance.randrange(-(1 << 70), 1 << 70) for _ in range(9)}
    return delta({**new, **gone})


@pytest.mark.parametrize("seed", range(5))
def test_sums_and_total_in_pages_equal_whole_sums(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sums, "_PAGE", 4)
    chance, ledger = random.Random(seed), Ledger()
    store, expected, total = ledger.sums, {"v": ZERO, "w": ZERO}, ZERO
    for number in range(40):
        name = chance.choice("vw")
        change = draw(chance, expected[name])
        expected[name], total = expected[name] + change, total + change
        changed = store.add(name, change)
        assert changed.whole == expected[name]
        assert len(changed.whole.arrays) == len(SCHEMA.arrays)
        store.put(changed, number)
        store.mark(change)
        store.put_total(SCHEMA, lambda array, *cells: total[array].between(*cells))  # noqa: B023
        for owner, whole in (*expected.items(), (sums.TOTAL, total)):
            assert store.read(owner, SCHEMA) == whole
            assert set(pages_of(ledger, owner)) <= set(whole["wide"].indices.tolist())
        assert changed.cells == expected[name].count_nonzero()
    assert len(pages_of(ledger, sums.TOTAL)) > 10


@pytest.mark.parametrize("seed", range(8))
def test_sums_of_arrays_with_few_zeros_equal_whole_sums(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sums, "_PAGE", 4)
    schema, chance = Schema("test", {}, (ArraySpec("n", 40, 96),)), random.Random(seed)
    ledger, whole = Ledger(), Statistics.zero(schema)
    for number in range(30):
        first, share = chance.randrange(30), chance.choice([0.3, 0.8, 1.0])
        cells = [chance.randrange(-9, 9) * (chance.random() < share) for _ in range(first, 40)]
        change = Statistics(schema, {"n": Entries.of_dense(Integers.of(cells, wide=True), first)})
        if number % 7 == 6:
            change = -whole  # what is left is nothing
        whole = whole + change
        changed = ledger.sums.add("w", change)
        assert changed.whole == whole
        assert changed.cells == whole.count_nonzero()
        ledger.sums.put(changed, number)
        assert ledger.sums.read("w", schema) == whole
        query = "SELECT first FROM pages WHERE owner = 'w'"
        keys = {key for (key,) in ledger.execute(query)}
        assert keys <= set(whole["n"].indices.tolist())


def test_only_touched_pages_are_read_and_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sums, "_PAGE", 8)
    connect = Connect()
    ledger = Ledger(connect=connect)
    ledger.sums.put(ledger.sums.add("w", delta({10 * n: 1 for n in range(800)})), 1)
    before, read = pages_of(ledger, "w"), list[str]()
    assert len(before) == 100
    connect.db.set_trace_callback(read.append)
    changed = ledger.sums.add("w", delta({85: 1, 4000: 1}))
    assert len(changed.touched["wide"]) == 17
    ledger.sums.put(changed, 2)
    connect.db.set_trace_callback(None)
    after = pages_of(ledger, "w")
    assert sum(before.get(key) != content for key, content in after.items()) == 3, "one was split"
    assert sum("INSERT INTO pages" in statement for statement in read) == 3 + 1
    ledger.sums.put(ledger.sums.add("w", delta({0: -1, 10: -1})), 3)
    assert min(pages_of(ledger, "w")) == 20, "no key shows a cell that is zero"


@pytest.mark.parametrize(("cells", "pages"), [(16_384, 1), (16_385, 2)])
def test_a_page_has_a_bounded_number_of_entries(cells: int, pages: int) -> None:
    """A change of one cell rewrites one page."""
    ledger = Ledger()
    ledger.sums.put(ledger.sums.add("w", delta(dict.fromkeys(range(cells), 1))), 1)
    assert len(pages_of(ledger, "w")) == pages


@pytest.mark.parametrize("bits", [32, 64, 96])
def test_a_sum_that_does_not_fit_its_array_is_refused(bits: int) -> None:
    schema, store = Schema("test", {}, (ArraySpec("n", 9, bits),)), Ledger().sums
    half = Statistics(schema, {"n": Entries.of({3: 1 << (bits - 2)}, wide=bits > 64)})
    store.put(store.add("w", half), 1)
    with pytest.raises(OutOfBounds, match="fit"):
        store.add("w", half)
    assert store.read("w", schema) == half


def test_marks_of_a_failed_transaction_can_be_reset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sums, "_PAGE", 4)
    ledger, total = Ledger(), delta({0: 1, 10: 1, 50: 1})
    ledger.sums.replace_total(total)
    with suppress(ZeroDivisionError), ledger.transaction():
        ledger.sums.replace_total(delta({10 * n: 1 for n in range(12)}))
        ledger.sums.mark(delta({60: 1}))
        raise ZeroDivisionError
    ledger.sums.reset_marks()
    total += delta({60: 1})
    ledger.sums.mark(delta({60: 1}))
    ledger.sums.put_total(SCHEMA, lambda array, *cells: total[array].between(*cells))
    assert ledger.sums.read(sums.TOTAL, SCHEMA) == total


def add_checked(learner: Learner, before: Statistics, arrays: dict[str, Entries]) -> None:
    """Check a change as the server does; arrays that are not given do not change."""
    store, schema = SumStore(Ledger()), learner.schema
    change = Statistics(schema, {**Statistics.zero(schema).arrays, **arrays})
    store.replace("w", before, 0)
    changed = store.add("w", change)
    learner.check_added(change, changed.touched, changed.whole)


def test_a_sum_is_checked_where_a_change_can_break_it() -> None:
    held, empty = PersonalizedPageRank(5).learn([[0, 1], [1, 2]]), PersonalizedPageRank(5)
    add_checked(empty, held, dict(PersonalizedPageRank(5).learn([[0, 3]]).arrays))
    with pytest.raises(Impossible, match="items 1 and 0 are both in 2"):
        add_checked(
            PersonalizedPageRank(5),
            held,
            {"items": Entries.of({1: 1}), "pairs": Entries.of({0: 1})},
        )
    with pytest.raises(Impossible, match="items 2 and 1 are both in 1"):
        add_checked(empty, held, {"items": Entries.of({2: -1})})


def test_votes_are_checked_without_the_rest_of_the_sum() -> None:
    def learned(*rows: list[float]) -> Statistics:
        return Neighbors(2, ["a", "b"], feature_bound=1.0).learn(list(rows), ["a"] * len(rows))

    empty, held = Neighbors(2, ["a", "b"], feature_bound=1.0), learned([0.1, 0.2], [0.5, 0.9])
    add_checked(empty, held, dict(learned([0.3, 0.3]).arrays))
    add_checked(empty, held, dict((-learned([0.5, 0.9])).arrays))
    with pytest.raises(Impossible, match="negative"):
        add_checked(empty, held, dict((-learned([-0.9, 0.3])).arrays))
    with pytest.raises(Impossible, match="but 1 were learned"):
        add_checked(empty, held, {"counts": Entries.of({0: 1})})
