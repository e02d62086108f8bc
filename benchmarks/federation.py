"""What does a round cost the server, how does that grow, and what does an idle worker take?

The ledger is on disk and waits for it at every commit (synchronous=FULL). Training is trivial: all
updates are made beforehand, so that only the engine is measured. Updates of a round come in two
ways: all at once, as a server gets them that takes in what has arrived since its last call, or one
a call, each with a commit of its own. The first 2,500 updates are not measured: after them the
server uses compiled loops.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import gc
import json
import math
import resource
import subprocess
import sys
import tempfile
import time
import tracemalloc
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from reporting import Report, main, progress

from dealfl.exact import Statistics
from dealfl.learners import NaiveBayes, Rows, statistics_of
from dealfl.power import Training
from dealfl.protocol.messages import Announce, Assignment, Message, Update, Welcome
from dealfl.server import Ledger, Rules, Server
from dealfl.server.selection import Uniform
from dealfl.worker import Cost, Journal, Record, Worker

TARGET_MS = {(1_000, 100): 50.0, (10_000, 1_000): 450.0}
WORKER_BYTES, IDLE_MB, IDLE_HOURS = 2_048, 100, 24


def make() -> NaiveBayes:
    """Return the small learner of this benchmark."""
    return NaiveBayes(3, ["a", "b"], feature_bound=1.0, fraction_bits=8)


def one_example() -> Statistics:
    """Return the delta that every update brings."""
    record = Record(1, b"owner", Rows.encode([0.0, 0.5, 1.0], "a"))
    return statistics_of(make, [record])[0]


@dataclass
class Fleet:
    """Workers that answer at once, and whose messages are made before the clock runs."""

    server: Server
    names: list[str]
    delta: bytes
    digest: str
    now_s: float = 0.0

    @classmethod
    def joined(cls, directory: Path, workers: int, selected: int) -> "Fleet":
        """Return a fleet of which every worker has joined."""
        rules = Rules(
            rounds=10**9, workers_per_round=selected, ttl_s=1e6, presence_timeout_s=1e12,
            battery_budget=1.0,
        )  # fmt: skip
        ledger = Ledger(directory / "ledger.db")
        server = Server("job", make, ledger, rules, Uniform(1))
        names = [f"w{number:05d}" for number in range(workers)]
        return cls(server, names, one_example().to_bytes(), make().schema.digest())

    def announcement(self, name: str, incarnation: int) -> Announce:
        return Announce(
            job="job", worker=name, incarnation=incarnation, journal_id=name, waiting=5, held=5,
            schema_digest=self.digest,
        )  # fmt: skip

    def join(self) -> tuple[Message, ...]:
        """Let everybody join in one call; return what the server sent."""
        return self.server.handle([self.announcement(name, 0) for name in self.names], 0.0).messages

    def replies(self, messages: tuple[Message, ...]) -> list[Message]:
        """Return the updates and new announcements that answer assignments."""
        found: list[Message] = []
        rows = self.server.workers
        for message in messages:
            if isinstance(message, Assignment):
                update = Update(
                    job="job", worker=message.worker, incarnation=1, round=message.round,
                    sequence=rows[message.worker].counted + 1, delta=self.delta, learned=1,
                )  # fmt: skip
                found += [update, self.announcement(message.worker, 1)]
        return found

    def round(self, messages: tuple[Message, ...], batch: int) -> tuple[float, tuple[Message, ...]]:
        """Answer a round's assignments, `batch` messages a call; return its time and the next's."""
        replies = self.replies(messages)
        sent: list[Message] = []
        start = time.perf_counter()
        for first in range(0, len(replies), batch):
            self.now_s += 1e-3
            sent += self.server.handle(replies[first : first + batch], self.now_s).messages
        return time.perf_counter() - start, tuple(sent)


def rounds(workers: int, selected: int, number: int, batch: int) -> dict[str, Any]:
    """Run rounds with a number of workers; return their cost."""
    with tempfile.TemporaryDirectory() as directory:
        fleet = Fleet.joined(Path(directory), workers, selected)
        start = time.perf_counter()
        messages = fleet.join()
        join_s = time.perf_counter() - start
        times_s, start_cpu_s = [], time.process_time()
        for _ in range(number):
            elapsed_s, messages = fleet.round(messages, batch)
            times_s.append(elapsed_s)
        cpu_s = (time.process_time() - start_cpu_s) / number
        closed = len(fleet.server.reader.closed_rounds())
        assert closed >= number - 1, f"only {closed} of {number} rounds closed"
    return {
        "workers": workers, "selected": selected, "messages a call": batch, "rounds": number,
        "ms a round": median(times_s) * 1e3,
        "worst ms": max(times_s) * 1e3,
        "CPU ms a round": cpu_s * 1e3,
        "rounds a second": 1 / median(times_s),
        "ms an update": median(times_s) / selected * 1e3,
        "join ms a worker": join_s / workers * 1e3,
    }  # fmt: skip


def growth(small: dict[str, Any], large: dict[str, Any]) -> float:
    """Return the power of the number of workers with which the cost of an update grows."""
    ratio = large["ms an update"] / small["ms an update"]
    return math.log(ratio) / math.log(large["workers"] / small["workers"])


def server_memory(workers: int, selected: int, number: int) -> dict[str, Any]:
    """Return what the server's own objects take for each worker, and what rounds add to it."""
    with tempfile.TemporaryDirectory() as directory:
        tracemalloc.start()
        fleet = Fleet.joined(Path(directory), 0, selected)
        before = _held_bytes()
        for first in range(0, workers, 500):
            names = [f"w{n:05d}" for n in range(first, min(first + 500, workers))]
            fleet.server.handle([fleet.announcement(name, 0) for name in names], 0.0)
        names.clear()
        joined = _held_bytes()
        tracemalloc.stop()
    return {"workers": workers, "bytes a worker": (joined - before) / workers} | _added(number)


