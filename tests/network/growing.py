"""The files of the workers of a storm: they grow while the workers read, and a person is erased."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from dealfl.erasure import owner_hash
from dealfl.jobs import Document, plan_without_data
from dealfl.network import Credentials, ask
from dealfl.network.feed import Position
from dealfl.storage import open_read_only
from dealfl.worker import State
from dealfl.worker.journal import decode_state

SOURCE = """
[source]
file = "data.csv"
owner = "who"
target = "y"
target_bound = 1e6

[source.columns]
x = { low = 0.0, high = 1e6 }
"""
ERASED, OTHERS = "ann", ("bob", "carol", "dave")
REQUEST = "r1"


class Growing:
    """One file for each worker; every row has a number of its own."""

    def __init__(self, folder: Path, draw: random.Random, first: int = 0) -> None:
        self.folder, self._draw = folder, draw
        self.rows: dict[str, list[tuple[str, int]]] = {}  # owner and number
        self._next = first
        folder.mkdir()

    def __len__(self) -> int:
        return sum(map(len, self.rows.values()))

    def path(self, name: str) -> Path:
        return self.folder / f"{name}.csv"

    def grow(self, name: str, people: Sequence[str]) -> None:
        """Append some rows of people who are drawn."""
        count = self._draw.choice([1, 2, 20])
        self.append(name, [self._draw.choice(people) for _ in range(count)])

    def append(self, name: str, owners: Sequence[str]) -> None:
        first, self._next = self._next, self._next + len(owners)
        new = list(zip(owners, range(first, self._next), strict=True))
        with self.path(name).open("a") as file:
            file.write("who,x,y\n" * (file.tell() == 0))
            file.writelines(f"{owner},{number},{number}.5\n" for owner, number in new)
        self.rows.setdefault(name, []).extend(new)

    def find_sequence(self, name: str, journal: Path) -> int:
        """Return the sequence of the last update; -1 while a worker has something to do."""
        with closing(open_read_only(journal)) as db:
            (busy,) = db.execute(
                "SELECT (SELECT count(*) FROM outbox) + (SELECT count(*) FROM records "
                "WHERE state = ?)", (int(State.WAITING),)
            ).fetchone()  # fmt: skip
            files = db.execute("SELECT position FROM positions").fetchall()
            row = db.execute("SELECT value FROM settings WHERE name = 'state'").fetchone()
        read = sum(msgspec.json.decode(position, type=Position).offset for (position,) in files)
        is_read = read == self.path(name).stat().st_size
        return -1 if busy or not is_read else decode_state(row[0]).sequence

    def train(self, job: Path, region: str = "") -> str:
        """Return the digest of central training on the rows of all files, or of one region."""
        model: Any = plan_without_data(Document.read(job)).make()
        kept = [
            number
            for name, rows in self.rows.items()
            for owner, number in rows
            if owner != ERASED and name.startswith(region)
        ]
        if kept:
            model.learn([[float(n)] for n in kept], [n + 0.5 for n in kept])
        return str(model.digest())


def hash_erased(operator: Credentials) -> bytes:
    """Return the keyed hash of the person who is erased."""
    return owner_hash(bytes.fromhex(operator.owners_key), ERASED)


def erase(operator: Credentials, timeout_s: float) -> None:
    """Ask the server, whatever happens to it, until it has answered."""
    ask(operator, "erase", {"request": REQUEST, "owners": [hash_erased(operator).hex()]}, timeout_s)
