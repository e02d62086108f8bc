"""Phones from TOML files: the five of the paper, and those of users."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from dealfl.errors import BadInput, unknown_name
from dealfl.plugins import Registry
from dealfl.power.hardware import (
    Battery,
    Cluster,
    Evidence,
    OperatingPoint,
    Phone,
    Quality,
    Storage,
    Wifi,
)
from dealfl.power.profile_keys import ClusterKeys, Profile, Stated, StatedValue
from dealfl.settings import Document, read_value

__all__ = ["PHONES", "load_phone", "phone"]

_PAPER = ("honor", "lenovo", "zte", "mi", "nexus")  # in the order of the paper's table
_FOLDER = Path(__file__).parent / "phones"
_LARGEST_BYTES = 1 << 20  # a phone is one page of text; a larger file is a mistake
_UNSTATED = Evidence(Quality.UNSTATED, "not stated")
_STATED = {"value", "quality", "source"}

_MILLI, _KILO = 1e-3, 1000
_COULOMBS_PER_MAH = 3.6
_BYTES_PER_MEGABIT = 125_000.0


def load_phone(path: Path | str) -> Phone:
    """Read a phone from a TOML file; `phones/honor.toml` is an example.

    Parameters
    ----------
    path : Path or str
        TOML file with the keys of `Profile`.

    Returns
    -------
    Phone
        The phone, in SI units.

    Raises
    ------
    BadInput
        If the file cannot be read or a key is missing, unknown or out of range.
    """
    document = Document.read(path, _LARGEST_BYTES)
    stated: dict[str, Stated | None] = {}
    plain = _plain(document, document.tables, "", stated)
    profile: Profile = read_value(replace(document, tables=plain), Profile, "", plain)
    for place, cluster in enumerate(profile.clusters):
        stated[f"clusters[{place}].frequencies"] = cluster.frequencies
        stated[f"clusters[{place}].currents"] = cluster.currents
    evidence = {key: _evidence(document, profile, key, one) for key, one in stated.items()}
    return _phone(profile, evidence)


def _plain(
    document: Document, table: Mapping[str, Any], place: str, stated: dict[str, Stated | None]
) -> dict[str, Any]:
    """Return a table with plain numbers; collect the evidence of each in `stated`."""
    found: dict[str, Any] = {}
    for key, value in table.items():
        name = f"{place}.{key}" if place else key
        found[key] = value
        if isinstance(value, Mapping) and name != "sources":
            if _STATED & set(value):
                stated[name] = read_value(document, StatedValue, name, value)
                found[key] = value["value"]
            else:
                found[key] = _plain(document, value, name, stated)
        elif not isinstance(value, str | list | Mapping):
            stated[name] = None
    return found


def _evidence(document: Document, profile: Profile, key: str, stated: Stated | None) -> Evidence:
    if stated is None:
        return _UNSTATED
    if stated.source not in profile.sources:
        known = ", ".join(profile.sources) or "none is listed"
        problem = f"{key}.source is {stated.source!r}; it must be a key of [sources]: {known}"
        raise document.error(f"{key}.source", problem)
    return Evidence(stated.quality, profile.sources[stated.source])


def _phone(profile: Profile, evidence: Mapping[str, Evidence]) -> Phone:
    """Return the phone of a profile, in SI units."""
    battery, wifi, storage = profile.battery, profile.wifi, profile.storage
    return Phone(
        name=profile.name,
        model=profile.model,
        processor=profile.processor,
        android=profile.android,
        cycle_factor=profile.cycle_factor,
        clusters=tuple(_cluster(index, one) for index, one in enumerate(profile.clusters)),
        battery=Battery(battery.capacity_mah * _COULOMBS_PER_MAH, battery.voltage_v),
        awake_a=profile.awake.current_ma * _MILLI,
        wifi=Wifi(wifi.active_ma * _MILLI, wifi.tail_s, wifi.rate_mbit_s * _BYTES_PER_MEGABIT),
        screen_a=profile.screen.on_ma * _MILLI,
        storage=Storage(storage.active_ma * _MILLI, storage.page_read_s, storage.page_write_s),
        evidence=MappingProxyType(dict(evidence)),
    )


def _cluster(index: int, cluster: ClusterKeys) -> Cluster:
    points = (
        OperatingPoint(
            index, one.frequency_khz * _KILO, one.core_ma * _MILLI, one.shared_ma * _MILLI
        )
        for one in cluster.points
    )
    return Cluster(cluster.name, tuple(points), cluster.core_factors or (1.0,) * cluster.cores)


def _admit(name: str, found: Any) -> Phone:  # noqa: ANN401
    """Return the phone of a plug-in: a Phone, or the path of a TOML file."""
    made = load_phone(found) if isinstance(found, str | Path) else found
    if not isinstance(made, Phone):
        raise BadInput(f"{found!r} is neither a dealfl.power.Phone nor the path of a TOML file")
    if made.name != name:
        raise BadInput(f"the phone's name is {made.name!r}; it must be {name!r}")
    return made


PHONES: Registry[Phone] = Registry(
    "dealfl.phones", {name: load_phone(_FOLDER / f"{name}.toml") for name in _PAPER}, _admit
)


def phone(name: str) -> Phone:
    """Return a phone by name.

    Parameters
    ----------
    name : str
        A key of `PHONES`, such as "honor".

    Returns
    -------
    Phone
        The phone.

    Raises
    ------
    UnknownName
        If there is no phone of that name.

    Examples
    --------
    >>> phone("nexus").fastest.frequency_hz
    2649600000
    """
    if name not in PHONES:
        raise unknown_name("phone", name, PHONES)
    return PHONES[name]
