"""Any array gets an answer or an error of `dealfl.errors`, and an error changes nothing."""

from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from dealfl.errors import BadInput, DealError
from dealfl.exact import CHOICE
from dealfl.learners import (
    Learner,
    NaiveBayes,
    Neighbors,
    PersonalizedPageRank,
    Tikhonov,
    TikhonovClassifier,
)
from dealfl.learners.inputs import Labels

RANDOM = np.random.default_rng(0)
ROWS = RANDOM.uniform(0.0, 1.0, (6, 3))
CLASSES = np.array([0, 1, 2, 0, 1, 2])
HISTORIES = (RANDOM.uniform(size=(6, 6)) < 0.5).astype(float)


def with_value(table: Any, value: Any) -> Any:
    changed = table.astype(object if not isinstance(value, float) else float)
    changed[0, 0] = value
    return changed


def odd_tables(table: Any) -> Iterator[tuple[str, Any]]:
    """Yield a table in many forms, of which some are not tables of numbers at all."""
    for kind in (">f8", ">f4", ">i8", "f2", "f4", "g", "u1", "?", "O", "U9", "S9", "c16", "M8[s]"):
        yield kind, table.astype(int).astype(kind) if kind == "M8[s]" else table.astype(kind)
    for value in (2**70, 10**400, None, Decimal(1), Decimal("sNaN"), Fraction(1, 2), [1], "x"):
        yield f"with {value!r}"[:20], with_value(table, value)
    for number in (np.nan, np.inf, -np.inf, 1e308, -1e-320, -0.0):
        yield f"with {number}", with_value(table, number)
    yield "integers of 70 bits", [[2**70] * table.shape[1]] * len(table)
    yield "integers of 400 digits", [[10**400] * table.shape[1]] * len(table)
    yield "unsigned", np.full(table.shape, 2**64 - 1, np.uint64)
    yield "beyond float64", np.full(table.shape, np.finfo("g").max)
    yield "smallest", np.full(table.shape, -(2**63), np.int64)
    yield "masked", np.ma.array(table, mask=np.eye(*table.shape) > 0)
    yield "matrix", table.view(np.matrix)
    yield "reversed", table[::-1, ::-1]
    yield "strided", np.repeat(table, 2, axis=1)[:, ::2]
    yield "by columns", np.asfortranarray(table)
    yield "read-only", np.broadcast_to(table[0], table.shape)
    unaligned = np.frombuffer(bytearray(1 + table.nbytes), "f8", table.size, 1)
    yield "unaligned", unaligned.reshape(table.shape)
    for shape in ((), table.shape[1:], (1, *table.shape), (0, 0), (6, 0), (0, table.shape[1])):
        yield f"shape {shape}", np.zeros(shape)
    yield "records", np.zeros(len(table), [("a", "f8")])
    for thing in (None, "abc", b"abc", 5, {}, {1}, object(), [], [[1], [1, 2]], [[[1]]], [None]):
        yield repr(thing)[:15], thing


def odd_sparse(table: Any) -> Iterator[tuple[str, Any]]:
    """Yield a sparse table in all formats, and with arrays that do not fit each other."""
    for form in ("csr", "csc", "coo", "lil", "dok", "dia", "bsr"):
        yield form, sparse.csr_array(table).asformat(form)
        yield f"{form} matrix", sparse.csr_matrix(table).asformat(form)
    whole = sparse.csr_array(table)
    first = np.arange(len(whole.indices)) == 0
    parts: dict[str, dict[str, Any]] = {
        "swapped values": {"data": whole.data.astype(">f8")},
        "swapped indices": {"indices": whole.indices.astype(">i4")},
        "swapped starts": {"indptr": whole.indptr.astype(">i4")},
        "objects": {"data": whole.data.astype(object)},
        "complex": {"data": whole.data.astype(complex)},
        "nan": {"data": np.where(first, np.nan, whole.data)},
        "two dimensions": {"data": whole.data[:, None]},
        "few values": {"data": whole.data[:-1]},
        "duplicates": {"indices": np.zeros_like(whole.indices)},
        "unsorted": {"indices": whole.indices[::-1].copy()},
        "few starts": {"indptr": whole.indptr[:-1]},
    }
    for index in (-1, 99, 2**31 - 1):
        parts[f"index {index}"] = {"indices": np.where(first, index, whole.indices).astype("i4")}
        for row in (0, 1, -1):
            starts = whole.indptr.copy()
            starts[row] = index
            parts[f"start {index} of {row}"] = {"indptr": starts}
    for name, arrays in parts.items():
        changed = whole.copy()
        vars(changed).update(arrays)
        yield name, changed
    yield from damaged(table)
    yield "very wide", sparse.csr_array((len(table), 10**9))
    yield "one dimension", sparse.coo_array(table[0])


def damaged(table: Any) -> Iterator[tuple[str, Any]]:
    """Yield sparse tables with indices outside their shape, of other formats than CSR."""
    by_columns, blocks = sparse.csc_array(table), sparse.bsr_array(table)
    for compressed in (by_columns, blocks):
        compressed.indices = compressed.indices + 99
        yield f"damaged {compressed.format}", compressed
    for axis, index in ((0, 99), (0, -5), (1, 99), (1, -5)):
        triples = sparse.coo_array(table)
        triples.coords = tuple(
            each + index * (number == axis) for number, each in enumerate(triples.coords)
        )
        yield f"damaged coo {axis} {index}", triples
    for name in ("data", "indices", "indptr"):
        whole = getattr(sparse.csr_array(table), name)
        for part in (whole.astype(float), whole.astype(np.uint64), whole.tolist(), None):
            rows = sparse.csr_array(table)
            setattr(rows, name, part)
            yield f"{name} of {type(part)}", rows


