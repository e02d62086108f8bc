"""Riding along: sleeping workers call while other traffic of the machine has the radio on.

A running command of the user tells of other traffic. Without one, the counters of the network
interfaces do, which are read while a worker waits for a ride and the connection is closed: none of
their bytes are then the worker's own.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress

from dealfl.network.machine import InterfaceCounters, MachineDevice
from dealfl.network.worker_end import WorkerEnd
from dealfl.worker import Worker

_LOOK_S = 0.2  # between two looks at the counters
_IDLE_S = 1.0  # between two looks at whether a worker waits for a ride


class Lookout:
    """Looks for other traffic while a worker waits for a ride."""

    def __init__(
        self,
        workers: Mapping[str, Worker],
        counters: InterfaceCounters,
        device: MachineDevice,
        end: WorkerEnd,
    ) -> None:
        self._workers = workers
        self._counters = counters
        self._device = device
        self._end = end
        self._looked_s = time.monotonic()
        self._pause_s = _IDLE_S
        device.follow(self.look)

    async def run(self, stopped: asyncio.Event) -> None:
        """Look until stopped."""
        while not stopped.is_set():
            self.look()
            with suppress(TimeoutError):
                await asyncio.wait_for(stopped.wait(), self._pause_s)

    def look(self) -> None:
        """Let workers that wait for a ride call if there is other traffic."""
        before_s, self._looked_s = self._looked_s, time.monotonic()
        self._pause_s = _IDLE_S
        now_s = time.time()
        waiting = [name for name, worker in self._workers.items() if worker.wants_ride(now_s)]
        if not waiting or not self._end.connection.is_resting:
            self._counters.forget()
            return
        is_active = self._device.network_active
        if is_active is None:
            is_active = self._counters.look()
            self._pause_s = _LOOK_S
        for name in waiting if is_active else ():
            self._end.ride(name, max(before_s, self._device.told_s))
