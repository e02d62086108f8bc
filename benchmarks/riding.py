"""How soon does a sleeping worker call after other traffic of its machine has begun?

Broker, server and worker are real and on the loopback interface. Other traffic is a tree like
/sys/class/net whose counters rise every 20 ms, or the events of a command that keeps running. It
begins at a random time after the worker has enough examples. Measured is the time from its first
byte, or from the line of the command, to the announcement of the worker.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import asyncio
import logging
import random
import socket
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec
from reporting import Report, main, progress

import dealfl.network.working as working
from dealfl.jobs import Document, read_machine_keys
from dealfl.network import BrokerSettings, Orders, create_broker, serve, work
from dealfl.network.machine import InterfaceCounters

JOB = """\
[job]
name = "bench"
learner = "tikhonov"
scheme = "incremental"
rounds = 1000000
sleep = true
ride_along = true
min_waiting = 3
[source]
file = "data.csv"
target = "y"
target_bound = 1e6
[source.columns]
x = { low = 0.0, high = 1e6 }
"""
LOOKS = 2_000


class Announced(logging.Handler):
    """Notes when the worker announces itself on a ride."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.times_s: list[float] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Note the time of a ride."""
        if str(record.msg).startswith("announced"):
            self.times_s.append(time.monotonic())


class Machine:
    """A folder with the counters of an interface, a file with events, and rows."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.rows, self._bytes = folder, 0, 0
        self.events = folder / "events"
        self.events.write_text('{"network_active": false}\n')
        self._net = folder / "sys/class/net/wlan0"
        (self._net / "statistics").mkdir(parents=True)
        (self._net / "type").write_text("1\n")
        self.carry()
        (folder / "data.csv").write_text("x,y\n")

    def carry(self) -> None:
        """Carry a packet in each direction."""
        self._bytes += 1_500
        for name in ("rx_bytes", "tx_bytes"):
            (self._net / "statistics" / name).write_text(f"{self._bytes}\n")

    def tell(self, active: str) -> None:
        """Let the command print a line."""
        with self.events.open("a") as file:
            file.write(f'{{"network_active": {active}}}\n')

    def append(self) -> None:
        """Append enough rows for a call."""
        with (self.folder / "data.csv").open("a") as file:
            for _ in range(3):
                self.rows += 1
                file.write(f"{self.rows},{self.rows}.5\n")


async def ride(machine: Machine, announced: Announced, rides: int, by_events: bool) -> list[float]:
    """Return the delays of some rides."""
    draw = random.Random(0)
    delays_s = []
    for number in range(rides):
        machine.append()
        await asyncio.sleep(1.5 + draw.random())  # the worker reads the rows, and looks
        began_s = time.monotonic()
        if by_events:
            machine.tell("true")
        while len(announced.times_s) <= number:
            if not by_events:
                machine.carry()
            await asyncio.sleep(0.02)
            if time.monotonic() > began_s + 30.0:
                raise TimeoutError("the worker does not ride")
        delays_s.append(announced.times_s[number] - began_s)
        machine.tell("false")
        await asyncio.sleep(0.5)  # the call ends
    return delays_s


async def measure(rides: int, by_events: bool) -> list[float]:
    """Run broker, server and worker, and let the worker ride."""
    announced = Announced()
    log = logging.getLogger("dealfl")
    log.addHandler(announced)
    log.setLevel(logging.INFO)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        machine = Machine(folder)
        setattr(working, "read_machine_keys", read_keys_of(machine))  # noqa: B010
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        settings = BrokerSettings(job="bench", host="127.0.0.1", port=port, tls=True)
        broker = create_broker(folder / "broker", settings)
        own = broker.enrol(["w1"])
        process = broker.start()
        document, stopped = Document.parse(JOB, "job.toml"), asyncio.Event()
        told = {"device_command": f"tail -n 1 -s 0.01 -f {machine.events}"} if by_events else {}
        (folder / "run").mkdir()
        orders = Orders(document, folder / "w1", own, data=folder / "data.csv", machine=told)
        server = [broker.admit_server()]
        tasks = [
            asyncio.ensure_future(serve(document, folder / "run", server, stopped)),
            asyncio.ensure_future(work(orders, stopped)),
        ]
        try:
            return await ride(machine, announced, rides, by_events)
        finally:
            stopped.set()
            await asyncio.gather(*tasks)
            process.terminate()
            process.wait()
            log.removeHandler(announced)


def read_keys_of(machine: Machine) -> Any:
    """Return a function that lets a worker read the counters of a machine instead of /sys."""
    folder = str(machine.folder / "sys")
    return lambda *given: msgspec.structs.replace(read_machine_keys(*given), sysfs=folder)


def time_look() -> float:
    """Return the CPU of one look at the counters of this machine, in seconds."""
    counters = InterfaceCounters()
    began_s = time.process_time()
    for _ in range(LOOKS):
        counters.look()
    return (time.process_time() - began_s) / LOOKS


def benchmark(quick: bool) -> Report:
    """Measure the delays of rides, and the CPU of a look."""
    report = Report("riding")
    rides = 8 if quick else 40
    for what, by_events, target_s in (("counters", False, 0.5), ("an event", True, 0.5)):
        with progress(f"{rides} rides by {what}"):
            delays_s = sorted(asyncio.run(measure(rides, by_events)))
        median_s, p90_s = delays_s[rides // 2], delays_s[rides * 9 // 10]
        report.check(
            f"from other traffic to the call, by {what}: median of {rides} rides, TLS",
            f"≤ {target_s} s", f"{median_s:.2f} s", median_s <= target_s,
        )  # fmt: skip
        report.rows.append({
            "noticed by": what, "rides": rides, "least s": delays_s[0], "median s": median_s,
            "90 % s": p90_s, "most s": delays_s[-1],
        })  # fmt: skip
    look_s = time_look()
    report.rows.append({"look at the counters, CPU ms": 1e3 * look_s, "looks a second": 5})
    share = 5 * look_s
    report.check("CPU while a ride is awaited", "≤ 1 %", f"{share:.2%}", share <= 0.01)
    return report


if __name__ == "__main__":
    main(benchmark, __doc__ or "")
