"""FrequencyControl: along the frontier, never dearer than the fastest clock; and replays."""

from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dealfl.errors import BadInput, UnknownName
from dealfl.power import (
    GOVERNORS,
    PHONES,
    BaseLoad,
    EnergyModel,
    FrequencyControl,
    Phone,
    efficient_frontier,
    phone,
    phone_clock,
)
from dealfl.power.frequency import END, FORGET, LEARN, NoLimit
from dealfl_paper.replay import Phase, replay

MHZ = 10**6


class RecordedLimit:
    """A limit that records its frequency and the number of changes."""

    def __init__(self, frequencies_hz: Iterable[int]) -> None:
        self.frequencies_hz = tuple(sorted(set(frequencies_hz)))
        self.frequency_hz = self.frequencies_hz[-1]
        self.changes = 0

    def set(self, frequency_hz: int) -> None:
        self.frequency_hz = frequency_hz
        self.changes += 1

    def release(self) -> None:
        self.set(self.frequencies_hz[-1])


phones = st.sampled_from(list(PHONES.values()))
loads = st.sampled_from(list(BaseLoad))
phases = st.lists(
    st.builds(Phase, st.sampled_from([-1, 0, 1]), st.floats(0, 1e10), st.floats(0, 1)), max_size=40
)


@settings(max_examples=300)
@given(phones, loads, phases)
def test_no_signals_draw_more_charge_than_the_fastest_clock(
    one: Phone, base: BaseLoad, work: list[Phase]
) -> None:
    spent = replay(one, work, phone_clock(one), base)
    fixed = replay(one, work, phone_clock(one, frequency_hz=one.fastest.frequency_hz), base)
    assert spent.charge_uah <= fixed.charge_uah * (1 + 1e-12)
    assert spent.elapsed_s >= fixed.elapsed_s * (1 - 1e-12)


@given(phones, st.lists(st.tuples(st.sampled_from([-1, 0, 1]), loads, st.floats(0, 1e9))))
def test_nor_when_the_base_load_changes_on_the_way(
    one: Phone, steps: list[tuple[int, BaseLoad, float]]
) -> None:
    control, model = FrequencyControl(one), EnergyModel(one)
    for signal, base, cycles in steps:
        control.load(base)
        point = control.signal(signal).point
        assert point in efficient_frontier(one, base)
        spent, fixed = (model.compute(cycles, p, base) for p in (point, one.fastest))
        assert spent.charge_uah <= fixed.charge_uah * (1 + 1e-12)


