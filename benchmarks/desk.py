"""How fast are the pages of a desk, what do they cost the server, and how much memory a browser?

Pages are opened in a real Chromium, from a desk in a process of its own. The server's share is the
time that it spends on the questions of three desks while it closes one round after the other
without a pause: a real one waits for its workers most of the time.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright
from playwright.sync_api import TimeoutError as PatienceOver
from reporting import Report, main, progress

from dealfl.learners import NaiveBayes, Rows, statistics_of
from dealfl.protocol import Announce, Assignment, Message, Update
from dealfl.runs import RunFolder
from dealfl.runs.changes import ChangesAnswer
from dealfl.server import Ledger, Rules, Server
from dealfl.server.selection import Uniform
from dealfl.worker import Record

WORKERS = 10_000
SELECTED = 100
DESKS, EVERY_S = 3, 1.5
HOUR = 1_800  # looks of two seconds
PATIENCE_S = 420.0
JOB = """
[job]
name = "desk"
rounds = 12
workers_per_round = 3
dataset = "digits"
learner = "naive_bayes"

[data]
rows = 300

[[devices]]
count = 6
phone = "honor"
"""
FAST = """
import json, sys
from pathlib import Path
from dealfl.desk import Listening, open_source, serve_desk
say = lambda address, file: print(json.dumps({"address": address}), flush=True)
serve_desk(open_source(sys.argv[1]), Listening(), every_s=0.02, announce=say)
"""  # a desk that looks 60 times as often


def make() -> NaiveBayes:
    return NaiveBayes(3, ["a", "b"], feature_bound=1.0, fraction_bits=8)


class Fleet:
    """A server on disk, with workers that are only names."""

    def __init__(self, folder: Path, workers: int, selected: int = SELECTED) -> None:
        self.ledger = Ledger(folder / "ledger.db", kept_rounds=1_000)
        self.changed = self.ledger.log_changes()
        rules = Rules(rounds=10**9, ttl_s=1e6, workers_per_round=selected)
        self.server = Server("desk", make, self.ledger, rules, Uniform())
        self._names = [f"w{number:05}" for number in range(workers)]
        self._schema, self._now_s = make().schema.digest(), time.time()
        records = [Record(0, b"owner", Rows.encode([0.0, 0.5, 1.0], "a"))]
        self._delta = statistics_of(make, records)[0].to_bytes()
        self._open: list[Assignment] = []
        for first in range(0, workers, 500):
            some = self._names[first : first + 500]
            self._handle([self._announce(name, 0) for name in some])

    def _handle(self, messages: Sequence[Message]) -> None:
        step = self.server.handle(messages, self._now_s)
        self._open += [each for each in step.messages if isinstance(each, Assignment)]

    def _announce(self, name: str, incarnation: int = 1, battery: float = 0.8) -> Announce:
        return Announce(
            job="desk", worker=name, incarnation=incarnation, journal_id=name, waiting=5, held=20,
            schema_digest=self._schema, battery=battery, device=f"phone {hash(name) % 5}",
        )  # fmt: skip

    def announce(self, battery: float) -> None:
        """Let one worker report its battery."""
        self._now_s += 0.01
        self.server.handle([self._announce(self._names[0], battery=battery)], self._now_s)

    def close_round(self) -> None:
        """Let the selected workers reply and find new examples; the next round is then open."""
        self._now_s += 0.01
        workers, selected, self._open = self.server.workers, self._open, []
        self._handle(
            [
                Update(
                    job="desk", worker=each.worker, round=each.round, delta=self._delta, learned=1,
                    incarnation=workers[each.worker].incarnation, energy_j=0.1,
                    sequence=workers[each.worker].counted + 1,
                )
                for each in selected
            ]
        )  # fmt: skip
        self._handle([self._announce(each.worker) for each in selected])
        while not self._open:
            self._now_s += 1.0
            self._handle([])


@contextmanager
def desk(folder: Path, *, fast: bool = False) -> Iterator[str]:
    """Serve the desk of a folder; yield its address."""
    usual = ["-m", "dealfl", "desk", str(folder), "--json"]
    command = [sys.executable, *(["-c", FAST, str(folder)] if fast else usual)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())["address"]
        finally:
            process.terminate()


def open_tab(browser: Browser, address: str) -> Page:
    tab = browser.new_page(viewport={"width": 1200, "height": 900})
    tab.goto(address)
    tab.wait_for_url("**/fleet")
    return tab


def first_paint_s(tab: Page, address: str) -> float:
    """Return the median time to the first paint of content."""
    paints = []
    for _ in range(5):
        tab.goto(address)
        tab.wait_for_function("() => performance.getEntriesByName('first-contentful-paint')[0]")
        found = tab.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
        paints.append(found / 1000.0)
    return float(median(paints))


def renderer_mb(tab: Page) -> dict[str, float]:
    """Return the memory of a tab: what its process shares with no other, and of its scripts."""
    session = tab.context.new_cdp_session(tab)
    session.send("HeapProfiler.collectGarbage")
    session.send("Performance.enable")
    metrics = {
        each["name"]: each["value"] for each in session.send("Performance.getMetrics")["metrics"]
    }
    browser = tab.context.browser
    assert browser is not None
    running = browser.new_browser_cdp_session().send("SystemInfo.getProcessInfo")["processInfo"]
    largest = 0.0
    for process in running:
        if process["type"] == "renderer":
            rollup = Path(f"/proc/{process['id']}/smaps_rollup").read_text().splitlines()
            private = sum(int(line.split()[1]) for line in rollup if line.startswith("Private_"))
            largest = max(largest, private / 1e3)
    return {"process": largest, "scripts": metrics["JSHeapUsedSize"] / 1e6}


def measure_pages(report: Report, browser: Browser, folder: Path) -> None:
    """Measure the first paint of the pages of a finished run."""
    (folder / "job.toml").write_text(JOB)
    command = [sys.executable, "-m", "dealfl", "run", str(folder / "job.toml"), "--json"]
    subprocess.run([*command, "--out", str(folder / "run")], check=True, capture_output=True)
    with desk(folder / "run") as address:
        tab, origin = open_tab(browser, address), address.partition("#")[0]
        paints = {}
        for page in ("fleet", "rounds", "model", "energy", "erasure", "job"):
            paints[page] = first_paint_s(tab, origin + page)
            report.rows.append({"page of a finished run": page, "first paint, s": paints[page]})
        tab.close()
    slowest = max(paints, key=lambda page: paints[page])
    report.check("first paint of a finished run, slowest page", "≤ 1 s",
                 f"{paints[slowest]:.2f} s ({slowest})", paints[slowest] <= 1.0)  # fmt: skip


def measure_fleet(report: Report, browser: Browser, folder: Path, workers: int) -> None:
    """Measure the first paint with many workers, and how soon a change is seen."""
    fleet = Fleet(folder, workers)
    with desk(folder) as address:
        tab, origin = open_tab(browser, address), address.partition("#")[0]
        paint_s = first_paint_s(tab, f"{origin}fleet")
        tab.select_option("select[name=sort]", "battery")
        delays = []
        for step in range(5):
            battery = 0.10 + step / 100.0
            began_s = time.monotonic()
            fleet.announce(battery)
            row = "document.querySelector('#rows tbody tr').innerText"
            tab.wait_for_function(f"() => {row}.includes('{battery:.0%}')")
            delays.append(time.monotonic() - began_s)
        tab.close()
    report.check(
        f"first paint with {workers:,} workers", "≤ 2 s", f"{paint_s:.2f} s", paint_s <= 2.0
    )
    report.check(f"a change is visible with {workers:,} workers, slowest of 5", "≤ 2 s",
                 f"{max(delays):.2f} s", max(delays) <= 2.0)  # fmt: skip
    fleet.ledger.close()


def measure_memory(report: Report, browser: Browser, folder: Path, events: int) -> None:
    """Let a page with plots take the events of an hour, in a row: memory goes by their number."""
    fleet = Fleet(folder, 300, selected=3)
    fleet.close_round()
    with desk(folder, fast=True) as address:
        tab = open_tab(browser, address)
        tab.goto(f"{address.partition('#')[0]}rounds")
        tab.wait_for_function("() => document.querySelector('#plot-0 svg')")
        before = renderer_mb(tab)
        tab.evaluate("window.taken = 0; stream.addEventListener('message', () => taken++)")
        until_s, taken = time.monotonic() + PATIENCE_S, 0
        while taken < events and time.monotonic() < until_s:
            fleet.close_round()
            with suppress(PatienceOver):  # a look may have come before the round was closed
                tab.wait_for_function("before => taken > before", arg=taken, timeout=2_000)
            taken = int(tab.evaluate("taken"))
        after = renderer_mb(tab)
        tab.close()
    for when, used in (("before", before), ("after", after)):
        report.rows.append({"memory of a tab": when, "process, MB": used["process"],
                            "scripts, MB": used["scripts"]})  # fmt: skip
    report.check(f"memory of the tab after {taken:,} of {events:,} events", "≤ 150 MB",
                 f"{after['process']:.0f} MB ({after['scripts']:.0f} MB of scripts)",
                 taken >= events and after["process"] <= 150.0)  # fmt: skip
    fleet.ledger.close()


def measure_server(report: Report, folder: Path, workers: int, for_s: float) -> None:
    """Measure the share of a server's time that three desks take."""
    fleet = Fleet(folder, workers)
    answer = ChangesAnswer(RunFolder(folder), fleet.changed)
    since = [""] * DESKS
    for index in range(DESKS):
        result: Any = {"more": True}
        while result["more"]:
            result = answer(since[index])
            since[index] = result["since"]
    alone, beside, questions_s = list[float](), list[float](), list[float]()
    for rounds in (alone, beside):
        until_s = next_s = time.perf_counter()
        until_s += for_s
        while time.perf_counter() < until_s:
            began_s = time.process_time()  # others may use this machine
            fleet.close_round()
            rounds.append(time.process_time() - began_s)
            if rounds is beside and time.perf_counter() >= next_s:
                began_s, index = time.process_time(), len(questions_s) % DESKS
                since[index] = answer(since[index])["since"]
                questions_s.append(time.process_time() - began_s)
                next_s += EVERY_S / DESKS
    share = DESKS / EVERY_S * sum(questions_s) / len(questions_s)
    for name, rounds in (("no desk", alone), ("three desks", beside)):
        milliseconds = 1e3 * median(rounds)
        report.rows.append({"a round of 100 updates beside": name, "CPU, ms": milliseconds,
                            "rounds": len(rounds)})  # fmt: skip
    report.check(f"share of the server's time for three desks, {workers:,} workers", "≤ 2 %",
                 f"{share:.2%} ({1e3 * median(questions_s):.1f} ms of CPU for a question)",
                 share <= 0.02)  # fmt: skip
    fleet.ledger.close()


PARTS = ("pages", "fleet", "memory", "server")


def run(quick: bool, parts: Sequence[str] = PARTS) -> Report:
    """Run some parts."""
    report, workers = Report("desk"), 2_000 if quick else WORKERS
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        path = shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        measures: dict[str, Callable[[Path], None]] = {
            "pages": lambda folder: measure_pages(report, browser, folder),
            "fleet": lambda folder: measure_fleet(report, browser, folder, workers),
            "memory": lambda folder: measure_memory(
                report, browser, folder, HOUR // 10 if quick else HOUR
            ),
            "server": lambda folder: measure_server(
                report, folder, workers, 3.0 if quick else 15.0
            ),
        }
        for part in parts:
            (Path(name) / part).mkdir()
            with progress(part):
                measures[part](Path(name) / part)
        browser.close()
    return report


if __name__ == "__main__":
    main(run, "Measure the pages of a desk, and what they cost.", PARTS)
