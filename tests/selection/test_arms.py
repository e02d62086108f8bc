"""A choice is that of a sort, bit for bit, and random numbers by index are sound."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dealfl.exact import round_keys, uniforms, words
from dealfl.server.selection import Arms
from dealfl.server.selection.arms import best_of, spread_growth


def arms_of(
    seed: int, size: int, *, levels: int = 0, eta: float = 10.0, discount: float = 1.0
) -> Arms:
    """Return arms in the middle of a run; few levels make many ties."""
    draw = np.random.default_rng(seed)
    arms = Arms(draw.random(size) * 0.01, eta=eta, discount=discount)
    arms.deficit = draw.random(size) * 3
    arms.since = draw.integers(1, 99, size).astype(np.int32)
    arms.mean, arms.count = draw.random(size), draw.integers(0, 9, size).astype(np.float64)
    if levels:
        arms.deficit = draw.integers(0, levels, size).astype(np.float64)
        arms.mean, arms.rate = np.full(size, 0.5), np.zeros(size)
        arms.count = np.ones(size)
    arms.update_spread(np.arange(size))
    return arms


def chosen(arms: Arms, eligible: np.ndarray, weight: np.ndarray, count: int) -> list[int]:
    return [int(index) for index in arms.choose(100, eligible[None, :], weight, count)]


def by_sorting(arms: Arms, eligible: np.ndarray, weight: np.ndarray, count: int) -> list[int]:
    scores = np.where(eligible, arms.scores(100, weight), -1.0)
    order = sorted(range(len(scores)), key=lambda index: (-scores[index], index))
    return sorted(index for index in order[:count] if eligible[index])


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    size=st.integers(1, 3000),
    count=st.integers(1, 400),
    levels=st.sampled_from([0, 1, 3]),
    discount=st.sampled_from([1.0, 0.9, 0.999]),
    eta=st.sampled_from([0.1, 10.0, math.inf]),
)
def test_a_choice_and_a_sort_choose_the_same(
    seed: int, size: int, count: int, levels: int, discount: float, eta: float
) -> None:
    arms = arms_of(seed, size, levels=levels, discount=discount, eta=eta)
    draw = np.random.default_rng(seed + 1)
    eligible, weight = draw.random(size) < 0.6, np.ceil(draw.random(size) * 4) / 4
    expected = by_sorting(arms, eligible, weight, count)
    assert chosen(arms, eligible, weight, count) == expected


@pytest.mark.parametrize("games", [2, 3])
def test_games_that_are_played_together_are_those_that_are_played_alone(games: int) -> None:
    arms = arms_of(5, 40 * games)
    draw = np.random.default_rng(6)
    eligible, weight = draw.random((games, 40)) < 0.6, np.ones(40 * games)
    alone = [
        by_sorting(arms, np.isin(np.arange(40 * games) // 40, game) & eligible.ravel(), weight, 4)
        for game in range(games)
    ]
    assert arms.choose(100, eligible, weight, 4).tolist() == [arm for one in alone for arm in one]


@pytest.mark.parametrize("levels", [0, 2])
def test_a_choice_over_many_blocks_and_ascending_scores_is_that_of_a_partition(levels: int) -> None:
    arms = arms_of(3, 200_000, levels=levels)
    weight = np.ones(len(arms))
    eligible = np.random.default_rng(3).random(len(arms)) < 0.7
    for deficit in (arms.deficit, np.sort(arms.deficit)):
        arms.deficit = deficit
        for count in (1, 1000):
            scores = np.where(eligible, arms.scores(100, weight), -1.0)
            assert chosen(arms, eligible, weight, count) == best_of(scores[None, :], count).tolist()


@pytest.mark.parametrize("discount", [1.0, 0.999])
def test_scores_that_differ_in_their_last_bits_are_ranked_alike(discount: float) -> None:
    """All scores are 0.7 on paper: only how each operation rounds makes them differ."""
    arms = Arms(np.full(5000, 0.001), eta=1.0, discount=discount, exploration=0.001)
    draw = np.random.default_rng(8)
    arms.count = draw.integers(2, 9, 5000).astype(np.float64)
    arms.since = draw.integers(1, 99, 5000).astype(np.int32)
    arms.update_spread(np.arange(5000))
    arms.mean, weight = np.zeros(5000), np.ones(5000)
    arms.mean = 0.7 - arms.scores(100, weight)
    eligible = np.ones(5000, np.bool_)
    assert 2 < len(np.unique(arms.scores(100, weight))) < 50
    for count in (10, 500, 2500):
        expected = by_sorting(arms, eligible, weight, count)
        assert chosen(arms, eligible, weight, count) == expected


def test_aged_estimates_are_those_of_counting_down_each_round() -> None:
    arms = Arms(np.zeros(2), eta=1.0, discount=0.9)
    arms.pick(1, np.array([0]))
    arms.learn(np.array([0]), np.array([0.25]))
    tries, gained = 1.0, 0.25
    for number in range(2, 12):
        heard = (1 - 0.9**number) / (1 - 0.9)
        bound = gained / tries + math.sqrt(1.5 * math.log(heard) / tries)
        assert arms.scores(number, np.ones(2))[0] == pytest.approx(min(bound, 1.0))
        if number % 5 == 0:
            arms.pick(number, np.array([0]))
            tries, gained = 0.9 * tries, 0.9 * gained
            arms.learn(np.array([0]), np.array([0.5]))
            tries, gained = tries + 1, gained + 0.5
            assert arms.mean[0] == pytest.approx(gained / tries)
        else:
            tries, gained = 0.9 * tries, 0.9 * gained


# -- random numbers by place --------------------------------------------------------------------

ARMS = np.arange(1 << 16, dtype=np.uint64)


def test_random_numbers_are_uniform_in_every_bit() -> None:
    bits = np.unpackbits(words(round_keys(1, 1), ARMS).view(np.uint8)).reshape(-1, 64)
    errors = (bits.mean(axis=0) - 0.5) / (0.5 / math.sqrt(len(ARMS)))
    assert abs(errors).max() < 4.5
    flips = words(round_keys(1, 1), ARMS) ^ words(round_keys(1, 1), ARMS ^ np.uint64(1))
    assert abs(np.bitwise_count(flips).mean() - 32) < 0.1, "a neighbour shares half its bits"


@pytest.mark.parametrize("other", [(1, 2), (2, 1), (1, 1 << 20), (0, 1)])
def test_no_round_is_a_shifted_copy_of_another(other: tuple[int, int]) -> None:
    """Correlate two rounds at every shift, forwards and backwards."""
    first = uniforms(round_keys(1, 1), ARMS) - 0.5
    second = uniforms(round_keys(*other), ARMS) - 0.5
    for turned in (second, second[::-1]):
        spectrum = np.fft.rfft(first) * np.conj(np.fft.rfft(turned))
        correlation = np.fft.irfft(spectrum) / (len(ARMS) / 12)
        assert abs(correlation).max() * math.sqrt(len(ARMS)) < 6.0


def test_the_test_for_shifted_copies_finds_one() -> None:
    first = uniforms(round_keys(1, 1), ARMS) - 0.5
    shifted = uniforms(round_keys(1, 1), ARMS + np.uint64(77)) - 0.5
    correlation = np.fft.irfft(np.fft.rfft(first) * np.conj(np.fft.rfft(shifted)))
    assert abs(correlation).max() / (len(ARMS) / 12) > 0.9


def test_rounds_seeds_and_purposes_are_independent_for_one_arm() -> None:
    """An arm's numbers over rounds are uniform, and so are pairs of them."""
    one = np.array([5], dtype=np.uint64)
    series = np.array([uniforms(round_keys(3, number), one)[0] for number in range(20_000)])
    cells = np.floor(series * 16).astype(int)
    pairs = np.bincount(cells[:-1] * 16 + cells[1:], minlength=256)
    expected = (len(series) - 1) / 256
    surprise = ((pairs - expected) ** 2 / expected).sum()
    assert abs(surprise - 255) < 5 * math.sqrt(2 * 255)
    assert round_keys(3, 1, purpose=1) != round_keys(3, 1, purpose=2)


