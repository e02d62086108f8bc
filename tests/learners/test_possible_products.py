"""Products of columns at Cauchy and Schwarz' limit: one more is impossible, one less is not."""

import numpy as np
import pytest

from dealfl.errors import Impossible
from dealfl.learners import Tikhonov
from tests.learners.subjects import altered

FEATURES = 40


def empty(bits: int) -> Tikhonov:
    return Tikhonov(FEATURES, feature_bound=1.0, target_bound=1.0, fraction_bits=bits)


def learned(rows: int, bits: int) -> Tikhonov:
    """Return a model whose rows are all the same: every pair of columns is at the limit."""
    model = empty(bits)
    row = np.random.default_rng(0).uniform(-1.0, 1.0, FEATURES)
    model.learn(np.repeat(row[None, :], rows, axis=0), np.full(rows, 0.5))
    return model


@pytest.mark.parametrize(("rows", "bits"), [(2, 30), (2, 8), (1000, 30), (5, 22)])
def test_the_limit_is_exact_for_every_pair(rows: int, bits: int) -> None:
    model = learned(rows, bits)
    model.check()
    moments = model.statistics["moments"].to_dict()
    generator = np.random.default_rng(rows)
    for _ in range(30):
        row = int(generator.integers(2, FEATURES + 1))
        place = row * (row + 1) // 2 + int(generator.integers(1, row))
        outward = 1 if moments.get(place, 0) >= 0 else -1
        above, below = empty(bits), empty(bits)
        above.merge(altered(model, "moments", {place: outward}))
        below.merge(altered(model, "moments", {place: -outward}))
        below.check()
        with pytest.raises(Impossible, match="have the sum of products"):
            above.check()


@pytest.mark.parametrize("bits", [8, 22, 30])
def test_a_single_row_has_no_other_products(bits: int) -> None:
    model = learned(1, bits)
    model.check()
    for place in (3 + 1, 6 + 2, 10 + 1, 10 + 3):
        for change in (1, -1):
            other = empty(bits)
            other.merge(altered(model, "moments", {place: change}))
            with pytest.raises(Impossible, match="have the sum of products"):
                other.check()
