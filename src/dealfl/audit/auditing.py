"""The audit of a run: traces of persons in its model and files, and the curves of all attacks."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dealfl.audit.attacks import MIN_TRIALS, SUBJECTS, Point, try_attacks
from dealfl.errors import BadInput, DatasetMissing, DealError
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

_PERSONS = 100
_FEWEST = 10  # persons, learned and not, whom a curve compares
_ERASED = 5
_MIN_NEEDLE = 12  # bytes; shorter ones occur by chance
People = dict[bytes, list[Record]]


@dataclass(frozen=True, slots=True)
class Finding:
    """One result of the inspection of a run."""

    what: str
    before: float | None
    after: float | None
    expected: str  # of a system that forgets exactly
    holds: bool | None  # None where chance decides

    def cells(self, nothing: str) -> tuple[str, ...]:
        """Return the finding as a row of a table; `nothing` stands for a missing number."""
        numbers = (self.before, self.after)
        shown = (nothing if number is None else f"{number:,.3g}" for number in numbers)
        return self.what, *shown, self.expected, {True: "yes", False: "NO", None: ""}[self.holds]


@dataclass(frozen=True, slots=True)
class Audit:
    """The result of an audit."""

    run: str
    findings: list[Finding]
    points: list[Point]
    notes: list[str]

    @property
    def holds(self) -> bool:
        """Whether no finding contradicts exact forgetting."""
        return all(finding.holds is not False for finding in self.findings)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return asdict(self) | {"holds": self.holds}


def audit_run(
    run: RunFolder,
    trials: int = MIN_TRIALS,
    seed: int = 0,
    report: Callable[[str], None] = lambda _: None,
) -> Audit:
    """Look for traces of persons in a run, and try all attacks; the run is not changed."""
    _require_finished(run)
    with tempfile.TemporaryDirectory() as folder:
        copy = RunFolder(Path(folder) / "run", run.ledger.name)
        shutil.copytree(run.path, copy.path)
        try:
            findings = _inspect(copy, np.random.default_rng(seed), report)
        except DealError as error:  # names no file that is gone
            raise DealError(str(error).replace(str(copy.path), str(run.path))) from error
    points = []
    notes = []
    for subject in SUBJECTS:
        try:
            points += try_attacks(subject, trials, seed=seed, report=report)
        except DatasetMissing:
            remedy = "movielens is missing; `dealfl datasets fetch movielens` downloads it"
            notes.append(f"attacks on a {subject} model are left out: {remedy}")
        except DealError as error:
            notes.append(f"attacks on a {subject} model are left out: {error}")
    notes.append(
        "An attack on a stale model needs the stale model. The state of a system that forgets "
        "exactly equals training without the person: there is nothing to compare."
    )
    return Audit(str(run.path), findings, points, notes)


def _require_finished(run: RunFolder) -> None:
    """Refuse what cannot be audited before anything is copied."""
    if run.job is None or run.progress() is not None:
        what = "has no job.toml" if run.job is None else "holds a run that has not ended"
        raise BadInput(f"{run.path} {what}; audit the folder of a finished run")
    if not find_journals(run):
        raise BadInput(
            f"{run.path} has no journals of workers (--discard-data): nobody's examples are there "
            "to look for"
        )


# -- traces ---------------------------------------------------------------------------------------


def _inspect(
    run: RunFolder, draw: np.random.Generator, report: Callable[[str], None]
) -> list[Finding]:
    """Look for small updates, ghosts in the statistics, membership, and bytes in files."""
    document = run.document()
    assert document is not None, "a finished run has a job"
    make = plan_without_data(document).make
    people = _read_people(run)
    names = sorted(people)
    order = [names[number] for number in draw.permutation(len(people))]
    report("updates")
    findings = _count_small_updates(run)
    report("ghosts")
    findings.append(_find_ghosts(run))
    report("membership")
    findings.append(_infer_members(make, people, order))
    report("bytes in files")
    findings.append(_find_bytes(run, make, people, order[:_ERASED]))
    return findings


def _read_people(run: RunFolder) -> People:
    people: People = {}
    for path in find_journals(run).values():
        with closing(Journal(path)) as journal:
            for record in journal.records(State.LEARNED):
                people.setdefault(record.owner, []).append(record)
    return people


def _count_small_updates(run: RunFolder) -> list[Finding]:
    """Count the updates of one example: such an update is the example."""
    rounds = [row for worker in read_workers(run) for row in read_worker_rounds(run, worker.name)]
    sizes = [row["learned"] + row["evicted"] for row in rounds if row["learned"] or row["evicted"]]
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
    if count < _FEWEST:
        what = f"membership: {len(order)} persons are too few to say; {3 * _FEWEST} are needed"
        return Finding(what, None, None, "0.5 after", None)
    strangers, erased = order[:count], order[count : 2 * count]
    areas = []
    for left_out in (set(strangers), {*strangers, *erased}):
        model = make()
        rest = [
            record
            for owner, records in people.items()
            if owner not in left_out
            for record in records
        ]
        model.merge(statistics_of(make, rest)[0])
        scores = [_fit(model, people[owner]) for owner in (*erased, *strangers)]
        areas.append(_area_under_curve(scores[:count], scores[count:]))
    noise = 1.96 * (1 / (6 * count)) ** 0.5  # of an area under the curve of 0.5
    what = f"membership of {count} persons: area under the curve, ± {noise:.2f} by chance"
    return Finding(what, areas[0], areas[1], "0.5 after", abs(areas[1] - 0.5) <= 2 * noise)


def _fit(model: Learner, records: Sequence[Record]) -> float:
    """Return how well a model fits the examples of a person."""
    if isinstance(model, HistoryLearner):
        return model.score_federated([[Histories.decode(record.body) for record in records]])
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
    others = {
        record.body
        for owner, records in people.items()
        if owner not in erased
        for record in records
    }
    needles = set()
    for owner in erased:
        delta = statistics_of(make, people[owner])[0]
        needles |= {record.body for record in people[owner]} - others
        needles |= {delta.to_bytes(), (-delta).to_bytes()}
    needles = {needle for needle in needles if len(needle) >= _MIN_NEEDLE}
    before = _count_needles(run.path, needles)
    erase_owners(run, [f"#{owner.hex()}" for owner in erased], requested_by="audit")
    after = _count_needles(run.path, needles)
    what = f"bytes of {len(erased)} persons in the files of a copy, {len(needles)} patterns"
    return Finding(what, float(before), float(after), "0 after", after == 0)


def _count_needles(folder: Path, needles: set[bytes]) -> int:
    files = [file.read_bytes() for file in folder.rglob("*") if file.is_file()]
    return sum(needle in content for content in files for needle in needles)
