"""What do faults, liars and large numbers do to a federation?

Chaotic runs with restores, hostile messages and the search for needles are those of the tests, with
other seeds and more of them. Cliffs are times of the server's calls when something is large.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import gc
import random
import resource
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout
from functools import partial
from io import StringIO
from multiprocessing import get_context
from multiprocessing.synchronize import Event
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import Any

import cliffs
import pytest
from reporting import Report, main, progress

sys.path.insert(0, str(Path(__file__).parents[1]))
from dealfl.exact import compiled
from dealfl.network import Credentials
from dealfl.protocol.messages import Erase
from dealfl.protocol.transport import encode
from dealfl.server import Ledger, Server
from dealfl.storage import log_to
from dealfl.worker import SCHEMES, Journal
from tests.erasure import test_concurrent_certificates as certificates
from tests.federation import test_any_order, test_chaos, test_every_write, test_kill, test_restores
from tests.federation.parts import bayes, examples, pagerank, row, server, worker
from tests.learners import test_interrupts as interrupts
from tests.network import test_floods as floods
from tests.network import test_silent_processes as silent
from tests.network import test_small_disks as disks
from tests.network.brokers import start_broker
from tests.network.federations import JOB, Federation
from tests.network.forks import Forks
from tests.network.serving import Phone, serve
from tests.runs.test_full_disk import mounted_disk
from tests.server import test_damaged_ledgers as damaged
from tests.server import test_hostile_messages as hostile
from tests.statistics import test_hostile_models as models
from tests.traces import test_traces as traces
from tests.traces.needles import find_needles

SEED = 7_000_000  # the tests use others
_FORGED = 500  # models of a seed


def chaos(report: Report, runs: int) -> None:
    """Count the chaotic runs that end with another digest, or with an erased person."""
    pairs = [(learner, scheme) for learner in test_chaos.MAKERS for scheme in sorted(SCHEMES)]
    restores, wrong = 0, 0
    for number in range(runs):
        learner, scheme = pairs[number % len(pairs)]
        with redirect_stdout(StringIO()):
            try:
                restores += test_restores.run(learner, scheme, SEED + number).restores
            except AssertionError as error:
                wrong += 1
                report.rows.append(
                    {"wrong run": f"{learner}, {scheme}, seed {SEED + number}: {error}"}
                )
    report.check(
        f"wrong ends of {runs} chaotic runs with {restores} restores", "0", str(wrong), wrong == 0
    )
    report.rows.append({"chaotic runs": runs, "restores": restores, "wrong": wrong})


def orders(report: Report, runs: int) -> None:
    """Count the runs, a message at a time, in which somebody erased is in a model afterwards."""
    kinds, wrong, requests = sorted(test_any_order.FAULTS), 0, 0
    for number in range(runs):
        faults = kinds[number % len(kinds)]
        with redirect_stdout(StringIO()):
            try:
                requests += test_any_order.run(faults, SEED + number)["request"]
            except AssertionError as error:
                wrong += 1
                report.rows.append({"wrong order": f"{faults}, seed {SEED + number}: {error}"})
    what = f"wrong ends of {runs} runs, a message at a time, with {requests} erasures"
    report.check(what, "0", str(wrong), wrong == 0)


def liars(report: Report, attacks: int) -> None:
    """Count what hostile messages do: errors of the server, harm to honest workers."""
    raised, harmed, sent = 0, 0, 0
    for number in range(attacks):
        make = (bayes, pagerank)[number % 2]
        selector = ("fair_ucb", "everyone", "oort")[number % 3]
        sent += 1_000
        try:
            hostile.attack(make, selector, 1_000, SEED + number).check()
        except AssertionError:
            harmed += 1
        except Exception as error:
            raised += 1
            report.rows.append({"attack": SEED + number, "error": repr(error)})
    for what, count in (("that made the server raise", raised), ("with harm to others", harmed)):
        report.check(f"attacks of {attacks} {what}", "0", str(count), count == 0)
    report.rows.append({"hostile messages": sent, "raised": raised, "harmed": harmed})


def search(name: str, cause: str, folder: Path) -> tuple[int, int]:
    """Return how often something of a person is in a file before she must be gone, and after."""
    how: dict[str, Any] = {"scheme_name": "newfl"} if cause == "eviction" else {}
    pair = traces.Pair(folder, traces.LEARNERS[name], **how)
    needles = traces.needles_of(name)
    pair.lost = int(cause == "erasure, update withdrawn")
    pair.learn(traces.ANN, traces.examples_of(name, 0.25))
    before = len(find_needles(folder, needles))
    if cause == "removal":
        pair.server.remove("w", pair.now_s)
        pair.close()
        (folder / "journal.db").unlink()  # the device keeps its own
        return before, len(find_needles(folder, needles))
    if cause != "eviction":
        pair.erase(traces.ANN)
    for number in range(3):
        pair.learn("bob", traces.examples_of(name, 0.4 + number / 100))
    pair.talk(traces.DAY_S)
    pair.close()
    return before, len(find_needles(folder, needles))


def needles(report: Report) -> None:
    """Look for everything of a person in every byte of every file, when she must be gone."""
    for cause in ("erasure", "erasure, update withdrawn", "eviction", "removal"):
        before, after = 0, 0
        for name in sorted(traces.LEARNERS):
            with TemporaryDirectory() as folder:
                found = search(name, cause, Path(folder))
            before, after = before + found[0], after + found[1]
        report.check(
            f"needles in files after {cause}, {len(traces.LEARNERS)} learners",
            f"0 of {before} before", str(after), before > 0 == after,
        )  # fmt: skip


def kills(report: Report, runs: int, stride: int) -> None:
    """Count runs with kills before writes and syncs whose end is not that of the journals."""
    wrong = 0
    deaths = 0
    forks = test_kill.Forks()
    for seed in range(SEED, SEED + runs):
        with TemporaryDirectory() as folder:
            try:
                deaths += test_kill.blow_at_writes(forks, Path(folder), seed).deaths
            except AssertionError as error:
                wrong += 1
                report.rows.append({"wrong kill": f"seed {seed}: {error}"})
    forks.close()
    report.check(f"wrong ends of {runs} runs, {deaths} kills at writes", "0", str(wrong), not wrong)
    kinds: dict[str, test_every_write.Make] = {
        learner: test_every_write.pair_of(learner) for learner in sorted(test_chaos.MAKERS)
    }
    for kind, make in {**kinds, "region": test_every_write.Trio}.items():
        with TemporaryDirectory() as folder:
            numbers = range(1, test_every_write.MAX_WRITES, stride)
            last = test_every_write.crash_at(numbers, make, Path(folder))
        report.rows.append({"crashes at writes": kind, "every": stride, "writes": last})


def certified(report: Report) -> None:
    """Count the certificates of processes that certify at once."""
    with TemporaryDirectory() as folder:
        certificates.test_processes_that_certify_at_once_lose_no_certificate(Path(folder))
        files = len(list(Path(folder).glob("*.json")))
    processes = certificates.PROCESSES
    report.check(
        f"certificates of {processes} processes at once", str(processes), str(files),
        files == processes,
    )  # fmt: skip


def damage(report: Report, files: int) -> None:
    """Count damaged ledgers that end in another error than one with a remedy."""
    unnamed = 0
    refused = 0
    with TemporaryDirectory() as folder:
        start = Path(folder) / "start"
        start.mkdir()
        damaged.write_ledger(start)
        for seed in range(SEED, SEED + files):
            try:
                refused += bool(damaged.damage(start, Path(folder) / "copy", seed).told)
            except Exception as error:
                unnamed += 1
                report.rows.append({"damage": seed, "error": repr(error)})
    what = f"unnamed errors of {files} damaged ledgers, {refused} refused"
    report.check(what, "0", str(unnamed), unnamed == 0)


def newcomers(report: Report, erasures: int) -> None:
    """Measure the largest answer to a newcomer, with a long list of erasures."""
    one = server(Ledger())
    with one._transaction():
        for number in range(erasures):
            one._ledger.erasures.put(f"r{number}", (random.randbytes(32),), 0.0)
    newcomer = worker(journal=Journal(journal_id="newcomer"))
    largest = 0
    answers = 0
    step = newcomer.handle((), 1.0)
    while step.messages:
        back = one.handle(step.messages, 1.0)
        if any(isinstance(message, Erase) for message in back.messages):
            largest = max(largest, len(encode(back.messages)))
            answers += 1
        step = newcomer.handle(back.messages, 1.0)
    report.check(
        f"largest of {answers} answers to a newcomer, {erasures:,} erasures", "≤ 200 kB",
        f"{largest / 1e3:.0f} kB", largest <= 200_000,
    )  # fmt: skip


def flood(report: Report) -> None:
    """Count the commits that an honest worker waits for while another sends thousands."""
    packets = [("liar", floods.PACKET)] * 50
    taken, _ = floods.commits(*packets, ("honest", 1))
    first = next(n for n, part in enumerate(taken, 1) if any(m.worker == "honest" for m in part))
    report.check(
        f"commits until an honest worker is heard, 50 packets of {floods.PACKET:,} messages",
        "1", str(first), first == 1,
    )  # fmt: skip


def broker_flood(report: Report, pings: int) -> None:
    """Measure how long an honest worker waits at a real broker, with and without a flood."""
    gc.freeze()  # as `dealfl serve` does
    with TemporaryDirectory() as folder:
        broker = start_broker(Path(folder) / "broker", job="job")
        try:
            with serve(broker.server, make=server) as served:
                honest, liar = broker.enrol("honest"), broker.enrol("liar")
                # not threads, which would take the server's turns of the interpreter
                apart = get_context("spawn")
                with apart.Pool(1) as pool:
                    ask = partial(pool.apply, _wait_times, (honest, served.epoch, pings))
                    calm_s = ask()
                    begins = apart.Event()
                    flooding = apart.Process(target=_flood, args=(liar, served.epoch, begins))
                    flooding.start()
                    begins.wait()
                    flooded_s = ask()
                    flooding.terminate()
                    flooding.join()
        finally:
            broker.kill()
            gc.unfreeze()
    ratio = mean(flooded_s) / mean(calm_s)
    report.rows.append(
        {
            "mean wait, calm": mean(calm_s),
            "mean wait, flooded": mean(flooded_s),
            "worst wait, calm": max(calm_s),
            "worst wait, flooded": max(flooded_s),
        }
    )
    report.check(
        f"wait of an honest worker at a broker, with packets of {floods.PACKET:,} messages",
        "≤ 2×", f"{ratio:.2f}×", ratio <= 2.0,
    )  # fmt: skip
    worst = max(flooded_s) / max(calm_s)
    report.check(
        f"worst wait of {pings} during the flood, {1e3 * max(flooded_s):.1f} ms; without: "
        f"{1e3 * max(calm_s):.1f} ms",
        "≤ 2×", f"{worst:.2f}×", worst <= 2.0,
    )  # fmt: skip


def _wait_times(where: Credentials, epoch: str, pings: int) -> list[float]:
    """Return the times until the server answers announcements 50 ms apart."""
    phone = Phone(where, epoch)
    phone.join()
    spent_s = []
    for _ in range(pings):
        began_s = time.monotonic()
        phone.join()
        spent_s.append(time.monotonic() - began_s)
        time.sleep(0.05)
    phone.leave()
    return spent_s


def _flood(where: Credentials, epoch: str, begins: Event) -> None:
    packet = encode([floods.fetch(where.user)] * floods.PACKET)
    liar = Phone(where, epoch)
    liar.join()
    begins.set()
    while True:
        liar.publish(liar.up, packet)


@contextmanager
def federation(text: str, disk: str = "") -> Iterator[Federation]:
    """Yield a server as a process at a real broker, with a small disk in one of its folders."""
    with TemporaryDirectory() as name, ExitStack() as stack:
        folder, forks = Path(name), Forks()
        broker = start_broker(folder / "broker")
        stack.callback(broker.kill)
        if disk:
            (folder / disk).mkdir(parents=True, mode=0o700)
            stack.enter_context(mounted_disk(folder / disk, disks.SIZE_BYTES))
        stack.callback(forks.close)
        fed = Federation(folder, forks, broker, text)
        fed.enrol("w1")
        yield fed


def silence(report: Report) -> None:
    """Measure when rows count after processes stood still, brokers restarted, disks were full."""
    limit_s = silent.SERVED_WITHIN_S
    cases: dict[str, tuple[str, Callable[[Federation], float]]] = {
        "SIGSTOP of the server for 5 s": ("", lambda fed: silent.stand_still(fed, "server")),
        "SIGSTOP of the worker for 5 s": ("", lambda fed: silent.stand_still(fed, "worker")),
        "SIGSTOP of the server, forgotten by the broker": (
            "",
            lambda fed: silent.stand_still(fed, "server", cut=True),
        ),
        "SIGSTOP of the worker, forgotten by the broker": (
            "",
            lambda fed: silent.stand_still(fed, "worker", cut=True),
        ),
        "an older ledger put back under live workers": ("", silent.put_ledger_back),
        "a broker killed and started 5 times": ("", silent.restart_broker_in_a_loop),
        "a full disk under the ledger": ("run", lambda fed: disks.fill_and_free(fed, "run")),
        "a full disk under the journal": ("w1", lambda fed: disks.fill_and_free(fed, "w1")),
        "a full disk under the certificates": ("run/certificates", disks.certify_late),
    }
    for what, (disk, run) in cases.items():
        try:
            with federation(disks.PUBLISHING if disk else JOB, disk) as fed:
                spent_s = run(fed)
            report.check(f"all counts, exactly, after {what}", f"≤ {limit_s:g} s",
                         f"{spent_s:.1f} s", spent_s <= limit_s)  # fmt: skip
        except pytest.skip.Exception as error:
            report.rows.append({"not tried": what, "reason": str(error)})


def clock(report: Report) -> None:
    """Count the seconds of the server's clock until rows count, when it jumps back by a day."""
    one = server(rounds=10**6, publish_every_s=0.0, ttl_s=20.0)
    phone = worker(forget_fraction="0")
    before_s = 1e9
    phone.ingest([("ann", row(0.0, 0.5, 1.0))])
    _talk(one, phone, before_s)
    phone.ingest([("bob", row(0.0, 0.5, 1.0))])
    one.handle(phone.handle((), before_s + 1).messages, before_s + 1)  # whose answers are lost
    waited_s = 0
    while one.model.statistics != examples(2) and waited_s < 1_000:
        waited_s += 1
        _talk(one, phone, before_s - 86_400 + waited_s)
    report.check(
        "a clock that jumps back a day, answers lost: seconds until all counts, exactly",
        "≤ 60, a retry interval", str(waited_s), waited_s <= 60,
    )  # fmt: skip


