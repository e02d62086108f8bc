"""What a desk does for its reader in the background; the truth is in the run, not here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from dealfl.desk.layout import sentence
from dealfl.errors import DealError
from dealfl.storage import log

_KEPT = 10


@dataclass(slots=True)
class Task:
    """A change that was begun here: its state, and the salts that are stored nowhere else."""

    title: str
    request: str = ""
    text: str = "in progress"
    kind: str = "wait"  # or "good", "bad"
    salts: dict[str, str] = field(default_factory=dict, repr=False)
    commitments: Sequence[str] = ()


class Tasks:
    """Runs changes in threads, one after the other; `changed` is called after each step."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self.listed: list[Task] = []
        self._changed = changed
        self._one = asyncio.Lock()
        self._running: set[asyncio.Task[None]] = set()

    def find(self, request: str) -> Task | None:
        """Return the task of a request."""
        return next((task for task in self.listed if task.request == request), None)

    def start(self, task: Task, work: Callable[[Callable[[str], None]], str]) -> None:
        """Begin a change; `work` takes a function that reports progress, and returns the end."""
        self.listed = [*self.listed, task][-_KEPT:]
        running = asyncio.ensure_future(self._run(task, work))
        self._running.add(running)
        running.add_done_callback(self._running.discard)

    async def _run(self, task: Task, work: Callable[[Callable[[str], None]], str]) -> None:
        loop = asyncio.get_running_loop()

        def say(text: str) -> None:
            task.text = sentence(text)
            loop.call_soon_threadsafe(self._changed)

        async with self._one:
            try:
                done = await asyncio.to_thread(work, say)
            except (DealError, OSError) as error:
                task.kind, task.text = "bad", sentence(str(error))
                log("change failed", reason=task.title, level="warning")
            else:
                task.kind, task.text = "good", done
                log("change done", reason=task.title)
        self._changed()
