"""The time to forget one example against the number of learned ones, as a picture."""

from functools import partial
from math import log10
from typing import Any

import numpy as np
from histories import synthetic_histories
from timing import MODES, Table, loops, median_of

from dealfl.learners import NaiveBayes, PersonalizedPageRank, Tikhonov
from dealfl.pages import COLOURS

Curves = dict[str, list[tuple[int, float]]]

_CURVE = "time to forget one example"

_LEFT, _RIGHT, _TOP, _BOTTOM = 60, 500, 20, 300  # of the area of the curves
_DECADES_X, _DECADES_Y = (3, 5), (0, 4)  # examples, and microseconds


def compare_growth(table: Table, quick: bool) -> None:
    """Forget one of 1,000 to 100,000 learned examples; the medians are rows of the report."""
    sizes = (1_000, 10_000) if quick else (1_000, 3_000, 10_000, 30_000, 100_000)
    rng = np.random.default_rng(4)
    X, y = rng.uniform(0, 1, (sizes[-1], 54)), rng.integers(0, 7, sizes[-1])
    histories = synthetic_histories(sizes[-1], 1_682, 40 * sizes[-1])
    made: dict[str, tuple[Any, ...]] = {
        "ridge": (partial(Tikhonov, 54, target_bound=8.0), X, y.astype(np.float64)),
        "naive Bayes": (partial(NaiveBayes, 54, np.arange(7)), X, y),
        "histories": (partial(PersonalizedPageRank, 1_682), histories),
    }
    curves: Curves = {}
    for name, (make, *examples) in made.items():
        for how, mode in MODES.items():
            with loops(mode):
                curve = [(size, _forget_s(make(), examples, size)) for size in sizes]
            curves[f"{name}, {how}"] = curve
            table.rows += [
                {_CURVE: f"{name}, {how}", "examples": size, "µs": 1e6 * seconds}
                for size, seconds in curve
            ]
        (first, before), (last, after) = (curves[f"{name}, numba"][place] for place in (0, -1))
        what = f"{name}: time to forget one of {last:,} examples, beside one of {first:,}"
        table.check(what, "≤ 2×", f"{after / before:.2f}×", after <= 2 * before)


def _forget_s(model: Any, examples: list[Any], size: int) -> float:
    """Return the median time to forget one of many examples."""
    model.learn(*(part[:size] for part in examples))
    ones = [[part[[place]] for part in examples] for place in range(100)]
    model.learn(*ones[0])  # forgotten by the warm-up
    return median_of([partial(model.forget, *one) for one in ones])


# -- the picture ----------------------------------------------------------------------------------


def _x(size: float) -> float:
    first, last = _DECADES_X
    return _LEFT + (log10(size) - first) / (last - first) * (_RIGHT - _LEFT)


def _y(microseconds: float) -> float:
    first, last = _DECADES_Y
    return _BOTTOM - (log10(microseconds) - first) / (last - first) * (_BOTTOM - _TOP)


def _text(x: float, y: float, words: str, anchor: str = "middle") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{words}</text>'


def _axes() -> list[str]:
    parts = []
    for power in range(_DECADES_X[0], _DECADES_X[1] + 1):
        x = _x(10.0**power)
        parts.append(f'<path d="M{x:.1f} {_TOP}V{_BOTTOM}" stroke="#ddd"/>')
        parts.append(_text(x, _BOTTOM + 18, f"{10**power:,}"))
    for power in range(_DECADES_Y[0], _DECADES_Y[1] + 1):
        y = _y(10.0**power)
        parts.append(f'<path d="M{_LEFT} {y:.1f}H{_RIGHT}" stroke="#ddd"/>')
        parts.append(_text(_LEFT - 8, y + 4, f"{10**power:,} µs", "end"))
    middle = (_LEFT + _RIGHT) / 2
    return [*parts, _text(middle, _BOTTOM + 38, "examples learned; median time to forget one")]


def draw(rows: list[dict[str, Any]]) -> str:
    """Return the curves among the rows of a report, with logarithmic axes; numpy is dashed."""
    parts, curves = _axes(), Curves()
    for row in rows:
        if _CURVE in row:
            curves.setdefault(row[_CURVE], []).append((row["examples"], row["µs"] / 1e6))
    for place, (name, curve) in enumerate(curves.items()):
        points = [(_x(size), _y(1e6 * seconds)) for size, seconds in curve]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        colour, dash = COLOURS[place // 2], ' stroke-dasharray="6 4"' if place % 2 else ""
        style = f'fill="none" stroke="{colour}" stroke-width="2"{dash}'
        parts.append(f'<polyline points="{line}" {style}/>')
        parts.append(_text(_RIGHT + 8, points[-1][1] + 4, name, "start"))
    head = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 350" font-size="12"'
    body = "\n".join(['<rect width="640" height="350" fill="#fff"/>', *parts])
    return f'{head} font-family="sans-serif">\n{body}\n</svg>\n'
