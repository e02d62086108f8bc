"""The energy model: on paper, against the published optimum, and adding up."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dealfl.power import (
    PHONES,
    BaseLoad,
    Energy,
    EnergyModel,
    OperatingPoint,
    Phone,
    charge_per_cycle_c,
    efficient_frontier,
    phone,
)

BASE_LOADS = (BaseLoad.AWAKE, BaseLoad.WIFI, BaseLoad.SCREEN)
UAH_PER_GCYCLE = 1e9 / 3.6e-3

# the cheapest operating point: kHz, µAh for 10⁹ cycles, and % saved against the fastest
PUBLISHED = {
    "honor": ((1402000, 16.86, 9.7), (2112000, 35.50, 0.0), (2112000, 33.66, 0.0)),
    "lenovo": ((819000, 40.33, 11.6), (1040000, 84.59, 0.0), (1040000, 66.96, 0.0)),
    "zte": ((800000, 26.70, 44.3), (800000, 72.19, 11.1), (800000, 48.58, 24.0)),
    "mi": ((787200, 19.60, 72.1), (1440000, 57.15, 40.8), (1440000, 41.49, 50.7)),
    "nexus": ((883200, 38.69, 12.6), (2649600, 49.48, 0.0), (2649600, 62.06, 0.0)),
}


@pytest.mark.parametrize("name", PUBLISHED)
@pytest.mark.parametrize("index", range(3))
def test_the_cheapest_point_is_the_published_one(name: str, index: int) -> None:
    one, base = phone(name), BASE_LOADS[index]
    khz, uah, percent = PUBLISHED[name][index]
    point = efficient_frontier(one, base)[0]
    assert point.frequency_hz == khz * 1000
    charge_c = charge_per_cycle_c(one, point, base)
    saved = 1 - charge_c / charge_per_cycle_c(one, one.fastest, base)
    assert charge_c * UAH_PER_GCYCLE == pytest.approx(uah, abs=0.01)
    assert 100 * saved == pytest.approx(percent, abs=0.1)


def test_the_cheapest_point_of_the_mi_is_on_its_little_cores() -> None:
    mi = phone("mi")
    assert mi.clusters[efficient_frontier(mi)[0].cluster].name == "A53"
    assert mi.clusters[mi.fastest.cluster].name == "A57"


def test_on_the_honor_2016_mhz_costs_more_than_2112() -> None:
    honor = phone("honor")
    big = {point.frequency_hz // 10**6: point for point in honor.clusters[1].points}
    assert charge_per_cycle_c(honor, big[2016]) > charge_per_cycle_c(honor, big[2112])
    assert big[2016] not in efficient_frontier(honor)


@pytest.mark.parametrize("one", PHONES.values(), ids=lambda one: one.name)
@pytest.mark.parametrize("base", BaseLoad)
def test_the_frontier_is_what_nothing_as_fast_undercuts(one: Phone, base: BaseLoad) -> None:
    cost = {point: charge_per_cycle_c(one, point, base) for point in one.points}

    def beaten(point: OperatingPoint) -> bool:
        as_fast = (p for p in cost if p.frequency_hz >= point.frequency_hz and p != point)
        return any(cost[other] <= cost[point] for other in as_fast)

    frontier = efficient_frontier(one, base)
    assert set(frontier) == {point for point in cost if not beaten(point)}
    assert frontier[-1] == one.fastest
    costs = [cost[point] for point in frontier]
    speeds = [point.frequency_hz for point in frontier]
    assert costs == sorted(costs)
    assert costs[0] == min(cost.values())
    assert speeds == sorted(set(speeds))


def test_equally_fast_points_of_two_clusters_leave_the_cheaper_one() -> None:
    frontier = efficient_frontier(phone("mi"), BaseLoad.SCREEN)
    (at_1440,) = [p for p in frontier if p.frequency_hz == 1_440_000_000]
    assert at_1440.cluster == 0


def test_a_second_at_the_fastest_clock_costs_what_paper_and_pencil_say() -> None:
    honor = phone("honor")
    spent = EnergyModel(honor).compute(2_112_000_000, honor.fastest)
    assert spent.elapsed_s == 1.0
    assert spent.cpu_j == pytest.approx((0.0912 + 0.00775) * 3.82)
    assert spent.awake_j == pytest.approx(0.043 * 3.82)
    assert spent.charge_uah == pytest.approx((91.2 + 7.75 + 43) / 3.6)
    assert spent.charge_uah == pytest.approx(spent.total_j / (3.82 * 0.0036))
    assert spent.source == "modelled"


def test_operations_become_cycles_by_the_declared_factor() -> None:
    assert EnergyModel(phone("zte")).cycles(1000, 2.5) == 1000 * 2.5 * 4.0


def test_base_loads_are_charged_to_their_causes() -> None:
    mi = phone("mi")
    spent = EnergyModel(mi).compute(mi.fastest.frequency_hz, mi.fastest, BaseLoad.BOTH)
    assert spent.radio_active_j == pytest.approx(0.17299 * 3.84)
    assert spent.screen_j == pytest.approx(0.09182 * 3.84)
    assert spent.radio_tail_j == 0.0


def test_swapped_pages_cost_storage_and_time_awake() -> None:
    zte = phone("zte")
    spent = EnergyModel(zte).compute(0, zte.fastest, pages_in=1000, pages_out=500)
    seconds = 1000 * zte.storage.page_read_s + 500 * zte.storage.page_write_s
    assert spent.elapsed_s == pytest.approx(seconds)
    assert spent.storage_j == pytest.approx(zte.storage.active_a * seconds * 3.8)
    assert spent.awake_j == pytest.approx(zte.awake_a * seconds * 3.8)
    assert spent.cpu_j == 0.0


def test_waiting_costs_the_base_load_and_nothing_else() -> None:
    honor = phone("honor")
    assert EnergyModel(honor).wait(2.0).charge_uah == pytest.approx(2 * 43 / 3.6)


amounts = st.floats(0, 1e6, allow_nan=False)
energies = st.builds(Energy, *[amounts] * 8)


@given(energies, energies)
def test_breakdowns_add_up_cause_by_cause(a: Energy, b: Energy) -> None:
    total = a + b
    assert total.total_j == pytest.approx(math.fsum(total.by_cause_j.values()))
    assert total.total_j == pytest.approx(a.total_j + b.total_j)
    assert total.charge_uah == a.charge_uah + b.charge_uah
    assert total.elapsed_s == a.elapsed_s + b.elapsed_s
    assert total == b + a
    assert total.source == "modelled"
    assert set(total.by_cause_j) == {
        "cpu", "awake", "radio_active", "radio_tail", "screen", "storage",
    }  # fmt: skip


@given(
    st.sampled_from(list(PHONES.values())),
    st.sampled_from(list(BaseLoad)),
    st.floats(0, 1e12),
    st.data(),
)
def test_compute_costs_charge_per_cycle_times_cycles(
    one: Phone, base: BaseLoad, cycles: float, data: st.DataObject
) -> None:
    point = data.draw(st.sampled_from(one.points))
    spent = EnergyModel(one).compute(cycles, point, base)
    expected_c = cycles * charge_per_cycle_c(one, point, base)
    assert spent.charge_uah == pytest.approx(expected_c / 3.6e-3)
    assert spent.total_j == pytest.approx(expected_c * one.battery.voltage_v)
