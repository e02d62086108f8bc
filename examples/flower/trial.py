"""Run the example with simulated nodes of Flower, and with SuperNodes; compare digests.

python trial.py [simulation] [deployment]   in an environment with dealfl[flower]

The ServerApp of the deployment is killed −9, and a person is erased. The last line has the figures.
"""

import csv
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from dealfl.jobs import Document, plan_without_data

HERE, BIN = Path(__file__).parent, Path(sys.executable).parent
PATIENCE_S = 600.0


def free_port() -> int:
    """Return a port that nobody listens at."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


class Trial:
    """A folder with the job, its data, and the processes of Flower."""

    def __init__(self, stack: ExitStack) -> None:
        self.folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        shutil.copy(HERE / "job.toml", self.folder)
        shutil.copytree(HERE, self.folder / "app", ignore=shutil.ignore_patterns("*.csv"))
        subprocess.run([sys.executable, HERE / "data.py", self.folder], check=True)
        self._env = {
            **os.environ,
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
            "FLWR_HOME": str(self.folder / "flower"),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        }
        self._stack = stack

    def start(self, name: str, *words: str) -> "subprocess.Popen[bytes]":
        """Start a process that ends with the trial."""
        log = self._stack.enter_context((self.folder / f"{name}.log").open("wb"))
        process = subprocess.Popen(
            [str(BIN / words[0]), *words[1:]],
            env=self._env,
            cwd=self.folder,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._stack.callback(_stop, process)
        return process

    def link(self, *, simulated: bool) -> str:
        """Start a SuperLink, and return the address for nodes."""
        port = free_port()
        words = ["--insecure", "--disable-runtime-dependency-installation"]
        words += ["--host", "127.0.0.1", "--port", str(port), *["--simulation"] * simulated]
        self.start("superlink", "flower-superlink", *words)
        wait(lambda: _listens(port), "the SuperLink")
        home = self.folder / "flower"
        home.mkdir(exist_ok=True)
        (home / "config.toml").write_text(
            f'[superlink]\ndefault = "trial"\n[superlink.trial]\naddress = "127.0.0.1:{port}"\n'
            "insecure = true\n"
        )
        return f"127.0.0.1:{port}"

    def run(self, name: str, *words: str) -> "subprocess.Popen[bytes]":
        """Start a run of the app."""
        config = f'job="{self.folder}/job.toml" folder="{self.folder}/run"'
        return self.start(name, "flwr", "run", "app", "--stream", "--run-config", config, *words)

    def kill_server_app(self) -> None:
        """Kill −9 the process in which the SuperLink runs the ServerApp."""
        found = []
        for folder in Path("/proc").iterdir():
            with suppress(OSError, ValueError):
                words = (folder / "cmdline").read_bytes().split(b"\0")
                if any(b"flwr-serverapp" in word for word in words[:3]):
                    environment = (folder / "environ").read_bytes()
                    if str(self.folder).encode() in environment:
                        found.append(int(folder.name))
        if not found:
            raise SystemExit("no ServerApp is running")
        for pid in found:
            os.kill(pid, signal.SIGKILL)

    def count(self, what: str) -> int:
        """Return a number in the status of the run; 0 before there is one."""
        with suppress(SystemExit):
            return int(json.loads(self.dealfl("status", "run", "--json")).get(what, 0))
        return 0

    def central(self, erased: str = "") -> str:
        """Return the digest of training on the rows of all nodes but one person's."""
        rows = []
        for number in (1, 2, 3):
            with (self.folder / f"node{number}.csv").open() as file:
                rows += [row for row in csv.DictReader(file) if row["home"] != erased]
        model: Any = plan_without_data(Document.read(self.folder / "job.toml")).make()
        features = [[float(row["outside_c"]), float(row["rooms"])] for row in rows]
        model.learn(features, [float(row["kwh"]) for row in rows])
        return str(model.digest())

    def dealfl(self, *words: str, codes: tuple[int, ...] = (0,)) -> str:
        """Return the output of a command of dealfl."""
        command = [sys.executable, "-m", "dealfl", *words]
        done = subprocess.run(
            command, cwd=self.folder, env=self._env, capture_output=True, text=True
        )
        if done.returncode not in codes:
            raise SystemExit(f"{' '.join(words)}: {done.stderr}")
        return done.stdout

    def digest(self, run: str) -> str:
        """Return the digest of the model of a run."""
        return str(json.loads(self.dealfl("model", "info", run, "--json"))["digest"])