def test_a_clock_walks_the_frontier_and_stops_at_the_critical_point() -> None:
    limit = RecordedLimit(point.frequency_hz for point in phone("honor").points)
    control = FrequencyControl(phone("honor"), limit)
    walked = [control.signal(s).frequency_hz for s in (1, -1, -1, -1, -1, 1, 1, 1)]
    mhz = [hz // MHZ for hz in walked if hz]
    assert mhz == [1805, 1402, 1402, 1402, 1402, 1805, 1805, 1805]  # 2112 MHz costs 11 % more
    assert limit.changes == 3  # a signal that changes nothing writes nothing


def test_the_end_releases_the_clock() -> None:
    honor = phone("honor")
    limit = RecordedLimit(point.frequency_hz for point in honor.points)
    control = FrequencyControl(honor, limit)
    control.signal(FORGET)
    assert limit.frequency_hz < honor.fastest.frequency_hz
    assert control.signal(END).frequency_hz == honor.fastest.frequency_hz == limit.frequency_hz


def test_where_the_fastest_clock_is_the_cheapest_nothing_moves() -> None:
    control = FrequencyControl(phone("nexus"))
    control.load(BaseLoad.WIFI)
    for _ in range(3):
        assert control.signal(FORGET) == control.signal(LEARN)
        assert control.setting.point == phone("nexus").fastest


def test_a_new_base_load_moves_the_clock_to_the_next_faster_point_that_pays() -> None:
    mi = phone("mi")
    limit = RecordedLimit(point.frequency_hz for point in mi.points)
    control = FrequencyControl(mi, limit)
    while control.setting.point != efficient_frontier(mi)[0]:
        control.signal(FORGET)
    assert control.load(BaseLoad.SCREEN).frequency_hz == 1_440_000_000
    assert limit.frequency_hz == 1_440_000_000
    assert control.load(BaseLoad.AWAKE).frequency_hz == 787_200_000  # the only step


def test_a_clock_that_lacks_the_fastest_points_has_a_frontier_of_its_own() -> None:
    honor = phone("honor")
    limit = RecordedLimit([480 * MHZ, 1402 * MHZ, 1805 * MHZ, 2016 * MHZ])  # 2112 MHz is too hot
    control = FrequencyControl(honor, limit)
    assert control.setting.frequency_hz == 2016 * MHZ
    assert [control.signal(FORGET).frequency_hz for _ in range(3)] == [
        1402 * MHZ, 1402 * MHZ, 1402 * MHZ,
    ]  # fmt: skip


@pytest.mark.parametrize("profile", [None, phone("zte")])
def test_without_a_limit_signals_are_taken_and_nothing_is_claimed(profile: Phone | None) -> None:
    control = FrequencyControl(profile, NoLimit())
    for signal in (LEARN, FORGET, END):
        setting = control.signal(signal)
        assert setting.frequency_hz is None
        assert setting.point is None
    assert control.load(BaseLoad.WIFI).frequency_hz is None


def test_without_a_profile_every_frequency_is_a_step_and_no_charge_is_claimed() -> None:
    limit = RecordedLimit([1 * MHZ, 2 * MHZ, 4 * MHZ])
    control = FrequencyControl(None, limit)
    settings = [control.signal(FORGET) for _ in range(3)]
    assert [setting.frequency_hz for setting in settings] == [2 * MHZ, 1 * MHZ, 1 * MHZ]
    assert all(setting.point is None for setting in settings)


@pytest.mark.parametrize("wrong", [2, -2, 0.5, "learn"])
def test_other_signals_are_refused(wrong: int) -> None:
    control = FrequencyControl(phone("mi"))
    control.signal(FORGET)
    before = control.setting
    with pytest.raises(BadInput, match=r"use \+1 \(learn\), -1 \(forget\) or 0 \(end\)"):
        control.signal(wrong)
    assert control.setting == before


@pytest.mark.parametrize("name", PHONES)
def test_the_governor_performance_costs_what_the_fixed_fastest_clock_does(name: str) -> None:
    one = phone(name)
    work = [Phase(1, 3e8, 0.01), Phase(-1, 2e8, 0.0)]
    spent = replay(one, work, phone_clock(one, "performance"), BaseLoad.SCREEN)
    fixed = replay(
        one, work, phone_clock(one, frequency_hz=one.fastest.frequency_hz), BaseLoad.SCREEN
    )
    assert spent.charge_uah == pytest.approx(fixed.charge_uah)
    assert spent.elapsed_s == pytest.approx(fixed.elapsed_s)


@pytest.mark.parametrize("name", GOVERNORS)
def test_under_any_governor_all_cycles_are_worked_off(name: str) -> None:
    zte = phone("zte")
    work = [Phase(1, 5e7, 0.003)] * 20
    spent = replay(zte, work, phone_clock(zte, name))
    slowest, fastest = (
        replay(zte, work, phone_clock(zte, frequency_hz=p.frequency_hz)).elapsed_s
        for p in (zte.points[0], zte.points[-1])
    )
    assert fastest * (1 - 1e-9) <= spent.elapsed_s <= slowest * (1 + 1e-9)
    waits_s = 20 * 0.003
    busy_s = spent.elapsed_s - waits_s
    assert 1e9 / zte.points[-1].frequency_hz <= busy_s * (1 + 1e-9)
    assert spent.awake_j == pytest.approx(zte.awake_a * spent.elapsed_s * 3.8)


def test_a_long_job_under_interactive_runs_at_the_fastest_clock() -> None:
    nexus, work = phone("nexus"), [Phase(1, 1e10)]
    spent = replay(nexus, work, phone_clock(nexus, "interactive"))
    fixed = replay(nexus, work, phone_clock(nexus, frequency_hz=nexus.fastest.frequency_hz))
    assert spent.elapsed_s - fixed.elapsed_s < 0.04  # two ticks


def test_a_long_wait_lets_a_governor_slow_down_again() -> None:
    zte = phone("zte")
    clock = phone_clock(zte, "ondemand")
    replay(zte, [Phase(1, 1e9)], clock)
    assert clock.point == zte.fastest
    replay(zte, [Phase(1, 1e9, 0.1)], clock)
    assert clock.point == zte.points[0]


def test_a_governor_starts_every_training_from_its_idle_state() -> None:
    zte, work = phone("zte"), [Phase(1, 1e9)]
    clock = phone_clock(zte, "conservative")
    assert replay(zte, work, clock) == replay(zte, work, clock)


def test_a_fixed_frequency_that_two_clusters_have_runs_on_the_cheaper_one() -> None:
    mi = phone("mi")
    assert phone_clock(mi, frequency_hz=1440 * MHZ).point.cluster == 0


def test_a_frequency_that_the_phone_lacks_and_an_unknown_governor_are_named() -> None:
    with pytest.raises(
        BadInput, match=r"honor has no clock frequency of 1400 MHz; it has 480, 807"
    ):
        phone_clock(phone("honor"), frequency_hz=1400 * MHZ)
    with pytest.raises(UnknownName, match=r"no governor called 'turbo'.*deal"):
        phone_clock(phone("honor"), "turbo")
