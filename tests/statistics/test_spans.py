"""Spans are entries: whatever is done with them gives what lists of non-zeros give."""

import pickle

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dealfl.exact import spans
from dealfl.exact.cells import in_memory
from dealfl.exact.compiled import CHOICE
from dealfl.exact.entries import Entries
from dealfl.exact.integers import Integers
from dealfl.exact.spans import Span, chain_entries, cut_entries, make_entries
from dealfl.exact.state import State
from dealfl.exact.statistics import ArraySpec, Schema, Statistics

SIZE = 24
relaxed = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
modes = pytest.mark.parametrize("mode", ["never", "always"])


@pytest.fixture(autouse=True)
def short_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spans, "_MIN_CELLS", 1)


@st.composite
def ranges(draw: st.DrawFn, whole: bool = False) -> tuple[bool, int, list[int]]:
    """Draw whether values are wide, the index of the first, and the values of a range."""
    wide = draw(st.booleans())
    bits = draw(st.sampled_from([1, 7, 8, 31, 33, 61, 90 if wide else 61]))
    number = st.integers(-(1 << bits), 1 << bits)
    first = 0 if whole else draw(st.integers(0, 9))
    length = SIZE if whole else draw(st.integers(1, SIZE - first))
    values = draw(st.lists(st.just(0) | number | number, min_size=length, max_size=length))
    return wide, first, values


def pair(drawn: tuple[bool, int, list[int]]) -> tuple[Entries, Entries]:
    """Return a range as a span, if it has few zeros, and as a list."""
    wide, first, values = drawn
    span = make_entries(Integers.of(values, wide), first)
    assert isinstance(span, Span) == (2 * sum(map(bool, values)) >= len(values))
    return span, Entries.of({first + n: value for n, value in enumerate(values)}, wide)


def schema(wide: bool) -> Schema:
    return Schema("test", {}, (ArraySpec("n", SIZE, 96 if wide else 64),))


@modes
@relaxed
@given(drawn=ranges(), start=st.integers(0, SIZE), length=st.integers(0, SIZE))
def test_a_span_has_the_entries_of_its_range(
    mode: str, drawn: tuple[bool, int, list[int]], start: int, length: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CHOICE, "mode", mode)
        span, listed = pair(drawn)
        assert span.same(listed)
        assert (len(span), span.nbytes) == (len(listed), listed.nbytes)
        assert (-span).same(-listed)
        assert span.between(start, start + length).same(listed.between(start, start + length))
        assert span.dense(SIZE).same(listed.dense(SIZE))
        assert pickle.loads(pickle.dumps(span)).same(listed)
        one, two = (Statistics(schema(drawn[0]), {"n": entries}) for entries in (span, listed))
        assert one.to_bytes() == two.to_bytes()
        assert Statistics.from_bytes(one.to_bytes()) == two
        assert (one.digest(), one.fingerprint(5)) == (two.digest(), two.fingerprint(5))


@modes
@relaxed
@given(first=ranges(), second=ranges())
def test_sums_of_spans_are_sums_of_lists(
    mode: str, first: tuple[bool, int, list[int]], second: tuple[bool, int, list[int]]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CHOICE, "mode", mode)
        wide, start, values = first[0], second[1], second[2]
        fitting = values if wide else [value % (1 << 62) for value in values]
        (span, listed), (other, rest) = pair(first), pair((wide, start, fitting))
        try:
            expected = listed + rest
        except ArithmeticError:
            with pytest.raises(ArithmeticError):
                span + other
            return
        for one, two in ((span, other), (span, rest), (listed, other), (other, span)):
            assert (one + two).same(expected)
        assert len(span + -span) == 0
        state = State(schema(first[0]), in_memory)
        for part in (span, other):
            state.commit(state.propose(Statistics(state.schema, {"n": part})))
        assert state.snapshot()["n"].same(expected)
        assert state.digest() == state.snapshot().digest()


@modes
@relaxed
@given(drawn=ranges(), most=st.integers(1, 9))
def test_parts_of_entries_make_them_again(
    mode: str, drawn: tuple[bool, int, list[int]], most: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CHOICE, "mode", mode)
        for entries in pair(drawn):
            parts = [(first, part) for first, _, part in cut_entries(entries, most)]
            held = set(entries.indices.tolist())
            for first, size, part in cut_entries(entries, most):
                assert {first, first + size - 1} <= held, "no key shows a cell that is zero"
                assert 0 < len(part) <= most
            again = chain_entries(parts, 0, SIZE, wide=drawn[0])
            assert again.same(entries)
            assert isinstance(again, Span) == (2 * len(entries) >= SIZE)


def test_a_span_of_live_cells_is_a_copy() -> None:
    state = State(schema(wide=True), in_memory)
    state.commit(state.propose(Statistics(state.schema, {"n": Entries.of({1: 5, 2: 6}, True)})))
    before = state.cells("n").entries(1, 3)
    state.commit(state.propose(state.snapshot()))
    assert isinstance(before, Span)
    assert before.to_dict() == {1: 5, 2: 6}
