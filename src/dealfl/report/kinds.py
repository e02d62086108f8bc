"""The workers of a fleet by kind of device: what one of each kind did in the mean."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import fsum

from dealfl.simulate import Participant

__all__ = ["Kind", "kinds"]

_MOST_KINDS = 10
_OTHERS = "other kinds"


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of device; figures are means over its devices, the battery with its range."""

    device: str
    count: int
    selected: float
    compute_j: float
    radio_j: float
    battery: float
    least_battery: float
    most_battery: float


def kinds(participants: Iterable[Participant]) -> list[Kind]:
    """Return every kind; of many kinds the most frequent, and all others together."""
    grouped: defaultdict[str, list[Participant]] = defaultdict(list)
    for one in participants:
        grouped[one.device].append(one)
    if len(grouped) <= _MOST_KINDS:
        return [_kind(device, group) for device, group in grouped.items()]
    ordered = sorted(grouped.items(), key=lambda item: -len(item[1]))
    shown, rest = ordered[: _MOST_KINDS - 1], ordered[_MOST_KINDS - 1 :]
    others = [one for _, group in rest for one in group]
    return [*(_kind(device, group) for device, group in shown), _kind(_OTHERS, others)]


def _kind(device: str, group: Sequence[Participant]) -> Kind:
    count = len(group)
    batteries = [one.battery for one in group]
    return Kind(
        device=device,
        count=count,
        selected=sum(one.selected for one in group) / count,
        compute_j=fsum(one.compute_j for one in group) / count,
        radio_j=fsum(one.radio_j for one in group) / count,
        battery=fsum(batteries) / count,
        least_battery=min(batteries),
        most_battery=max(batteries),
    )
