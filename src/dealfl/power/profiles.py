"""Phones as TOML files: the paper's five beside this module, and those that users bring."""

from collections.abc import Mapping
from itertools import pairwise
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
from dealfl.power.tables import Table, read_table

__all__ = ["PHONES", "load_phone", "phone"]

_PAPER = ("honor", "lenovo", "zte", "mi", "nexus")  # in the order of its table
_FOLDER = Path(__file__).parent / "phones"

_KEYS = (
    "name", "model", "processor", "android", "cycle_factor", "sources", "battery", "awake", "wifi",
    "screen", "storage", "clusters",
)  # fmt: skip
_CLUSTER_KEYS = ("name", "cores", "core_factors", "frequencies", "currents", "points")

_MILLIAMPERES = (0.0, 10_000.0)
_MILLI, _KILO = 1e-3, 1000
_COULOMBS_PER_MAH = 3.6
_BYTES_PER_MEGABIT = 125_000.0


def load_phone(path: Path | str) -> Phone:
    """Return the phone that a TOML file describes; see `phones/honor.toml` for an example."""
    table = read_table(Path(path)).only(*_KEYS)
    return _Reader(table).phone()


class _Reader:
    """Reads a phone; on the way it notes where each value comes from."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._evidence: dict[str, Evidence] = {}
        self._sources: dict[str, str] = {}
        if "sources" in table.content:
            sources = table.table("sources")
            self._sources = {key: sources.text(key) for key in sources.content}

    def phone(self) -> Phone:
        table = self._table
        battery = table.table("battery").only("capacity_mah", "voltage_v")
        awake = table.table("awake").only("current_ma")
        screen = table.table("screen").only("on_ma")
        return Phone(
            name=table.text("name"),
            model=table.text("model"),
            processor=table.text("processor", "not stated"),
            android=table.text("android", "not stated"),
            cycle_factor=self._value(table, "cycle_factor", 0.01, 1000),
            clusters=self._clusters(),
            battery=Battery(
                self._value(battery, "capacity_mah", 1, 1e6) * _COULOMBS_PER_MAH,
                self._value(battery, "voltage_v", 0.5, 100),
            ),
            awake_a=self._value(awake, "current_ma", *_MILLIAMPERES) * _MILLI,
            wifi=self._wifi(),
            screen_a=self._value(screen, "on_ma", *_MILLIAMPERES) * _MILLI,
            storage=self._storage(),
            evidence=MappingProxyType(self._evidence),
        )

    def _wifi(self) -> Wifi:
        table = self._table.table("wifi").only("active_ma", "tail_s", "rate_mbit_s")
        active_a = self._value(table, "active_ma", *_MILLIAMPERES) * _MILLI
        tail_s = self._value(table, "tail_s", 0, 60)
        if "rate_mbit_s" not in table.content:
            return Wifi(active_a, tail_s)
        rate_mbit_s = self._value(table, "rate_mbit_s", 0.01, 100_000)
        return Wifi(active_a, tail_s, rate_mbit_s * _BYTES_PER_MEGABIT)

    def _storage(self) -> Storage:
        keys = ("active_ma", "page_read_s", "page_write_s")
        table = self._table.table("storage").only(*keys)
        active_a = self._value(table, "active_ma", *_MILLIAMPERES) * _MILLI
        read_s, write_s = (self._value(table, key, 0, 1) for key in keys[1:])
        return Storage(active_a, read_s, write_s)

    def _clusters(self) -> tuple[Cluster, ...]:
        tables = self._table.tables("clusters")
        clusters = (self._cluster(index, table) for index, table in enumerate(tables))
        return tuple(clusters)

    def _cluster(self, index: int, table: Table) -> Cluster:
        table.only(*_CLUSTER_KEYS)
        cores = table.whole("cores", 1, 1024)
        factors = table.numbers("core_factors", 0.0, 4.0, default=(1.0,) * cores)
        for key in ("frequencies", "currents"):
            known = table.table(key).only("quality", "source") if key in table.content else None
            self._note(f"clusters[{index}].{key}", known)
        points = tuple(_point(index, one) for one in table.tables("points"))
        for slower, faster in pairwise(points):
            if slower.frequency_hz >= faster.frequency_hz:
                khz = faster.frequency_hz // _KILO
                raise table.wrong("points", f"has {khz} kHz out of order; list the slowest first")
        return Cluster(table.text("name"), points, factors)

    def _value(self, table: Table, key: str, low: float, high: float) -> float:
        """Return a number that stands alone, or in a table with its quality and source."""
        name = ".".join([*map(str, table.place), key])
        if not isinstance(table.content.get(key), Mapping):
            self._note(name, None)
            return table.number(key, low, high)
        known = table.table(key).only("value", "quality", "source")
        self._note(name, known)
        return known.number("value", low, high)

    def _note(self, name: str, known: Table | None) -> None:
        if known is None:
            self._evidence[name] = Evidence(Quality.UNSTATED, "not stated")
            return
        quality, source = known.text("quality"), known.text("source")
        if quality not in set(Quality):
            raise known.unfit("quality", f"one of {', '.join(Quality)}")
        if source not in self._sources:
            names = ", ".join(self._sources) or "none is listed"
            raise known.unfit("source", f"a key of [sources]: {names}")
        self._evidence[name] = Evidence(Quality(quality), self._sources[source])


def _point(cluster: int, table: Table) -> OperatingPoint:
    table.only("frequency_khz", "core_ma", "shared_ma")
    return OperatingPoint(
        cluster,
        table.whole("frequency_khz", 1_000, 20_000_000) * _KILO,
        table.number("core_ma", 0.001, _MILLIAMPERES[1]) * _MILLI,
        table.number("shared_ma", *_MILLIAMPERES, default=0.0) * _MILLI,
    )


def _admit(name: str, found: Any) -> Phone:  # noqa: ANN401
    """Return the phone that another package adds: itself, or the path of its TOML file."""
    made = load_phone(found) if isinstance(found, str | Path) else found
    if not isinstance(made, Phone):
        raise BadInput(f"{found!r} is neither a dealfl.power.Phone nor the path of a TOML file")
    if made.name != name:
        raise BadInput(f"the phone is called {made.name!r}; both names must be the same")
    return made


PHONES: Registry[Phone] = Registry(
    "dealfl.phones", {name: load_phone(_FOLDER / f"{name}.toml") for name in _PAPER}, _admit
)


def phone(name: str) -> Phone:
    """Return the phone of that name.

    >>> phone("nexus").fastest.frequency_hz
    2649600000
    """
    if name not in PHONES:
        raise unknown_name("phone", name, PHONES)
    return PHONES[name]
