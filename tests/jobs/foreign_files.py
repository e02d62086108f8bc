"""Files as others write them, made by the tests."""

import random
from pathlib import Path

from dealfl.cli import main
from dealfl.jobs import Document
from dealfl.simulate import Outcome, fleet_of, run_fleet


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
    """Run the fleet of a job file for a few rounds."""
    return run_fleet(fleet_of(Document.read(job).replaced("job.rounds", rounds)))
