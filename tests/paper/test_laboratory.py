"""The laboratory against what is known: optima, regrets and promises of published settings."""

import dataclasses
import math
from functools import cache

import numpy as np
import pytest
from msgspec.structs import replace

from dealfl.errors import BadInput
from dealfl.server.selection import Candidate, FairUpperConfidence
from dealfl.settings import Document
from dealfl_paper.laboratory import (
    Course,
    Laboratory,
    Policy,
    Result,
    compute_bound,
    find_optima,
    judge_wrong_choices,
    measure_wrong_choices,
    preset_names,
    read_laboratory,
    read_setting,
    run_laboratory,
)
from dealfl_paper.laboratory.environment import Environment, awake_phases, reward_phases
from dealfl_paper.laboratory.experiment import _Game
from dealfl_paper.laboratory.setting import Batteries, Waking

SEEDS = 16
REFERENCE_SEEDS = 48


def setting(name: str, *policies: Policy, rounds: int = 20_000) -> Laboratory:
    one = read_laboratory(read_setting(name))
    chosen = policies or one.policies
    return replace(one, plan=replace(one.plan, rounds=rounds), policies=chosen)


UCB = {eta: Policy(kind="fair_ucb", eta=eta) for eta in (1.0, 10.0, math.inf)}

THOMPSON = Policy(kind="thompson", eta=10.0)


SIX = pytest.param("six", marks=pytest.mark.soak)


@cache
def play(name: str) -> Result:
    """Return the result of a preset with all policies, which takes half a minute."""
    return run_laboratory(setting(name, *UCB.values(), THOMPSON), SEEDS)


def course(result: Result, eta: float, kind: str = "fair_ucb") -> Course:
    return next(one for one in result.courses if (one.policy.eta, one.policy.kind) == (eta, kind))


@pytest.mark.parametrize(("name", "reward"), [("three", 1.0380), ("six", 1.7728)])
def test_the_optimum_is_the_published_one(name: str, reward: float) -> None:
    [best] = find_optima(setting(name))
    assert best.exact
    assert round(best.reward, 4) == reward
    assert (best.fractions >= setting(name).fairness - 1e-9).all()


@pytest.mark.parametrize(
    ("name", "kind", "eta", "reference"),
    [
        ("three", "fair_ucb", 1.0, 0.0286),
        ("three", "fair_ucb", 10.0, 0.0029),
        ("three", "thompson", 10.0, 0.0027),
        pytest.param("six", "fair_ucb", 1.0, 0.0687, marks=pytest.mark.soak),
        pytest.param("six", "fair_ucb", 10.0, 0.0089, marks=pytest.mark.soak),
        pytest.param("six", "thompson", 10.0, 0.0080, marks=pytest.mark.soak),
    ],
)
def test_the_regret_is_the_published_one(
    name: str, kind: str, eta: float, reference: float
) -> None:
    """The reference is a mean of 48 seeds itself, so that both have an error."""
    regret = course(play(name), eta, kind).regret[:, -1]
    error = regret.std(ddof=1) * math.sqrt(1 / SEEDS + 1 / REFERENCE_SEEDS)
    assert abs(regret.mean() - reference) < 3 * error
    assert error < 0.001, "the test must be able to fail"


@pytest.mark.parametrize(
    ("name", "missing"), [("three", 0.104), pytest.param("six", 0.212, marks=pytest.mark.soak)]
)
def test_promises_are_kept_for_a_finite_eta_and_not_for_an_infinite_one(
    name: str, missing: float
) -> None:
    for eta in (1.0, 10.0):
        assert course(play(name), eta).shortfall.max() < 5e-4
    assert course(play(name), math.inf).shortfall.mean() == pytest.approx(missing, abs=0.02)


