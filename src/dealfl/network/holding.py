"""The process of a keyholder, until it is stopped: it is reached over the broker as a worker is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import cast

from dealfl.errors import BadInput
from dealfl.keyholder import KeyholderFolder
from dealfl.network.connection import describe
from dealfl.network.credentials import Credentials
from dealfl.network.processes import Health, report_health, run_together
from dealfl.network.worker_end import WorkerEnd
from dealfl.worker import Worker


async def hold(
    folder: KeyholderFolder,
    brokers: Sequence[Credentials],
    stopped: asyncio.Event,
    health: Health,
) -> None:
    """Answer the requests of a job's server until stopped."""
    settings = folder.settings
    job = brokers[0].job
    for broker in brokers:
        if broker.user != settings.name or broker.job != job:
            raise BadInput(
                f"these are the credentials of {broker.user!r} for the job {broker.job!r}; this "
                f"keyholder is called {settings.name!r}: enrol that name at the broker of its job"
            )
    with folder.open([job]) as keyholder:
        enrolled = len(keyholder.workers)
        if enrolled < settings.cohort:
            raise BadInput(
                f"cohort is {settings.cohort}, and {enrolled} workers are enrolled, so that "
                "nothing would ever be opened; enrol more: `dealfl keyholder enrol`"
            )
        # carried as a worker is that never sleeps
        end = WorkerEnd(job, brokers, {settings.name: cast(Worker, keyholder)})
        since_s = time.monotonic()

        def line() -> str:
            return (
                f"{settings.name}, key {keyholder.key_name}: {time.monotonic() - since_s:.0f} s, "
                f"{describe(end.connection)}; {enrolled} workers enrolled, "
                f"{keyholder.openings} openings"
                + f", {keyholder.strangers} requests of strangers" * (keyholder.strangers > 0)
                + f"; WAITING: {end.problem}" * bool(end.problem)
            )

        end.wake(settings.name)
        await run_together(end.run(stopped), report_health(health, line, stopped))
