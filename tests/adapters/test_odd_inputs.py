"""Estimators answer any array, or raise an error of `dealfl.errors` that changes nothing."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest

from dealfl.errors import BadInput, DealError
from dealfl.sklearn import (
    ItemRecommender,
    KNeighborsClassifier,
    MultinomialNB,
    Ridge,
    RidgeClassifier,
)
from tests.learners.test_odd_arrays import (
    CLASSES,
    HISTORIES,
    ROWS,
    odd_sparse,
    odd_tables,
    odd_targets,
)

TARGETS = ROWS[:, 0].copy()
ESTIMATORS: dict[str, tuple[Any, Any]] = {
    "Ridge": (Ridge, TARGETS),
    "Ridge with bounds": (lambda: Ridge(feature_bound=8, target_bound=8, clip=True), TARGETS),
    "RidgeClassifier": (RidgeClassifier, CLASSES),
    "RidgeClassifier of words": (RidgeClassifier, CLASSES.astype("U1")),
    "MultinomialNB": (MultinomialNB, CLASSES),
    "KNeighborsClassifier": (lambda: KNeighborsClassifier(tables=2, bits=8, vote_bits=8), CLASSES),
}
SAME_TABLES = (
    ">f8", "O", "g", "strided", "by columns", "csr", "csc", "coo", "lil", "dok", "dia", "bsr",
    "csr matrix", "csc matrix", "coo matrix", "swapped values", "swapped indices", "swapped starts",
)  # fmt: skip


def more_targets(targets: Any) -> Iterator[tuple[str, Any]]:
    """Yield further targets that are seldom seen."""
    yield "durations", targets.astype(int).astype("m8[s]")
    yield "records", np.zeros(len(targets), [("a", "f8"), ("b", "f8")])
    yield "no stride", np.broadcast_to(targets[:1], targets.shape)
    yield "reversed", targets[::-1]
    yield "nested", np.array([[1], [1, 2], [1], [1], [1], [1]], dtype=object)
    yield "three dimensions", targets.reshape(6, 1, 1)
    yield "empty", targets[:0]
    yield "matrix", targets.view(np.matrix).T
    yield "times", [datetime(2020, 1, 1, tzinfo=UTC)] * len(targets)
    yield "two columns", np.column_stack([targets, targets])
    yield "long doubles", targets.astype("g")
    yield "beyond float64", np.full(len(targets), np.finfo("g").max)


def calls(targets: Any) -> Iterator[tuple[str, str, tuple[Any, ...]]]:
    """Yield calls with odd arguments: a name, a method and its arguments."""
    series = ("series", pd.Series(ROWS[:, 0]))
    for name, given in (*odd_tables(ROWS), *odd_sparse(ROWS), series):
        for method in ("fit", "partial_fit", "forget"):
            yield name, method, (given, targets)
        yield name, "predict", (given,)
    for name, given in (*odd_targets(targets), *more_targets(targets)):
        for method in ("fit", "partial_fit", "forget"):
            yield f"target {name}", method, (ROWS, given)


def answer(model: Any, method: str, arguments: tuple[Any, ...]) -> str | None:
    """Call a method; return an error that is not one of `dealfl.errors`, or a change by one."""
    before = model.digest()
    try:
        getattr(model, method)(*arguments)
    except DealError as error:
        return f"changed by {error}" if model.digest() != before else None
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


@pytest.mark.filterwarnings("ignore:A column-vector y", "ignore:.* encountered in cast")
@pytest.mark.parametrize("name", ESTIMATORS)
def test_any_array_gets_an_answer_or_an_error_of_this_package(name: str) -> None:
    make, targets = ESTIMATORS[name]
    model, count, problems = make().fit(ROWS, targets), 0, []
    digest = model.digest()
    for what, method, arguments in calls(targets):
        problem = answer(model, method, arguments)
        count += 1
        if problem:
            problems.append(f"{method} of {what}: {problem}")
        if method == "fit" or model.digest() != digest:
            model = make().fit(ROWS, targets)
    assert not problems, "\n".join(problems)
    assert count > 350


@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_same_numbers_in_another_form_are_the_same(name: str) -> None:
    make, targets = ESTIMATORS[name]
    digest = make().fit(ROWS, targets).digest()
    forms = {**dict(odd_tables(ROWS)), **dict(odd_sparse(ROWS))}
    for form in SAME_TABLES:
        model = make().fit(forms[form], targets)
        assert model.digest() == digest, form
        assert model.forget(forms[form], targets).statistics.is_zero, form
    assert make().fit(ROWS[::-1][::-1], targets[::-1][::-1]).digest() == digest
    assert make().fit(ROWS, list(targets)).digest() == digest


def test_targets_of_a_regression_are_real_numbers_of_any_kind() -> None:
    digest = Ridge(target_bound=8.0).fit(ROWS, CLASSES > 0).digest()
    for kind in ("f8", ">f4", "u1", "g", "f2", "O"):
        assert Ridge(target_bound=8.0).fit(ROWS, (CLASSES > 0).astype(kind)).digest() == digest


@pytest.mark.parametrize("kind", ["S1", "U1", "M8[s]", "m8[s]"])
def test_an_odd_target_is_named_with_its_kind_and_a_remedy(kind: str) -> None:
    odd = CLASSES.astype(kind)
    with pytest.raises(BadInput, match=f"y holds .*{odd.dtype.str[1:2]}?.* values; it must hold"):
        Ridge().fit(ROWS, odd)


def test_times_are_refused_because_their_unit_would_decide() -> None:
    seconds = CLASSES[:, None].astype("M8[s]")
    frame = pd.DataFrame({"a": TARGETS, "b": seconds[:, 0]})
    for odd in (seconds, seconds - seconds[0], np.zeros((6, 1), [("a", "f8")]), frame):
        with pytest.raises(BadInput, match=r"X holds .* values; it must hold real numbers"):
            Ridge().fit(odd, TARGETS)


def test_what_is_masked_is_not_read() -> None:
    masked = np.ma.array(ROWS, mask=np.eye(*ROWS.shape) > 0)
    for model in (Ridge(), RidgeClassifier()):
        with pytest.raises(BadInput, match="X has 3 masked values; fill them"):
            model.fit(masked, CLASSES)
        with pytest.raises(BadInput, match="y has 1 masked values; fill them"):
            model.fit(ROWS, np.ma.array(CLASSES, mask=[True] + [False] * 5))
    unmasked = Ridge().fit(np.ma.array(ROWS), TARGETS)
    assert unmasked.digest() == Ridge().fit(ROWS, TARGETS).digest()
    with pytest.raises(BadInput, match="masked"):
        unmasked.predict(masked)


def test_a_kind_that_cannot_be_used_is_bad_input_and_a_type_error() -> None:
    odd = ROWS.astype(object)
    odd[0, 0] = {"a": 1}
    with pytest.raises(TypeError, match=r"X or y cannot be used: .*'dict'; give tables") as raised:
        Ridge().fit(odd, TARGETS)
    assert isinstance(raised.value, BadInput)


def test_missing_values_of_frames_are_named() -> None:
    frame = pd.DataFrame({"a": pd.array([1, None, 3], dtype="Int64")})
    with pytest.raises(BadInput, match="NaN"):
        Ridge().fit(frame, [1.0, 2.0, 3.0])


def odd_ids() -> Iterator[tuple[str, Any]]:
    """Yield ids in many forms, of which most are none."""
    for kind in (">i8", "u1", "f8", "?", "O", "U1", "S1", "M8[s]", "c16"):
        yield kind, np.array([1]).astype(kind)
    yield "unsigned", np.array([2**64 - 1], np.uint64)
    yield "masked", np.ma.array([1, 2], mask=[True, False])
    things: tuple[Any, ...] = (
        True,
        1.0,
        "1",
        b"1",
        None,
        2**70,
        -1,
        [2**70],
        [[1]],
        [],
        {},
        {1},
        [1, [2]],
        1j,
    )
    for thing in (*things, object(), ["a"], np.array(1)):
        yield repr(thing)[:15], thing


def test_a_recommender_answers_any_table_and_any_ids_or_refuses_them() -> None:
    problems = []
    model = ItemRecommender(n_items=6).fit(HISTORIES)
    given_calls: list[tuple[str, str, tuple[Any, ...]]] = []
    for name, given in (*odd_tables(HISTORIES), *odd_sparse(HISTORIES)):
        given_calls += [(name, method, (given,)) for method in ("fit", "partial_fit")]
        given_calls.append((name, "recommend", ([0] * 6, given)))
    for name, given in odd_ids():
        given_calls += [(name, method, (given,)) for method in ("forget", "recommend")]
        given_calls.append((name, "similar_items", (given,)))
        given_calls.append((f"users {name}", "partial_fit", (HISTORIES[:1], given)))
        given_calls.append((f"hidden {name}", "similar_items", (0, 3, given)))
    for name, method, arguments in given_calls:
        if problem := answer(model, method, arguments):
            problems.append(f"{method} of {name}: {problem}")
        model = ItemRecommender(n_items=6).fit(HISTORIES)
    assert not problems, "\n".join(problems)


def test_histories_in_another_form_are_the_same() -> None:
    digest = ItemRecommender().fit(HISTORIES).digest()
    forms = {**dict(odd_tables(HISTORIES)), **dict(odd_sparse(HISTORIES))}
    for form in (*SAME_TABLES, ">i8", "?", "u1", "f2", "matrix"):
        assert ItemRecommender().fit(forms[form]).digest() == digest, form
    for form in ("masked", "with nan", "with inf", "c16", "U9", "M8[s]", "start -1 of -1"):
        with pytest.raises(BadInput, match="user_items"):
            ItemRecommender().fit(forms[form])
