"""The status of a run and of its workers, as records."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from dealfl.runs.progress import RunProgress
from dealfl.server import OpenRound

__all__ = ["RunStart", "RunStatus", "WorkerStatus"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStatus:
    """The status of a worker in the ledger.

    Parameters
    ----------
    name : str
        Name of the worker.
    state : {"awake", "training", "asleep", "removed"}
        State.
    device : str
        Kind of device.
    battery : float
        Battery level, as a fraction.
    charging : bool
        Whether the battery is charging.
    incarnation : int
        Number of times that the worker started from an empty journal.
    folded : int
        Updates counted in the model.
    updates_waiting : int
        Updates recorded and not counted yet.
    examples_waiting, examples_held : int
        Examples not learned yet, and examples held.
    heard_s : float or None
        Time of the last message, in seconds; None if the worker was removed.
    flag : str
        Reason of a flag, or "".
    fits : bool
        Whether its schema fits the job.
    selected, replied : int
        Number of rounds for which it was selected, and of its replies.
    mean_reward : float or None
        Mean reward per selection.
    energy_j : float
        Reported energy, in joules.
    """

    name: str
    state: str
    device: str
    battery: float
    charging: bool
    incarnation: int
    folded: int
    updates_waiting: int
    examples_waiting: int
    examples_held: int
    heard_s: float | None
    flag: str
    fits: bool
    selected: int
    replied: int
    mean_reward: float | None
    energy_j: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStart:
    """The status of a run that has not saved its ledger yet.

    Parameters
    ----------
    ledger, job : str
        Future path of the ledger, and name of the job.
    progress : RunProgress or None
        The scheme that runs, and its rounds; None before the first scheme.
    state : str, default "starting"
        State of the run.
    """

    ledger: str
    job: str
    progress: RunProgress | None
    state: str = "starting"

    def as_dict(self) -> dict[str, Any]:
        """Return the status, for JSON.

        Returns
        -------
        dict
            JSON values by name.
        """
        return dataclasses.asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStatus:
    """The status of a run; times are in seconds of the server's clock, real or virtual.

    Parameters
    ----------
    ledger, job : str
        Path of the ledger, and name of the job.
    now_s : float
        Current time.
    rounds_closed : int
        Number of closed rounds.
    rounds_asked : int or None
        Number of rounds that the job requests; None if unknown.
    rounds_by_reason : dict of str to int
        Closed rounds by the reason of closing.
    last_reason : str
        Reason of the last closing.
    round_s, last_round_s : float
        Total duration of all rounds, and of the last one.
    open_round : OpenRound or None
        The open round.
    converged : bool
        Whether the model has converged.
    workers : dict of str to int
        Number of workers by state.
    flagged : int
        Number of flagged workers.
    updates_counted, updates_waiting : int
        Updates in the model, and updates recorded and not counted yet.
    examples_learned, examples_evicted : int
        Examples that workers learned and evicted.
    version, version_round : int
        Last published version, and its round.
    published_digest, round_digest : str
        Digest of the last version, and of the model after the last closed round.
    statistics_digest : str
        Digest of the statistics in the ledger; differs from `published_digest` after a removal,
        or while late updates are not published.
    state : str
        "running", "stopped", "finished", or "" if the ledger does not belong to a run.
    progress : RunProgress or None
        The scheme that runs, and its rounds; None if no run is under way.
    erasures, erasures_pending : int
        Requested erasures, and those not in a published version yet.
    energy_j : float
        Energy reported by workers, in joules.
    energy_source : str
        "measured", "modelled" or "not stated".
    replies : int
        Number of replies.
    mean_reward : float or None
        Mean reward per reply.
    over_promised : str
        Fairness guarantees that cannot be met, or "".
    updates_per_s, examples_per_s : float or None
        Rates over the duration of all rounds.
    round_durations_s : tuple of float
        Duration of each closed round.
    """

    ledger: str
    job: str
    now_s: float
    rounds_closed: int
    rounds_asked: int | None
    rounds_by_reason: dict[str, int]
    last_reason: str
    round_s: float
    last_round_s: float | None
    open_round: OpenRound | None
    converged: bool
    workers: dict[str, int]
    flagged: int
    updates_counted: int
    updates_waiting: int
    examples_learned: int
    examples_evicted: int
    version: int
    version_round: int
    published_digest: str
    round_digest: str
    statistics_digest: str
    state: str
    progress: RunProgress | None
    erasures: int
    erasures_pending: int
    energy_j: float
    energy_source: str
    replies: int
    mean_reward: float | None
    over_promised: str
    updates_per_s: float | None
    examples_per_s: float | None
    round_durations_s: tuple[float, ...] = field(repr=False, default=())

    def as_dict(self) -> dict[str, Any]:
        """Return the status without `round_durations_s`, for JSON.

        Returns
        -------
        dict
            JSON values by name.
        """
        plain = dataclasses.asdict(self)
        del plain["round_durations_s"]
        return plain
