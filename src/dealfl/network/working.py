"""The process of a worker, or of a gateway that carries several: until stopped, or for one call."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from dealfl.errors import BadInput, WriteFailed
from dealfl.jobs import (
    Document,
    GrowingSource,
    Job,
    MachineKeys,
    Plan,
    plan_without_data,
    read_job,
    read_machine_keys,
    read_privacy,
)
from dealfl.learners import cycles_of
from dealfl.masks import WORKER, Masker, find_bits
from dealfl.network.connection import describe, first_of
from dealfl.network.credentials import Credentials, require_role
from dealfl.network.feed import Feed
from dealfl.network.machine import (
    InterfaceCounters,
    MachineDevice,
    open_clock,
)
from dealfl.network.predict_socket import PredictSocket
from dealfl.network.processes import Health, read_enrolment, report_health, run_together
from dealfl.network.worker_end import WorkerEnd
from dealfl.power import Phone, PhoneSpending, load_phone, make_meter, phone
from dealfl.settings import read_section
from dealfl.storage import keep_freed_memory, replace_file
from dealfl.worker import Journal, MeasuredMeter, PhoneMeter, State, Worker, WorkerKeys

_LOOK_S = 0.2  # between two looks at the counters
_IDLE_S = 1.0  # between two looks at whether a worker waits for a ride
_FEED_S = 1.0
_PROGRESS_S = 5.0
_SILENCE_S = 10.0  # after which a call ends
_IDLE = 50  # a look at the files takes at most this part of the time


@dataclass(frozen=True, slots=True)
class Orders:
    """What a process of `dealfl work` is started with."""

    document: Document
    folder: Path
    brokers: Sequence[Credentials]
    data: Path | None = None
    predict_socket: Path | None = None
    phone_name: str = ""
    machine: Mapping[str, object] = field(default_factory=dict)  # instead of keys of [machine]
    health: Health = lambda _: None
    enrolment: Path | None = None  # with a keyholder; a gateway's folder has one for each worker


async def work(orders: Orders, stopped: asyncio.Event) -> None:
    """Run the workers of one connection until stopped."""
    with ExitStack() as stack:
        process = open_workers(orders, stack)
        end = WorkerEnd(process.job.name, orders.brokers, process.workers)
        feeds = process.feeds

        def problem() -> str:
            return end.problem or next((feed.problem for feed in feeds if feed.problem), "")

        def line() -> str:
            bad = sum(feed.bad for feed in feeds)
            left = sum(feed.left_bytes for feed in feeds)
            return (
                f"{orders.brokers[0].user}: {describe(end.connection)}"
                + f", {end.rides}" * bool(end.rides.count)
                + f", {bad:,} rows cannot be used" * (bad > 0)
                + f", {left:,} bytes of data not read yet" * (left > 0)
                + f"; WAITING: {problem()}" * bool(problem())
            )

        parts = [end.run(stopped), report_health(orders.health, line, stopped)]
        if feeds:
            parts.append(_follow(feeds, end, orders.health, stopped))
        if process.counters is not None:
            lookout = Lookout(process.workers, process.counters, process.device, end)
            parts.append(lookout.run(stopped))
        if orders.predict_socket is not None:
            socket = PredictSocket(orders.predict_socket, process.plan, process.workers, end)
            parts.append(socket.run(stopped))
        await run_together(*parts)


# -- one call -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CallResult:
    """What one call of a worker has done."""

    worker: str
    outcome: str  # done, not chosen, not due, failed, stopped
    problem: str  # why it failed
    trained: int  # examples
    delivered: int  # updates that the server has confirmed
    undelivered: int
    waiting: int  # examples
    erasures: int  # requests that it has heard of
    call_by_s: float | None  # when it is expected to call again

    @property
    def is_success(self) -> bool:
        """Whether nothing has to be repeated."""
        return self.outcome not in ("failed", "stopped")

    def __str__(self) -> str:
        """Return the result as one line."""
        return (
            f"{self.worker}: {self.outcome}"
            + f" ({self.problem})" * bool(self.problem)
            + f"; examples: {self.trained:,} trained, {self.waiting:,} waiting"
            + f"; updates: {self.delivered:,} delivered"
            + f", {self.undelivered:,} not delivered yet" * (self.undelivered > 0)
            + f"; erasures: {self.erasures:,}" * (self.erasures > 0)
        )


async def work_once(orders: Orders, stopped: asyncio.Event) -> list[CallResult]:
    """Store new rows, call the server once if a call is due, and end.

    The session of the last process continues, unless its journal was restored since.
    """
    with ExitStack() as stack:
        process = open_workers(orders, stack, once=True)
        for feed in process.feeds:
            sum(feed.poll())
        before = {name: _Counts.of(journal) for name, journal in process.journals.items()}
        if not process.job.sleep:  # the server has not said when to call
            for worker in process.workers.values():
                worker.reconnect()
        outcome, problem = await _call(
            WorkerEnd(process.job.name, orders.brokers, process.workers), stopped
        )
        problem = problem or next((feed.problem for feed in process.feeds if feed.problem), "")
        return [
            _Counts.of(journal).since(before[name], name, outcome, problem)
            for name, journal in process.journals.items()
        ]


async def _call(end: WorkerEnd, stopped: asyncio.Event) -> tuple[str, str]:
    """Carry messages until all workers sleep, or nothing is heard; return outcome and problem."""
    over = asyncio.Event()
    running = asyncio.ensure_future(end.run(over))
    traffic = end.connection.traffic
    heard = -1
    while not (end.asleep.is_set() or over.is_set() or stopped.is_set()):
        if heard != traffic.received_packets:
            heard = traffic.received_packets
            until_s = time.monotonic() + _SILENCE_S
        await first_of(end.asleep, over, stopped, timeout_s=0.05)
        if time.monotonic() > until_s:
            break
    outcome = "stopped" if stopped.is_set() else "not chosen"
    problem = end.problem
    if end.asleep.is_set():
        outcome = "done" if traffic.sent_packets else "not due"
    elif not end.is_served:
        problem = problem or end.connection.problem or "the server is not at this broker"
    over.set()
    await running
    return "failed" if problem else outcome, problem


class _Counts(NamedTuple):
    """What a journal holds at one moment."""

    learned: int
    receipted: int
    undelivered: int
    waiting: int
    erasures: int
    call_by_s: float | None

    @classmethod
    def of(cls, journal: Journal) -> _Counts:
        state = journal.state
        return cls(
            state.learned,
            state.sequence - len(journal.outgoing),
            len(journal.outgoing),
            journal.count(State.WAITING),
            max((position.number for position in journal.reached), default=0),
            None if state.call is None or state.is_calling else state.call.until_s,
        )

    def since(self, before: _Counts, worker: str, outcome: str, problem: str) -> CallResult:
        if outcome == "not chosen" and self.undelivered:
            outcome, problem = "failed", "the server has not confirmed an update"
        return CallResult(
            worker,
            outcome,
            problem,
            self.learned - before.learned,
            max(self.receipted - before.receipted, 0),
            self.undelivered,
            self.waiting,
            self.erasures - before.erasures,
            self.call_by_s,
        )


# -- the parts of a process -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Process:
    """The workers of a process, with their journals and feeds, and its machine."""

    job: Job
    plan: Plan
    device: MachineDevice
    counters: InterfaceCounters | None  # None: it does not ride along
    workers: dict[str, Worker] = field(default_factory=dict)
    journals: dict[str, Journal] = field(default_factory=dict)
    feeds: list[Feed] = field(default_factory=list)


def open_workers(orders: Orders, stack: ExitStack, *, once: bool = False) -> _Process:
    """Return workers that are ready to be carried, until the stack closes."""
    document = orders.document
    job = read_job(document)
    plan = plan_without_data(document)
    kept = read_section(document, WorkerKeys, "worker")
    privacy = read_privacy(document)
    require_role(orders.brokers, job.name, server=False)
    credentials = _require_alike(orders.brokers)
    key = bytes.fromhex(credentials.owners_key)
    source = GrowingSource(document, plan) if orders.data else None
    keys = read_machine_keys(document, orders.machine)
    profile = _find_profile(orders.phone_name)
    keep_freed_memory()
    clock = open_clock(keys, profile, stack)
    device = MachineDevice(keys, profile)
    stack.callback(device.close)
    counters = None if once else _find_counters(job, keys, device)
    process = _Process(job, plan, device, counters)
    rules = job.rules
    bits = None
    if privacy.keyholder:
        bits = find_bits(plan.make().max_entry, privacy.max_workers, rules.max_examples)
    first_sleep = rules.make_sleep(job.name, "", rules.min_waiting, rules.max_wait_s)
    for name in credentials.workers or (credentials.user,):
        home = orders.folder / name if credentials.workers else orders.folder
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        journal = stack.enter_context(closing(Journal(home / "journal.db")))
        session = home / "session"  # not in the journal, which may be restored
        given = orders.enrolment
        if given is not None and credentials.workers:
            given = given / f"{name}.enrolment"
        enrolment = read_enrolment(privacy, home, given, WORKER, name)
        worker = Worker(
            job.name,
            name,
            plan.make,
            journal,
            _make_meter(keys, profile, plan, kept),
            key=key,
            scheme_name=job.scheme,
            forget_fraction=job.forget_fraction,
            retry_after_s=job.retry_after_s,
            device=device,
            min_battery=keys.min_battery,
            clock=clock,
            sleeps=first_sleep if once else job.first_sleep,
            keys=kept,
            min_examples=job.rules.min_examples_per_update,
            enough=job.rules.min_waiting,
            notices_traffic=counters is not None,
            continues=_read_session(session) if once else "",
            masker=None if enrolment is None else Masker(enrolment, bits),
        )
        if once:
            with suppress(WriteFailed):  # the next process begins another session
                replace_file(session, worker.trace)
        process.journals[name] = journal
        process.workers[name] = worker
        if orders.data is not None and source is not None:
            is_gateway = bool(credentials.workers)
            feed = Feed(
                worker, journal, source, orders.data,
                key=key, gateway=is_gateway, report=orders.health,
            )  # fmt: skip
            process.feeds.append(feed)
    return process


def _read_session(path: Path) -> str:
    return path.read_bytes().decode(errors="replace") if path.exists() else ""


def _find_counters(job: Job, keys: MachineKeys, device: MachineDevice) -> InterfaceCounters | None:
    """Return counters if workers ride along and anything tells of other traffic."""
    if not job.sleep or not job.rules.ride_along:
        return None
    counters = InterfaceCounters(keys.sysfs)
    device(time.time())  # it starts the command
    return counters if device.network_active is not None or counters.can_look else None


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


class Lookout:
    """Lets sleeping workers call while other traffic of the machine has the radio on.

    A running command of the user tells of other traffic. Without one, the counters of the network
    interfaces do, which are read while a worker waits for a ride and the connection is closed: none
    of their bytes are then the worker's own.
    """

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
