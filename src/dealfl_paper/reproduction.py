"""Running figures: settings whose rows are stored are not run again, missing data is skipped.

Settings that measure time run alone, here; the others in several processes or on an executor.
"""

from __future__ import annotations

import multiprocessing
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from dealfl.data import CATALOG, Directories
from dealfl.errors import BadBytes, BadInput, DatasetMissing, unknown_name
from dealfl.exact import prefer_loops
from dealfl.parallel import AnyExecutor, call_each
from dealfl.simulate import require_processes
from dealfl_paper.figure import Claim, Figure, Row, Setting, Verdict
from dealfl_paper.figures import FIGURES
from dealfl_paper.store import Store


@dataclass(frozen=True, slots=True)
class Step:
    """What runs next."""

    figure: str
    number: int
    of: int
    left_s: float


@dataclass(frozen=True, slots=True)
class Done:
    """A figure with its rows."""

    figure: Figure
    settings: Sequence[Setting]
    rows: Sequence[Row]
    skipped: Sequence[str]
    elapsed_s: float
    quick: bool = False

    @property
    def claims(self) -> Sequence[Claim]:
        """The claims that these rows judge; fewer or smaller settings than all judge nothing."""
        claims = self.figure.claims(self.rows) if self.rows else ()
        if not self.quick or self.settings == self.figure.settings(False):
            return claims
        return [
            claim
            if claim.verdict is Verdict.NOT_COMPARABLE
            else replace(claim, verdict=Verdict.TOO_SMALL)
            for claim in claims
        ]


@dataclass(slots=True)
class Reproduction:
    """All figures that ran."""

    quick: bool
    figures: list[Done] = field(default_factory=list)


def find_figures(names: Sequence[str]) -> list[Figure]:
    """Return figures by name, in the order of the paper; all if no name is given."""
    by_name = {figure.name: figure for figure in FIGURES}
    for name in names:
        if name not in by_name:
            raise unknown_name("figure", name, by_name)
    return [figure for name, figure in by_name.items() if not names or name in names]


def reproduce(
    folder: Path,
    names: Sequence[str] = (),
    *,
    quick: bool = False,
    restart: bool = False,
    processes: int = 1,
    executor: AnyExecutor | None = None,
    progress: Callable[[Step], None] = lambda _: None,
) -> Reproduction:
    """Run the figures of the paper, except for what is stored in the folder."""
    require_processes(processes)
    if executor is None and processes > 1:
        context, initial = multiprocessing.get_context("spawn"), (signal.SIGINT, signal.SIG_DFL)
        executor = partial(ProcessPoolExecutor, processes, context, signal.signal, initial)
    figures, store = find_figures(names), Store(folder)
    if restart:
        for figure in figures:
            store.discard(figure.name)
    skipped = dict(_run_all(figures, store, quick, executor, progress))
    return Reproduction(quick, [_done(figure, store, quick, skipped) for figure in figures])


@dataclass(frozen=True, slots=True)
class _Task:
    """A setting to run."""

    figure: Figure
    index: int
    setting: Setting

    @property
    def cost_s(self) -> float:
        return self.figure.cost_s(self.setting)


def _run_all(
    figures: Sequence[Figure],
    store: Store,
    quick: bool,
    executor: AnyExecutor | None,
    progress: Callable[[Step], None],
) -> Iterator[tuple[tuple[str, int], str]]:
    """Run what is not stored; yield what was skipped, and why."""
    tasks = [
        _Task(figure, index, setting)
        for figure in figures
        for index, setting in _numbered(figure, quick)
    ]
    waiting = [task for task in tasks if store.rows(task.figure.name, task.setting) is None]
    if executor is not None:
        waiting.sort(key=lambda task: not task.figure.measures(task.setting))
    left_s, start_s, done_s = sum(entry.cost_s for entry in waiting), time.monotonic(), 0.0
    results = _results(waiting, executor)
    for number, task in enumerate(waiting, len(tasks) - len(waiting) + 1):
        slower = (time.monotonic() - start_s) / done_s if done_s else 1.0
        progress(Step(task.figure.name, number, len(tasks), left_s * slower))
        done, rows, elapsed_s = next(results)
        if isinstance(rows, str):
            yield (done.figure.name, done.index), rows
        else:
            store.add(done.figure.name, done.setting, rows, elapsed_s)
        left_s, done_s = left_s - done.cost_s, done_s + done.cost_s


