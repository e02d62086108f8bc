"""The records that a `LedgerReader` returns."""

from __future__ import annotations

from dataclasses import dataclass

from dealfl.server.tables import WorkerRow

__all__ = [
    "ClosedRound",
    "OpenRound",
    "Replies",
    "RoundFigures",
    "Selection",
    "Version",
    "WorkerFigures",
]


@dataclass(frozen=True, slots=True)
class WorkerFigures:
    """A worker, and its results in the rounds it was selected for.

    Parameters
    ----------
    row : WorkerRow
        State of the worker.
    updates_waiting : int
        Number of updates that are stored and not counted.
    selected : int
        Number of rounds in which it was selected.
    replied : int
        Number of rounds in which it sent an update.
    declined : int
        Number of rounds in which it declined.
    reward : float
        Sum of its rewards.
    energy_j : float
        Reported energy of all its trainings, in joules.
    """

    row: WorkerRow
    updates_waiting: int
    selected: int
    replied: int
    declined: int
    reward: float
    energy_j: float


@dataclass(frozen=True, slots=True)
class Selection:
    """A worker in a round.

    Parameters
    ----------
    worker : str
        Name of the worker.
    round : int
        Number of the round.
    replied_s : float or None
        Time of the reply, in seconds of the server's clock; None without one.
    declined : str
        Reason for declining; empty otherwise.
    learned : int
        Number of examples learned.
    evicted : int
        Number of examples evicted.
    operations : int
        Number of multiply-adds.
    elapsed_s : float
        Duration of the training in seconds.
    energy_j : float
        Energy of the training in joules.
    reward : float
        Reward in [0, 1].
    """

    worker: str
    round: int
    replied_s: float | None
    declined: str
    learned: int
    evicted: int
    operations: int
    elapsed_s: float
    energy_j: float
    reward: float


@dataclass(frozen=True, slots=True)
class OpenRound:
    """The open round.

    Parameters
    ----------
    number : int
        Number of the round.
    opened_s : float
        Time of its opening, in seconds of the server's clock.
    deadline_s : float
        Time at which it closes at the latest.
    selected : int
        Number of selected workers.
    replied : int
        Number of replies, including those that declined.
    """

    number: int
    opened_s: float
    deadline_s: float
    selected: int
    replied: int


@dataclass(frozen=True, slots=True)
class ClosedRound:
    """A closed round.

    Parameters
    ----------
    number : int
        Number of the round.
    reason : str
        Reason for closing: "majority", "time to live" or "declined".
    duration_s : float
        Time from opening to closing, in seconds.
    digest : str
        Digest of the statistics after the round.
    """

    number: int
    reason: str
    duration_s: float
    digest: str


@dataclass(frozen=True, slots=True)
class RoundFigures:
    """Participation in a round.

    Parameters
    ----------
    eligible : int
        Number of workers that could have been selected.
    selected : int
        Number of selected workers.
    replied : int
        Number of workers that sent an update.
    """

    eligible: int
    selected: int
    replied: int


@dataclass(frozen=True, slots=True)
class Replies:
    """The sum of all replies to assignments, including late ones.

    Parameters
    ----------
    count : int
        Number of replies.
    learned : int
        Number of examples learned.
    evicted : int
        Number of examples evicted.
    energy_j : float
        Energy of all trainings, in joules.
    mean_reward : float or None
        Mean reward per selection; None without selections.
    """

    count: int
    learned: int
    evicted: int
    energy_j: float
    mean_reward: float | None


@dataclass(frozen=True, slots=True)
class Version:
    """A published version of the model.

    Parameters
    ----------
    number : int
        Number of the version.
    round : int
        Last round closed before.
    digest : str
        Digest of the statistics.
    published_s : float
        Time in seconds of the server's clock.
    """

    number: int
    round: int
    digest: str
    published_s: float
