"""The cost of a selection of workers: one selection, whole rounds, memory, calls of the server."""

import json
import math
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray
from reporting import Report

from dealfl.exact import round_keys, uniforms
from dealfl.server.selection import Arms, Candidate, FairUpperConfidence

MILLION, PER_ROUND, ETA, AWAKE = 1_000_000, 1_000, 10.0, 0.7
FIRST = 1_000  # the round in the middle of a run from which on time is taken
WORKER_BYTES = 80

Floats = NDArray[np.float64]


@cache
def compiled_draw() -> Callable[..., Any]:
    """Return the compiled draw of who is awake: `draw(first, second, thresholds, awake)`.

    The words are those of `dealfl.exact.words`; an arm is awake when its upper 32 bits are
    below its threshold.
    """

    def draw(
        first: np.uint64,
        second: np.uint64,
        thresholds: NDArray[np.uint32],
        awake: NDArray[np.bool_],
    ) -> None:
        for place in range(len(awake)):
            word = np.uint64(place) * np.uint64(0x9E3779B97F4A7C15)
            word ^= first
            word ^= word >> np.uint64(30)
            word *= np.uint64(0xBF58476D1CE4E5B9)
            word += second
            word ^= word >> np.uint64(27)
            word *= np.uint64(0x94D049BB133111EB)
            word ^= word >> np.uint64(31)
            awake[place] = np.uint32(word >> np.uint64(32)) < thresholds[place]

    return import_module("numba").njit(draw)  # type: ignore[no-any-return]