def forgeries(report: Report, files: int) -> None:
    """Count forged model files, with right checksums, that end in another error or much memory."""
    raised = accepted = refused = 0
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    before = _resident_bytes()
    for seed in range(SEED, SEED + files // _FORGED):
        with TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            try:
                taken = models.check_files(seed, _FORGED, Path(folder))
                accepted, refused = accepted + taken[0], refused + taken[1]
            except Exception as error:
                raised += 1
                report.rows.append({"forged models": seed, "error": repr(error)})
    grown = (1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1e6
    what = (
        f"of {files:,} forged models, {refused:,} refused, {accepted:,} can be used: other errors"
    )
    report.check(what, "0", str(raised), raised == 0)
    report.check("memory that they take at most", "≤ 500 MB", f"{grown:.0f} MB", grown <= 500)


def injected(report: Report, calls: Sequence[str], modes: Sequence[str]) -> None:
    """Raise an error at every line of small calls of every learner; count changes by them."""
    lines = wrong = 0
    mode = compiled.CHOICE.mode
    for loops in modes:
        compiled.CHOICE.mode = loops
        for name, case in interrupts.CASES.items():
            for call in calls:
                try:
                    lines += interrupts.check_every_line(case, *interrupts.CALLS[call](case))
                except AssertionError as error:
                    wrong += 1
                    report.rows.append({"injected": f"{name}, {call}, {loops}: {error}"})
    compiled.CHOICE.mode = mode
    what = f"calls changed by one of {lines:,} errors, at every line of {len(calls)} calls"
    report.check(f"{what}, compiled: {', '.join(modes)}", "0", str(wrong), wrong == 0)


def sizes(report: Report, rounds: int, at_least: int) -> None:
    """Measure ledger, journal, log and memory after many rounds and messages of a tiny job."""
    with TemporaryDirectory() as folder, log_to(Path(folder) / "log.jsonl"):
        path = Path(folder) / "ledger.db"
        ledger = Ledger(path, kept_rounds=1_000, connect=test_every_write.CONNECT)
        journal = Journal(Path(folder) / "journal.db", connect=test_every_write.CONNECT)
        one = server(ledger, rounds=10**6, publish_every_s=0.0)
        phone = worker(journal=journal, forget_fraction="0.5")
        number = messages = halfway = 0
        while number < rounds or messages < at_least:
            number += 1
            phone.ingest([(f"person {number % 7}", row(0.0, 0.5, 1.0))] * 2)
            messages += _talk(one, phone, float(number))
            if number in (rounds // 2, rounds):
                halfway = halfway or _resident_bytes()
                report.rows.append(_sizes(number, messages, ledger, journal, Path(folder)))
        grown = _resident_bytes() - halfway
        report.rows.append(_sizes(number, messages, ledger, journal, Path(folder)))
        after = ledger.size_bytes
        ledger.close()
        journal.close()
    limit = 16 << 20
    what = f"memory grown after {rounds // 2:,} rounds, until {number:,} with {messages:,} messages"
    report.check(what, "≤ 16 MB", f"{grown / 1e6:.1f} MB", grown <= limit)
    report.check("ledger after them", "≤ 2 MB", f"{after / 1e6:.2f} MB", after <= 2_000_000)


def _sizes(
    rounds: int, messages: int, ledger: Ledger, journal: Journal, folder: Path
) -> dict[str, int]:
    return {
        "rounds": rounds,
        "messages": messages,
        "ledger bytes": ledger.size_bytes,
        "journal bytes": journal.size_bytes,
        "log bytes": sum(path.stat().st_size for path in folder.glob("log.jsonl*")),
        "resident bytes": _resident_bytes(),
    }


def _talk(one: Server, phone: Any, now_s: float) -> int:
    step = phone.handle((), now_s)
    messages = 0
    while step.messages:
        back = one.handle(step.messages, now_s)
        messages += len(step.messages) + len(back.messages)
        step = phone.handle(back.messages, now_s)
    return messages


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def run(quick: bool) -> Report:
    """Return the figures; `quick` takes smaller numbers."""
    report = Report("faults")
    random.seed(SEED)
    with progress("chaotic runs with restores"):
        chaos(report, 16 if quick else 160)
    with progress("messages in any order"):
        orders(report, 70 if quick else 2_100)
    with progress("hostile messages"):
        liars(report, 6 if quick else 30)
    with progress("needles"):
        needles(report)
    with progress("kills at writes"):
        kills(report, 8 if quick else 200, 61 if quick else 7)
    with progress("certificates, damage, floods, newcomers"):
        certified(report)
        damage(report, 100 if quick else 2_000)
        flood(report)
        broker_flood(report, 50 if quick else 200)
        newcomers(report, 20_000 if quick else 100_000)
    with progress("sizes"):
        sizes(report, *((300, 0) if quick else (10_000, 100_000)))
    with progress("silence: clock, SIGSTOP, broker, disks"):
        clock(report)
        silence(report)
    with progress("forged models"):
        forgeries(report, 500 if quick else 20_000)
    with progress("errors at every line"):
        calls, modes = interrupts.QUICK, ("never", "always")
        injected(report, calls[1:] if quick else calls, modes[:1] if quick else modes)
    with progress("workers"):
        cliffs.many_workers(report, 5_000 if quick else 50_000)
    with progress("erasures"):
        for erasures in (10_000,) if quick else (100_000, 2_000_000):
            cliffs.many_erasures(report, erasures)
    with progress("publications"):
        cliffs.publications(report, *((300, 300) if quick else (2_000, 2_000)))
    with progress("gaps, compaction, large examples"):
        cliffs.gaps(report, 400, 50 if quick else 200)
        cliffs.compaction(report, 20_000 if quick else 300_000)
        cliffs.large_examples(report)
    return report


if __name__ == "__main__":
    main(run, __doc__ or "")
