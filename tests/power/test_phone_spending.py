"""What trainings cost a phone: by cause, and never more than at the fixed fastest clock."""

import random
from dataclasses import replace

import pytest

from dealfl.learners import LEARNERS, Cycles, LearnerCycles, cycles_of
from dealfl.power import (
    PHONES,
    BaseLoad,
    PhoneSpending,
    Spent,
    Training,
    efficient_frontier,
    phone_clock,
)

PLAIN = LearnerCycles(Cycles(2.0), Cycles(10.0))
HONOR = PHONES["honor"]


def spent(training: Training, base: BaseLoad = BaseLoad.AWAKE) -> Spent:
    return PhoneSpending(HONOR, PLAIN, base).of(training)


@pytest.mark.parametrize("base", BaseLoad)
@pytest.mark.parametrize("name", PHONES)
def test_control_never_costs_charge_whatever_is_learned_and_forgotten(
    name: str, base: BaseLoad
) -> None:
    draw = random.Random(f"{name}/{base}")
    spending = PhoneSpending(PHONES[name], PLAIN, base)
    for _ in range(300):
        training = Training(
            learned_operations=int(10 ** draw.uniform(0, 10)) * draw.choice((0, 1, 1)),
            forgotten_operations=int(10 ** draw.uniform(0, 9)) * draw.choice((0, 1, 1)),
            fetched_bytes=draw.choice((0, 10**5)),
            sent_bytes=draw.choice((0, 10**6)),
            pages_in=draw.choice((0, 0, 700)),
            pages_out=draw.choice((0, 0, 300)),
            wakes=draw.random() < 0.8,
        )
        one = spending.of(training)
        assert one.whole.charge_uah <= one.fastest.charge_uah * (1 + 1e-12)
        assert one.whole.total_j <= one.fastest.total_j * (1 + 1e-12)
        assert one.added_latency >= -1e-12


def test_forgetting_for_long_runs_slower_and_cheaper_and_says_how_much_slower() -> None:
    one = spent(Training(forgotten_operations=10**9))
    assert one.whole.charge_uah < 0.91 * one.fastest.charge_uah
    assert 0.49 < one.added_latency < 0.51  # at 1402 MHz, also during the tail: it is over anyway


def test_what_ends_within_the_tail_of_the_radio_runs_at_the_fastest_clock() -> None:
    one = spent(Training(forgotten_operations=10**6))
    assert one.compute.elapsed_s < HONOR.link.tail_s
    assert one.whole == one.fastest
    assert one.added_latency == 0.0


def test_learning_runs_at_the_fastest_clock_that_costs_hardly_more_than_the_cheapest() -> None:
    one = spent(Training(learned_operations=10**10))
    assert one.added_latency == pytest.approx(2112 / 1805 - 1, rel=1e-2)


@pytest.mark.parametrize("base", BaseLoad)
@pytest.mark.parametrize("name", PHONES)
def test_control_draws_at_most_five_per_cent_more_than_the_best_fixed_clock(
    name: str, base: BaseLoad
) -> None:
    one, draw = PHONES[name], random.Random(f"best/{name}/{base}")
    fixed = (phone_clock(one, frequency_hz=point.frequency_hz) for point in one.points)
    clocks = [phone_clock(one), *fixed]
    spendings = [PhoneSpending(one, PLAIN, base, clock) for clock in clocks]
    for exponent in range(16, 44):  # trainings of a millisecond to an hour
        training = Training(
            learned_operations=int(10 ** (exponent / 4)) * draw.choice((0, 1, 1)),
            forgotten_operations=int(10 ** (exponent / 4)) * draw.choice((0, 1, 1)),
        )
        charge_uah, *fixed_uah = (one.of(training).whole.charge_uah for one in spendings)
        assert charge_uah <= 1.05 * min(fixed_uah)


def test_computing_and_radio_are_separate_causes() -> None:
    one = spent(Training(learned_operations=10**8, fetched_bytes=10**6, sent_bytes=5 * 10**5))
    voltage_v = HONOR.battery.voltage_v
    point = efficient_frontier(HONOR)[1]
    busy_s = 2.0 * 10**8 * HONOR.cycle_factor / point.frequency_hz
    current_a = HONOR.current_a(point)
    assert one.compute.by_cause_j == pytest.approx(
        {
            "cpu": current_a * busy_s * voltage_v,
            "awake": HONOR.awake_a * busy_s * voltage_v,
            "radio_active": 0.0, "radio_tail": 0.0, "screen": 0.0, "storage": 0.0,
        }
    )  # fmt: skip
    active_s = (1.5e6 + 4 * 512) / HONOR.link.up_bytes_per_s + 5 * HONOR.link.rtt_s
    assert one.radio.radio_active_j == pytest.approx(HONOR.link.on_a * active_s * voltage_v)
    assert one.radio.radio_tail_j == pytest.approx(HONOR.link.on_a * 2 * 0.25 * voltage_v)
    assert one.radio.awake_j == pytest.approx(HONOR.awake_a * active_s * voltage_v)
    assert one.whole.elapsed_s == pytest.approx(busy_s + active_s)
    assert (one.operations, one.wake_ups) == (10**8, 1)
    assert one.cycles == pytest.approx(6 * 10**8)


