"""The settings of the catalog make learners that take the real rows."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dealfl.data import CATALOG, Examples, load
from dealfl.features import feature_map
from dealfl.learners import LEARNERS, learners_for, settings_for

PAIRS = [(name, learner) for name, entry in CATALOG.items() for learner in learners_for(entry.task)]
ROWS = 200


def made(name: str, learner: str) -> Any:
    return LEARNERS[learner](**settings_for(learner, CATALOG[name]))


@pytest.mark.parametrize(("name", "learner"), PAIRS)
def test_a_learner_made_from_the_catalog_learns_and_forgets_real_rows(
    name: str, learner: str, request: pytest.FixtureRequest
) -> None:
    dataset = CATALOG[name]
    if dataset.files:
        load_real: Callable[[str], Examples] = request.getfixturevalue("load_real")
        examples = load_real(name)
    else:
        examples = load(name, rows=ROWS)
    model = made(name, learner)
    empty = model.digest()
    rows: tuple[Any, ...] = (examples.features[:ROWS],)
    if examples.targets is not None:
        table = dataset.feature_map(learner)
        if table is not None:
            rows = (feature_map(table, rows[0].shape[1]).transform(rows[0]),)
        rows = (*rows, examples.targets[:ROWS])
    model.learn(*rows)
    assert model.digest() != empty
    model.forget(*rows)
    assert model.digest() == empty


def test_digits_are_distinguished_as_well_as_the_catalog_promises() -> None:
    dataset, digits = CATALOG["digits"], load("digits")
    table = dataset.feature_map("tikhonov_classifier")
    assert table is not None
    assert digits.targets is not None
    features = feature_map(table, 64).transform(digits.features)
    order = np.random.default_rng(0).permutation(len(digits))
    test, train = order[:400], order[400:]
    model = made("digits", "tikhonov_classifier")
    model.learn(features[train], digits.targets[train])
    assert model.score(features[test], digits.targets[test]) >= 0.96


def test_covtype_in_bins_is_distinguished_better_than_by_guessing(
    load_real: Callable[[str], Examples],
) -> None:
    dataset, covtype = CATALOG["covtype"], load_real("covtype")
    table = dataset.feature_map("naive_bayes")
    assert table is not None
    assert covtype.targets is not None
    order = np.random.default_rng(0).permutation(len(covtype))[:40_000]
    bins, targets = (
        feature_map(table, 54).transform(covtype.features[order]),
        covtype.targets[order],
    )
    model = made("covtype", "naive_bayes")
    model.learn(bins[:30_000], targets[:30_000])
    majority = (targets[30_000:] == 2).mean()
    assert model.score(bins[30_000:], targets[30_000:]) >= majority + 0.15
