"""How many of the old examples go: exactly θ of them, in the long run."""

from fractions import Fraction

import pytest

from dealfl.worker import KeepAll, Newest, Retention, Theta

ZERO = Fraction(0)


@pytest.mark.parametrize("theta", ["0", "0.02", "0.3", "1/3", "0.999", "1"])
def test_over_many_trainings_exactly_theta_of_the_old_goes(theta: str) -> None:
    fraction, carry, evicted, due = Fraction(theta), ZERO, 0, ZERO
    for held in range(1, 200):
        eviction = Theta().evict(held, fraction, carry)
        due += fraction * held
        evicted += eviction.count
        carry = eviction.carry
        assert 0 <= carry < 1
        assert evicted + carry == due, "nothing is rounded away"
        assert eviction.count <= held


def test_a_worker_that_gets_one_example_at_a_time_holds_about_fifty_at_the_default() -> None:
    held, carry = 0, ZERO
    for _ in range(1000):
        eviction = Theta().evict(held, Fraction("0.02"), carry)
        held, carry = held - eviction.count + 1, eviction.carry
    assert 49 <= held <= 51


@pytest.mark.parametrize(("policy", "goes"), [(KeepAll(), 0), (Newest(), 17)])
def test_the_other_policies_do_not_look_at_theta(policy: Retention, goes: int) -> None:
    for theta in (ZERO, Fraction(1, 2), Fraction(1)):
        assert policy.evict(17, theta, Fraction(1, 3)).count == goes


def test_with_nothing_held_nothing_goes() -> None:
    for policy in (KeepAll(), Newest(), Theta()):
        assert policy.evict(0, Fraction(1), Fraction(9, 10)).count == 0
