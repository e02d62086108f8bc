"""Looks at a run again while somebody watches, once for all pages."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress

from dealfl.desk.sources import Source
from dealfl.desk.view import View
from dealfl.errors import DealError

_STALE_S = 30.0  # a page that nobody has asked for in this time is not kept up to date
_FIRST_S = 1.0  # that the first page waits for the first look


class Watch:
    """The view of a run, kept up to date; `version` increases with every change of it."""

    def __init__(self, source: Source, every_s: float = 0.0) -> None:
        self.source, self.view = source, View()
        self.version = 0
        self._every_s = every_s or source.every_s
        self._wanted_s = -_STALE_S
        self._changed = asyncio.Condition()
        self._first = asyncio.Event()
        self._hurry = asyncio.Event()

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            if time.monotonic() - self._wanted_s < _STALE_S:
                await self._look()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._hurry.wait(), self._every_s)
            self._hurry.clear()

    async def _look(self) -> None:
        view = self.view
        settled = {name: status for name, status in view.erasures.items() if status.published}
        try:
            look = await asyncio.to_thread(self.source.look, settled)
        except (DealError, OSError) as error:  # a run that vanishes, a server that stops
            changed, view.problem = view.problem != str(error), str(error)
        else:
            changed = look is not None or bool(view.problem)
            view.problem = ""
            for changes in look.changes if look else ():
                view.apply(changes)
            if look is not None and not self.source.remote:
                view.record = look.record
        self._first.set()
        if changed:
            await self.touch()

    async def touch(self) -> None:
        """Let all pages be rendered again."""
        async with self._changed:
            self.version += 1
            self._changed.notify_all()

    def want(self) -> None:
        """Keep the view up to date for a while."""
        if time.monotonic() - self._wanted_s > self._every_s:
            self._hurry.set()
        self._wanted_s = time.monotonic()

    def look_now(self) -> None:
        """Look again at once."""
        self._wanted_s = time.monotonic()
        self._hurry.set()

    async def ready(self) -> View:
        """Return the view; wait a moment for the first look."""
        self.want()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._first.wait(), _FIRST_S)
        return self.view

    async def next_version(self, seen: int, timeout_s: float) -> int:
        """Wait for another version than one, at most for a time; return the present one."""
        self.want()
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s), self._changed:
                await self._changed.wait_for(lambda: self.version != seen)
        return self.version
