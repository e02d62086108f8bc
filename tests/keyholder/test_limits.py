"""What sums under masks do not hide, as THREATS.md states it: signs, and habits."""

from __future__ import annotations

from tests.keyholder.parts import COHORT, Table
from tests.keyholder.test_attacks import fresh_cohort


def test_what_leaves_is_negative_and_only_what_comes_can_cover_it() -> None:
    """No combination isolates the person, but a sparse example is known by its signs."""
    table = Table()
    person = {0: 1, 1: 1, 2: 1}  # an example with three features
    others = [table.header(name, 1, {10 + i: 1}) for i, name in enumerate(table.names[1:COHORT])]
    table.ask([table.header("w0", 1, person), *others])
    erasure = table.header("w0", 2, dict.fromkeys(person, -1))
    covering = table.header("w1", 2, {2: 1})
    rest = [table.header(name, 1, {20 + i: 1}) for i, name in enumerate(table.names[4:])]
    table.ask([erasure, covering, *rest])
    assert table.find_isolated() is None
    gone = {cell for cell, count in table.shown[-1].items() if count < 0}
    assert gone == {0, 1}, "all of the person that no fresh example covers"


def test_habits_show_in_differences_of_cohorts() -> None:
    """Workers whose examples are always alike are compared, each time with fresh ones."""
    table, habit = Table(), {"w0": 5, "w1": 5, "w2": 6, "w3": 7}

    def bring(name: str, sequence: int) -> dict[int, int]:
        return {habit[name]: 1, 10 * (1 + int(name[1])) + sequence: 1}

    for sequence, last in enumerate(("w2", "w3"), 1):
        names = ("w0", "w1", last)
        table.ask([table.header(n, sequence, bring(n, sequence), fresh=1) for n in names])
    first, second = ({cell: n for cell, n in shown.items() if cell < 10} for shown in table.shown)
    difference = {cell: second.get(cell, 0) - first.get(cell, 0) for cell in first | second}
    assert {cell: n for cell, n in difference.items() if n} == {6: -1, 7: 1}


def test_the_same_cohort_again_shows_only_what_is_new() -> None:
    table = Table()
    table.ask(fresh_cohort(table, 0, 1))
    table.ask(fresh_cohort(table, 10, 2))
    assert table.shown[-1] == {10: 1, 11: 1, 12: 1}