def _added(number: int) -> dict[str, Any]:
    """Return what rounds add to the memory of a server whose workers all took part before."""
    with tempfile.TemporaryDirectory() as directory:
        tracemalloc.start()
        fleet = Fleet.joined(Path(directory), 10, 5)
        messages = fleet.join()
        for _ in range(50):
            _, messages = fleet.round(messages, 10**6)
        early = _held_bytes()
        for _ in range(number):
            _, messages = fleet.round(messages, 10**6)
        late = _held_bytes()
        tracemalloc.stop()
    return {"rounds": number, "bytes added a round": (late - early) / number}


def _held_bytes() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


class FreeMeter:
    """Training costs nothing."""

    def start(self) -> None:
        """Do nothing."""

    def cost(self, training: Training) -> Cost:  # noqa: ARG002
        return Cost(0.0, 0.0)


def idle_worker() -> dict[str, Any]:
    """Let a worker idle in a process of its own; return its memory and its calls."""
    command = [sys.executable, __file__, "--idle-worker"]
    return dict(json.loads(subprocess.run(command, check=True, capture_output=True).stdout))


def _idle() -> None:
    """Hold 1,000 examples, then wake only when `handle` requests it, for a virtual day."""
    with tempfile.TemporaryDirectory() as directory:
        journal = Journal(Path(directory) / "journal.db")
        now_s, every_s = 0.0, 60.0
        meter = FreeMeter()
        worker = Worker("job", "w", make, journal, meter, key=b"key", announce_every_s=every_s)
        worker.ingest([(f"person {n}", Rows.encode([0.0, 0.5, 1.0], "a")) for n in range(1000)])
        welcome = Welcome(job="job", worker="w", incarnation=1, session=1, journal_id=journal.id)
        worker.handle([welcome], 0.0)
        wakes = said = 0
        while now_s < IDLE_HOURS * 3600:
            step = worker.handle((), now_s)
            wakes, said = wakes + 1, said + len(step.messages)
            assert step.wake_at_s is not None
            now_s = max(step.wake_at_s, now_s)
        cpu = time.process_time()
        switches = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw
        time.sleep(1.0)  # between its timers nothing of it runs: no thread, no poll
        switched = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw - switches - 1
        heavy = {"numba", "sklearn", "pandas", "pooch", "tqdm", "matplotlib"} & set(sys.modules)
        print(
            json.dumps(
                {
                    "examples held": 1000,
                    "RSS MB": _status_mb("VmRSS"),
                    "hours": IDLE_HOURS,
                    "wake-ups": wakes,
                    "wake-ups of its timer": round(IDLE_HOURS * 3600 / every_s),
                    "messages": said,
                    "CPU ms in a second asleep": (time.process_time() - cpu) * 1e3,
                    "switches in a second asleep": max(switched, 0),
                    "threads": len(list(Path("/proc/self/task").iterdir())),
                    "optional modules loaded": ", ".join(sorted(heavy)) or "none",
                }
            )
        )


