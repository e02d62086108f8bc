"""Does a worker fit a phone: its size on disk and in memory, its start, and its time without scipy?

Memory and start are those of real processes of `dealfl work` over TLS, in which scipy cannot be
imported. An install is the sum of the files of its packages in this environment. arm64 is emulated.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import atexit
import csv
import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import numpy as np
from packaging.requirements import Requirement
from reporting import Report, main, progress

from dealfl.errors import DealError
from dealfl.network import BrokerSettings, ask, create_broker, write_credentials
from dealfl.settings import toml_document

ROOT = Path(__file__).parents[1]
JOB, OPERATOR = "pocket", "operator"
FEW, FEATURES, ROWS = 13, 256, 300  # of a common job; of a resident model
WAIT_S = 120.0
WITHOUT = "import tests.without_scipy\n"
LOADED = """
from dealfl.cli import parser
parser("work")
from dealfl.jobs import Document
from dealfl.storage import log_to
from dealfl.network import read_credentials, run_until_stopped, work
"""
WORK = """
import sys, time
from dealfl.cli import main
from dealfl.protocol import Announce
from dealfl.worker import Worker
handle = Worker.handle
def watched(self, *words, **named):
    step = handle(self, *words, **named)
    if any(isinstance(message, Announce) for message in step.messages):
        print("ANNOUNCED", time.process_time(), flush=True)
    return step