@pytest.mark.parametrize("discount", [1.0, 0.9])
def test_queues_that_were_brought_forward_grow_from_there_as_before(discount: float) -> None:
    rates = np.array([0.1, 0.4, 0.0])
    plain, forward = (Arms(rates, eta=1.0, discount=discount) for _ in range(2))
    for one in (plain, forward):
        one.pick(3, np.array([1]))
        one.learn(np.array([1]), np.array([0.5]))
    for round_number in (5, 9):
        forward.bring_forward(round_number)
        assert forward.queues(20) == pytest.approx(plain.queues(20))
        weight = np.ones(3)
        assert forward.scores(20, weight) == pytest.approx(plain.scores(20, weight))


@pytest.mark.parametrize("discount", [1.0, 0.9])
def test_the_first_round_has_no_bonus_for_exploration_and_no_place_goes_to_nobody(
    discount: float,
) -> None:
    arms = Arms(np.zeros(2), eta=1.0, discount=discount)
    arms.learn(np.array([0]), np.array([0.25]))
    arms.since[:] = 1
    assert arms.scores(1, np.ones(2)).tolist() == [0.25, 1.0]
    assert arms.choose(1, np.ones((1, 2), dtype=bool), np.ones(2), 0).tolist() == []


def test_a_spread_grows_until_it_is_beyond_any_reward() -> None:
    growth = spread_growth(0.5)
    assert growth[0] == 1.0
    assert growth[-1] >= 1e8 > growth[-2]


def test_a_spread_that_does_not_grow_has_one_factor() -> None:
    assert spread_growth(1.0).tolist() == [1.0]
