"""Each model of availability does what its definition says."""

import random
from collections.abc import Iterator
from itertools import islice, pairwise, takewhile
from pathlib import Path

import pytest

from dealfl.errors import BadInput
from dealfl.simulate.schedules import Always, DayNight, Markov, Poisson, Steady, Trace
from dealfl_paper.laboratory.environment import Independent
from tests.simulate.fleets import fleet

DAY_S = 86_400.0
Intervals = list[tuple[float, float]]


def until(intervals: Iterator[tuple[float, float]], end_s: float) -> Intervals:
    found = [(a, min(b, end_s)) for a, b in takewhile(lambda one: one[0] < end_s, intervals)]
    assert all(a < b for a, b in found), "an interval is empty"
    assert all(b <= c for (_, b), (c, _) in pairwise(found)), "intervals overlap"
    return found


def share(intervals: Intervals, end_s: float) -> float:
    return sum(b - a for a, b in intervals) / end_s


def test_independent_slots_are_awake_with_the_probability_given() -> None:
    end_s = 20_000 * 60.0
    found = until(Independent(0.3, 60.0).awake(0, random.Random(1)), end_s)
    assert share(found, end_s) == pytest.approx(0.3, abs=0.015)
    assert all(a % 60 == 0 and b % 60 == 0 for a, b in found), "a slot was divided"
    runs = [(b - a) / 60 for a, b in found]
    assert sum(runs) / len(runs) == pytest.approx(1 / 0.7, rel=0.03), "slots depend on each other"
    assert share(until(Independent(1.0, 60.0).awake(0, random.Random(1)), end_s), end_s) == 1.0


def test_a_first_slot_is_no_more_awake_than_others() -> None:
    first = [next(Independent(0.3).awake(0, random.Random(seed)))[0] == 0 for seed in range(4000)]
    assert sum(first) / 4000 == pytest.approx(0.3, abs=0.03)


def test_a_markov_worker_is_awake_for_its_stationary_share_from_the_start() -> None:
    model, end_s = Markov(300.0, 100.0), 4e6
    found = until(model.awake(0, random.Random(2)), end_s)
    assert share(found, end_s) == pytest.approx(0.75, abs=0.015)
    assert sum(b - a for a, b in found) / len(found) == pytest.approx(300.0, rel=0.04)
    first = [next(model.awake(0, random.Random(seed)))[0] == 0.0 for seed in range(4000)]
    assert sum(first) / 4000 == pytest.approx(0.75, abs=0.03)


@pytest.mark.parametrize(("from_h", "to_h", "hours"), [(22, 6, 8), (9, 17, 8), (0, 24, 24)])
@pytest.mark.parametrize("start_h", [0, 12, 23])
def test_night_and_day_last_as_long_as_the_hours_say(
    from_h: float, to_h: float, hours: float, start_h: float
) -> None:
    for seed in range(20):
        model = DayNight(from_h, to_h, spread_h=3.0, start_h=start_h)
        found = until(model.awake(0, random.Random(seed)), 10 * DAY_S)
        assert share(found, 10 * DAY_S) == pytest.approx(hours / 24)
    plain = DayNight(from_h, to_h, start_h=start_h)
    for a, b in until(plain.awake(0, random.Random(0)), 10 * DAY_S):
        middle_h = ((a + b) / 7200 + start_h) % 24
        inside = from_h <= middle_h < to_h if from_h < to_h else not to_h <= middle_h < from_h
        assert inside


def test_workers_are_spread_over_the_hours_given() -> None:
    model = DayNight(10, 12, spread_h=2.0)
    starts = [next(model.awake(0, random.Random(seed)))[0] / 3600 for seed in range(500)]
    assert 8.0 <= min(starts) < 8.2
    assert 11.8 < max(starts) <= 12.0


def test_a_trace_is_followed_exactly(tmp_path: Path) -> None:
    rows = "worker,from_s,to_s\nann,5,10\nbob,0,7.5\nann,20,21\nann,10,12\n"
    (tmp_path / "trace.csv").write_text(rows)
    trace = Trace("trace.csv").load(tmp_path, workers=2)
    assert list(trace.awake(0, random.Random(0))) == [(5, 10), (10, 12), (20, 21)]
    assert list(trace.awake(1, random.Random(0))) == [(0, 7.5)]


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ("worker,from,to\nann,0,1\n", "it must be worker,from_s,to_s"),
        ("", "it must be worker,from_s,to_s"),
        ("worker,from_s,to_s\nann,0,1\n", "has 1 workers; the fleet needs 2"),
        ("worker,from_s,to_s\nann,zero,1\n", "line 2: from_s='zero'"),
        ("worker,from_s,to_s\nann,0,1\nann,3,3\n", "line 3: from_s='3' and to_s='3'"),
        ("worker,from_s,to_s\nann,0\n", "line 2"),
        ("worker,from_s,to_s\nann,-1,3\n", "give seconds ≥ 0"),
        ("worker,from_s,to_s\nann,0,5\nann,4,6\nbob,0,1\n", "intervals of ann overlap at 4 s"),
    ],
)
def test_a_bad_trace_is_reported_with_its_line(tmp_path: Path, rows: str, told: str) -> None:
    (tmp_path / "trace.csv").write_text(rows)
    with pytest.raises(BadInput, match=told):
        Trace("trace.csv").load(tmp_path, workers=2)


def test_a_trace_that_is_missing_is_reported() -> None:
    with pytest.raises(BadInput, match=r"none\.csv cannot be read"):
        Trace("none.csv").load(Path("nowhere"), workers=1)
    with pytest.raises(BadInput, match="no key 'intervals'"):
        fleet(sections={"availability": {"kind": "trace", "file": "a.csv", "intervals": 1}})


def test_who_is_always_awake_never_sleeps() -> None:
    assert list(Always().awake(3, random.Random(0))) == [(0.0, float("inf"))]


def test_examples_arrive_at_the_rate_given() -> None:
    for model in (Steady(0.0, 6.0, 2), Poisson(0.0, 6.0, 2)):
        times = takewhile(lambda one: one[0] < 2000 * 3600, model.times(random.Random(3)))
        assert sum(count for _, count in times) == pytest.approx(12_000, rel=0.05)
    moments = [moment for moment, _ in islice(Steady(0.0, 6.0, 2).times(random.Random(3)), 3)]
    assert moments[1] - moments[0] == pytest.approx(moments[2] - moments[1])
    assert moments[1] - moments[0] == pytest.approx(1200.0)
