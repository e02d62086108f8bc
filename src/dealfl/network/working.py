"""The process of a worker, or of a gateway that carries several, until it is stopped."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing, suppress
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
from dealfl.network.connection import describe
from dealfl.network.credentials import Credentials, require_role
from dealfl.network.feed import Feed
from dealfl.network.machine import (
    InterfaceCounters,
    MachineDevice,
    open_clock,
)
from dealfl.network.predict_socket import PredictSocket
from dealfl.network.processes import Health, report_health, run_together
from dealfl.network.riding import Lookout
from dealfl.network.worker_end import WorkerEnd
from dealfl.power import Phone, PhoneSpending, load_phone, phone
from dealfl.power.meters import make_meter
from dealfl.settings import read_section
from dealfl.storage import keep_freed_memory
from dealfl.worker import Journal, MeasuredMeter, PhoneMeter, Worker, WorkerKeys

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
    """Run the workers of one connection until stopped."""
    job = read_job(document)
    plan = plan_without_data(document)
    kept = read_section(document, WorkerKeys, "worker")
    require_role(brokers, job.name, server=False)
    credentials = _require_alike(brokers)
    key = bytes.fromhex(credentials.owners_key)
    source = GrowingSource(document, plan) if data else None
    keys = read_machine_keys(document, machine)
    profile = _find_profile(phone_name)
    keep_freed_memory()
    with ExitStack() as stack:
        workers: dict[str, Worker] = {}
        feeds: list[Feed] = []
        clock = open_clock(keys, profile, stack)
        device = MachineDevice(keys, profile)
        stack.callback(device.close)
        counters = InterfaceCounters(keys.sysfs)
        rides = job.sleep and job.rules.ride_along and _notices_traffic(device, counters)
        for name in credentials.workers or (credentials.user,):
            home = folder / name if credentials.workers else folder
            home.mkdir(parents=True, exist_ok=True, mode=0o700)
            journal = stack.enter_context(closing(Journal(home / "journal.db")))
            meter = _make_meter(keys, profile, plan, kept)
            workers[name] = Worker(
                job.name,
                name,
                plan.make,
                journal,
                meter,
                key=key,
                scheme_name=job.scheme,
                forget_fraction=job.forget_fraction,
                retry_after_s=job.retry_after_s,
                device=device,
                min_battery=keys.min_battery,
                clock=clock,
                sleeps=job.first_sleep,
                keys=kept,
                min_examples=job.rules.min_examples_per_update,
                enough=job.rules.min_waiting,
                notices_traffic=rides,
            )
            if data is not None and source is not None:
                feed = Feed(
                    workers[name],
                    journal,
                    source,
                    data,
                    key=key,
                    gateway=bool(credentials.workers),
                    report=health,
                )
                feeds.append(feed)
        end = WorkerEnd(job.name, brokers, workers)

        def problem() -> str:
            return end.problem or next((feed.problem for feed in feeds if feed.problem), "")

        def line() -> str:
            bad = sum(feed.bad for feed in feeds)
            left = sum(feed.left_bytes for feed in feeds)
            return (
                f"{credentials.user}: {describe(end.connection)}"
                + f", {end.rides}" * bool(end.rides.count)
                + f", {bad:,} rows cannot be used" * (bad > 0)
                + f", {left:,} bytes of data not read yet" * (left > 0)
                + f"; WAITING: {problem()}" * bool(problem())
            )

        parts = [end.run(stopped), report_health(health, line, stopped)]
        if feeds:
            parts.append(_follow(feeds, end, health, stopped))
        if rides:
            parts.append(Lookout(workers, counters, device, end).run(stopped))
        if predict_socket is not None:
            parts.append(PredictSocket(predict_socket, plan, workers, end).run(stopped))
        await run_together(*parts)


def _notices_traffic(device: MachineDevice, counters: InterfaceCounters) -> bool:
    """Return whether anything tells of other traffic."""
    device(time.time())  # it starts the command
    return device.network_active is not None or counters.can_look


def _require_alike(brokers: Sequence[Credentials]) -> Credentials:
    first = brokers[0]
    if not first.owners_key:
        raise BadInput(f"the credentials of {first.user!r} have no owners_key; enrol it again")
    if len({(broker.user, broker.owners_key, broker.workers) for broker in brokers}) > 1:
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
    feeds: Sequence[Feed], end: WorkerEnd, health: Health, stopped: asyncio.Event
) -> None:
    """Give new rows to the workers until stopped."""
    while not stopped.is_set():
        began_s = time.monotonic()
        news = [await _take(feed, end, health, stopped) for feed in feeds]
        spent_s = 0.0 if any(news) else time.monotonic() - began_s
        with suppress(TimeoutError):
            await asyncio.wait_for(stopped.wait(), max(_FEED_S, _IDLE * spent_s))


async def _take(feed: Feed, end: WorkerEnd, health: Health, stopped: asyncio.Event) -> bool:
    """Give new rows to one worker, and report the progress of large files."""
    name = feed.worker.name
    rows = 0
    report_s = time.monotonic() + _PROGRESS_S
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
