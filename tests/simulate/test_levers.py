"""Levers: by what one fleet spends less than another. Their sum is exact, so they are fractions."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from dealfl.power import Spent
from dealfl.simulate import FleetEnergy
from dealfl.simulate.outcome import fleet_energy

AMOUNT: Any = st.fractions(min_value=0, max_value=100, max_denominator=1000)


def energy(work: Fraction, clock: Fraction, review: Fraction, radio: Fraction) -> FleetEnergy:
    """Return a fleet whose clock multiplies the energy of all its work by a factor."""
    figures: dict[str, Any] = {
        "compute_j": (work + review) * clock,
        "fastest_compute_j": work + review,
        "review_j": review * clock,
        "fastest_review_j": review,
        "radio_j": radio,
        "by_cause_j": {"radio_active": radio / 3},
        "up_bytes": 3,
        "down_bytes": 4,
    }
    return replace(fleet_energy([Spent()], 0, []), **figures)


FLEETS = st.builds(energy, AMOUNT, AMOUNT, AMOUNT, AMOUNT)


@settings(max_examples=200, deadline=None)
@given(one=FLEETS, other=FLEETS)
def test_levers_add_up_to_the_difference_of_the_totals(
    one: FleetEnergy, other: FleetEnergy
) -> None:
    assert sum(one.split_saving(other).values()) == other.whole_j - one.whole_j


def test_more_work_at_a_slow_clock_is_no_saving_of_the_clock() -> None:
    """Against a fleet that spends 160 in all, a clock saves less than 160."""
    one = energy(Fraction(170), Fraction(1, 2), Fraction(300), Fraction(0))
    other = energy(Fraction(160), Fraction(1), Fraction(0), Fraction(0))
    assert one.split_saving(other) == {
        "fewer bursts": 0,
        "smaller downloads": 0,
        "less work": -5,
        "slower clock": 80,
        "fewer reviews": -150,
    }
