"""What a caller wishes of a fleet, checked."""

from __future__ import annotations

from collections.abc import Sequence

from dealfl.errors import BadInput, unknown_name
from dealfl.jobs.proposals import Roles, Wishes
from dealfl.learners import LEARNERS, learners_for

__all__ = ["make_wishes", "require_count", "require_learner", "take_guess"]


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


def make_wishes(kind: str, roles: Roles, learner: str | None, workers: int | None) -> Wishes:
    """Return the wishes for data in memory."""
    return Wishes(
        format=kind, roles=roles, learner=learner or "", workers=require_count("workers", workers)
    )


def require_count(name: str, value: int | None) -> int:
    """Return a number of workers; 0 means: propose one."""
    if value is not None and value < 1:
        raise BadInput(f"{name} is {value}; it must be a whole number ≥ 1")
    return int(value or 0)


def take_guess(role: str, names: Sequence[str], guess: str, required: bool) -> str:
    """Return the guess for a role; BadInput if there is none and one is required."""
    if guess or not required:
        return guess
    raise BadInput(f"the {role} cannot be guessed; give {role}= one of {', '.join(names)}")
