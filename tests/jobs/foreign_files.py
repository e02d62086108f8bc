"""Files as others write them, made by the tests."""

import random
from pathlib import Path

import pytest

from dealfl.cli import main
from dealfl.errors import BadInput
from dealfl.jobs import Document, Plan, Reading
from dealfl.simulate import Outcome, read_fleet, run_fleet

JOB = """\
[job]
rounds = 2
[source]
file = "data.csv"
target = "y"
target_bound = 8
owner = "who"
time = "when"
[source.columns]
a = { low = 0, high = 4 }
b = { low = -1, high = 1, missing = 0.5 }
colour = { words = ["red", "blue"] }
day = { low = 0, high = 32, date = true }
[[devices]]
count = 2
[data]
partition = "by_owner"
"""
DATA = """\
who,when,a,b,colour,day,y
ann,3,1,0.25,red,1970-01-02,1
bob,2,2,,blue,1970-01-03,2
ann,2020-01-01,3,-1,red,1970-01-04,-8
"""


def write(folder: Path, name: str, text: str, encoding: str = "utf-8") -> Path:
    """Write a file, its line ends as they are."""
    path = folder / name
    path.write_bytes(text.encode(encoding))
    return path


def houses(rows: int = 60, delimiter: str = ",", end: str = "\n") -> str:
    """Return a table with a header: an id, an owner, numbers, a word, a date and a price."""
    draw = random.Random(1)
    lines = [delimiter.join(("id", "owner", "rooms", "age", "colour", "sold", "price"))]
    for row in range(rows):
        rooms, age = draw.randint(1, 9), draw.randint(0, 99)
        colour = draw.choice(("red", "green", "blue"))
        cells = (row + 1, f"person {row % 7}", rooms, age, colour, f"2024-01-{row % 28 + 1:02}",
                 rooms * 30 - age / 4)  # fmt: skip
        lines.append(delimiter.join(map(str, cells)))
    return end.join(lines) + end


def iris(rows: int = 60) -> str:
    """Return a table with a header whose target is a text."""
    draw = random.Random(2)
    lines = ["length,width,label"]
    for row in range(rows):
        kind = ("setosa", "virginica")[row % 2]
        lines.append(f"{draw.uniform(0, 2) + 3 * (row % 2):.2f},{draw.uniform(0, 3):.2f},{kind}")
    return "\n".join(lines)


def ratings(owners: int = 30) -> str:
    """Return a file of user, item, rating, timestamp."""
    draw = random.Random(3)
    lines = ["user,item,rating,timestamp"]
    for owner in range(owners):
        for item in draw.sample(range(1, 21), 8):
            lines.append(f"user {owner},{item},{draw.randint(1, 5)},{draw.randint(1, 10**9)}")
    return "\n".join(lines)


def begun(data: Path, *words: str) -> Path:
    """Run `dealfl job init` and return the job file."""
    out = data.with_suffix(".toml")
    assert main(["job", "init", str(data), "--out", str(out), *words]) == 0
    return out


def simulated(job: Path, rounds: int = 3) -> Outcome:
    """Run the fleet of a job file for a few rounds; the model is tested at the end only."""
    document = Document.read(job).replaced("job.rounds", rounds)
    return run_fleet(read_fleet(document.replaced("job.evaluate_every", rounds + 1)))


def plan(folder: Path, data: str = DATA, job: str = JOB) -> Plan:
    """Return the plan of a job for data that is written first."""
    write(folder, "data.csv", data)
    return read_fleet(Document.parse(job, "job.toml", folder)).plan


def reading(folder: Path, data: str = DATA, job: str = JOB) -> Reading:
    """Return what such a job reads."""
    return plan(folder, data, job).subject.read()


def refused(folder: Path, old: str, new: str, job: str = JOB, data: str = DATA) -> str:
    """Return how a job is refused after one change."""
    assert old in job
    with pytest.raises(BadInput) as refusal:
        plan(folder, data, job.replace(old, new, 1))
    return str(refusal.value)
