"""Governors, step by step, against what the kernel's sources say they do."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dealfl.errors import BadInput, UnknownName
from dealfl.power import GOVERNORS, PHONES, governor
from dealfl.power.frequency import Frequencies
from dealfl.power.governors import (
    NEXUS_6,
    Conservative,
    Governor,
    Interactive,
    InteractiveTunables,
    Ondemand,
    Schedutil,
    Steps,
)

MHZ = 10**6
TENTHS = Frequencies(range(100 * MHZ, 1001 * MHZ, 100 * MHZ))  # 100, 200 … 1000 MHz
NEXUS = Frequencies(point.frequency_hz for point in PHONES["nexus"].points)


def walk(made: Governor, loads: list[float]) -> list[int]:
    """Return the MHz chosen when each load lasts until the next step."""
    now_s, chosen = 0.0, []
    for load in loads:
        now_s += made.wait_s
        chosen.append(made.step(load, now_s) // MHZ)
    return chosen


def test_the_error_of_an_unknown_governor_lists_the_known_governors() -> None:
    with pytest.raises(UnknownName, match="no governor called 'turbo'; known: conservative"):
        governor("turbo", [1])


@pytest.mark.parametrize("wrong", [[], [0, 1], [-5]])
def test_a_clock_without_frequencies_is_refused(wrong: list[int]) -> None:
    with pytest.raises(BadInput, match="at least one, each above 0 Hz"):
        governor("ondemand", wrong)


@given(st.sets(st.integers(1, 50), min_size=1), st.floats(-5, 60))
def test_frequencies_are_found_as_the_kernel_does(table: set[int], wanted: float) -> None:
    frequencies = Frequencies(table)
    above = [one for one in table if one >= wanted]
    below = [one for one in table if one <= wanted]
    assert frequencies.at_least(wanted) == (min(above) if above else max(table))
    assert frequencies.at_most(wanted) == (max(below) if below else min(table))


@given(
    st.sampled_from(sorted(GOVERNORS)),
    st.sampled_from(sorted(PHONES)),
    st.lists(st.floats(0, 1), max_size=60),
)
def test_every_governor_chooses_what_the_clock_has_and_the_same_again(
    name: str, phone: str, loads: list[float]
) -> None:
    frequencies = [point.frequency_hz for point in PHONES[phone].clusters[-1].points]
    first, second = governor(name, frequencies), governor(name, frequencies)
    now_s = 0.0
    for load in loads:
        now_s += min(first.wait_s, 1.0)
        assert first.step(load, now_s) == second.step(load, now_s) == first.frequency_hz
        assert first.frequency_hz in frequencies
        assert first.wait_s > 0


@pytest.mark.parametrize("name", sorted(set(GOVERNORS) - {"powersave"}))
def test_a_busy_thread_gets_the_fastest_clock_and_an_idle_one_loses_it(name: str) -> None:
    made = governor(name, NEXUS)
    assert walk(made, [1.0] * 200)[-1] == 2649
    if name != "performance":
        assert walk_on(made, [0.0] * 200)[-1] == 300


def walk_on(made: Governor, loads: list[float], start_s: float = 100.0) -> list[int]:
    return [made.step(load, start_s + i * made.wait_s) // MHZ for i, load in enumerate(loads)]


def test_performance_and_powersave_do_not_look_at_the_load() -> None:
    assert walk(governor("performance", TENTHS), [0.0, 1.0]) == [1000, 1000]
    assert walk(governor("powersave", TENTHS), [0.0, 1.0]) == [100, 100]


def test_ondemand_jumps_to_the_top_above_its_threshold_else_follows_in_proportion() -> None:
    made = Ondemand(TENTHS)
    assert walk(made, [0.96, 0.95, 0.51, 0.5, 0.0]) == [1000, 1000, 600, 500, 100]


def test_conservative_asks_for_a_twentieth_more_or_less() -> None:
    made = Conservative(TENTHS)
    # 150 MHz is asked for and 100 is the highest below; on the way down the lowest above
    assert walk(made, [0.9, 0.9, 0.9, 0.9, 0.5, 0.1, 0.1, 0.1]) == [
        100, 200, 200, 300, 300, 300, 200, 200,
    ]  # fmt: skip


def test_conservative_thresholds_are_exclusive() -> None:
    made = Conservative(TENTHS)
    assert walk(made, [1.0] * 4 + [0.8] * 4 + [0.2] * 4)[-1] == 300


def test_interactive_by_default_is_at_the_top_after_one_busy_tick() -> None:
    assert walk(Interactive(TENTHS), [1.0, 1.0]) == [1000, 1000]


def test_interactive_chooses_the_lowest_frequency_within_its_target_load() -> None:
    made = Interactive(TENTHS)
    walk(made, [1.0])
    # 0.45 × 1000 MHz are used: 500 MHz would be busy to 0.9, after min_sample_time
    assert walk_on(made, [0.45] * 2) == [500, 500]


def test_interactive_does_not_fall_below_its_floor_before_min_sample_time() -> None:
    made = Interactive(TENTHS)
    made.step(1.0, 0.0)
    assert made.step(0.1, 0.06) == 1000 * MHZ
    assert made.step(0.1, 0.08) == 200 * MHZ


def test_interactive_rises_above_hispeed_only_after_the_delay() -> None:
    tunables = InteractiveTunables(
        hispeed_hz=500 * MHZ, above_hispeed_delay_s=Steps.parse("50000", unit=1e-6)
    )
    made = Interactive(TENTHS, tunables)
    assert made.step(1.0, 0.02) == 500 * MHZ
    assert made.step(1.0, 0.04) == 500 * MHZ
    assert made.step(1.0, 0.06) == 500 * MHZ
    assert made.step(1.0, 0.08) == 600 * MHZ  # 500 / 0.9


def test_interactive_below_hispeed_load_may_still_pass_hispeed() -> None:
    made = Interactive(TENTHS, InteractiveTunables(hispeed_hz=200 * MHZ))
    made.step(0.98, 0.02)
    assert made.frequency_hz == 200 * MHZ


def test_interactive_stays_at_the_top_for_its_hysteresis() -> None:
    tunables = InteractiveTunables(min_sample_time_s=0.0, max_freq_hysteresis_s=0.1)
    made = Interactive(TENTHS, tunables)
    made.step(1.0, 0.0)
    assert made.step(0.0, 0.09) == 1000 * MHZ
    assert made.step(0.0, 0.11) == 100 * MHZ


def test_the_nexus_6_goes_to_its_hispeed_then_up_after_80_ms() -> None:
    made = Interactive(NEXUS, NEXUS_6)
    chosen = walk(made, [1.0] * 9)
    assert chosen == [1190] * 4 + [1497] * 4 + [1958]  # each of them the last / 0.85


def test_the_nexus_6_values_are_those_it_shipped_with() -> None:
    assert NEXUS_6.target_loads.at(960_000_000) == pytest.approx(0.08)
    assert NEXUS_6.target_loads.at(959_999_999) == pytest.approx(0.83)
    assert NEXUS_6.target_loads.at(0) == pytest.approx(0.95)
    assert NEXUS_6.above_hispeed_delay_s.at(2_649_600_000) == pytest.approx(0.1)
    assert (NEXUS_6.min_sample_time_s, NEXUS_6.max_freq_hysteresis_s) == (0.06, 0.08)


@given(st.floats(0, 1), st.sampled_from(NEXUS))
def test_choosing_ends_although_the_targets_of_the_nexus_6_jump(load: float, start: int) -> None:
    made = Interactive(NEXUS, NEXUS_6)
    made.frequency_hz = start
    chosen = made.frequency_for(load)
    used = load * start
    slower = NEXUS.at_most(chosen - 1)
    # enough at the chosen one, or nothing would be; and the next slower one is not enough
    assert used / chosen <= NEXUS_6.target_loads.at(chosen) + 1e-6 or chosen in _forced(used)
    if slower < chosen:
        assert used / slower > NEXUS_6.target_loads.at(slower) - 1e-6 or chosen in _forced(used)


def test_a_frequency_known_to_do_is_kept_when_the_next_slower_is_known_to_be_too_low() -> None:
    tunables = InteractiveTunables(target_loads=Steps.parse("50 200000:90", unit=0.01))
    made = Interactive(Frequencies([100 * MHZ, 200 * MHZ]), tunables)
    made.frequency_hz = 200 * MHZ
    # at 200 MHz the target would let 100 do; at 100 MHz the target asks for 200 again
    assert made.frequency_for(0.4) == 200 * MHZ


def _forced(used: float) -> set[int]:
    """Return the frequencies that some known frequency's target load asks for."""
    return {NEXUS.at_least(int(used / NEXUS_6.target_loads.at(hz))) for hz in NEXUS} | {
        NEXUS.at_least(hz + 1) for hz in NEXUS
    }


def test_schedutil_gives_a_quarter_more_than_what_was_used() -> None:
    made = Schedutil(TENTHS)
    walk(made, [1.0] * 500)
    # half of 1000 MHz is used in the long run: 625 MHz are asked for
    now_s = 10.0
    for _ in range(2000):
        now_s += made.wait_s
        made.step(min(500 * MHZ / made.frequency_hz, 1.0), now_s)
    assert made.frequency_hz == 700 * MHZ


def test_schedutil_forgets_half_in_32_ms() -> None:
    made = Schedutil(TENTHS)
    made.frequency_hz = 1000 * MHZ
    made.step(1.0, 0.032)
    assert made.frequency_hz == 700 * MHZ  # 1.25 × 0.5


def test_schedutil_does_not_change_twice_within_its_rate_limit() -> None:
    made = Schedutil(TENTHS)
    made.frequency_hz = 1000 * MHZ
    first = made.step(1.0, 0.02)
    assert first == 500 * MHZ  # 1.25 × 0.35
    assert made.step(0.0, 0.0205) == first
    assert made.step(0.0, 0.1) < first
