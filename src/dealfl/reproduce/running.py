"""Running figures: settings whose rows are stored are not run again, missing data is skipped."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dealfl.errors import DatasetMissing, unknown_name
from dealfl.reproduce.figure import Claim, Figure, Row, Setting
from dealfl.reproduce.figures import FIGURES
from dealfl.reproduce.store import Store

__all__ = ["Done", "Reproduction", "Step", "find_figures", "reproduce"]


@dataclass(frozen=True, slots=True)
class Step:
    """What runs next.

    Parameters
    ----------
    figure : str
        Name of the figure.
    number, of : int
        Number of the setting, and of all settings.
    left_s : float
        Estimate of the remaining time, in seconds.
    """

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

    @property
    def claims(self) -> Sequence[Claim]:
        """The claims that these rows judge."""
        return self.figure.claims(self.rows) if self.rows else ()


@dataclass(slots=True)
class Reproduction:
    """All figures that ran.

    Parameters
    ----------
    quick : bool
        Whether fewer and smaller settings ran.
    figures : list of Done
        The figures, with rows and claims.
    """

    quick: bool
    figures: list[Done] = field(default_factory=list)


def find_figures(names: Sequence[str]) -> list[Figure]:
    """Return figures by name, in the order of the paper; all if no name is given."""
    known = {figure.name: figure for figure in FIGURES}
    for name in names:
        if name not in known:
            raise unknown_name("figure", name, known)
    return [figure for name, figure in known.items() if not names or name in names]


def reproduce(
    folder: Path,
    names: Sequence[str] = (),
    *,
    quick: bool = False,
    restart: bool = False,
    progress: Callable[[Step], None] = lambda _: None,
) -> Reproduction:
    """Run the figures of the paper, except for what is stored in the folder.

    Parameters
    ----------
    folder : Path
        Folder of the rows.
    names : sequence of str
        Names of figures; by default all.
    quick : bool, default False
        Run fewer and smaller settings.
    restart : bool, default False
        Discard the stored rows of these figures first.
    progress : callable, optional
        Called before each setting.

    Returns
    -------
    Reproduction
        Rows and claims.

    Raises
    ------
    UnknownName
        No figure has that name.
    """
    figures, store = find_figures(names), Store(folder)
    if restart:
        for figure in figures:
            store.discard(figure.name)
    skipped = dict(_run_all(figures, store, quick, progress))
    return Reproduction(quick, [_done(one, store, quick, skipped) for one in figures])


def _run_all(
    figures: Sequence[Figure], store: Store, quick: bool, progress: Callable[[Step], None]
) -> Iterator[tuple[tuple[str, int], str]]:
    """Run what is not stored; yield what was skipped, and why."""
    pairs = [(figure, place, one) for figure in figures for place, one in _numbered(figure, quick)]
    waiting = [(f, place, one) for f, place, one in pairs if store.rows(f.name, one) is None]
    left_s = sum(figure.cost_s(setting) for figure, _, setting in waiting)
    start_s, done_s = time.monotonic(), 0.0
    for number, (figure, place, setting) in enumerate(waiting, len(pairs) - len(waiting) + 1):
        slower = (time.monotonic() - start_s) / done_s if done_s else 1.0
        progress(Step(figure.name, number, len(pairs), left_s * slower))
        begun_s = time.perf_counter()
        try:
            rows = figure.run(setting)
            store.add(figure.name, setting, rows, time.perf_counter() - begun_s)
        except DatasetMissing as error:
            yield (figure.name, place), str(error)
        cost_s = figure.cost_s(setting)
        left_s, done_s = left_s - cost_s, done_s + cost_s


def _numbered(figure: Figure, quick: bool) -> list[tuple[int, Setting]]:
    return list(enumerate(figure.settings(quick)))


def _done(figure: Figure, store: Store, quick: bool, skipped: dict[tuple[str, int], str]) -> Done:
    reasons = [why for (name, _), why in skipped.items() if name == figure.name]
    settings = [one for place, one in _numbered(figure, quick)
                if (figure.name, place) not in skipped]  # fmt: skip
    rows = [row for setting in settings for row in store.rows(figure.name, setting) or ()]
    elapsed_s = sum(store.elapsed_s(figure.name, setting) for setting in settings)
    return Done(figure, settings, rows, tuple(dict.fromkeys(reasons)), elapsed_s)
