"""Every policy does what a slow reading of its definition does, and none beats the optimum."""

from collections.abc import Callable
from decimal import Decimal
from functools import cache, partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dealfl.errors import BadInput
from dealfl.storage import Arc, BudgetedThetaLru, Lru, Policy, ThetaLru
from dealfl.storage.memory import DEFERRED, HIT
from dealfl_paper.paging import belady, count_swaps
from tests.learners.test_interrupts import interrupted

Rounds = list[list[int]]
POLICIES: dict[str, Callable[[int], Policy]] = {
    "LRU": Lru,
    "θ-LRU": ThetaLru,
    "θ-LRU .8": partial(ThetaLru, theta=0.8),
    "θ-LRU 0": partial(ThetaLru, theta=0.0),
    "budgeted": partial(BudgetedThetaLru, theta=0.5),
    "ARC": Arc,
}
every_policy = pytest.mark.parametrize("make", POLICIES.values(), ids=list(POLICIES))
some_rounds = st.lists(st.lists(st.integers(0, 9), max_size=30), max_size=5)
some_frames = st.integers(1, 6)
a_theta = st.sampled_from([0.0, 0.1, 0.3, 0.5, 0.8, 1.0])


class NaiveThetaLru:
    """The definition, with lists and nothing kept up to date; θ = 0 or 1 is plain LRU."""

    def __init__(self, frames: int, theta: float) -> None:
        share = int(Decimal(str(theta)) * frames)
        self.frames, self.may_leave = frames, max(1, share) if theta else frames
        self.window = -(-self.may_leave // 4) if theta else 1
        self.changed: set[int] = set()
        self.resident: list[int] = []
        self.protected: set[int] = set()
        self.counts = dict.fromkeys(range(10), 0.0)

    def touch(self, page: int) -> int | None:
        self.counts[page] += 1
        victim = None
        if page in self.resident:
            self.resident.remove(page)
        elif len(self.resident) == self.frames:
            if len(self.protected) < self.frames - self.may_leave:
                self.choose()
            others = [p for p in self.resident if p not in self.protected]
            clean = [p for p in others[: self.window] if p not in self.changed]
            victim = [*clean, *others][0]
            self.resident.remove(victim)
        self.resident.append(page)
        return victim

    def choose(self) -> None:
        ranked = sorted(
            self.resident, key=lambda p: (self.counts[p], self.resident.index(p)), reverse=True
        )
        self.protected = set(ranked[: self.frames - self.may_leave])

    def new_round(self) -> None:
        self.choose()
        for page in self.counts:
            self.counts[page] *= 0.875
            if self.counts[page] < 2.0**-6 and page not in self.resident:
                self.counts[page] = 0.0


@given(some_rounds, st.integers(1, 12), a_theta, st.sets(st.integers(0, 9)))
def test_theta_lru_is_its_definition(
    rounds: Rounds, frames: int, theta: float, changing: set[int]
) -> None:
    policy, naive = ThetaLru(frames, theta), NaiveThetaLru(frames, theta)
    for trace in rounds:
        policy.new_round()
        naive.new_round()
        for page in trace:
            victim = naive.touch(page)
            assert policy.touch(page).victim == victim
            assert {p for p in range(10) if p in policy} == set(naive.resident)
            assert [p for p in naive.resident if p not in naive.protected] == list(policy.leaving())
            if page in changing:
                naive.changed.add(page)
                policy.note(page, changed=True)
            if victim in naive.changed:
                naive.changed.remove(victim)
                policy.note(victim, changed=False)


@given(some_rounds, some_frames)
def test_theta_zero_and_one_are_plain_lru(rounds: Rounds, frames: int) -> None:
    policies: list[Policy] = [Lru(frames), ThetaLru(frames, 0.0), ThetaLru(frames, 1.0)]
    policies.append(BudgetedThetaLru(frames, 0.0))
    for trace in rounds:
        for policy in policies:
            policy.new_round()
        for page in trace:
            naive, *others = [policy.touch(page) for policy in policies]
            assert all(touch == naive for touch in others)


@given(some_rounds, some_frames)
def test_lru_is_its_definition(rounds: Rounds, frames: int) -> None:
    policy, used = Lru(frames), list[int]()
    for page in (page for trace in rounds for page in trace):
        recent = list(dict.fromkeys(reversed(used)))[:frames]
        expected = recent[-1] if page not in recent and len(recent) == frames else None
        assert policy.touch(page).victim == expected
        used.append(page)


@given(some_rounds, some_frames, a_theta)
def test_a_budget_is_kept_and_names_what_must_wait(
    rounds: Rounds, frames: int, theta: float
) -> None:
    policy = BudgetedThetaLru(frames, theta)
    for trace in rounds:
        policy.new_round()
        replaced = 0
        for page in trace:
            before = {p for p in range(10) if p in policy}
            touch = policy.touch(page)
            replaced += touch.victim is not None
            spent = replaced == max(1, int(Decimal(str(theta)) * frames))
            absent = page not in before and len(before) == frames
            if touch.deferred:
                assert absent
                assert spent
                assert {p for p in range(10) if p in policy} == before
            else:
                assert page in policy
        if theta:
            assert replaced <= max(1, int(Decimal(str(theta)) * frames))


@every_policy
@given(rounds=some_rounds, frames=some_frames)
def test_a_page_that_was_touched_is_resident_and_frames_are_enough(
    make: Callable[[int], Policy], rounds: Rounds, frames: int
) -> None:
    policy = make(frames)
    resident: set[int] = set()
    for trace in rounds:
        policy.new_round()
        for page in trace:
            touch = policy.touch(page)
            assert touch.loads == (page not in resident and not touch.deferred)
            if touch.loads:
                assert touch.victim is None or touch.victim in resident
                resident = (resident - {touch.victim}) | {page}
            assert resident == {p for p in range(10) if p in policy}
            assert len(resident) <= frames


@every_policy
@given(trace=st.lists(st.integers(0, 5), min_size=8, max_size=30), place=st.integers(0, 7))
def test_pages_can_be_touched_after_an_interrupt(
    make: Callable[[int], Policy], trace: list[int], place: int
) -> None:
    line, goes_on = 1, True
    while goes_on:
        policy = make(2)
        for number, page in enumerate(trace):
            touch = partial(policy.touch, page)
            if number == place:
                goes_on = interrupted(touch, line, KeyboardInterrupt) is not None
            assert touch().deferred or page in policy
            assert sum(page in policy for page in range(6)) <= 2
        line += 1


def test_only_the_share_of_theta_ever_leaves_in_a_round() -> None:
    policy = ThetaLru(frames=10, theta=0.29)
    for page in [*range(10), *range(10)]:
        policy.touch(page)
    policy.new_round()
    victims = [policy.touch(page).victim for page in range(100, 140)]
    assert {page for page in victims if page is not None and page < 10} == {0, 1}
    assert all(page in policy for page in range(2, 10))


def test_a_scan_does_not_drive_out_what_is_used_often() -> None:
    rounds = [[*[1, 2, 3] * 3, *range(100, 120)]] * 6
    assert sum(count_swaps(ThetaLru(5, 0.4), rounds)) < sum(count_swaps(Lru(5), rounds))


def test_what_was_popular_long_ago_gives_way() -> None:
    policy = ThetaLru(frames=4, theta=0.25)
    for _ in range(50):
        policy.touch(1)
    for _ in range(30):
        for page in (2, 3, 4, 2, 3, 4):
            policy.touch(page)
        policy.new_round()
    policy.touch(5)
    policy.touch(6)
    assert 1 not in policy
    assert all(page in policy for page in (2, 3, 4))


ARC_BY_HAND = [  # page, victim, T1, T2, B1, B2, p: three frames, worked on paper
    (1, None, [1], [], [], [], 0),
    (2, None, [1, 2], [], [], [], 0),
    (1, None, [2], [1], [], [], 0),
    (3, None, [2, 3], [1], [], [], 0),
    (4, 2, [3, 4], [1], [2], [], 0),  # T1 is above its target of 0
    (2, 3, [4], [1, 2], [3], [], 1),  # left too early: T1 should be larger
    (5, 1, [4, 5], [2], [3], [1], 1),  # T1 is not above its target: T2 gives
    (1, 4, [5], [2, 1], [3, 4], [], 0),  # the other way round
    (6, 5, [6], [2, 1], [4, 5], [], 0),  # L1 was full: its oldest ghost 3 is gone
    (4, 2, [6], [1, 4], [5], [2], 1),
    (5, 1, [6], [4, 5], [], [2, 1], 2),
    (7, 4, [6, 7], [5], [], [2, 1, 4], 2),
    (2, 6, [7], [5, 2], [6], [1, 4], 1),
    (6, 5, [7], [2, 6], [], [1, 4, 5], 3),  # two ghosts of T2 to one of T1: a step of 2
    (1, 2, [7], [6, 1], [], [4, 5, 2], 2),
    (4, 7, [], [6, 1, 4], [7], [5, 2], 1),  # T1 is at its target, and a ghost of T2 came: T1 gives
]


def test_arc_does_what_was_worked_out_by_hand() -> None:
    policy = Arc(frames=3)
    for page, victim, *expected in ARC_BY_HAND:
        assert policy.touch(page).victim == victim, f"touching {page}"
        lists = (policy.once, policy.again, policy.once_left, policy.again_left)
        assert [*map(list, lists), policy.once_target] == expected, f"after touching {page}"


@given(st.lists(st.integers(0, 12), max_size=200), some_frames)
def test_arc_keeps_the_invariants_of_its_paper(trace: list[int], frames: int) -> None:
    policy = Arc(frames)
    for page in trace:
        policy.touch(page)
        once, again = len(policy.once), len(policy.again)
        once_left, again_left = len(policy.once_left), len(policy.again_left)
        assert once + once_left <= frames
        assert once + again + once_left + again_left <= 2 * frames
        assert 0 <= policy.once_target <= frames
        if once_left + again_left:
            assert once + again == frames


def _fewest(trace: tuple[int, ...], frames: int) -> int:
    """Try every victim."""

    @cache
    def fewest(place: int, resident: frozenset[int]) -> int:
        if place == len(trace):
            return 0
        page = trace[place]
        if page in resident:
            return fewest(place + 1, resident)
        if len(resident) < frames:
            return 1 + fewest(place + 1, resident | {page})
        return 1 + min(fewest(place + 1, resident - {p} | {page}) for p in resident)

    return fewest(0, frozenset())


@given(st.lists(st.integers(0, 5), max_size=14), st.integers(1, 4))
def test_belady_is_the_best_of_all_choices(trace: list[int], frames: int) -> None:
    assert sum(belady(trace, frames)) == _fewest(tuple(trace), frames)


@every_policy
@given(rounds=some_rounds, frames=some_frames)
def test_no_policy_that_defers_nothing_beats_belady(
    make: Callable[[int], Policy], rounds: Rounds, frames: int
) -> None:
    policy = make(frames)
    if not isinstance(policy, BudgetedThetaLru):
        trace = [page for part in rounds for page in part]
        assert sum(count_swaps(policy, rounds)) >= sum(belady(trace, frames))


@every_policy
def test_no_frames_are_refused(make: Callable[[int], Policy]) -> None:
    with pytest.raises(BadInput, match="frames is 0; it must be a whole number ≥ 1"):
        make(0)


@pytest.mark.parametrize("theta", [-0.1, 1.1, float("nan")])
def test_a_theta_that_is_no_fraction_is_refused(theta: float) -> None:
    for policy in (ThetaLru, BudgetedThetaLru):
        with pytest.raises(BadInput, match="it must be a fraction from 0 to 1"):
            policy(3, theta)


def test_touches_that_change_nothing_are_distinguished() -> None:
    policy = BudgetedThetaLru(1, 1.0)
    assert [policy.touch(page) for page in (1, 1)][1] == HIT
    assert [policy.touch(page) for page in (2, 3)][1] == DEFERRED
