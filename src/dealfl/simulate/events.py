"""What happens in a simulation, as plain records: a run can be written down and go on later."""

from __future__ import annotations

import msgspec

from dealfl.messages import Message

__all__ = ["Arrives", "Deliver", "Event", "Leaves", "Returns", "Wake"]


class _Happening(msgspec.Struct, frozen=True, tag=True):
    """Something that happens to a worker, or to the server, whose name is empty."""

    name: str


class Wake(_Happening, frozen=True):
    """It is called because it asked for it, unless that was replaced by an earlier moment."""

    moment_s: float


class Deliver(_Happening, frozen=True):
    """A message reaches it."""

    message: Message


class Returns(_Happening, frozen=True):
    """A reason not to be there has passed."""

    reason: str


class Leaves(_Happening, frozen=True):
    """It goes away, until its next interval begins."""


class Arrives(_Happening, frozen=True):
    """New examples reach it."""

    count: int


Event = Wake | Deliver | Returns | Leaves | Arrives
