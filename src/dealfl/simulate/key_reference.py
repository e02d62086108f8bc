"""The key reference: all keys of job, phone and laboratory files, from the declared sections."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from msgspec import Struct

from dealfl.data.sources import Bounded, WordColumn
from dealfl.features import MAPS
from dealfl.jobs import SOURCES, Job, MachineKeys, PrivacyKeys
from dealfl.learners import LEARNERS
from dealfl.power import Profile
from dealfl.registry import load_plugin, plugins
from dealfl.server import RewardWeights
from dealfl.server.selection import SELECTORS
from dealfl.settings import KEY_HEAD, key_cells, key_rows, key_table, keys_of, nested_sections
from dealfl.simulate.devices import Devices
from dealfl.simulate.fleet import Faults
from dealfl.simulate.schedules import ARRIVALS, AVAILABILITIES
from dealfl.simulate.split import PARTITIONS, Change
from dealfl.simulate.traffic import RadioKeys
from dealfl.worker import WorkerKeys

_FILES = "dealfl.files"
_COMMON = {
    "job": "dataset name learner scheme forget_fraction rounds workers_per_round round_every_s "
    "ttl_s selector seed",
    "source": "file target classes target_bound owner time item rating",
    "worker": "model",
    "devices": "count phone",
    "data": "rows test_share",
    "arrival": "initial_share examples_per_hour examples_per_round",
    "availability": "from_h to_h",
    "machine": "meter min_battery",
}
_NO_KEYS = ("n_inputs",)  # arguments of feature maps that the data decide

Titled = tuple[str, Callable[..., Any]]


def describe_keys() -> str:
    """Return the common keys in one table, then all others section by section."""
    sections = list(_sections())
    common: dict[str, str] = {}
    for title, section in sections:
        for key, row in key_rows(section).items():
            if key in _common_keys(title):
                common.setdefault(f"{_section_name(title)}.{key}", row)
    parts = [
        "### Common keys\n\nMost jobs need no others.\n",
        KEY_HEAD,
        *(f"| `{key}` | {row}" for key, row in common.items()),
        "\n### Advanced keys\n\nAll other keys, section by section.\n",
    ]
    for title, section in sections:
        rows = key_rows(section)
        name = _section_name(title)
        above = {key for key in rows if common.get(f"{name}.{key}") == rows[key]}
        parts.append(key_table(title, section, without={*above, *_NO_KEYS}))
    return "\n".join(parts)


def find_keys(part: str) -> list[dict[str, str]]:
    """Return the keys whose name or meaning contains a text, with what each takes and means."""
    found = []
    wanted = {part.casefold(), part.casefold().replace("theta", "θ")}
    for title, section in _sections():
        for key, (takes, default, meaning) in key_cells(section).items():
            name = ".".join(filter(None, (_section_name(title), key)))
            text = f"{name} {meaning}".casefold()
            if key not in _NO_KEYS and any(word in text for word in wanted):
                cells = {"takes": takes, "default": default.strip("`"), "meaning": meaning}
                found.append({"key": name, "section": title, **cells})
    return found


def _section_name(title: str) -> str:
    """Return the name of the section that a title starts with; '' for other files.

    >>> _section_name("[[devices]]"), _section_name('[data] with partition = "uniform"')
    ('devices', 'data')
    """
    return title.partition("]")[0].strip("[") if title.startswith("[") else ""


def _common_keys(title: str) -> list[str]:
    return _COMMON.get(_section_name(title), "").split()


def _sections() -> Iterator[Titled]:
    yield "[job]", Job
    yield from _variants("[source]", SOURCES)
    yield "A number or a date in [source.columns]", Bounded
    yield "A text in [source.columns]", WordColumn
    yield from _variants("[features]", MAPS)
    yield from _of_names("[learner]", LEARNERS.usable())
    yield from nested_sections("[worker]", WorkerKeys)
    yield "[[devices]]", Devices
    yield from _variants("[data]", PARTITIONS)
    yield from _variants("[arrival]", ARRIVALS)
    yield from _variants("[availability]", AVAILABILITIES)
    yield "[faults]", Faults
    yield "[radio]", RadioKeys
    yield "[change]", Change
    yield "[machine]", MachineKeys
    yield "[privacy]", PrivacyKeys
    yield "[rewards]", RewardWeights
    yield from _of_names("[selection]", SELECTORS.usable())
    yield from nested_sections("A phone's file", Profile)
    yield from _of_plugins()


def _of_plugins() -> Iterator[Titled]:
    """Yield the sections of files that other packages read, such as the laboratory's."""
    for file in plugins(_FILES):
        for name, sections in load_plugin(_FILES, file).items():
            for section in sections:
                yield f"A {file} file: [{name}]{_tagged(section)}", section


def _tagged(section: type[Struct]) -> str:
    config = section.__struct_config__
    return f' with {config.tag_field} = "{config.tag}"' if config.tag else ""


def _variants(section: str, variants: Iterable[type[Struct]]) -> Iterator[Titled]:
    for variant in variants:
        yield f"{section}{_tagged(variant)}", variant


def _of_names(section: str, makers: dict[str, Any]) -> Iterator[Titled]:
    for name, maker in makers.items():
        if keys_of(maker):
            yield f"{section} for {name}", maker
