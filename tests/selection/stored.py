"""The stored state of a selector, as a ledger keeps it."""

from dealfl.server.selection import Selector

Parts = dict[str, bytes]


def save(one: Selector, before: Parts | None = None) -> Parts:
    """Return the stored parts after the changes since the last call."""
    after = (before or {}) | dict(one.changes())
    return {name: part for name, part in after.items() if part}
