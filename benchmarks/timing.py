"""CPU times of calls beside those of peers, in one process."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from reporting import Report

from dealfl.exact import CHOICE

MODES = {"numba": "always", "numpy": "never"}
_TURNS = 5

Calls = Sequence[Callable[[], object]]


@contextmanager
def loops(mode: str) -> Iterator[None]:
    """Use compiled loops always or never."""
    before, CHOICE.mode = CHOICE.mode, mode
    yield
    CHOICE.mode = before


def times_s(calls: Calls) -> list[float]:
    """Return the CPU time of each call."""
    found = []
    for call in calls:
        start = time.thread_time()
        call()
        found.append(time.thread_time() - start)
    return found


def median_s(call: Callable[[], object], repeats: int) -> float:
    """Return the median CPU time of a call, after one that does not count."""
    call()
    return float(np.median(times_s([call] * repeats)))


def median_of(calls: Calls) -> float:
    """Return the median CPU time of different calls; the first is warmed up."""
    calls[0]()
    return float(np.median(times_s(calls)))


def medians_of(groups: Mapping[str, Calls]) -> dict[str, float]:
    """Return the median of each group of calls; the groups take turns on the same machine."""
    found: dict[str, list[float]] = {name: [] for name in groups}
    for calls in groups.values():
        calls[0]()
    for turn in range(_TURNS):
        for name, calls in groups.items():
            found[name] += times_s(calls[turn::_TURNS])
    return {name: float(np.median(seconds)) for name, seconds in found.items()}


def learn_with(make: Callable[[], Any], *examples: object) -> object:
    """Learn examples with a new learner."""
    return make().learn(*examples)


class Table:
    """Rows of one comparison, and the checks of its compiled version."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self.rows = report.rows

    def add(
        self, what: str, here: dict[str, float], peer: str, peer_s: float, target: float | None
    ) -> None:
        """Add a row; with a target, also a check of how many times faster numba is."""
        row: dict[str, Any] = {"what": what}
        row |= {f"{mode} ms": seconds * 1e3 for mode, seconds in here.items()}
        row |= {"peer": peer, "peer ms": peer_s * 1e3}
        row |= {f"peer / {mode}": peer_s / seconds for mode, seconds in here.items()}
        self._report.rows.append(row)
        if target is not None:
            ratio = peer_s / here["numba"]
            self.check(
                f"{what}, beside {peer}", f"≥ {target:g}×", f"{ratio:,.1f}×", ratio >= target
            )

    def check(self, what: str, target: str, measured: str, holds: bool) -> None:
        """Add a check of something else."""
        self._report.check(what, target, measured, holds)
