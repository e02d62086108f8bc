"""Every key of a job file, from the sections themselves: the page can not go stale."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from dealfl.features import MAPS
from dealfl.jobs import Job
from dealfl.jobs.mapping import map_keys
from dealfl.jobs.rewards import Rewards
from dealfl.jobs.settings import Kind, settings_of
from dealfl.jobs.sources.columns import Bounded, WordColumn
from dealfl.jobs.sources.source import SOURCES
from dealfl.jobs.tuning import kind_of, learner_keys
from dealfl.learners import LEARNERS
from dealfl.server.selection import SELECTORS
from dealfl.server.selection import settings_of as selector_keys
from dealfl.settings import toml_value
from dealfl.simulate.arrivals import ARRIVALS
from dealfl.simulate.availability import AVAILABILITIES
from dealfl.simulate.config import Faults
from dealfl.simulate.dealing import DEALINGS
from dealfl.simulate.devices import Devices
from dealfl.simulate.meanings import MEANINGS

__all__ = ["described_keys"]

Keys = Mapping[str, tuple[Kind, object]]


def described_keys() -> str:
    """Return the tables of all keys, in Markdown."""
    return "\n".join(_parts())


def _parts() -> Iterator[str]:
    yield from _section("[job]", Job)
    yield from _variants("[source]", "format", SOURCES)
    yield from _section("A number or a date in [source.columns]", Bounded)
    yield from _section("A text in [source.columns]", WordColumn)
    for name in MAPS:
        yield from _table(f'[features] with map = "{name}"', MAPS[name], map_keys(name))
    for name in LEARNERS.usable():
        if keys := learner_keys(name):
            yield from _table(f"[learner] for {name}", LEARNERS[name], keys)
    yield from _section("[[devices]]", Devices)
    yield from _variants("[data]", "partition", DEALINGS)
    yield from _variants("[arrival]", "pattern", ARRIVALS)
    yield from _variants("[availability]", "kind", AVAILABILITIES)
    yield from _section("[faults]", Faults)
    yield from _section("[rewards]", Rewards)
    for name in SELECTORS.usable():
        if keys := _selector_keys(name):
            yield from _table(f"[selection] for {name}", SELECTORS[name], keys)


def _selector_keys(name: str) -> dict[str, tuple[Kind, object]]:
    parameters = inspect.signature(SELECTORS[name]).parameters
    return {key: (kind_of(parameters[key]), parameters[key].default) for key in selector_keys(name)}


def _variants(section: str, tag: str, variants: Mapping[str, type]) -> Iterator[str]:
    for name, kind in variants.items():
        yield from _section(f'{section} with {tag} = "{name}"', kind)


def _section(title: str, section: type) -> Iterator[str]:
    fields = settings_of(section)
    keys = {name: (field.metadata["kind"], field.default) for name, field in fields.items()}
    says = {name: field.metadata["says"] for name, field in fields.items()}
    yield from _table(title, section, keys, says)


def _table(
    title: str, section: object, keys: Keys, says: Mapping[str, str] = MappingProxyType({})
) -> Iterator[str]:
    first = (section.__doc__ or "").partition("\n")[0]
    yield f"### {title}\n\n{first}\n"
    if not keys:
        return
    table = title.strip("[").partition("]")[0]
    yield "| key | takes | default | meaning |\n|---|---|---|---|"
    for key, (kind, default) in keys.items():
        meaning = says.get(key) or MEANINGS.get(f"{table}.{key}") or MEANINGS.get(key, "")
        yield f"| `{key}` | {kind.what} | {_default(kind, default)} | {meaning} |"
    yield ""


def _default(kind: Kind, default: object) -> str:
    if default is dataclasses.MISSING:
        return "required"
    return "none" if kind.read(default) is None else f"`{toml_value(default)}`"