def _listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def _stop(process: "subprocess.Popen[bytes]") -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def wait(ready: Callable[[], bool], what: str) -> None:
    """Wait until something is ready."""
    until_s = time.monotonic() + PATIENCE_S
    while not ready():
        if time.monotonic() > until_s:
            raise SystemExit(f"{what} is not ready after {PATIENCE_S:.0f} s")
        time.sleep(0.2)


def _finish(trial: Trial, name: str, *words: str) -> dict[str, float]:
    """Run the app to its end; return what its log tells."""
    before_s = time.monotonic()
    process = trial.run(name, *words)
    log = trial.folder / f"{name}.log"
    wait(lambda: process.poll() is not None or "digest" in log.read_text(), "the run")
    found = re.search(r"(\d+) rounds, (\d+) updates, (\d+) bags, ([0-9.]+) s", log.read_text())
    if not found:
        raise SystemExit(f"the run ended without a model:\n{log.read_text()[-3000:]}")
    process.wait(120)
    rounds, updates, bags, took_s = map(float, found.groups())
    figures = {"rounds": rounds, "updates": updates, "bags": bags, "served s": took_s}
    figures["whole s"] = time.monotonic() - before_s
    print(name, figures, file=sys.stderr, flush=True)
    return figures


def _compare(when: str, flower: str, other: str) -> None:
    print(f"{when}: {flower[:16]} with Flower, {other[:16]} without", file=sys.stderr, flush=True)
    if flower != other:
        raise SystemExit(f"{when}: NOT EXACT")


def _erase(trial: Trial, run: str, *words: str) -> None:
    trial.dealfl("erase", run, "home7", "--by", "dpo", *words, codes=(0, 1))  # 1: not final yet


def simulate(trial: Trial) -> dict[str, float]:
    """Run with simulated nodes, erase a person, run again; compare with `dealfl run`."""
    trial.link(simulated=True)
    nodes = ("--federation-config", "num-supernodes=4")
    trial.dealfl("run", "job.toml", "--no-compare", "--out", "alone")
    figures = _finish(trial, "first", *nodes)
    _compare("simulation", trial.digest("run"), trial.digest("alone"))
    _erase(trial, "run", "--unknown-too", "--wait", "0")
    _finish(trial, "second", *nodes)
    _erase(trial, "alone")
    _compare("simulation, after an erasure", trial.digest("run"), trial.digest("alone"))
    return figures


def deploy(trial: Trial) -> dict[str, float]:
    """Run with three SuperNodes; kill the ServerApp −9, continue, erase, add rows, continue."""
    address = trial.link(simulated=False)
    killed = trial.run("killed")
    key = trial.folder / "run" / "owners.key"
    wait(key.exists, "the ServerApp")
    for number in (1, 2, 3):
        config = {
            "name": f"n{number}", "job": trial.folder / "job.toml",
            "folder": trial.folder / f"n{number}", "data": trial.folder / f"node{number}.csv",
            "owners-key": key,
        }  # fmt: skip
        words = " ".join(f'{name}="{value}"' for name, value in config.items())
        trial.start(
            f"n{number}", "flower-supernode", "--insecure", "--superlink", address,
            "--port", str(free_port()), "--node-config", words,
        )  # fmt: skip
    wait(lambda: trial.count("updates_counted") > 0, "the first update")
    trial.kill_server_app()
    wait(lambda: killed.poll() is not None, "the end of the run that was killed")
    figures = _finish(trial, "continued")
    _compare("SuperNodes, after a kill", trial.digest("run"), trial.central())
    _erase(trial, "run", "--unknown-too", "--wait", "0")
    for number in (1, 2, 3):
        with (trial.folder / f"node{number}.csv").open("a") as file:
            file.write(f"home{number},5,3,40\n")
    _finish(trial, "erased")
    _compare(
        "SuperNodes, after an erasure and new rows", trial.digest("run"), trial.central("home7")
    )
    return figures


def main() -> None:
    """Try what the arguments name: simulation, deployment; all without any."""
    kinds = {"simulation": simulate, "deployment": deploy}
    figures = {}
    for kind in sys.argv[1:] or kinds:
        with ExitStack() as stack:
            trial = Trial(stack)
            try:
                figures[kind] = kinds[kind](trial)
            except (SystemExit, Exception):
                for log in trial.folder.glob("*.log"):
                    print(f"== {log.name}\n{log.read_text()[-2000:]}", file=sys.stderr, flush=True)
                raise
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
