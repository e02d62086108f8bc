"""Settings of selectors: what is refused, and what some of them do."""

import inspect
import math
from collections import Counter

import pytest

from dealfl.errors import BadInput, UnknownName
from dealfl.server.selection import (
    SELECTORS,
    Candidate,
    FairUpperConfidence,
    Uniform,
    make_selector,
)
from tests.selection.playing import candidates, play

SHARES = "a number from 0 to 1, or a table, each value a number from 0 to 1"


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("fair_ucb", {"eta": 0}, "eta is 0; it takes a number > 0, or inf"),
        ("fair_ucb", {"eta": math.nan}, "eta is nan; it takes a number > 0, or inf"),
        ("fair_ucb", {"fairness": 1.5}, f"fairness is 1.5; it takes {SHARES}"),
        (
            "fair_ucb",
            {"fairness": {"a": "much"}},
            f"fairness is {{'a': 'much'}}; it takes {SHARES}",
        ),
        ("thompson", {"seed": -1}, "seed is -1; it takes a whole number ≥ 0"),
        ("uniform", {"seed": 0.5}, "seed is 0.5; it takes a whole number ≥ 0"),
        ("oort", {"weight_cap": 0}, "weight_cap is 0; it takes a number > 0"),
        (
            "discounted",
            {"discount": 1.0},
            "discount is 1.0; it takes a number from 0.5 to 0.999999",
        ),
        (
            "everyone",
            {"eta": 1},
            "no key 'eta' for the selector everyone; it takes no keys; leave the section out",
        ),
    ],
)
def test_bad_settings_are_refused_by_key_value_and_remedy(
    name: str, settings: dict[str, object], words: str
) -> None:
    with pytest.raises(BadInput) as refused:
        make_selector(name, settings)
    assert str(refused.value) == words


@pytest.mark.parametrize("name", sorted(SELECTORS))
def test_the_seed_of_every_selector_is_0_unless_it_is_given(name: str) -> None:
    parameters = inspect.signature(SELECTORS[name]).parameters
    assert "seed" not in parameters or parameters["seed"].default == 0


def test_an_unknown_selector_is_refused() -> None:
    with pytest.raises(UnknownName, match="no selector called 'best'; known: discounted, everyone"):
        make_selector("best")


def test_rounds_go_up_and_candidates_are_named_once() -> None:
    one = FairUpperConfidence()
    one.select(3, candidates(["a"]), 1)
    with pytest.raises(BadInput, match="rounds must increase"):
        one.select(3, candidates(["a"]), 1)
    with pytest.raises(BadInput, match="twice"):
        one.select(4, candidates(["a", "a"]), 1)
    with pytest.raises(BadInput, match="weight"):
        one.select(4, [Candidate("a", math.nan)], 1)
    with pytest.raises(BadInput, match=r"reward is 1\.5"):
        one.record_reward(3, "a", 1.5)


def test_an_infinite_eta_owes_nothing() -> None:
    one = FairUpperConfidence(fairness={"w0": 0.5}, eta=math.inf)
    times = Counter(name for names in play(one, range(1, 2000)) for name in names)
    assert times["w0"] < 0.3 * 2000


def test_weights_count_up_to_the_cap() -> None:
    one = FairUpperConfidence(weight_cap=10.0)
    assert one.select(1, [Candidate("a", 1.0), Candidate("b", 10.0)], 1) == ["b"]
    other = FairUpperConfidence(weight_cap=10.0)
    assert other.select(1, [Candidate("a", 10.0), Candidate("b", 99.0)], 1) == ["a"]


def test_a_uniform_choice_without_a_seed_has_the_seed_0() -> None:
    names = [str(number) for number in range(50)]
    plain, seeded = (one.select(1, candidates(names), 5) for one in (Uniform(), Uniform(0)))
    assert plain == seeded
