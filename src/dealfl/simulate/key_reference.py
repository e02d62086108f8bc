"""The key reference: all keys of job, phone and laboratory files, from the declared sections."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct

from dealfl.data.sources import Bounded, WordColumn
from dealfl.features import MAPS
from dealfl.jobs import SOURCES, Job, MachineKeys
from dealfl.learners import LEARNERS
from dealfl.plugins import load_plugin, plugins
from dealfl.power import Profile
from dealfl.server import RewardWeights
from dealfl.server.selection import SELECTORS
from dealfl.settings import key_table, key_tables, keys_of
from dealfl.simulate.devices import Devices
from dealfl.simulate.fleet import Faults
from dealfl.simulate.schedules import ARRIVALS, AVAILABILITIES
from dealfl.simulate.split import PARTITIONS
from dealfl.simulate.traffic import RadioKeys
from dealfl.worker import WorkerKeys

_FILES = "dealfl.files"


def describe_keys() -> str:
    """Return the tables of all keys."""
    return "\n".join(_tables())


def _tables() -> Iterator[str]:
    yield key_table("[job]", Job)
    yield from _variants("[source]", SOURCES)
    yield key_table("A number or a date in [source.columns]", Bounded)
    yield key_table("A text in [source.columns]", WordColumn)
    yield from _variants("[features]", MAPS)
    yield from _of_names("[learner]", LEARNERS.usable())
    yield from key_tables("[worker]", WorkerKeys)
    yield key_table("[[devices]]", Devices)
    yield from _variants("[data]", PARTITIONS)
    yield from _variants("[arrival]", ARRIVALS)
    yield from _variants("[availability]", AVAILABILITIES)
    yield key_table("[faults]", Faults)
    yield key_table("[radio]", RadioKeys)
    yield key_table("[machine]", MachineKeys)
    yield key_table("[rewards]", RewardWeights)
    yield from _of_names("[selection]", SELECTORS.usable())
    yield from key_tables("A phone's file", Profile)
    yield from _of_plugins()


def _of_plugins() -> Iterator[str]:
    """Yield the tables of files that other packages read, such as the laboratory's."""
    for file in plugins(_FILES):
        for name, sections in load_plugin(_FILES, file).items():
            for section in sections:
                yield key_table(f"[{name}] of a {file} file{_tagged(section)}", section)


def _tagged(section: type[Struct]) -> str:
    config = section.__struct_config__
    return f' with {config.tag_field} = "{config.tag}"' if config.tag else ""


def _variants(section: str, variants: Iterable[type[Struct]]) -> Iterator[str]:
    for variant in variants:
        yield key_table(f"{section}{_tagged(variant)}", variant, without=("n_inputs",))


def _of_names(section: str, makers: dict[str, Any]) -> Iterator[str]:
    for name, maker in makers.items():
        if keys_of(maker):
            yield key_table(f"{section} for {name}", maker)
