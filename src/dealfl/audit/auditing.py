"""The audit of a run: its inspection, and the curves of all attacks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from dealfl.audit.curves import MIN_TRIALS, SUBJECTS, Point, try_attacks
from dealfl.audit.inspection import Finding, inspect_run
from dealfl.errors import DealError
from dealfl.runs import RunFolder

__all__ = ["Audit", "audit_run"]


@dataclass(frozen=True, slots=True)
class Audit:
    """The result of an audit.

    Parameters
    ----------
    run : str
        Folder of the run.
    findings : list of Finding
        Traces of persons in the run.
    points : list of Point
        Quality of each attack by the number of persons or examples that are mixed.
    notes : list of str
        What was left out, and why.
    """

    run: str
    findings: list[Finding]
    points: list[Point]
    notes: list[str]

    @property
    def holds(self) -> bool:
        """Whether no finding contradicts exact forgetting."""
        return all(one.holds is not False for one in self.findings)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return asdict(self) | {"holds": self.holds}


def audit_run(
    run: RunFolder,
    trials: int = MIN_TRIALS,
    seed: int = 0,
    report: Callable[[str], None] = lambda _: None,
) -> Audit:
    """Look for traces of persons in a run, and try all attacks; the run is not changed.

    Parameters
    ----------
    run : RunFolder
        A finished run.
    trials : int
        Number of trials per point of a curve.
    seed : int
        Seed of all draws.
    report : callable
        Receives the name of each part when it starts.

    Returns
    -------
    Audit
        The result.
    """
    findings, notes = inspect_run(run, seed, report), []
    points = []
    for subject in SUBJECTS:
        try:
            points += try_attacks(subject, trials, seed=seed, report=report)
        except DealError as error:
            notes.append(f"attacks on a {subject} model are left out: {error}")
    notes.append(
        "An attack on a stale model needs the stale model. The state of a system that forgets "
        "exactly equals training without the person: there is nothing to compare."
    )
    return Audit(str(run.path), findings, points, notes)