def _status_mb(name: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith(name))


def _check_rounds(report: Report, quick: bool) -> None:
    measured = {}
    rounds(100, 10, 250, 10**6)
    for workers, selected in ((100, 10), (1_000, 100), (10_000, 1_000)):
        number = max(3, (5_000 if quick else 50_000) // selected // 10)
        with progress(f"{number} rounds, {selected} of {workers} workers, all at once"):
            row = rounds(workers, selected, number, 10**6)
        measured[workers] = row
        report.rows.append(row)
        target_ms = TARGET_MS.get((workers, selected))
        if target_ms:
            report.check(
                f"engine per round, {workers:,} workers, {selected:,} selected, all at once",
                f"≤ {target_ms:.0f} ms",
                f"{row['ms a round']:.1f} ms",
                row["ms a round"] <= target_ms,
            )
    for workers, selected in ((100, 10), (1_000, 100), (10_000, 1_000)):
        number = 3 if selected == 1_000 or quick else 10
        with progress(f"{number} rounds, {selected} of {workers} workers, one message a call"):
            row = rounds(workers, selected, number, 1)
        report.rows.append(row)
    power = growth(measured[100], measured[10_000])
    report.check(
        "growth of the cost of an update from 100 to 10,000 workers",
        "no faster than workers^0.5",
        f"workers^{power:.2f}",
        power <= 0.5,
    )


def run(quick: bool) -> Report:
    """Run everything; quick runs a tenth of the rounds."""
    report = Report("federation")
    _check_rounds(report, quick)
    with progress("memory of the server"):
        row = server_memory(2_000, 100, 300 if quick else 2_000)
    report.rows.append(row)
    report.check(
        "server memory a worker, besides its folded sum",
        f"≤ {WORKER_BYTES} bytes",
        f"{row['bytes a worker']:.0f} bytes",
        row["bytes a worker"] <= WORKER_BYTES,
    )
    report.check(
        f"server memory added by {row['rounds']} rounds",
        "none: ≤ 100 bytes a round",
        f"{row['bytes added a round']:.0f} bytes a round",
        row["bytes added a round"] <= 100,
    )
    with progress("an idle worker"):
        row = idle_worker()
    report.rows.append(row)
    report.check("idle worker", f"≤ {IDLE_MB} MB RSS", f"{row['RSS MB']:.0f} MB",
                 row["RSS MB"] <= IDLE_MB)  # fmt: skip
    extra = row["wake-ups"] - row["wake-ups of its timer"]
    quiet = extra <= 0 and row["switches in a second asleep"] == 0
    report.check("wake-ups of an idle worker besides its timer", "0", str(max(extra, 0)), quiet)
    return report


if __name__ == "__main__":
    if sys.argv[1:2] == ["--idle-worker"]:
        _idle()
    else:
        main(run, __doc__ or "")