def grown(size: int) -> tuple[Arms, Floats, NDArray[np.bool_]]:
    """Return arms in the middle of a run, their weights, and who is awake."""
    draw = np.random.default_rng(1)
    arms = Arms(np.full(size, 1e-3), eta=ETA)
    for start in range(0, size, MILLION):
        part = slice(start, start + MILLION)
        number = len(arms.rate[part])
        arms.rate[part] = draw.random(number) * 2e-3
        arms.deficit[part] = draw.random(number)
        arms.since[part] = draw.integers(1, FIRST, number)
        arms.count[part] = draw.integers(1, 20, number)
        arms.mean[part] = draw.random(number)
        arms.spread[part] = np.sqrt(1.5 / arms.count[part])
    awake = np.concatenate([draw.random(min(size, MILLION)) < AWAKE] * -(-size // MILLION))
    return arms, np.ones(size), awake[:size]


def best_ms(calls: list[Callable[[], Any]], repeats: int) -> list[float]:
    """Return the shortest time of each call; they take turns, so that all meet the same noise."""
    times = np.full(len(calls), np.inf)
    for _ in range(repeats):
        for place, call in enumerate(calls):
            start = time.perf_counter()
            call()
            times[place] = min(times[place], time.perf_counter() - start)
    return [float(one) for one in times * 1e3]


def choices(report: Report, size: int, per_round: int, repeats: int) -> None:
    """Compare one choice with reading the same bytes once."""
    arms, weight, awake = grown(size)
    columns = (arms.deficit, arms.since, arms.rate, arms.mean, arms.spread, weight)
    read = sum(column.nbytes for column in columns) + awake.nbytes
    flat = np.random.default_rng(2).random(read // 8)

    sum_ms, choice_ms = best_ms(
        [flat.sum, lambda: arms.choose(FIRST, awake[None, :], weight, per_round)], repeats
    )
    report.rows.append(
        {
            "workers": size,
            "a round": per_round,
            "bytes read a worker": read / size,
            "np.sum ms": sum_ms,
            "choice ms": choice_ms,
        }
    )
    if (size, per_round) == (MILLION, PER_ROUND):
        report.check(
            f"a selection of {per_round:,} among {size:,} workers",
            "≤ 25 times np.sum over the same bytes",
            f"{choice_ms / sum_ms:.1f} times ({choice_ms:.2f} ms : {sum_ms:.2f} ms)",
            choice_ms <= 25 * sum_ms,
        )


class Plain:
    """The plain way: every array is walked several times, every round."""

    def __init__(self, arms: Arms, means: Floats) -> None:
        self._draw, self._means, self._rate = np.random.default_rng(3), means, arms.rate.copy()
        self._queue, self._tries = arms.queues(FIRST), arms.count.copy()
        self._gained = arms.mean * arms.count

    def play(self, number: int) -> None:
        awake = self._draw.random(len(self._means)) < AWAKE
        tries = np.maximum(self._tries, 1.0)
        bound = np.minimum(self._gained / tries + np.sqrt(1.5 * math.log(number) / tries), 1.0)
        bound[self._tries == 0] = 1.0
        scores = np.where(awake, self._queue + ETA * bound, -1.0)
        chosen = np.argpartition(scores, -PER_ROUND)[-PER_ROUND:]
        self._queue += self._rate
        self._queue[chosen] -= 1.0
        np.maximum(self._queue, 0.0, out=self._queue)
        self._tries[chosen] += 1
        self._gained[chosen] += self._draw.random(PER_ROUND) < self._means[chosen]


class Lazy:
    """The way of this package: one pass to draw, one to choose, and nothing else for all."""

    def __init__(self, arms: Arms, means: Floats) -> None:
        size = len(means)
        self.arms, self._means = arms, means
        self._weight, self._awake = np.ones(size), np.zeros(size, np.bool_)
        self._limits = np.full(size, int(AWAKE * 2**32), np.uint32)

    @property
    def nbytes(self) -> int:
        columns = [self._weight, self._awake, self._limits, self._means, *vars(self.arms).values()]
        return sum(column.nbytes for column in columns if isinstance(column, np.ndarray))

    def play(self, number: int) -> None:
        first, second = round_keys(3, number)
        compiled_draw()(np.uint64(first), np.uint64(second), self._limits, self._awake)
        places = self.arms.choose(number, self._awake[None, :], self._weight, PER_ROUND)
        self.arms.pick(number, places)
        lots = uniforms(round_keys(3, number, 1), places.astype(np.uint64))
        self.arms.learn(places, (lots < self._means[places]).astype(np.float64))


def rounds(report: Report, number: int) -> None:
    """Compare whole rounds, from the middle of a run on: draw who wakes, choose, reward, update."""
    means = np.random.default_rng(4).random(MILLION)
    players: dict[str, Plain | Lazy] = {
        "plain numpy": Plain(grown(MILLION)[0], means),
        "this package": Lazy(grown(MILLION)[0], means),
    }
    spent = dict.fromkeys(players, 0.0)
    for one in range(FIRST, FIRST + number + 1):
        for name, player in players.items():
            start = time.perf_counter()
            player.play(one)
            spent[name] += (time.perf_counter() - start) * (one > FIRST)  # the first compiles
    for name, spent_s in spent.items():
        report.rows.append(
            {"whole rounds": name, "workers": MILLION, "rounds a second": number / spent_s}
        )
    faster = spent["plain numpy"] / spent["this package"]
    report.check(
        f"whole rounds of {MILLION:,} workers", "≥ 3 times as fast as plain numpy",
        f"{faster:.1f} times", faster >= 3,
    )  # fmt: skip


def memory(report: Report, size: int) -> None:
    """Measure the memory of `size` workers in a process of its own."""
    command = [sys.executable, __file__, str(size)]
    found = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    report.rows.append(found)
    measured = max(found["bytes a worker, arrays"], found["bytes a worker, peak of the process"])
    report.check(
        f"memory of {size:,} workers, with their means and who is awake",
        f"≤ {WORKER_BYTES} bytes a worker", f"{measured:.1f}", measured <= WORKER_BYTES,
    )  # fmt: skip


def _status_bytes(key: str) -> int:
    with open("/proc/self/status") as file:  # noqa: PTH123
        return next(int(line.split()[1]) for line in file if line.startswith(key)) * 1024


def _memory(size: int) -> None:
    warm = Lazy(grown(2 * PER_ROUND)[0], np.ones(2 * PER_ROUND))
    warm.play(FIRST)
    with open("/proc/self/clear_refs", "w") as file:  # noqa: PTH123
        file.write("5")  # the peak begins anew: compiling had one of its own
    before = _status_bytes("VmRSS")
    lazy = Lazy(grown(size)[0], np.full(size, 0.5))
    start = time.perf_counter()
    for number in range(FIRST, FIRST + 5):
        lazy.play(number)
    elapsed_s = (time.perf_counter() - start) / 5
    found = {
        "workers": size,
        "bytes a worker, arrays": lazy.nbytes / size,
        "bytes a worker, peak of the process": (_status_bytes("VmHWM") - before) / size,
        "ms a whole round": elapsed_s * 1e3,
    }
    print(json.dumps(found))


def server_side(report: Report, workers: int) -> None:
    """Measure what the server's own calls cost."""
    one = FairUpperConfidence(fairness=1e-3)
    candidates = [Candidate(f"w{number:05d}", 50.0) for number in range(workers)]
    chosen = one.select(1, candidates, 100)
    select_ms, state_ms = [], []
    for number in range(2, 12):
        for name in chosen:
            one.record_reward(number - 1, name, 0.5)
        start = time.perf_counter()
        chosen = one.select(number, candidates, 100)
        middle = time.perf_counter()
        size = sum(map(len, one.changes().values()))
        state_ms.append((time.perf_counter() - middle) * 1e3)
        select_ms.append((middle - start) * 1e3)
    report.rows.append(
        {
            "candidates": workers,
            "select ms": min(select_ms),
            "state ms": min(state_ms),
            "state bytes a worker": size / workers,
        }
    )
    report.check(
        f"state of {workers:,} workers after a change", "≤ 3 ms", f"{min(state_ms):.2f} ms",
        min(state_ms) <= 3,
    )  # fmt: skip


if __name__ == "__main__":
    _memory(int(sys.argv[1]))