@pytest.mark.parametrize("name", ["three", SIX])
def test_the_regret_is_below_what_theory_allows_at_every_reported_round(name: str) -> None:
    result = play(name)
    for eta in (1.0, 10.0):
        allowed = compute_bound(result.setting, eta, result.points.astype(np.float64))
        assert (course(result, eta).regret.mean(axis=0) <= allowed).all()
        assert course(result, eta).within(result.setting, result.points)
    assert course(result, math.inf).within(result.setting, result.points) is None


def test_a_larger_eta_costs_less_and_learns_longer() -> None:
    regrets = {eta: course(play("three"), eta).regret[:, -1].mean() for eta in (1.0, 10.0)}
    assert 6 < regrets[1.0] / regrets[10.0] < 14


def test_discounted_estimates_beat_lasting_ones_by_far_when_batteries_drain() -> None:
    ucb = Policy(kind="fair_ucb", eta=100.0)
    discounted = Policy(kind="discounted", eta=100.0)
    result = run_laboratory(setting("batteries", ucb, discounted, rounds=6_000), 6)
    lasting, ageing = (one.regret[:, -1] for one in result.courses)
    assert (lasting > 4 * ageing).all(), "at least four times the regret, with every seed"
    assert max(one.shortfall.max() for one in result.courses) < 0.005


@pytest.mark.parametrize("raised", [0.0, 0.3])
def test_a_seed_of_the_laboratory_chooses_as_a_server_would(raised: float) -> None:
    """Guarantees that are raised too far are reduced in round 100, in each game by itself."""
    one = setting("six", UCB[10.0], rounds=250)
    guaranteed = (one.fairness + raised).tolist()
    picks = np.zeros((3, 6))
    for seed in range(3):
        selector = FairUpperConfidence(
            eta=10.0,
            weight_cap=1.0,
            fairness={str(place): share for place, share in enumerate(guaranteed)},
        )
        everybody = [Candidate(str(place)) for place in range(6)]
        selector.meet([candidate.name for candidate in everybody], 1)
        world = Environment(one, 3)
        for number in range(1, 251):
            awake, rewards = world.awake(number)[seed], world.rewards(number)[seed]
            chosen = selector.select(number, [everybody[i] for i in np.flatnonzero(awake)], 3)
            for name in chosen:
                selector.record_reward(number, name, float(rewards[int(name)]))
                picks[seed, int(name)] += 1
    game = _Game(replace(one, fairness=one.fairness + raised), UCB[10.0], 3)
    world = Environment(one, 3)
    for number in range(1, 251):
        game.play(number, world.awake(number), world.rewards(number), world.means(number))
    game.report(250, 0.0)
    assert (picks / 250).tolist() == game.course().fractions.tolist()


def test_utility_alone_gains_more_than_chance_and_keeps_no_promise() -> None:
    policies = (Policy(kind="oort"), Policy(kind="uniform"))
    oort, uniform = run_laboratory(setting("six", *policies, rounds=3_000), 8).courses
    assert oort.regret[:, -1].max() < uniform.regret[:, -1].min()
    assert oort.shortfall.mean() > 0.1
    picks = [one.fractions.sum(axis=1).round(9).tolist() for one in (oort, uniform)]
    assert picks[0] == picks[1], "neither leaves a place empty while somebody is awake"


# -- worlds -------------------------------------------------------------------------------------


def test_all_policies_see_the_same_world_and_more_seeds_change_nothing() -> None:
    few, many = Environment(setting("six"), 3), Environment(setting("six"), 9)
    for number in range(1, 50):
        assert (few.awake(number) == many.awake(number)[:3]).all()
        assert (few.rewards(number) == many.rewards(number)[:3]).all()
    alone = run_laboratory(setting("three", UCB[1.0], rounds=300), 4).courses[0]
    together = run_laboratory(setting("three", UCB[10.0], UCB[1.0], rounds=300), 4).courses[1]
    assert (alone.regret == together.regret).all()


