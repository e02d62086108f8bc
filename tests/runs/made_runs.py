"""Real runs on disk for the tests: a small fleet, its job file and its ledger."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from dealfl.settings import Document
from dealfl.simulate import Outcome, read_fleet, run_fleet
from tests.simulate import fleets

HOUSES = """\
[job]
name = "houses"
rounds = 4
workers_per_round = 3

[source]
file = "houses.csv"
target = "price"
target_bound = 1000.0

[source.columns]
size = { low = 0.0, high = 300.0 }
town = { words = ["Bern", "Basel", "Chur"] }

[learner]
penalty = 0.25

[[devices]]
count = 5
"""

FILMS = """\
[job]
name = "films"
rounds = 3
workers_per_round = 4
evaluate_every = 3

[source]
format = "ratings"
file = "ratings.csv"
owner = "who"
item = "film"
rating = "stars"
liked_from = 3
items = ["alien", "brazil", "casablanca", "dune", "emma", "fargo"]

[data]
partition = "by_owner"
test_share = 0.2

[[devices]]
count = 4
"""


TINY = """
[job]
name = "tiny"
dataset = "digits"
learner = "naive_bayes"
rounds = 12
workers_per_round = 3
forget_fraction = "0.1"
selector = "fair_ucb"

[[devices]]
count = 3
phone = "honor"

[[devices]]
count = 3
phone = "nexus"

[data]
rows = 200

[arrival]
pattern = "poisson"
initial_share = 0.3
examples_per_hour = 60

[availability]
kind = "markov"
up_s = 600
down_s = 200

[faults]
loss = 0.1
dropout_share = 0.1
"""


def make_run(folder: Path, text: str = fleets.TEXT) -> Outcome:
    """Run a fleet; its job file and ledger are left in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "job.toml").write_text(text)
    return run_fleet(read_fleet(Document.read(folder / "job.toml")), ledger=folder / "ledger.db")


def read_result(folder: Path) -> dict[str, Any]:
    """Return the result that `dealfl run` left in a folder."""
    found: dict[str, Any] = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    return found


def digits(learner: str) -> str:
    """Return the text of a job that learns digits."""
    return fleets.TEXT.replace("naive_bayes", learner)


def write_houses(folder: Path) -> None:
    """Write houses whose price is 3 · size and 10 more in Basel."""
    folder.mkdir(parents=True, exist_ok=True)
    draw = random.Random(5)
    rows = ["size,town,price"]
    for _ in range(60):
        size, town = draw.randrange(20, 250), draw.choice(["Bern", "Basel", "Chur"])
        rows.append(f"{size},{town},{3 * size + 10 * (town == 'Basel')}")
    (folder / "houses.csv").write_text("\n".join(rows) + "\n")


def write_ratings(folder: Path) -> None:
    """Write people who like either alien, brazil and dune, or casablanca, emma and fargo."""
    folder.mkdir(parents=True, exist_ok=True)
    draw = random.Random(3)
    rows = ["who,film,stars"]
    for person in range(30):
        liked = draw.choice([("alien", "brazil", "dune"), ("casablanca", "emma", "fargo")])
        rows += [f"p{person},{film},5" for film in liked]
        rows.append(f"p{person},{draw.choice(['alien', 'emma'])},1")
    (folder / "ratings.csv").write_text("\n".join(rows) + "\n")
