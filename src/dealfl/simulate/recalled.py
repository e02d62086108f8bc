"""Seeded sequences of many workers, of which a limited number is in memory."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Generic, TypeVar

Item = TypeVar("Item")
_MOST_LIVE = 4096  # a random generator takes 2.5 KB


class Recalled(Generic[Item]):
    """Sequences by name, each taken item by item.

    `begin` returns a sequence after its first items. One that was not used for long is dropped, and
    begun again where it was.

    Examples
    --------
    >>> letters = Recalled(lambda name, first: iter(name[first:]), most_live=1)
    >>> letters.take("abc", 2), letters.take("xyz", 1), letters.take("abc", 2)
    (['a', 'b'], ['x'], ['c'])
    """

    def __init__(
        self, begin: Callable[[str, int], Iterator[Item]], most_live: int = _MOST_LIVE
    ) -> None:
        self._begin = begin
        self._most_live = most_live
        self._live: OrderedDict[str, Iterator[Item]] = OrderedDict()  # least recently used first
        self.taken: dict[str, int] = {}

    def take(self, name: str, count: int) -> list[Item]:
        """Return the next items, fewer at the end."""
        taken = self.taken.get(name, 0)
        items = self._live.pop(name, None) or self._begin(name, taken)
        given = list(islice(items, count))
        self.taken[name] = taken + len(given)
        if len(given) == count:
            self._live[name] = items
            if len(self._live) > self._most_live:
                self._live.popitem(last=False)
        return given

    def resume(self, taken: Mapping[str, int]) -> None:
        """Continue after numbers of items."""
        self._live.clear()
        self.taken = dict(taken)
