"""Inspection of a run: traces of persons in its model and files, before and after an erasure."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dealfl.jobs import plan_without_data
from dealfl.learners import Histories, HistoryLearner, Learner, RowLearner, statistics_of
from dealfl.runs import (
    RunFolder,
    erase_owners,
    find_journals,
    open_model,
    read_worker_rounds,
    read_workers,
    retrain,
)
from dealfl.worker import Journal, Record, State

__all__ = ["Finding", "inspect_run"]

_PERSONS, _ERASED = 100, 5
_MIN_NEEDLE = 12  # bytes; shorter ones occur by chance
People = dict[bytes, list[Record]]


@dataclass(frozen=True, slots=True)
class Finding:
    """One result of the inspection of a run.

    Parameters
    ----------
    what : str
        What was looked for.
    before, after : float or None
        Result before and after an erasure; None if it does not apply.
    expected : str
        The result of a system that forgets exactly.
    holds : bool or None
        Whether the result is the expected one; None where chance decides.
    """

    what: str
    before: float | None
    after: float | None
    expected: str
    holds: bool | None


def inspect_run(
    run: RunFolder, seed: int = 0, report: Callable[[str], None] = lambda _: None
) -> list[Finding]:
    """Look for traces of persons in a finished run; the run itself is not changed.

    Parameters
    ----------
    run : RunFolder
        The run.
    seed : int
        Seed of the choice of persons.
    report : callable
        Receives the name of each part when it starts.

    Returns
    -------
    list of Finding
        Small updates, ghosts in the statistics, membership, and bytes in files.
    """
    with tempfile.TemporaryDirectory() as folder:
        copy = RunFolder(Path(folder) / "run", run.ledger.name)
        shutil.copytree(run.path, copy.path)
        return _inspect(copy, np.random.default_rng(seed), report)


def _inspect(
    run: RunFolder, draw: np.random.Generator, report: Callable[[str], None]
) -> list[Finding]:
    document = run.document()
    assert document is not None, "a finished run has a job"
    make, people = plan_without_data(document).make, _read_people(run)
    order = [sorted(people)[place] for place in draw.permutation(len(people))]
    report("updates")
    found = _count_small_updates(run)
    report("ghosts")
    found.append(_find_ghosts(run))
    report("membership")
    found.append(_infer_members(make, people, order))
    report("bytes in files")
    found.append(_find_bytes(run, make, people, order[:_ERASED]))
    return found


def _read_people(run: RunFolder) -> People:
    people: People = {}
    for path in find_journals(run).values():
        with closing(Journal(path)) as journal:
            for record in journal.records(State.LEARNED):
                people.setdefault(record.owner, []).append(record)
    return people


def _count_small_updates(run: RunFolder) -> list[Finding]:
    """Count the updates of one example: such an update is the example."""
    rounds = [one for worker in read_workers(run) for one in read_worker_rounds(run, worker.name)]
    sizes = [one["learned"] + one["evicted"] for one in rounds if one["learned"] or one["evicted"]]
    alone = float(sum(size == 1 for size in sizes))
    words = "0 with min_examples_per_update > 1"
    return [
        Finding("updates of rounds", float(len(sizes)), None, "", None),
        Finding("updates that hold one example", alone, None, words, None),
    ]


def _find_ghosts(run: RunFolder) -> Finding:
    """Compare the model of the server with training on what is held."""
    differs = float(open_model(run.path).learner.digest() != retrain(run))
    what = "statistics that differ from training on what is held"
    return Finding(what, differs, None, "0", not differs)


# -- membership -----------------------------------------------------------------------------------


def _infer_members(make: Callable[[], Learner], people: People, order: Sequence[bytes]) -> Finding:
    """Return how well the model tells persons who were learned from persons who were not."""
    count = min(_PERSONS, len(order) // 3)
    strangers, erased = order[:count], order[count : 2 * count]
    areas = []
    for left_out in (set(strangers), {*strangers, *erased}):
        model = make()
        rest = [one for owner, own in people.items() if owner not in left_out for one in own]
        model.merge(statistics_of(make, rest)[0])
        scores = [_fit(model, people[owner]) for owner in (*erased, *strangers)]
        areas.append(_area_under_curve(scores[:count], scores[count:]) if count else 0.5)
    noise = 1.96 * (1 / (6 * max(count, 1))) ** 0.5  # of an area under the curve of 0.5
    what = f"membership of {count} persons: area under the curve, ± {noise:.2f} by chance"
    return Finding(what, areas[0], areas[1], "0.5 after", abs(areas[1] - 0.5) <= 2 * noise)


def _fit(model: Learner, records: Sequence[Record]) -> float:
    """Return how well a model fits the examples of a person."""
    if isinstance(model, HistoryLearner):
        return model.score_federated([[Histories.decode(one.body) for one in records]])
    assert isinstance(model, RowLearner), "learners take rows or histories"
    features, targets = model.rows_of(records)
    predicted = model.predict_federated(features)
    if targets.dtype == np.float64:
        return -float(np.mean(np.abs(predicted - targets)))
    return float(np.mean(predicted == targets))


def _area_under_curve(members: Sequence[float], others: Sequence[float]) -> float:
    ours, theirs = np.array(members)[:, None], np.array(others)[None, :]
    return float(np.mean((ours > theirs) + 0.5 * (ours == theirs)))


# -- bytes ----------------------------------------------------------------------------------------


def _find_bytes(
    run: RunFolder, make: Callable[[], Learner], people: People, erased: Sequence[bytes]
) -> Finding:
    """Erase persons, and look for their examples and deltas in all files of the run."""
    others = {one.body for owner, own in people.items() if owner not in erased for one in own}
    needles = set()
    for owner in erased:
        delta = statistics_of(make, people[owner])[0]
        needles |= {one.body for one in people[owner]} - others
        needles |= {delta.to_bytes(), (-delta).to_bytes()}
    needles = {one for one in needles if len(one) >= _MIN_NEEDLE}
    before = _count_needles(run.path, needles)
    erase_owners(run, [f"#{owner.hex()}" for owner in erased], requested_by="audit")
    after = _count_needles(run.path, needles)
    what = f"bytes of {len(erased)} persons in the files of a copy, {len(needles)} patterns"
    return Finding(what, float(before), float(after), "0 after", after == 0)


def _count_needles(folder: Path, needles: set[bytes]) -> int:
    files = [file.read_bytes() for file in folder.rglob("*") if file.is_file()]
    return sum(one in content for content in files for one in needles)
