"""Selection: policies that decide which workers to wake in a round."""

from collections.abc import Callable, Mapping
from typing import Any

from dealfl.errors import BadInput, unknown_name
from dealfl.registry import Registry
from dealfl.server.selection.arms import Arms, best_of
from dealfl.server.selection.bandit import Bandit
from dealfl.server.selection.base import (
    Candidate,
    Candidates,
    OverPromise,
    Player,
    Promising,
    Selector,
)
from dealfl.server.selection.feasibility import find_excess
from dealfl.server.selection.policies import (
    Discounted,
    Everyone,
    FairUpperConfidence,
    OortLike,
    ThompsonSampling,
    Uniform,
    draw_rewards,
)
from dealfl.settings import keys_of, nearest

__all__ = [
    "SELECTORS",
    "Arms",
    "Bandit",
    "Candidate",
    "Candidates",
    "Discounted",
    "Everyone",
    "FairUpperConfidence",
    "OortLike",
    "OverPromise",
    "Player",
    "Promising",
    "Selector",
    "ThompsonSampling",
    "Uniform",
    "best_of",
    "draw_rewards",
    "find_excess",
    "make_selector",
]


def _admit(name: str, plugin: Any) -> Callable[..., Selector]:  # noqa: ANN401, ARG001
    if not (callable(plugin) and hasattr(plugin, "select")):
        raise BadInput(f"{plugin!r} is no selector class: it has no method select")
    return plugin  # type: ignore[no-any-return]


SELECTORS: Registry[Callable[..., Selector]] = Registry(
    "dealfl.selectors",
    {
        "uniform": Uniform,
        "everyone": Everyone,
        "fair_ucb": FairUpperConfidence,
        "thompson": ThompsonSampling,
        "discounted": Discounted,
        "oort": OortLike,
    },
    _admit,
)


def make_selector(name: str, settings: Mapping[str, object] | None = None) -> Selector:
    """Return a new selector.

    Examples
    --------
    >>> make_selector("uniform", {"sed": 3})
    Traceback (most recent call last):
    dealfl.errors.BadInput: no key 'sed' for the selector uniform; did you mean 'seed'? Valid: seed
    """
    if name not in SELECTORS:
        raise unknown_name("selector", name, SELECTORS)
    keys = keys_of(SELECTORS[name])
    for key in settings or {}:
        if key not in keys:
            raise BadInput(f"no key {key!r} for the selector {name}; {nearest(key, keys)}")
    return SELECTORS[name](**(settings or {}))