def _results(
    tasks: Sequence[_Task], executor: AnyExecutor | None
) -> Iterator[tuple[_Task, Sequence[Row] | str, float]]:
    """Yield tasks with their rows, or why they were skipped, and their time, as they end."""
    alone = [task for task in tasks if executor is None or task.figure.measures(task.setting)]
    for task in alone:
        yield task, *_perform(task.figure, task.setting)
    if executor is not None:
        shared = tasks[len(alone) :]
        calls = ((n, (task.figure.name, task.setting)) for n, task in enumerate(shared))
        for number, done in call_each(executor, _perform_named, calls):
            yield shared[number], *done


def _perform_named(name: str, setting: Setting) -> tuple[Sequence[Row] | str, float]:
    return _perform(find_figures([name])[0], setting)


def _perform(figure: Figure, setting: Setting) -> tuple[Sequence[Row] | str, float]:
    prefer_loops()  # else a time would depend on what ran before in the same process
    begun_s = time.perf_counter()
    try:
        rows: Sequence[Row] | str = figure.run(setting)
    except DatasetMissing:
        rows = "; ".join(map(describe_missing, figure.datasets(setting)))
    except BadBytes:
        names = figure.datasets(setting)
        rows = "; ".join(f"{name} is damaged: dealfl datasets check {name}" for name in names)
    return rows, time.perf_counter() - begun_s


def describe_missing(dataset: str) -> str:
    """Return one line about a dataset that is not here: how to get it."""
    files = Directories.from_environment().missing(CATALOG[dataset])
    if all(file.url for file in files):
        return f"{dataset} is missing: dealfl datasets fetch {dataset}"
    how = " ".join(CATALOG[dataset].how_to_get.split())
    return f"{dataset} is missing: {how}; dealfl datasets fetch {dataset} says where"


def find_missing(names: Sequence[str], *, quick: bool) -> list[str]:
    """Return the datasets that figures need and that are not here, in the order of their use."""
    here = Directories.from_environment()
    needed = (
        dataset
        for figure in find_figures(names)
        for setting in figure.settings(quick)
        for dataset in figure.datasets(setting)
    )
    return [
        dataset
        for dataset in dict.fromkeys(needed)
        if dataset in CATALOG and here.missing(CATALOG[dataset])
    ]


def require_data(names: Sequence[str], *, quick: bool) -> None:
    """Refuse to start without the datasets of the figures; say how to get each."""
    if missing := find_missing(names, quick=quick):
        lines = "\n".join(f"  {describe_missing(dataset)}" for dataset in missing)
        raise BadInput(
            f"datasets that the figures need are not here: {len(missing)}\n{lines}\n"
            "`dealfl datasets fetch --paper` downloads what can be downloaded; --skip-missing runs "
            "without the others"
        )


def _numbered(figure: Figure, quick: bool) -> list[tuple[int, Setting]]:
    return list(enumerate(figure.settings(quick)))


def _done(figure: Figure, store: Store, quick: bool, skipped: dict[tuple[str, int], str]) -> Done:
    reasons = [why for (name, _), why in skipped.items() if name == figure.name]
    settings = [
        setting
        for index, setting in _numbered(figure, quick)
        if (figure.name, index) not in skipped
    ]
    rows = [row for setting in settings for row in store.rows(figure.name, setting) or ()]
    elapsed_s = sum(store.elapsed_s(figure.name, setting) for setting in settings)
    return Done(figure, settings, rows, tuple(dict.fromkeys(reasons)), elapsed_s, quick)
