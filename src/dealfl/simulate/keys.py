"""Every key of a job file, from the sections themselves: the page can not go stale."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from dealfl.features import MAPS
from dealfl.jobs import SOURCES, Job
from dealfl.jobs.mapping import map_keys
from dealfl.jobs.settings import Kind
from dealfl.jobs.sources import Bounded, WordColumn
from dealfl.jobs.tuning import learner_keys
from dealfl.learners import LEARNERS
from dealfl.server import RewardWeights
from dealfl.server.selection import SELECTORS
from dealfl.settings import key_table, keys_of, tags_of, toml_value
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
    yield from _section("[rewards]", RewardWeights)
    for name in SELECTORS.usable():
        if keys_of(SELECTORS[name]):
            yield from _section(f"[selection] for {name}", SELECTORS[name])


def _variants(section: str, tag: str, variants: Iterable[Any]) -> Iterator[str]:
    for name, kind in tags_of(variants).items():
        yield from _section(f'{section} with {tag} = "{name}"', kind)


def _section(title: str, section: Callable[..., Any]) -> Iterator[str]:
    yield key_table(title, section)


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
