"""A job proposed for a file or for data in memory, tried before anybody relies on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dealfl.errors import BadInput, unknown_name
from dealfl.jobs import Data, Document, Reading
from dealfl.jobs.proposals import Sizes, Start, Wishes
from dealfl.learners import LEARNERS, learners_for
from dealfl.simulate import read_fleet

__all__ = ["Proposal", "propose", "require_count", "require_learner"]


@dataclass(frozen=True, slots=True)
class Proposal:
    """A proposed job: what was found in the data, the job file, and the data as it reads them."""

    start: Start
    text: str
    reading: Reading
    wishes: Wishes

    def sizes(self, rounds: int = 0) -> Sizes:
        """Return the sizes of the fleet; 0 rounds means: as wished."""
        examples = self.reading.examples
        count, owners = len(examples), examples.owners
        most = count if owners is None else len(set(owners.tolist()))
        records = examples.histories.nnz if self.start.format == "ratings" else count
        wanted = rounds or self.wishes.rounds
        return Sizes.fitting(count, max(most, 1), self.wishes.workers, wanted, records)


def propose(start: Start, wishes: Wishes, out: Path, data: Data | None = None) -> Proposal:
    """Return the job for what was found, after reading it, and the data by it, as a run would.

    Parameters
    ----------
    start
        What was found in the data.
    wishes
        Number of workers and of rounds; 0 proposes them.
    out
        Path of the job file; the data file is named relative to its folder.
    data
        Data in memory, in place of a file.

    Returns
    -------
    Proposal
        The job's text, and the data as it reads them.

    Raises
    ------
    BadInput
        If fewer than 2 examples can be used.
    """
    first = start.text(out.parent, Sizes(2, 1, 1))
    plan = read_fleet(Document.parse(first, str(out), out.parent), data).plan
    reading = plan.subject.read()
    count = len(reading.examples)
    if count < 2:
        raise BadInput(f"{start.path.name}: {count} row can be used; at least 2 are needed")
    sizes = Proposal(start, "", reading, wishes).sizes()
    text = start.text(out.parent, sizes)
    read_fleet(Document.parse(text, str(out), out.parent), data)
    return Proposal(start, text, reading, wishes)


def require_learner(
    learner: str | None, learns: str = "", tasks: Sequence[str] = (), other: str = ""
) -> None:
    """Refuse a learner that is unknown, or that learns from something else."""
    if not learner:
        return
    if learner not in LEARNERS:
        raise unknown_name("learner", learner, LEARNERS)
    if tasks and not any(learner in learners_for(task) for task in tasks):
        raise BadInput(f"{learner} learns from {learns}; use Fleet.{other}")


def require_count(workers: int | None) -> int:
    """Return a number of workers; 0 means: propose one."""
    if workers is not None and workers < 1:
        raise BadInput(f"workers is {workers}; it must be a whole number ≥ 1")
    return int(workers or 0)
