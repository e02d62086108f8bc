"""Sums under masks: exactness, isolation, costs, rounds over a real broker, joules, erasures.

The chaotic runs and the search by ranks are those of the tests, with more seeds. Rounds are
compared with the same fleet without masks, in the same run.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("DEALFL_NUMBA", "never")

import asyncio
import itertools
import multiprocessing
import resource
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from statistics import median
from typing import Any, cast

sys.path.insert(0, str(Path(__file__).parents[1]))

import mqtt
import msgspec
import numpy as np
from reporting import Report, main, progress

from dealfl.erasure import owner_hash
from dealfl.exact import ArraySpec, Entries, Integers, Schema, Statistics
from dealfl.keyholder import Keyholder, KeyholderJournal, KeyholderRules
from dealfl.learners import Rows
from dealfl.masks import (
    SERVER,
    Asker,
    Enrolment,
    Masker,
    Ring,
    Scope,
    draw_private_key,
    find_bits,
    header_of,
    sum_masks,
)
from dealfl.network import BrokerSettings, ServerEnd, WorkerEnd, create_broker
from dealfl.protocol import MaskedUpdate, Message, Step
from dealfl.runs import default_job, run_demo
from dealfl.server import Ledger, Privacy, Rules, Server
from dealfl.server.selection import Everyone, Uniform
from dealfl.settings import Document
from dealfl.simulate import Network, Simulation, read_fleet, run_fleet
from dealfl.worker import Journal, MeasuredMeter, Worker
from tests.federation.parts import KEY, FixedMeter
from tests.keyholder.chaos import COHORT, check
from tests.keyholder.chaos import make as make_bayes

SIZES = (16_000, 259_000)
WARM_UP = 2  # rounds
ROUNDS = 9
MAX_EXAMPLES = 10_000
COMMITTED = "round s"  # from the call that opens it to the end of the call that closes it
STATED = "round s, stated"  # to the beginning of the call that closes it, as in the ledger
JOB = "bench"


def best_s(call: Callable[[], object], repeats: int) -> float:
    """Return the shortest CPU time of a call: other processes may share the machine."""
    durations = []
    for _ in range(repeats):
        start_s = time.process_time()
        call()
        durations.append(time.process_time() - start_s)
    return min(durations)


def chaos(report: Report, runs: int) -> None:
    """Count the chaotic runs that end exactly, and those whose openings isolate nobody."""
    openings = held = 0
    isolated: list[int] = []
    for seed in range(5_000, 5_000 + runs):
        try:
            run = check(seed, steps=50)
        except AssertionError as error:
            if "isolate" in str(error):
                isolated.append(seed)
            continue
        held += 1
        openings += len(run.opened)
    report.check(
        "chaotic runs with the digest of central training",
        f"{runs} of {runs}",
        f"{held} of {runs}, {openings:,} openings",
        held == runs,
    )
    report.check(
        f"runs whose openings isolate fewer than {COHORT} workers, by exact ranks",
        "0",
        f"{len(isolated)}",
        not isolated,
    )


def costs(report: Report) -> None:
    """Measure masking of an update, and an opening of 100."""
    enrolment = _enrol(["w"])[2]["w"]
    masker = Masker(enrolment)
    for size, limit_s in zip(SIZES, (60e-6, 600e-6), strict=True):
        schema = Schema("dense", {}, (ArraySpec("moments", size // 12, 96),))
        ring = Ring(schema)
        values = np.arange(ring.words, dtype=np.int64)
        delta = Statistics(schema, {"moments": Entries.of_dense(Integers(values, values))})
        vector, body = ring.vector(delta), delta.to_bytes()
        update = MaskedUpdate(
            job=JOB, worker="w", incarnation=1, sequence=1, round=1, delta=body, epoch="e",
            keyholder=masker.key_name, nonce=bytes(32), fresh=1,
        )  # fmt: skip
        mask_s = best_s(lambda: masker.mask(update, ring, "schema", vector), 200)  # noqa: B023
        nonce_s = best_s(lambda: masker.draw_nonce(body), 200)  # noqa: B023
        report.check(
            f"mask and seal an update of {size // 1000} KB",
            f"≤ {limit_s * 1e6:.0f} µs",
            f"{mask_s * 1e6:.0f} µs (and {nonce_s * 1e6:.0f} µs for its nonce)",
            mask_s <= limit_s,
        )
    shared, scope = enrolment.shared, Scope(JOB, "e", "schema")
    pairs = [(shared, header_of(update)) for _ in range(100)]
    open_s = best_s(lambda: sum_masks(ring, scope, pairs), 20)
    report.check(
        f"add the masks of 100 updates of {SIZES[1] // 1000} KB",
        "≤ 20 ms",
        f"{open_s * 1e3:.1f} ms",
        open_s <= 0.020,
    )


def _enrol(
    names: list[str], path: Path | str = ":memory:"
) -> tuple[Keyholder, Enrolment, dict[str, Enrolment]]:
    keyholder = Keyholder(
        "keyholder", KeyholderJournal(path), draw_private_key(), KeyholderRules(), [JOB]
    )
    with keyholder._journal.cleaned_at_the_end():
        enrolments = {name: keyholder.enrol(name) for name in names}
    return keyholder, keyholder.enrol("server", SERVER), enrolments


# -- rounds over a real broker ---------------------------------------------------------------------


def run_keyholder_process(names: list[str], path: Path, broker: Any, pipe: Pipe) -> None:
    """Enrol all workers and send the enrolments; then run the keyholder until stopped."""
    keyholder, server, workers = _enrol(names, path=path)
    pipe.send((server, workers))

    async def start() -> None:
        end = WorkerEnd(JOB, [broker], {"keyholder": cast(Worker, keyholder)})
        end.wake("keyholder")
        await _run([end], pipe)

    asyncio.run(start())


def run_fleet_process(
    workers: int, credentials: list[Any], enrolments: dict[str, Enrolment], pipe: Pipe
) -> None:
    """Run all workers until stopped; those with an enrolment mask their updates."""

    class Phone(mqtt.Phone):
        def __init__(self, number: int) -> None:
            name = f"w{number}"
            enrolment = enrolments.get(name)
            Worker.__init__(
                self, JOB, name, mqtt.make, Journal(), MeasuredMeter(), key=mqtt.KEY,
                scheme_name="incremental", retry_after_s=60.0,
                masker=Masker(enrolment, _find_bits(workers)) if enrolment else None,
            )  # fmt: skip
            self._number, self._numbers = number, itertools.count()
            self._find()

    async def start() -> None:
        phones = [Phone(number) for number in range(workers)]
        per = len(phones) // len(credentials)
        ends = [
            WorkerEnd(JOB, [one], {phone.name: phone for phone in phones[at : at + per]})
            for at, one in zip(range(0, workers, per), credentials, strict=True)
        ]
        await _run(ends, pipe)

    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    asyncio.run(start())


async def _run(ends: list[WorkerEnd], pipe: Pipe) -> None:
    stopped = asyncio.Event()
    tasks = [asyncio.ensure_future(end.run(stopped)) for end in ends]
    await asyncio.get_running_loop().run_in_executor(None, pipe.recv)
    stopped.set()
    await asyncio.gather(*tasks)


def _find_bits(workers: int) -> int | None:
    return find_bits(mqtt.make().max_entry, workers, MAX_EXAMPLES)


class Watch(Server):
    """A server that notes when a round is opened, and when its end is committed."""

    rounds_s: list[float]
    calls: int
    _opened_s: float

    def handle(self, messages: Iterable[Message], now_s: float, *, decoded: bool = False) -> Step:
        """Handle messages, and note the time of rounds."""
        start_s, before = time.monotonic(), self._open_number
        step = super().handle(messages, now_s, decoded=decoded)
        self.calls += 1
        if before and before != self._open_number:
            self.rounds_s.append(time.monotonic() - self._opened_s)
        if self._open_number and before != self._open_number:
            self._opened_s = start_s
        return step

    @property
    def _open_number(self) -> int:
        row = self._ledger.rounds.find_open()
        return 0 if row is None else row.number

    def clear(self) -> None:
        """Forget what was noted."""
        self.rounds_s, self.calls = [], 0


def measure_rounds(workers: int, selected: int, private: bool) -> dict[str, float]:
    """Measure rounds; every process is one of its own: broker, server, keyholder, all workers."""
    with tempfile.TemporaryDirectory() as folder:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        settings = BrokerSettings(job=JOB, host="127.0.0.1", port=port, tls=False)
        broker = create_broker(Path(folder) / "broker", settings)
        names = [f"w{number}" for number in range(workers)]
        credentials = [
            broker.enrol([f"g{at}"], workers=tuple(names[at : at + 20]))[0]
            for at in range(0, workers, 20)
        ]
        keyholder = broker.enrol(["keyholder"])[0]
        process = broker.start()
        server, enrolments, children = None, {}, []
        try:
            if private:
                path = Path(folder) / "keyholder.db"
                children.append(_spawn(run_keyholder_process, names, path, keyholder))
                server, enrolments = children[0][1].recv()
            children.append(_spawn(run_fleet_process, workers, credentials, enrolments))
            return asyncio.run(_serve(broker, Path(folder), workers, selected, server))
        finally:
            for child, pipe in children:
                pipe.send("stop")
                child.join(30)
                child.kill()
            process.terminate()
            process.wait()


def _spawn(target: Callable[..., None], *words: object) -> tuple[Any, Pipe]:
    ours, theirs = multiprocessing.Pipe()
    child = multiprocessing.get_context("spawn").Process(target=target, args=(*words, theirs))
    child.start()
    return child, ours


async def _serve(
    broker: Any, folder: Path, workers: int, selected: int, enrolment: Enrolment | None
) -> dict[str, float]:
    """Let all workers answer a first round, which nobody measures; then measure some."""
    rules = Rules(
        rounds=10**9, workers_per_round=workers, min_workers=workers, ttl_s=60.0,
        presence_timeout_s=1e9, battery_budget=1.0, round_every_s=1.0, max_examples=MAX_EXAMPLES,
    )  # fmt: skip
    privacy = None
    if enrolment is not None:
        bits = _find_bits(workers)
        privacy = Privacy(Asker(enrolment), JOB, max_workers=workers, bits=bits)
    ledger = Ledger(folder / "ledger.db")
    server = Watch(JOB, mqtt.make, ledger, rules, Uniform(1), privacy)
    server.clear()
    stopped = asyncio.Event()
    end = ServerEnd(server, [broker.admit_server()])
    task = asyncio.ensure_future(end.run(stopped))
    await mqtt.until(lambda: len(server.rounds_s) >= 1)
    server.rules = msgspec.structs.replace(rules, workers_per_round=selected, min_workers=selected)
    await mqtt.until(lambda: len(server.rounds_s) > WARM_UP)
    server.clear()
    before, traffic = server.reader.count_closed(), end.connections[0].traffic
    received = traffic.received_bytes
    await mqtt.until(lambda: len(server.rounds_s) >= ROUNDS)
    rows = [row.duration_s for row in ledger.reader.closed_rounds(after=before)]
    figures = {
        COMMITTED: median(server.rounds_s),
        STATED: median(rows),
        "commits of the server": server.calls / ROUNDS,
        "bytes received": (traffic.received_bytes - received) / ROUNDS,
    }
    stopped.set()
    await task
    ledger.close()
    return figures


def rounds(report: Report, workers: int, selected: int) -> None:
    """Compare rounds with and without masks, in turn."""
    masked, plain = [], []
    for _ in range(2):
        plain.append(measure_rounds(workers, selected, private=False))
        masked.append(measure_rounds(workers, selected, private=True))
    what = f"round of {workers:,} workers, {selected} assigned, over mosquitto, "
    for figure, until in ((COMMITTED, "until its end is committed"), (STATED, "as status states")):
        with_s, without_s = (min(row[figure] for row in rows) for rows in (masked, plain))
        ratio = with_s / without_s
        measured = f"{ratio:.2f} × ({with_s:.3f} s, without {without_s:.3f} s)"
        report.check(what + until, "≤ 1.5 × without masks", measured, ratio <= 1.5)
    for name, rows in (("under masks", masked), ("without masks", plain)):
        report.rows += [{"rounds": name, **row} for row in rows]


# -- joules, erasures, the demonstration -----------------------------------------------------------


def joules(report: Report, quick: bool) -> None:
    """Compare the modelled energy of the default job with and without masks."""
    for rides in (False, True):
        spent = {}
        for private in (False, True):
            document = Document.parse(default_job(), "digits.toml")
            document = document.replaced("job.ride_along", rides)
            if quick:
                document = document.replaced("job.max_h", 24.0)
            if private:
                document = document.replaced("privacy.keyholder", "keyholder")
            outcome = run_fleet(read_fleet(document))
            assert outcome.exact
            spent[private] = (
                outcome.energy.compute_j + outcome.energy.operating_j + outcome.energy.radio_j
            )
        more = spent[True] / spent[False] - 1.0
        what = f"modelled joules of the default job, {'with' if rides else 'without'} riding"
        target = "reported" if rides else "≤ +8 %"
        measured = f"{more:+.1%} ({spent[True]:,.0f} J, without masks {spent[False]:,.0f} J)"
        report.check(what, target, measured, rides or more <= 0.08)


def erasure(report: Report) -> None:
    """Measure from the moment t workers have fresh examples until a version without the person."""
    names = [f"w{number}" for number in range(100)]
    keyholder, own, enrolments = _enrol(names)
    rules = Rules(
        rounds=10**6, workers_per_round=100, min_workers=5, ttl_s=30.0, max_examples=10_000,
        publish_every_s=0.0, presence_timeout_s=1e9,
    )  # fmt: skip
    privacy = Privacy(Asker(own), JOB, max_workers=100)
    server = Server(JOB, make_bayes, Ledger(), rules, Everyone(), privacy)
    workers = [
        Worker(JOB, name, make_bayes, Journal(), FixedMeter(), key=KEY, forget_fraction="0",
               masker=Masker(enrolments[name]), announce_every_s=1e6)
        for name in names
    ]  # fmt: skip
    simulation = Simulation(server, workers, Network(), keyholder=keyholder)
    body = Rows.encode([1.0] + [0.0] * 255, "a")

    def bring(count: int, owner: str) -> None:
        for worker in workers[:count]:
            worker.ingest([(owner, body)])
            simulation.wake(worker.name, simulation.now_s)

    bring(100, "ann")
    simulation.run(10.0)
    simulation.send("", server.erase("r", [owner_hash(KEY, "ann")], simulation.now_s))
    simulation.run(20.0)
    waiting = server.reader.count_erasures() == (1, 0)
    start_s = time.monotonic()
    bring(5, "bob")
    while server._members.fulfilled < 1 and simulation.now_s < 60.0:
        simulation.run(simulation.now_s + 0.1)
    took_s = time.monotonic() - start_s
    done = server._members.fulfilled == 1 and waiting
    report.check(
        "erasure in 100 workers, from fresh examples of 5 to a version without the person",
        "≤ 2 s",
        f"{took_s:.2f} s in one process, {simulation.now_s - 20.0:.1f} s of virtual time",
        done and took_s <= 2.0,
    )


def demo(report: Report) -> None:
    """Run the demonstration."""
    proof = run_demo(lambda _: None, private=True)
    report.check(
        "dealfl demo --private",
        "≤ 60 s, equal digests",
        f"{proof.elapsed_s:.0f} s, {'equal' if proof.holds else 'DIFFERENT'}",
        proof.holds and proof.elapsed_s <= 60.0,
    )


PARTS = ("costs", "chaos", "erasure", "rounds", "joules", "demo")


def benchmark(quick: bool, parts: Sequence[str] = PARTS) -> Report:
    """Measure every row."""
    report = Report("private")
    calls: dict[str, Callable[[], None]] = {
        "costs": lambda: costs(report),
        "chaos": lambda: chaos(report, 20 if quick else 200),
        "erasure": lambda: erasure(report),
        "rounds": lambda: rounds(report, *((200, 40) if quick else (1_000, 100))),
        "joules": lambda: joules(report, quick),
        "demo": lambda: None if quick else demo(report),
    }
    for part in parts:
        with progress(part):
            calls[part]()
    return report


if __name__ == "__main__":
    main(benchmark, __doc__ or "", PARTS)