def test_the_first_tail_ends_when_the_update_leaves() -> None:
    one = spent(Training(learned_operations=10**6))
    tail_s = one.compute.elapsed_s + HONOR.link.tail_s
    assert one.radio.radio_tail_j == pytest.approx(
        HONOR.link.on_a * tail_s * HONOR.battery.voltage_v
    )


def test_more_bytes_cost_more_and_take_longer() -> None:
    small, large = (spent(Training(learned_operations=10, sent_bytes=n)) for n in (10**3, 10**6))
    assert large.whole.total_j > small.whole.total_j
    assert large.whole.elapsed_s > small.whole.elapsed_s


def test_where_the_radio_is_on_anyway_it_has_no_tail_to_pay() -> None:
    tail_j = spent(Training(learned_operations=10**8), BaseLoad.WIFI).radio.radio_tail_j
    assert tail_j == pytest.approx(0.0, abs=1e-12)


def test_what_is_done_while_awake_is_no_wake_up() -> None:
    one = spent(Training(forgotten_operations=1000, wakes=False))
    assert (one.wake_ups, one.radio.total_j) == (0, 0.0)
    sent = spent(Training(forgotten_operations=1000, sent_bytes=1000, wakes=False))
    assert sent.radio.radio_active_j > 0.0
    assert sent.radio.radio_tail_j == 0.0


def test_forgetting_costs_what_was_measured_of_forgetting() -> None:
    learned = spent(Training(learned_operations=10**6))
    forgotten = spent(Training(forgotten_operations=10**6))
    assert forgotten.cycles == pytest.approx(5 * learned.cycles)


def test_pages_cost_storage_and_time() -> None:
    one = spent(Training(learned_operations=10, pages_in=100, pages_out=50))
    assert one.compute.storage_j > 0.0
    assert one.compute.elapsed_s > 100 * HONOR.storage.page_read_s


def test_spending_adds_up() -> None:
    one = spent(Training(learned_operations=10**7, forgotten_operations=10**8))
    both = one + one
    assert both.whole.total_j == pytest.approx(2 * one.whole.total_j)
    assert (both.operations, both.wake_ups) == (2 * one.operations, 2)
    assert both.added_latency == pytest.approx(one.added_latency)


def test_training_from_scratch_is_priced_at_the_fastest_clock() -> None:
    one = spent(Training(learned_operations=10**6, scratch_operations=5 * 10**7))
    assert one.scratch_j == pytest.approx(50 * one.fastest_compute_j)


def test_the_band_of_the_declared_factor_moves_computing_and_not_the_radio() -> None:
    training = Training(learned_operations=10**9, sent_bytes=10**5)
    fast, declared, slow = (
        PhoneSpending(replace(HONOR, cycle_factor=HONOR.cycle_factor * factor), PLAIN).of(training)
        for factor in (1 / 3, 1, 3)
    )
    assert slow.compute.total_j == pytest.approx(3 * declared.compute.total_j)
    assert fast.compute.total_j == pytest.approx(declared.compute.total_j / 3)
    radios_j = [one.radio.total_j for one in (slow, declared, fast)]
    assert radios_j == pytest.approx([radios_j[0]] * 3)


def test_reviews_are_computing_of_their_own_and_need_two_calls() -> None:
    law = LearnerCycles(Cycles(2.0, 1000.0), Cycles(2.0, 1000.0), review=Cycles(3.0, 500.0))
    spending, factor = PhoneSpending(HONOR, law), HONOR.cycle_factor
    plain = spending.of(Training(learned_operations=10, forgotten_operations=5))
    reviewed = spending.of(
        Training(learned_operations=10, forgotten_operations=5, reviewed_operations=(100, 200))
    )
    assert plain.review_j == 0.0
    assert plain.cycles == pytest.approx(factor * 1030)
    assert reviewed.cycles == pytest.approx(factor * (2030 + 900 + 2 * 500))
    assert reviewed.review_j == pytest.approx(reviewed.compute.total_j * 1900 / 3930)
    assert reviewed.operating.total_j == pytest.approx(reviewed.compute.total_j * 930 / 3930)
    assert (reviewed.operations, reviewed.wake_ups) == (15, 1)


def test_a_slow_network_costs_more() -> None:
    slow = replace(HONOR, link=replace(HONOR.link, up_bytes_per_s=1e4))
    training = Training(sent_bytes=10**5)
    assert (
        PhoneSpending(slow, PLAIN).of(training).radio.total_j > 10 * spent(training).radio.total_j
    )


def test_cycles_were_measured_of_every_learner() -> None:
    laws = [cycles_of(name) for name in LEARNERS]
    assert all(law.train and law.update and law.review for law in laws)
    assert Cycles(3.0, 100.0).of(0) == 0.0
    worker = cycles_of("neighbors").of_worker
    assert worker.learn == worker.forget == cycles_of("neighbors").train
    assert PLAIN.of_worker.forget == PLAIN.of_resident.forget == PLAIN.learn
