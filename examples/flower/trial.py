"""Run the example with simulated nodes of Flower; compare digests with `dealfl run`.

python trial.py   in an environment with dealfl[flower]
"""

import json
import os
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

    def dealfl(self, *words: str) -> str:
        """Return the output of a command of dealfl."""
        command = [sys.executable, "-m", "dealfl", *words]
        done = subprocess.run(
            command, cwd=self.folder, env=self._env, capture_output=True, text=True
        )
        if done.returncode:
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


def try_out(trial: Trial, *words: str) -> None:
    """Run, compare with `dealfl run`, erase a person, run again, and compare again."""
    trial.dealfl("run", "job.toml", "--no-compare", "--out", "alone")
    before_s = time.monotonic()
    said = _finish(trial, "first", *words)
    print(f"first run: {time.monotonic() - before_s:.0f} s; {said}", flush=True)
    _compare(trial, "after the run")
    trial.dealfl("erase", "run", "home7", "--unknown-too", "--by", "dpo", "--wait", "0")
    _finish(trial, "second", *words)
    trial.dealfl("erase", "alone", "home7", "--by", "dpo")
    _compare(trial, "after an erasure")


def _finish(trial: Trial, name: str, *words: str) -> str:
    process = trial.run(name, *words)
    log = trial.folder / f"{name}.log"
    wait(lambda: process.poll() is not None or "digest" in log.read_text(), "the run")
    lines = [line for line in log.read_text().splitlines() if "digest" in line]
    if not lines:
        raise SystemExit(f"the run ended without a model:\n{log.read_text()[-3000:]}")
    process.wait(120)
    return lines[-1]


def _compare(trial: Trial, when: str) -> None:
    flower, alone = trial.digest("run"), trial.digest("alone")
    print(f"{when}: {flower[:16]} with Flower, {alone[:16]} with dealfl run", flush=True)
    if flower != alone:
        raise SystemExit(f"{when}: NOT EXACT")


def main() -> None:
    """Try what the argument names."""
    with ExitStack() as stack:
        trial = Trial(stack)
        trial.link(simulated=True)
        try:
            try_out(trial, "--federation-config", "num-supernodes=4")
        except SystemExit:
            for log in ("superlink", "first"):
                file = trial.folder / f"{log}.log"
                print(log, file.read_text()[-3000:] if file.exists() else "", flush=True)
            raise


if __name__ == "__main__":
    main()