def odd_targets(targets: Any) -> Iterator[tuple[str, Any]]:
    """Yield targets in many forms."""
    for kind in (">f8", ">i8", "f2", "?", "O", "U9", "S9", "c16", "M8[s]"):
        yield kind, targets.astype(int).astype(kind)
    yield "masked", np.ma.array(targets, mask=[True] + [False] * 5)
    yield "column", targets[:, None]
    yield "few", targets[:2]
    for value in (2**70, 10**400, np.nan, np.inf, None, "a", b"1", [1], object(), Decimal("sNaN")):
        yield repr(value)[:15], [value] * 6
    yield "unsigned", np.full(6, 2**64 - 1, np.uint64)
    yield "beyond float64", np.full(6, np.finfo("g").max)
    yield "sparse", sparse.csr_array(targets[None].astype(float))
    things: tuple[Any, ...] = (None, 5, "abcdef", {}, np.array(1))
    for thing in things:
        yield repr(thing)[:15], thing


MODELS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "ridge": (lambda: Tikhonov(3), (ROWS, ROWS[:, 0])),
    "ridge with an offset": (lambda: Tikhonov(3, offset=0.5, clip=True), (ROWS, ROWS[:, 0])),
    "ridge classifier": (lambda: TikhonovClassifier(3, [0, 1, 2]), (ROWS, CLASSES)),
    "naive Bayes": (lambda: NaiveBayes(3, [0, 1, 2]), (ROWS, CLASSES)),
    "naive Bayes of floats": (lambda: NaiveBayes(3, [0.0, 1.0, 2.0], clip=True), (ROWS, CLASSES)),
    "neighbors": (lambda: Neighbors(3, [0, 1, 2], tables=2, bits=8), (ROWS, CLASSES)),
    "pagerank": (lambda: PersonalizedPageRank(6), (HISTORIES,)),
    "full pagerank": (lambda: PersonalizedPageRank(6, range(6)[::-1], "full"), (HISTORIES,)),
}


def calls(model: Any, examples: tuple[Any, ...]) -> Iterator[tuple[str, str, tuple[Any, ...]]]:
    """Yield the calls of a learner with odd arguments: a name, a method and its arguments."""
    table, rest = examples[0], examples[1:]
    for name, given in (*odd_tables(table), *odd_sparse(table)):
        for method in ("learn", "forget", "update", "score"):
            arguments = (given, *rest)
            yield name, method, (arguments,) if method == "update" else arguments
        for method in ("predict", "similar", "recommend", "nearest", "predict_votes"):
            if hasattr(model, method):
                yield name, method, (given,)
        yield name, "merge", (given,)
    for targets in rest:
        for name, given in odd_targets(targets):
            for method in ("learn", "forget", "update", "score"):
                arguments = (table, given)
                yield f"target {name}", method, (arguments,) if method == "update" else arguments


def answer(model: Learner, method: str, arguments: tuple[Any, ...]) -> str | None:
    """Call a method; return an error that is not one of `dealfl.errors`, or a change by one."""
    before = model.digest()
    try:
        getattr(model, method)(*arguments)
    except DealError as error:
        return f"changed by {error}" if model.digest() != before else None
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


@pytest.mark.parametrize("mode", ["never", "always"])
@pytest.mark.parametrize("name", MODELS)
def test_any_array_gets_an_answer_or_an_error_of_this_package(
    name: str, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CHOICE, "mode", mode)
    make, examples = MODELS[name]
    model = make()
    model.learn(*examples)
    count, problems = 0, []
    for what, method, arguments in calls(model, examples):
        problem = answer(model, method, arguments)
        count += 1
        if problem:
            problems.append(f"{method} of {what}: {problem}")
        if method in ("learn", "update", "forget"):
            model = make()
            model.learn(*examples)
    assert not problems, "\n".join(problems)
    assert count > 400


@pytest.mark.parametrize("classes", [None, 5, [1, [2]], np.array(1.0), ["a", 1], []])
def test_classes_that_are_no_list_of_numbers_or_strings_are_refused(classes: Any) -> None:
    for kind in (TikhonovClassifier, NaiveBayes, Neighbors):
        with pytest.raises(BadInput, match="it must be a list of numbers or of strings"):
            kind(3, classes)


@pytest.mark.parametrize("given", [np.int8, np.int16, np.int64])
@pytest.mark.parametrize("own", [np.int8, np.int64])
def test_labels_far_from_the_lowest_class_are_told_apart(own: Any, given: Any) -> None:
    """They differ by more than the largest number of a small type."""
    classes = Labels(np.array([-100, 28, 100], own))
    for label, code in ((-100, 0), (28, 1), (100, 2)):
        assert set(classes.encode(np.full(100, label, given)).tolist()) == {code}
    with pytest.raises(BadInput, match="class -27"):
        classes.encode(np.full(100, -27, given))


def test_labels_of_other_integer_types_are_found_or_refused() -> None:
    for own, given in ((np.int64, np.uint64), (np.uint64, np.int64), (np.int64, np.bool_)):
        classes = Labels(np.array([0, 1, 9], own))
        assert classes.encode(np.array([0, 1] * 50, given)).tolist() == [0, 1] * 50
    largest = np.full(100, 2**64 - 1, np.uint64)
    with pytest.raises(BadInput, match=str(2**64 - 1)):
        Labels([-1, 0, 9]).encode(largest)
    assert Labels(largest[:1]).encode(largest).tolist() == [0] * 100
