"""Runs with twelve people, from which tests erase."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np

import dealfl
from dealfl.erasure import owner_hash
from dealfl.learners import Learner, statistics_of
from dealfl.runs import RunFolder
from dealfl.worker import Journal, State

LEARNERS = ("naive_bayes", "neighbors", "tikhonov", "tikhonov_classifier", "personalized_pagerank")


def write_people(path: Path, *, is_regression: bool) -> dict[str, list[list[float]]]:
    """Write rows of 12 people; return the rows of each."""
    draw = np.random.default_rng(3)
    rows: dict[str, list[list[float]]] = {}
    lines = ["who,a,b,target"]
    for number in range(72):
        a, b = (round(float(value), 6) for value in draw.uniform(0, 1, 2))
        target = f"{a - b:.6f}" if is_regression else ("yes" if a > b else "no")
        lines.append(f"person {number % 12},{a},{b},{target}")
        rows.setdefault(f"person {number % 12}", []).append([a, b])
    path.write_text("\n".join(lines) + "\n")
    return rows


def make_fleet(folder: Path, learner: str) -> dealfl.Fleet:
    if learner == "personalized_pagerank":
        draw = np.random.default_rng(1)
        histories = {
            f"person {n}": [f"i{item}" for item in draw.choice(20, 6, replace=False)]
            for n in range(12)
        }
        lines = ["who,item", *(f"{who},{item}" for who, held in histories.items() for item in held)]
        (folder / "data.csv").write_text("\n".join(lines) + "\n")
        return dealfl.Fleet.from_file(
            folder / "data.csv", owner="who", item="item", learner=learner, workers=4
        )
    write_people(folder / "data.csv", is_regression=learner == "tikhonov")
    return dealfl.Fleet.from_file(
        folder / "data.csv", target="target", owner="who", learner=learner, workers=4
    )


def held_by_others(run: RunFolder, owner: str, make: Callable[[], Learner]) -> str:
    """Return the digest of training on what is held of everybody else."""
    hashed, model = owner_hash(run.owners_key(), owner), make()
    for path in sorted((run.path / "workers").glob("*.db")):
        with closing(Journal(path)) as journal:
            records = [one for one in journal.records(State.LEARNED) if one.owner != hashed]
            model.merge(statistics_of(make, records)[0])
    return str(model.digest())


def stored_bodies(run: RunFolder, owner: str) -> dict[str, bytes]:
    """Return what workers store of a person."""
    hashed, found = owner_hash(run.owners_key(), owner), dict[str, bytes]()
    for path in sorted((run.path / "workers").glob("*.db")):
        with closing(Journal(path)) as journal:
            for records in journal.records_of([hashed]).values():
                found |= {f"{path.stem}: body {one.id}": one.body for one in records}
    return found
