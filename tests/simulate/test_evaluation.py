"""What a quality is compared with, which item is hidden, and how large the noise is."""

import numpy as np
import pytest
from scipy import sparse

from dealfl.data import Examples
from dealfl.simulate import make_questions, split_examples, standard_error
from tests.simulate.fleets import fleet


def _histories(times: np.ndarray | None = None) -> Examples:
    items = sparse.csr_array(np.ones((200, 10), np.int64))
    owners = np.array([f"p{row}" for row in range(200)])
    return Examples("ten items", items, owners=owners, times=times)


def test_without_times_the_hidden_item_is_a_random_one() -> None:
    hidden = [one[-1] for one in make_questions(_histories(), range(200), seed=3)]
    assert set(hidden) == set(range(10))
    assert max(hidden.count(item) for item in range(10)) < 40


def test_the_hidden_item_depends_on_the_seed_only() -> None:
    ask = [make_questions(_histories(), range(200), seed) for seed in (1, 1, 2)]
    assert ask[0] == ask[1] != ask[2]


def test_with_times_the_latest_item_is_hidden() -> None:
    times = np.tile(np.arange(10, 0, -1), 200)
    assert {one[-1] for one in make_questions(_histories(times), range(200), seed=3)} == {0}


def test_the_noise_shrinks_with_the_test_set() -> None:
    assert standard_error("accuracy", 0.5, 100) == pytest.approx(0.05)
    assert standard_error("R²", 0.5, 400) == pytest.approx(standard_error("R²", 0.5, 100) / 2)
    assert standard_error("accuracy", 1.0, 100) == 0.0


def test_a_classifier_stands_beside_the_commonest_class_and_central_training() -> None:
    job = fleet()
    split = split_examples(job.plan, job.data, job.workers, job.job.seed)
    labels = split.test[1]
    shares = [float(np.mean(labels == label)) for label in np.unique(labels)]
    assert split.trivial.name == "commonest class"
    assert split.trivial.quality in shares
    central = split.central_quality()
    assert central is not None
    assert central > split.trivial.quality