Worker.handle = watched
sys.exit(main(sys.argv[1:]))
"""
TRAINING = """
import json, sys, time
import numpy as np
from dealfl.learners import Tikhonov
from dealfl.storage import keep_freed_memory
keep_freed_memory()  # as a worker does: page faults cost more than the products
def best(call, times):
    spent = []
    for _ in range(times):
        begin = time.process_time()
        call()
        spent.append(time.process_time() - begin)
    return 1e6 * sorted(spent)[len(spent) // 8]
draw, d = np.random.default_rng(0), 256
X = draw.uniform(-1, 1, (d + 400, d))
y = X @ draw.uniform(-0.01, 0.01, d)
model = Tikhonov(d, intercept=True)
ten = model.records_of(X[:10], y[:10])
stateless_us = best(lambda: model.difference(ten, ()), 60)
model.learn(X, y)
model.predict(X[:1])
at = iter(range(10**6))
def resident():
    row = next(at) % 300
    model.forget(X[row:row + 1], y[row:row + 1])
    model.predict(X[:1])
    model.learn(X[row:row + 1], y[row:row + 1])
    model.predict(X[:1])
resident_us = best(resident, 120) / 2
print(json.dumps({"stateless_us": stateless_us, "resident_us": resident_us,
                  "digest": model.digest(), "scipy": "scipy" in sys.modules}))
"""


def run(quick: bool, parts: Sequence[str]) -> Report:
    """Run some parts."""
    report = Report("pocket")
    for part in parts:
        with progress(part):
            PARTS[part](report, quick)
    return report


def skip(report: Report, what: str, why: str) -> None:
    """Note a row that cannot be measured here."""
    report.rows.append({"skipped": what, "why": why})


def python(code: str, *words: str) -> list[str]:
    """Return the command that runs some code."""
    return [sys.executable, "-c", code, *words]


@cache
def bytecode() -> Path:
    """Return a folder for compiled modules: an installed package has them."""
    folder = tempfile.TemporaryDirectory(prefix="dealfl-pocket-")
    atexit.register(folder.cleanup)
    return Path(folder.name)


def environment() -> dict[str, str]:
    """Return the variables of a process."""
    own = {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "DEALFL_NUMBA": "never"}
    own |= {"PYTHONPYCACHEPREFIX": str(bytecode()), "PYTHONDONTWRITEBYTECODE": ""}
    return {**os.environ, **own}


def output(code: str) -> str:
    """Run some code; return what it prints."""
    done = subprocess.run(python(code), env=environment(), capture_output=True, text=True)
    if done.returncode:
        raise DealError(done.stderr)
    return done.stdout


# -- install --------------------------------------------------------------------------------------


def add_install(report: Report, quick: bool) -> None:
    """Add up the files of dealfl[worker]."""
    del quick
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["worker"]]
    sizes = {"dealfl": _size(ROOT / "src" / "dealfl") + _size(ROOT / "src" / "dealfl_paper")}
    while wanted:
        name = Requirement(wanted.pop()).name.lower()
        if name in sizes:
            continue
        found = _find(name)
        if found is None:
            skip(report, f"install of {name}", "it is not installed here")
            continue
        sizes[name] = sum(Path(str(file.locate())).stat().st_size for file in found.files or ())
        needs = map(Requirement, found.requires or ())
        wanted += [
            one.name for one in needs if not one.marker or one.marker.evaluate({"extra": ""})
        ]
    total = sum(sizes.values()) / 1e6
    holds = total <= 100.0 and len(sizes) <= 8
    measured = f"{total:.0f} MB, {len(sizes)} packages"
    report.check("install of dealfl[worker]", "≤ 100 MB, ≤ 8 packages", measured, holds)
    for name, size in sorted(sizes.items(), key=lambda pair: -pair[1]):
        report.rows.append({"package": name, "MB": size / 1e6})


def _size(folder: Path) -> int:
    files = (path for path in folder.rglob("*") if path.is_file())  # but no compiled loops
    return sum(path.stat().st_size for path in files if path.suffix not in (".nbi", ".nbc"))


def _find(name: str) -> Distribution | None:
    try:
        return distribution(name)
    except PackageNotFoundError:
        return None


# -- memory and start ----------------------------------------------------------------------------


def add_memory(report: Report, quick: bool) -> None:
    """Measure a worker after its imports, when it is connected, and with a resident model."""
    del quick
    code = f"{WITHOUT}{LOADED}\nprint(open('/proc/self/status').read())"
    output(code)  # compiles the modules
    imports = _resident_mb(output(code))
    report.check("memory after imports", "≤ 58 MB", f"{imports:.1f} MB", imports <= 58.0)
    if shutil.which("mosquitto", path=f"{os.environ['PATH']}:/usr/sbin") is None:
        return skip(report, "connected worker", "mosquitto is not installed; `make mosquitto`")
    with federation("", FEW, 0) as worker:
        connected = worker.memory_mb()
        start_s = min(worker.start_s, worker.restart(), worker.restart())
        once_s = worker.call_once()
    with federation('[worker]\nmodel = "resident"\n', FEATURES, ROWS) as worker:
        worker.wait(ROWS)
        resident = worker.memory_mb()
    what = "memory, connected over TLS"
    report.check(what, "≤ 68 MB", f"{connected:.1f} MB", connected <= 68.0)
    what = f"memory, with a resident ridge model, d = {FEATURES}"
    report.check(what, "≤ 78 MB", f"{resident:.1f} MB", resident <= 78.0)
    what = "start of `dealfl work` to the first announcement"
    report.check(what, "≤ 0.7 s of CPU", f"{start_s:.2f} s", start_s <= 0.7)
    report.check("a call of `work --once`", "≤ 1.0 s of CPU", f"{once_s:.2f} s", once_s <= 1.0)
    return None


def _resident_mb(status: str) -> float:
    match = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert match, "Linux tells the size of a process"
    return int(match[1]) / 1000


class RunningWorker:
    """A worker process, its server and its broker."""

    def __init__(self, folder: Path, job: Path, features: int) -> None:
        self._folder, self._job, self._features = folder, job, features
        self._process: subprocess.Popen[str] | None = None
        self.start_s = 0.0

    def _command(self, *options: str) -> list[str]:
        files = ("--broker", str(self._folder / "w1.toml"), "--data", str(self._folder / "w1.csv"))
        out = ("--out", str(self._folder / "w1"))
        return python(WITHOUT + WORK, "work", str(self._job), *files, *out, *options)

    def start(self) -> None:
        """Start it; note the CPU time of its first announcement."""
        with (self._folder / "w1.log").open("w") as log:
            self._process = subprocess.Popen(
                self._command(), env=environment(), stdout=subprocess.PIPE, stderr=log, text=True
            )
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("ANNOUNCED"):
                self.start_s = float(line.split()[1])
                break
        else:
            raise DealError((self._folder / "w1.log").read_text())
        self.wait(0)

    def restart(self) -> float:
        """Start it again; return the CPU time until it announces itself."""
        self.stop()
        self.start()
        return self.start_s

    def memory_mb(self) -> float:
        """Return its memory now."""
        assert self._process is not None
        return _resident_mb(Path(f"/proc/{self._process.pid}/status").read_text())

    def wait(self, rows: int) -> None:
        """Wait until the server knows the worker and has counted some rows."""
        from dealfl.network import read_credentials

        operator, until_s = (
            read_credentials(self._folder / f"{OPERATOR}.toml"),
            time.time() + WAIT_S,
        )
        while time.time() < until_s:
            status: Any = ask(operator, "status", {}, 30.0)
            workers: Any = ask(operator, "workers", {}, 30.0)
            if workers and status["examples_learned"] >= rows:
                return
            time.sleep(0.3)
        raise DealError(f"{rows} rows: not learned within {WAIT_S:g} s")

    def call_once(self) -> float:
        """Stop the worker, add rows and call once; return the CPU time of the call."""
        self.stop()
        _write_rows(self._folder / "w1.csv", self._features, 10, seed=1)
        done = subprocess.run(
            self._command("--once", "--json"), env=environment(), capture_output=True, text=True
        )
        if done.returncode:
            raise DealError(done.stdout + done.stderr)
        return float(json.loads(done.stdout[done.stdout.index("{") :])["cpu_s"])

    def stop(self) -> None:
        """Stop the worker."""
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(20.0)


@contextmanager
def federation(section: str, features: int, rows: int) -> Iterator[RunningWorker]:
    """Run a broker with TLS, a server, and a worker in which scipy cannot be imported."""
    with tempfile.TemporaryDirectory(prefix="dealfl-pocket-") as name:
        folder = Path(name)
        job = folder / "job.toml"
        job.write_text(toml_document(_tables(features)) + section)
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = int(free.getsockname()[1])
        broker = create_broker(
            folder / "broker", BrokerSettings(job=JOB, host="127.0.0.1", port=port, tls=True)
        )
        operator = broker.enrol([OPERATOR], operator=True)[0]
        for credentials in (operator, broker.admit_server(), *broker.enrol(["w1"])):
            write_credentials(folder / f"{credentials.user}.toml", credentials)
        _write_rows(folder / "w1.csv", features, rows, seed=0)
        processes = [broker.start()]
        words = ("serve", str(job), "--broker", str(folder / "server.toml"), "--trust", OPERATOR)
        with (folder / "server.log").open("wb") as log:
            processes.append(
                subprocess.Popen(
                    [sys.executable, "-m", "dealfl", *words, "--out", str(folder / "run")],
                    env=environment(), stdout=log, stderr=log,
                )
            )  # fmt: skip
        worker = RunningWorker(folder, job, features)
        try:
            worker.start()
            yield worker
        finally:
            worker.stop()
            for process in reversed(processes):
                process.terminate()
                process.wait(20.0)


def _tables(features: int) -> dict[str, Any]:
    columns = {f"x{index}": {"low": -1, "high": 1} for index in range(features)}
    rounds = {"rounds": 10_000, "ttl_s": 5.0, "retry_after_s": 1.0, "forget_fraction": "0"}
    return {
        "job": {"name": JOB, "learner": "tikhonov", **rounds},
        "source": {
            "file": "w1.csv",
            "format": "csv",
            "owner": "owner",
            "target": "y",
            "target_bound": 8.0,
            "columns": columns,
        },
    }


def _write_rows(path: Path, features: int, count: int, seed: int) -> None:
    table = np.random.default_rng(seed).uniform(-1, 1, (count, features + 1)).round(4)
    fresh = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        if fresh:
            writer.writerow(["owner", "y", *(f"x{index}" for index in range(features))])
        writer.writerows([f"p{row % 8}", *values] for row, values in enumerate(table.tolist()))


# -- training -------------------------------------------------------------------------------------


def add_training(report: Report, quick: bool) -> None:
    """Compare trainings with and without scipy; each is the best of several processes."""
    count = 2 if quick else 4
    pairs = [
        (json.loads(output(TRAINING)), json.loads(output(WITHOUT + TRAINING))) for _ in range(count)
    ]
    with_it, without = zip(*pairs, strict=True)
    assert not without[0]["scipy"]
    equal = len({result["digest"] for pair in pairs for result in pair}) == 1
    stateless, resident = (
        min(result[key] for result in without) / min(result[key] for result in with_it)
        for key in ("stateless_us", "resident_us")
    )
    what = "a stateless training of ten rows without scipy"
    report.check(what, "≤ 1.1 × the time with it", f"{stateless:.2f} ×", stateless <= 1.1)
    what = f"a step of a resident ridge model without scipy, d = {FEATURES}"
    measured = f"{resident:.2f} ×, digests {'equal' if equal else 'DIFFERENT'}"
    report.check(what, "≤ 3 × the time with it, equal digests", measured, resident <= 3 and equal)
    for label, results in (("with scipy", with_it), ("without", without)):
        row: dict[str, Any] = {"training": label}
        for key in ("stateless_us", "resident_us"):
            row[key.replace("_us", ", µs")] = min(result[key] for result in results)
        report.rows.append(row)


# -- arm64 ----------------------------------------------------------------------------------------


def add_arm64(report: Report, quick: bool) -> None:
    """Run `arm64/trial.py` if what it needs was fetched."""
    what = "arm64: five learners, 200 histories, a worker over TLS"
    if quick:
        return skip(report, what, "it takes minutes; run without --quick")
    if not (ROOT / ".arm64" / "fetched.txt").exists():
        return skip(report, what, "nothing for arm64 is here; run `make arm64`")
    begin_s = time.monotonic()
    done = subprocess.run(
        [sys.executable, str(ROOT / "arm64" / "trial.py")],
        env=environment(), capture_output=True, text=True,
    )  # fmt: skip
    spent_s = time.monotonic() - begin_s
    exact = done.returncode == 0
    report.check(what, "equal bits", "equal" if exact else done.stdout[-300:], exact)
    report.check("`make arm64`", "≤ 600 s", f"{spent_s:.0f} s", spent_s <= 600.0)
    return None


def add_flash(report: Report, quick: bool) -> None:
    """Bytes given to files for a training, from new rows to the receipt, by the tests' harness."""
    sys.path.insert(0, str(ROOT))
    from tests.worker.test_flash import train

    trainings = 20 if quick else 100
    for features in (13, 70, 256):
        with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
            flash = train(Path(one), features, trainings)
            calls = train(Path(other), features, trainings // 10, calls=True)
        times = flash.written / flash.needed
        what = f"flash: a training, update and records of {flash.needed / 1000:.0f} kB"
        report.check(what, "≤ 3 × their bytes", f"{times:.1f} ×", times <= 3.0)
        for label, measured in (("one process", flash), ("`work --once`", calls)):
            report.rows.append(
                {
                    "flash": f"{features} features, {label}",
                    "update and records, kB": measured.needed / 1000,
                    "written, kB": measured.written / 1000,
                    "×": measured.written / measured.needed,
                }
            )


PARTS: dict[str, Callable[[Report, bool], None]] = {
    "install": add_install,
    "memory": add_memory,
    "training": add_training,
    "flash": add_flash,
    "arm64": add_arm64,
}

if __name__ == "__main__":
    main(run, "what a worker takes on a phone", list(PARTS))
