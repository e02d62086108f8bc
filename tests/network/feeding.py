"""A file that grows, and a worker that follows it; both can be interrupted at any moment."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from dealfl.jobs import Document, GrowingSource, plan_without_data
from dealfl.learners import Histories, RowLearner
from dealfl.network.feed import Feed
from dealfl.worker import Journal, MeasuredMeter, State, Worker

KEY = b"key of the job"
NUMBERS = """\
[job]
name = "test"
learner = "tikhonov"
scheme = "incremental"

[source]
file = "data.csv"
target = "y"
target_bound = 1e6

[source.columns]
x = { low = 0.0, high = 1e6 }
"""
HEADER = "x,y\n"


def row(number: int) -> str:
    """Return a row that no other number has."""
    return f"{number},{number}.5\n"


class Following:
    """A worker that follows a file or a folder, and is started again by each `with`."""

    def __init__(self, folder: Path, text: str = NUMBERS, name: str = "data.csv") -> None:
        self.folder, self.name, self.said = folder / "data", name, list[str]()
        self.folder.mkdir()
        self._journal_path = folder / "journal.db"
        self._document = Document.parse(text, "job.toml")

    @property
    def file(self) -> Path:
        return self.folder / "data.csv"

    def append(self, text: str, name: str = "data.csv") -> None:
        with (self.folder / name).open("a") as file:
            file.write(text)

    def copy_and_truncate(self, late: str = "", name: str = "data.csv.1") -> None:
        """Rotate as `copytruncate` does; late rows are written between copy and truncation."""
        (self.folder / name).write_bytes(self.file.read_bytes())
        self.append(late)
        self.file.write_bytes(b"")

    def feed(self, journal: Journal) -> Feed:
        plan = plan_without_data(self._document)
        worker = Worker("test", "w", plan.make, journal, MeasuredMeter(), key=KEY)
        source = GrowingSource(self._document, plan)
        data = self.folder / self.name
        return Feed(worker, journal, source, data, key=KEY, report=self._report)

    def _report(self, line: str) -> None:
        self.said.append(line.removeprefix("w: "))

    def poll(self, parts: int | None = None, between: Callable[[], None] = lambda: None) -> int:
        """Start a worker, follow the files until nothing is new (or for some parts), end it."""
        with closing(Journal(self._journal_path)) as journal:
            taken = 0
            for done, count in enumerate(self.feed(journal).poll(), 1):
                taken += count
                between()
                if done == parts:
                    break
            return taken

    @property
    def rows(self) -> list[int]:
        """The numbers of all stored rows, in the order of arrival."""
        with closing(Journal(self._journal_path)) as journal:
            records = journal.records(State.WAITING)
        learner = plan_without_data(self._document).make()
        assert isinstance(learner, RowLearner)
        return [int(number) for number in learner.rows_of(records)[0][:, 0]] if records else []

    @property
    def items(self) -> list[int]:
        """The items of all stored interactions."""
        with closing(Journal(self._journal_path)) as journal:
            return [Histories.decode(one.body) for one in journal.records(State.WAITING)]
