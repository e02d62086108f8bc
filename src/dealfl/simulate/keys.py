"""Every key of a job file, from the sections themselves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from dealfl.features import MAPS
from dealfl.jobs import SOURCES, Job
from dealfl.jobs.sources import Bounded, WordColumn
from dealfl.learners import LEARNERS
from dealfl.server import RewardWeights
from dealfl.server.selection import SELECTORS
from dealfl.settings import key_table, keys_of, tags_of
from dealfl.simulate.arrivals import ARRIVALS
from dealfl.simulate.availability import AVAILABILITIES
from dealfl.simulate.config import Faults
from dealfl.simulate.dealing import DEALINGS
from dealfl.simulate.devices import Devices

__all__ = ["described_keys"]


def described_keys() -> str:
    """Return the tables of all keys, in Markdown."""
    return "\n".join(_tables())


def _tables() -> Iterator[str]:
    yield key_table("[job]", Job)
    yield from _variants("[source]", "format", SOURCES)
    yield key_table("A number or a date in [source.columns]", Bounded)
    yield key_table("A text in [source.columns]", WordColumn)
    yield from _variants("[features]", "map", MAPS)
    yield from _of_names("[learner]", LEARNERS.usable())
    yield key_table("[[devices]]", Devices)
    yield from _variants("[data]", "partition", DEALINGS)
    yield from _variants("[arrival]", "pattern", ARRIVALS)
    yield from _variants("[availability]", "kind", AVAILABILITIES)
    yield key_table("[faults]", Faults)
    yield key_table("[rewards]", RewardWeights)
    yield from _of_names("[selection]", SELECTORS.usable())


def _variants(section: str, tag: str, variants: Iterable[Any]) -> Iterator[str]:
    for name, kind in tags_of(variants).items():
        yield key_table(f'{section} with {tag} = "{name}"', kind, without=("n_inputs",))


def _of_names(section: str, makers: dict[str, Any]) -> Iterator[str]:
    for name, maker in makers.items():
        if keys_of(maker):
            yield key_table(f"{section} for {name}", maker)
