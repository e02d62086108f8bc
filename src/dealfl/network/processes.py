"""Processes that run until they are stopped.

SIGTERM and Ctrl-C stop a process after its current call; it resumes from its store.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

_HEALTH_S = 10.0

Health = Callable[[str], None]
Result = TypeVar("Result")


async def report_health(health: Health, line: Callable[[], str], stopped: asyncio.Event) -> None:
    """Report a line about the state every ten seconds."""
    while not stopped.is_set():
        with suppress(TimeoutError):
            await asyncio.wait_for(stopped.wait(), _HEALTH_S)
        health(line())


async def run_together(*parts: Coroutine[Any, Any, None]) -> None:
    """Wait for all parts; if one fails, stop the others and raise its error."""
    async with asyncio.TaskGroup() as group:
        for part in parts:
            group.create_task(part)


def run_until_stopped(main: Callable[[asyncio.Event], Awaitable[Result]]) -> Result:
    """Run a process until it ends, or until SIGTERM or Ctrl-C; return its result."""

    async def start() -> Result:
        stopped = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stopped.set)
        return await main(stopped)

    try:
        return asyncio.run(start())
    except BaseExceptionGroup as group:  # of parts that ran together
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        raise error from None
