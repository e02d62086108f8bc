"""The settings of the laboratory: workers, availability, rewards and policies."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from typing import Annotated, Literal

import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from dealfl.errors import BadInput
from dealfl.settings import (
    Amount,
    Count,
    Document,
    Share,
    Text,
    Whole,
    nearest,
    read_section,
    read_tables,
    read_variant,
)

Floats = NDArray[np.float64]
PositiveShare = Annotated[float, Meta(gt=0, le=1)]
Shares = Share | Annotated[tuple[Share, ...], Meta(min_length=1)]
PositiveShares = PositiveShare | Annotated[tuple[PositiveShare, ...], Meta(min_length=1)]
Period = Annotated[int, Meta(ge=2)]


class Plan(Struct, frozen=True):
    """The section `setting`: the number of rounds, and of workers in each."""

    per_round: Annotated[Count, Meta(description="workers woken in a round")]
    rounds: Annotated[Count, Meta(description="number of rounds")] = 20_000
    seeds: Annotated[Count, Meta(description="number of independent repetitions")] = 200
    seed: Annotated[Whole, Meta(description="seed of the first repetition")] = 0
    name: Annotated[Text, Meta(description="name of the setting")] = "a setting"


class Workers(Struct, frozen=True):
    """The section `workers`: each key is one number for all workers, or a list."""

    reward: Annotated[Shares, Meta(description="mean reward")]
    awake: Annotated[PositiveShares, Meta(description="probability of being awake in a round")] = (
        1.0
    )
    fairness: Annotated[Shares, Meta(description="guaranteed share of rounds")] = 0.0
    weight: Annotated[PositiveShares, Meta(description="weight of the rewards")] = 1.0
    count: Annotated[Count, Meta(description="number of workers, if no other key is a list")] = 1


class Waking(Struct, frozen=True):
    """The section `availability`: how the rounds in which workers are awake depend on each other.

    By default every worker is awake with its own probability, independently.
    """

    persistence: Annotated[
        float,
        Meta(ge=0, le=0.999, description="correlation of being awake in a round and in the next"),
    ] = 0.0
    swing: Annotated[
        Share,
        Meta(
            description="relative change of the probability: higher in the first half of a period, "
            "lower in the second"
        ),
    ] = 0.0
    period: Annotated[Period, Meta(description="rounds of a day and a night")] = 200


class Steady(Struct, frozen=True, tag_field="model", tag="none"):
    """Mean rewards do not change."""


class Batteries(Struct, frozen=True, tag_field="model", tag="batteries"):
    """Mean rewards fall in steps to a share of themselves; then the battery is full again."""

    period: Annotated[Period, Meta(description="rounds from full to full")] = 2_000
    steps: Annotated[Period, Meta(description="number of steps in which a reward falls")] = 20
    empty: Annotated[Share, Meta(description="share of the reward just before charging")] = 0.1


class Policy(Struct, frozen=True):
    """One of `policies`: a policy of selection and its parameters."""

    kind: Annotated[
        Literal["fair_ucb", "thompson", "discounted", "oort", "uniform", "known"],
        Meta(description="the policy; `known` knows the mean rewards"),
    ]
    eta: Annotated[
        float, Meta(gt=0, extra={"inf": True}, description="weight of rewards against fairness")
    ] = 10.0
    discount: Annotated[
        float,
        Meta(ge=0.5, le=0.999999, description="share of the past that counts one round later"),
    ] = 0.99
    exploration: Annotated[
        Amount, Meta(description="preference for workers that were seldom tried")
    ] = 0.1

    @property
    def label(self) -> str:
        """Name of the policy, with the parameters that distinguish it."""
        if self.kind in ("uniform", "oort"):
            return self.kind
        extra = f", discount {self.discount:g}" if self.kind == "discounted" else ""
        return f"{self.kind}, eta {self.eta:g}{extra}"


class Laboratory(Struct, frozen=True, eq=False):
    """A setting of the laboratory, with array values for all workers."""

    plan: Plan
    reward: Floats
    awake: Floats
    fairness: Floats
    weight: Floats
    policies: tuple[Policy, ...]
    availability: Waking = Waking()
    drift: Steady | Batteries = Steady()

    @property
    def workers(self) -> int:
        """Number of workers."""
        return len(self.reward)


_DRIFTS: tuple[type[Steady | Batteries], ...] = (Steady, Batteries)
SECTIONS: dict[str, Sequence[type[Struct]]] = {
    "setting": (Plan,),
    "workers": (Workers,),
    "availability": (Waking,),
    "drift": _DRIFTS,
    "policies": (Policy,),
}


def preset_names() -> list[str]:
    """Return the names of the settings that are part of the package."""
    folder = resources.files("dealfl_paper.laboratory") / "presets"
    return sorted(file.name.removesuffix(".toml") for file in folder.iterdir())


def read_setting(name: str) -> Document:
    """Read a preset or a file."""
    if name not in preset_names():
        if not name.endswith(".toml"):
            names = ", ".join(preset_names())
            raise BadInput(f"no preset called {name!r}; known: {names}; or give a .toml file")
        return Document.read(name)
    file = resources.files("dealfl_paper.laboratory") / "presets" / f"{name}.toml"
    return Document.parse(file.read_text(encoding="utf-8"), f"preset {name}")


def read_laboratory(document: Document) -> Laboratory:
    """Return the setting that a document describes."""
    for key in document.tables:
        if key not in SECTIONS:
            raise document.error(key, f"no section {key!r}; {nearest(key, SECTIONS)}")
    plan = read_section(document, Plan, "setting")
    workers = read_section(document, Workers, "workers")
    count = max(len(column) for column in _columns(workers).values())
    count = workers.count if count == 1 else count
    columns = {
        key: _filled(document, key, column, count) for key, column in _columns(workers).items()
    }
    return Laboratory(
        plan=plan,
        policies=_policies(document),
        availability=read_section(document, Waking, "availability"),
        drift=read_variant(document, _DRIFTS, "drift"),
        **columns,
    )


def _columns(workers: Workers) -> dict[str, tuple[float, ...]]:
    given = {key: getattr(workers, key) for key in ("reward", "awake", "fairness", "weight")}
    return {key: value if isinstance(value, tuple) else (value,) for key, value in given.items()}


def _filled(document: Document, key: str, values: tuple[float, ...], count: int) -> Floats:
    if len(values) not in (1, count):
        problem = f"workers.{key} has {len(values)} values for {count} workers; give 1 or {count}"
        raise document.error(f"workers.{key}", problem)
    return np.array(values * count if len(values) == 1 else values, dtype=np.float64)


def _policies(document: Document) -> tuple[Policy, ...]:
    if "policies" not in document.tables:
        return (Policy("fair_ucb"),)
    read = read_tables(document, Policy, "policies")
    if len({policy.label for policy in read}) != len(read):
        raise document.error("policies", "two [[policies]] are equal; change one or remove it")
    return read
