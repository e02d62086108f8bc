"""Mutation testing: which changes are made, which are left alone, and which sample is drawn."""

import pytest

from checks.mutants import mutants_of, mutate
from checks.mutation import sampled

MODULE = '''\
"""Bread."""
from typing import Annotated

__all__ = ["bake"]

HEAT = 200
Size = Annotated[int, Meta(ge=1)]


@dataclass(frozen=True)
class Oven:
    """An oven."""

    size: int = 3

    def bake(self, loaf: int | None, *, hot: bool = True) -> int:
        """Bake."""
        if loaf is None:
            raise ValueError(f"loaf is {loaf + 1}; " + "give one")
        self.loaf = loaf
        return [one for one in self.all if not one and hot]
'''


def test_everything_but_words_types_and_messages_is_changed() -> None:
    changes = {(one.function, one.change) for one in mutants_of("oven.py", MODULE)}
    assert changes == {
        ("", "200 → 201"),
        ("Oven", "3 → 4"),
        ("Oven.bake", "True → False"),
        ("Oven.bake", "loaf is None → loaf is not None"),
        ("Oven.bake", "raise ValueError(f'loaf is {loaf + 1}; ' + 'give one') → pass"),
        ("Oven.bake", "self.loaf = loaf → pass"),
        ("Oven.bake", "return [one for one in self.all if not one and hot] → return None"),
        ("Oven.bake", "not one and hot → not one or hot"),
        ("Oven.bake", "not one → one"),
    }


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("1 < x <= 3", "1 <= x <= 3"),
        ("x if y else z", "x if not y else z"),
        ("x @ y", "x * y"),
        ("-x", "x"),
        ("x += 1", "x -= 1"),
        ("del x[0]", "pass"),
        ("while f():\n    break", "while not f():\n    break"),
    ],
)
def test_a_change_is_made_in_its_place_only(before: str, after: str) -> None:
    changed = {mutate(before, one.index) for one in mutants_of("x.py", before)}
    assert after in changed
    assert before not in changed


def test_equal_changes_of_a_function_have_different_names() -> None:
    names = [one.name for one in mutants_of("x.py", "def f():\n    g(1)\n    g(1)\n")]
    assert len(set(names)) == len(names) == 4
    assert "x.py: f: g(1) → pass (#2)" in names


def test_a_sample_is_seeded_and_stays_when_other_code_changes() -> None:
    before = mutants_of("x.py", "\n".join(f"def f{n}(x):\n    return x + {n}" for n in range(60)))
    after = mutants_of(
        "x.py", "\n".join(f"def f{n}(x):\n    return x + {n}" for n in range(60) if n != 7)
    )
    first = [one.name for one in sampled(before, 0, 30)]
    assert first == [one.name for one in sampled(reversed(before), 0, 30)]
    assert first != [one.name for one in sampled(before, 1, 30)]
    assert len(set(first) & {one.name for one in sampled(after, 0, 30)}) >= 27
