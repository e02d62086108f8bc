"""The process of a worker, or of a gateway that carries several, until it is stopped."""

from __future__ import annotations

import asyncio
import logging
import math
import shlex
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

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
from dealfl.network.predict_socket import PredictSocket
from dealfl.network.processes import Health, report_health, run_together
from dealfl.network.worker_end import WorkerEnd
from dealfl.power import Phone, PhoneSpending, Signalled, load_phone, machine_clock, phone
from dealfl.power.meters import make_meter, read_machine
from dealfl.settings import Share, read_section
from dealfl.storage import keep_freed_memory
from dealfl.worker import Device, Journal, MeasuredMeter, PhoneMeter, Worker, WorkerKeys

_LOG = logging.getLogger("dealfl.network")
_FEED_S = 1.0
_PROGRESS_S = 5.0
_IDLE = 50  # a look at the files takes at most this part of the time
_FRESH_S = 10.0  # for which an answer of the command counts
_COMMAND_S = 5.0


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
                + f", {bad:,} rows cannot be used" * (bad > 0)
                + f", {left:,} bytes of data not read yet" * (left > 0)
                + f"; WAITING: {problem()}" * bool(problem())
            )

        parts = [end.run(stopped), report_health(health, line, stopped)]
        if feeds:
            parts.append(_follow(feeds, end, health, stopped))
        if predict_socket is not None:
            parts.append(PredictSocket(predict_socket, plan, workers, end).run(stopped))
        await run_together(*parts)


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


class _Answer(Struct, frozen=True, forbid_unknown_fields=True):
    """What a command can tell about the device."""

    battery: Share | UnsetType = UNSET
    charging: bool | UnsetType = UNSET
    metered: bool | UnsetType = UNSET
    hot: bool | UnsetType = UNSET
    busy: bool | UnsetType = UNSET


def open_clock(keys: MachineKeys, profile: Phone | None, stack: ExitStack) -> Signalled | None:
    """Return the clock of this machine until the stack closes; None if it is not controlled."""
    if keys.clock == "off":
        return None
    frequency_mhz = 0.0
    if keys.clock != "deal":
        with suppress(ValueError):
            frequency_mhz = float(keys.clock)
        if not 0.0 < frequency_mhz < math.inf:
            raise BadInput(f"clock is {keys.clock!r}; it must be off, deal, or a MHz above 0")
    frequency_hz = round(frequency_mhz * 1e6)
    return stack.enter_context(machine_clock(Path(keys.sysfs), profile, frequency_hz))


class MachineDevice:
    """The state of this machine, read when a worker needs it."""

    def __init__(self, keys: MachineKeys, profile: Phone | None = None) -> None:
        self._keys = keys
        self._command = shlex.split(keys.device_command)
        self._name = ""
        self._capacity_j = 0.0
        if profile:
            self._name = profile.name
            self._capacity_j = profile.battery.capacity_c * profile.battery.voltage_v
        self._answer: dict[str, Any] = {}
        self._answered_s = -math.inf
        self._warned: set[str] = set()

    def __call__(self, now_s: float) -> Device:
        """Return the state of the machine; what cannot be read does not keep it from training."""
        state = read_machine(self._keys.sysfs)
        temperature_c = state.temperature_c
        device = Device(
            self._name,
            state.capacity_j or self._capacity_j,
            1.0 if state.battery is None else state.battery,
            charging=state.charging,
            hot=temperature_c is not None and temperature_c > self._keys.max_temperature_c,
        )
        return replace(device, **self._ask(now_s)) if self._command else device

    def _ask(self, now_s: float) -> dict[str, Any]:
        """Return what the user's command tells; nothing if it fails."""
        if not 0.0 <= now_s - self._answered_s < _FRESH_S:
            self._answered_s = now_s
            self._answer = self._run()
        return self._answer

    def _run(self) -> dict[str, Any]:
        try:
            done = subprocess.run(  # noqa: S603 - the user's own command
                self._command, capture_output=True, timeout=_COMMAND_S, check=True
            )
            answer = msgspec.json.decode(done.stdout, type=_Answer)
        except (OSError, subprocess.SubprocessError, msgspec.MsgspecError) as error:
            if str(error) not in self._warned:
                self._warned.add(str(error))
                _LOG.warning("device_command %r is ignored: %s", self._command[0], error)
            return {}
        fields: dict[str, Any] = msgspec.to_builtins(answer)  # only those that are set
        return fields
