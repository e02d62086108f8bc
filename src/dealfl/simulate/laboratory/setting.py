"""What the laboratory is told: workers, when they wake, what they earn, and who chooses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dealfl.errors import BadInput
from dealfl.jobs.settings import (
    Kind,
    number,
    one_of,
    read_section,
    read_variant,
    setting,
    share,
    text,
    whole,
)
from dealfl.settings import Document

__all__ = [
    "Batteries", "DayNight", "Independent", "Laboratory", "Markov", "Policy", "Steady", "Workers",
    "laboratory_of", "preset_names", "read_laboratory",
]  # fmt: skip

Floats = NDArray[np.float64]

POLICIES = ("fair_ucb", "thompson", "discounted", "oort", "uniform", "known")


def _numbers(least: float, most: float, above: bool = False) -> Kind:
    """Return the kind of one number for all workers, or a list with one for each."""
    one = number(least, most=most, above=above)

    def read(value: object) -> tuple[float, ...] | None:
        values = value if isinstance(value, list) else [value]
        plain = tuple(one.read(each) for each in values)
        return plain if plain and None not in plain else None

    return Kind(f"{one.what}, or a list with one for each worker", read)


def _eta() -> Kind:
    def read(value: object) -> float | None:
        if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
            return None
        return float(value) if float(value) > 0 else None

    return Kind("a number above 0, or inf", read)


@dataclass(frozen=True)
class Plan:
    """The section `setting`."""

    per_round: int = setting(whole(1))
    rounds: int = setting(whole(1), 20_000)
    seeds: int = setting(whole(1), 200)
    seed: int = setting(whole(0), 0)
    name: str = setting(text(), "a setting")


@dataclass(frozen=True)
class Workers:
    """The section `workers`: mean rewards, how often awake, promised fractions, weights."""

    reward: tuple[float, ...] = setting(_numbers(0.0, 1.0))
    awake: tuple[float, ...] = setting(_numbers(0.0, 1.0, above=True), (1.0,))
    fairness: tuple[float, ...] = setting(_numbers(0.0, 1.0), (0.0,))
    weight: tuple[float, ...] = setting(_numbers(0.0, 1.0, above=True), (1.0,))
    count: int = setting(whole(1), 1)


@dataclass(frozen=True)
class Independent:
    """Every worker is awake in a round with its own chance, whatever was before."""


@dataclass(frozen=True)
class Markov:
    """Who is awake tends to stay so: only a share of the rounds draws anew."""

    persistence: float = setting(number(0.0, most=0.999), 0.9)


@dataclass(frozen=True)
class DayNight:
    """All workers are awake more often in one half of a period, and less in the other."""

    period: int = setting(whole(2), 200)
    swing: float = setting(share(), 0.25)


@dataclass(frozen=True)
class Steady:
    """Mean rewards stay as they are."""


@dataclass(frozen=True)
class Batteries:
    """A mean reward falls in steps to a share of itself, then the battery is full again."""

    period: int = setting(whole(2), 2_000)
    steps: int = setting(whole(2), 20)
    empty: float = setting(share(), 0.1)


@dataclass(frozen=True)
class Policy:
    """One of `policies`: who chooses, and how it weighs rewards against promises."""

    kind: str = setting(one_of(POLICIES))
    eta: float = setting(_eta(), 10.0)
    discount: float = setting(number(0.5, most=0.999999), 0.99)
    exploration: float = setting(number(0.0), 0.1)

    @property
    def label(self) -> str:
        """The policy's name with what makes it different from others of its kind."""
        if self.kind in ("uniform", "oort"):
            return self.kind
        extra = f", discount {self.discount:g}" if self.kind == "discounted" else ""
        return f"{self.kind}, eta {self.eta:g}{extra}"


@dataclass(frozen=True)
class Laboratory:
    """Everything about one setting, with an array value for each worker."""

    plan: Plan
    reward: Floats
    awake: Floats
    fairness: Floats
    weight: Floats
    policies: tuple[Policy, ...]
    availability: Independent | Markov | DayNight = field(default_factory=Independent)
    drift: Steady | Batteries = field(default_factory=Steady)

    @property
    def workers(self) -> int:
        """How many workers there are."""
        return len(self.reward)


_AVAILABILITIES: dict[str, type[Any]] = {
    "independent": Independent, "markov": Markov, "day_night": DayNight,
}  # fmt: skip
_DRIFTS: dict[str, type[Any]] = {"none": Steady, "batteries": Batteries}
_SECTIONS = ("setting", "workers", "availability", "drift", "policies")


def preset_names() -> list[str]:
    """Return the names of the settings that come with the package."""
    folder = resources.files("dealfl.simulate.laboratory") / "presets"
    return sorted(file.name.removesuffix(".toml") for file in folder.iterdir())


def read_laboratory(name: str) -> Document:
    """Read a preset by its name, or else a file."""
    if name not in preset_names():
        if not name.endswith(".toml"):
            known = ", ".join(preset_names())
            raise BadInput(f"no preset called {name!r}; known: {known}; or give a .toml file")
        return Document.read(name)
    file = resources.files("dealfl.simulate.laboratory") / "presets" / f"{name}.toml"
    return Document.parse(file.read_text(encoding="utf-8"), f"preset {name}")


def laboratory_of(document: Document) -> Laboratory:
    """Return the setting that a document describes."""
    for key in document.tables:
        if key not in _SECTIONS:
            raise document.error(key, f"no section {key!r}; known: {', '.join(_SECTIONS)}")
    plan = read_section(document, Plan, "setting", document.tables.get("setting", {}))
    workers = read_section(document, Workers, "workers", document.tables.get("workers", {}))
    count = max(len(column) for column in _columns(workers).values())
    count = workers.count if count == 1 else count
    columns = {key: _filled(document, key, one, count) for key, one in _columns(workers).items()}
    return Laboratory(
        plan=plan,
        policies=_policies(document),
        availability=read_variant(
            document, _AVAILABILITIES, "availability", "model", "independent"
        ),
        drift=read_variant(document, _DRIFTS, "drift", "model", "none"),
        **columns,
    )


def _columns(workers: Workers) -> dict[str, tuple[float, ...]]:
    return {key: getattr(workers, key) for key in ("reward", "awake", "fairness", "weight")}


def _filled(document: Document, key: str, values: tuple[float, ...], count: int) -> Floats:
    if len(values) not in (1, count):
        problem = f"workers.{key} has {len(values)} values for {count} workers; give 1 or {count}"
        raise document.error(f"workers.{key}", problem)
    return np.array(values * count if len(values) == 1 else values, dtype=np.float64)


def _policies(document: Document) -> tuple[Policy, ...]:
    tables = document.tables.get("policies", [{"kind": "fair_ucb"}])
    if not isinstance(tables, list) or not all(isinstance(one, Mapping) for one in tables):
        raise document.error("policies", "policies takes sections [[policies]], one for each")
    read = [
        read_section(document, Policy, f"policies.{place}", table)
        for place, table in enumerate(tables, 1)
    ]
    if len({one.label for one in read}) != len(read):
        raise document.error("policies", "two [[policies]] are the same; give each other values")
    return tuple(read)