def test_workers_wake_as_often_as_they_should_in_every_model() -> None:
    one = setting("six", rounds=1)
    for model in (Waking(), Waking(persistence=0.9), Waking(swing=0.25, period=40)):
        world = Environment(replace(one, availability=model), 200)
        awake = np.array([world.awake(number) for number in range(1, 401)])
        assert awake.mean(axis=(0, 1)) == pytest.approx(one.awake, abs=0.015)
        again = (awake[1:] == awake[:-1]).mean()
        changes = 2 * (one.awake * (1 - one.awake)).mean() * (1 - model.persistence)
        if not model.swing:
            assert again == pytest.approx(1 - changes, abs=0.01)
        else:
            by_day, by_night = awake[:20].mean(), awake[20:40].mean()
            assert by_day / by_night == pytest.approx(1.25 / 0.75, rel=0.05)
            assert awake_phases(replace(one, availability=model)).shape == (2, 6)


def test_batteries_drain_in_steps_and_each_at_its_own_time() -> None:
    one = replace(setting("six"), drift=Batteries(period=100, steps=10, empty=0.5))
    world, rows = Environment(one, 1), reward_phases(one)
    assert rows.shape == (10, 6)
    assert world.means(1)[0] == one.reward[0], "the first one's battery is full"
    assert world.means(100)[0] == pytest.approx(one.reward[0] * 0.55)
    assert (world.means(101) == world.means(1)).all()
    assert len(find_optima(replace(one, fairness=np.zeros(6)))) == 10


def test_an_optimum_of_many_workers_is_estimated_and_says_so() -> None:
    text = "[setting]\nper_round = 2\n[workers]\ncount = 14\nreward = 0.5\nawake = 0.9"
    [best] = find_optima(read_laboratory(Document.parse(text, "a file")))
    assert not best.exact
    assert best.reward == pytest.approx(1.0, abs=0.01)


# -- input --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("setting.per_round", 0, "setting.per_round is 0; it takes a whole number ≥ 1"),
        ("workers.awake", [0.5, 0.5], "workers.awake has 2 values for 3 workers; give 1 or 3"),
        ("workers.reward", 2, "it takes a number from 0 to 1, or a list of such"),
        ("policies.1.eta", 0, "it takes a number > 0, or inf"),
        ("availability.persistence", 1, "it takes a number from 0 to 0.999"),
        ("workers.fairness", 0.9, "have guarantees of 2.700 selections per round and can get"),
    ],
)
def test_bad_input_is_refused_with_its_key_and_what_would_do(
    key: str, value: object, words: str
) -> None:
    document = read_setting("three").replaced(key, value)
    with pytest.raises(BadInput) as refused:
        find_optima(read_laboratory(document))
    assert words in str(refused.value)


def test_unknown_presets_and_sections_are_refused() -> None:
    with pytest.raises(BadInput, match="known: batteries, nights, six, three"):
        read_setting("seven")
    with pytest.raises(BadInput, match="no section 'worker'"):
        read_laboratory(Document.parse("[worker]\na = 1", "a file"))


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_runs(name: str) -> None:
    result = run_laboratory(setting(name, rounds=30), seeds=2)
    assert len(result.courses) == len(result.setting.policies)
    assert result.points[-1] == 30


# -- wrong choices ------------------------------------------------------------------------------


def test_wrong_picks_hurt_more_than_the_tail() -> None:
    found = measure_wrong_choices(errors=(0.0, 0.4), jobs=200, rounds=30)
    none = [one for one in found if one.prediction_error == 0.0]
    assert all(one.mean == one.median == one.percentile_95 == 1.0 for one in none)
    large = [one for one in found if one.prediction_error == 0.4]
    assert all(one.percentile_95 > one.mean > 1.05 and one.median > 1.05 for one in large)
    assert not any(one.only_the_tail for one in large)
    assert judge_wrong_choices(found).startswith("not confirmed")
    assert judge_wrong_choices(none).startswith("no measurable effect")
    tail = dataclasses.replace(large[0], mean=1.0, median=1.0)
    assert judge_wrong_choices([tail]).startswith("confirmed")
