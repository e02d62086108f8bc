"""The process of a worker, or of a gateway that carries several, until it is stopped."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from functools import partial
from pathlib import Path
from types import MappingProxyType

from dealfl.errors import BadInput
from dealfl.jobs import (
    Document,
    GrowingSource,
    MachineKeys,
    Plan,
    plan_without_data,
    read_job,
    read_machine_keys,
)
from dealfl.learners import cycles_of
from dealfl.memory import keep_freed_memory
from dealfl.network.connection import describe
from dealfl.network.credentials import Credentials, require_role
from dealfl.network.feed import Feed
from dealfl.network.machine import MachineDevice, open_clock
from dealfl.network.predict_socket import PredictSocket
from dealfl.network.processes import Health, report_health, run_together
from dealfl.network.worker_end import WorkerEnd
from dealfl.power import Phone, PhoneSpending, load_phone, phone
from dealfl.power.meters import make_meter
from dealfl.settings import read_section
from dealfl.worker import Journal, MeasuredMeter, PhoneMeter, Worker, WorkerKeys

__all__ = ["work"]

_FEED_S = 1.0
_PROGRESS_S = 5.0
_IDLE = 50  # a look at the files takes at most this part of the time


async def work(
    document: Document,
    folder: Path,
    brokers: Sequence[Credentials],
    stopped: asyncio.Event,
    *,
    data: Path | None = None,
    predict_socket: Path | None = None,
    phone_name: str = "",
    machine: Mapping[str, object] = MappingProxyType({}),
    health: Health = lambda _: None,
) -> None:
    """Run the workers of one connection until stopped.

    Parameters
    ----------
    document : Document
        The job file. Its section [source] describes the data of the workers.
    folder : Path
        Folder of the journal; a gateway has a folder in it for each worker.
    brokers : sequence of Credentials
        Credentials of the worker or gateway for one broker or several; it uses one at a time.
    stopped : asyncio.Event
        Ends the process when it is set.
    data : Path or None
        File that grows, or folder of files. A gateway takes a folder with a file or a folder for
        each worker.
    predict_socket : Path or None
        Unix socket that answers requests for predictions.
    phone_name : str
        Phone of `dealfl devices`, or path of a profile, by which energy is modelled.
    machine : mapping
        Keys of the section [machine] that replace those of the job file; None leaves one.
    health : callable
        Receives one line about the state every ten seconds, and what is wrong with the data.

    Raises
    ------
    BadInput
        If the credentials, the job or the phone are not valid.
    """
    job, plan = read_job(document), plan_without_data(document)
    kept = read_section(document, WorkerKeys, "worker")
    require_role(brokers, job.name, server=False)
    credentials = _require_alike(brokers)
    source = GrowingSource(document, plan) if data else None
    keys = read_machine_keys(document, machine)
    profile = _find_profile(phone_name)
    keep_freed_memory()
    with ExitStack() as stack:
        workers, feeds = {}, {}
        clock = open_clock(keys, profile, stack)
        device = MachineDevice(keys, profile)
        for name in credentials.workers or (credentials.user,):
            home = folder / name if credentials.workers else folder
            home.mkdir(parents=True, exist_ok=True, mode=0o700)
            journal = stack.enter_context(closing(Journal(home / "journal.db")))
            meter = _make_meter(keys, profile, plan, kept)
            workers[name] = Worker(
                job.name, name, plan.make, journal, meter,
                key=bytes.fromhex(credentials.owners_key), scheme_name=job.scheme,
                forget_fraction=job.forget_fraction, retry_after_s=job.retry_after_s,
                device=device, min_battery=keys.min_battery, clock=clock, sleeps=job.first_call,
                keys=kept,
                min_examples=job.rules.min_examples_per_update,
            )  # fmt: skip
            if data is not None and source is not None:
                feeds[name] = Feed(
                    workers[name], journal, source, data, gateway=bool(credentials.workers),
                    key=bytes.fromhex(credentials.owners_key),
                    report=partial(_report, health, name),
                )  # fmt: skip
        end = WorkerEnd(job.name, brokers, workers)

        def line() -> str:
            bad, left = (
                sum(f.bad for f in feeds.values()),
                sum(f.left_bytes for f in feeds.values()),
            )
            return (
                f"{credentials.user}: {describe(end.connection)}"
                + f", {bad:,} rows cannot be used" * (bad > 0)
                + f", {left:,} bytes of data not read yet" * (left > 0)
            )

        parts = [end.run(stopped), report_health(health, line, stopped)]
        if feeds:
            parts.append(_follow(feeds, end, health, stopped))
        if predict_socket is not None:
            parts.append(PredictSocket(predict_socket, plan, workers, end).run(stopped))
        await run_together(*parts)


def _report(health: Health, name: str, line: str) -> None:
    health(f"{name}: {line}")


def _require_alike(brokers: Sequence[Credentials]) -> Credentials:
    first = brokers[0]
    if not first.owners_key:
        raise BadInput(f"the credentials of {first.user!r} have no owners_key; enrol it again")
    if len({(one.user, one.owners_key, one.workers) for one in brokers}) > 1:
        raise BadInput(
            "the credentials differ in user, workers or owners_key; "
            "write the second broker with `dealfl broker init --like`"
        )
    return first


def _find_profile(name: str) -> Phone | None:
    if name.endswith(".toml"):
        return load_phone(Path(name))
    return phone(name) if name else None


def _make_meter(
    keys: MachineKeys, profile: Phone | None, plan: Plan, kept: WorkerKeys
) -> MeasuredMeter:
    model = None
    if profile:
        laws = cycles_of(plan.learner)
        cycles = laws.of_resident if kept.is_resident else laws.of_worker
        model = PhoneMeter(PhoneSpending(profile, cycles))
    return MeasuredMeter(make_meter(keys.meter, keys.sysfs), model)


async def _follow(
    feeds: Mapping[str, Feed], end: WorkerEnd, health: Health, stopped: asyncio.Event
) -> None:
    """Give new rows to the workers until stopped."""
    while not stopped.is_set():
        began_s = time.monotonic()
        news = [await _take(name, feed, end, health, stopped) for name, feed in feeds.items()]
        spent_s = 0.0 if any(news) else time.monotonic() - began_s
        with suppress(TimeoutError):
            await asyncio.wait_for(stopped.wait(), max(_FEED_S, _IDLE * spent_s))


async def _take(
    name: str, feed: Feed, end: WorkerEnd, health: Health, stopped: asyncio.Event
) -> bool:
    """Give new rows to one worker, and report the progress of large files."""
    rows, report_s = 0, time.monotonic() + _PROGRESS_S
    for count in feed.poll():
        rows += count
        if time.monotonic() >= report_s:
            health(f"{name}: {rows:,} records read, {feed.left_bytes / 1e6:,.1f} MB left")
            end.wake(name)
            report_s = time.monotonic() + _PROGRESS_S
        await asyncio.sleep(0)  # messages between two transactions
        if stopped.is_set():
            break
    if rows:
        end.wake(name)
    return rows > 0
