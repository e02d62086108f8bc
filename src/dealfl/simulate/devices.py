"""The sections [[devices]]: how many of which phone."""

from __future__ import annotations

from dataclasses import dataclass

from dealfl.jobs.settings import number, setting, share, text, whole

__all__ = ["Devices"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Devices:
    """So many devices of one kind."""

    count: int = setting(whole(1))
    device: str = setting(text(), "phone")
    capacity_j: float = setting(number(0.0), 40_000.0)
    battery: float = setting(share(), 1.0)
    charging_share: float = setting(share(), 0.0)
    operations_per_s: float = setting(number(0.0, above=True), 1e8)
    joules_per_operation: float = setting(number(0.0), 1e-9)
    wake_j: float = setting(number(0.0), 0.0)
