"""Every block of docs/network.md, run in order: all machines are folders of this one."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.docs.blocks import Block, find_blocks, matches
from tests.network.brokers import free_port, require_mosquitto
from tests.network.forks import dealfl_for_shells

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "network.md"
PATIENCE_S = 60.0
NETCAT = """\
import socket, sys
client = socket.socket(socket.AF_UNIX)
client.connect(sys.argv[2])
client.sendall(sys.stdin.buffer.read())
client.shutdown(socket.SHUT_WR)
sys.stdout.write(client.makefile().read())
"""
STAND_INS = {
    "dealfl": f'exec "{sys.executable}" -m dealfl "$@"',
    "nc": f'exec "{sys.executable}" -c \'{NETCAT}\' "$@"',
    # the last word is a machine: its folder is beside this one
    "scp": 'for last; do :; done; mkdir -p "../${last%:}"; cp -p "${@:1:$#-1}" "../${last%:}"',
}


class Machines:
    """A folder for each machine, and the programs that stay."""

    def __init__(self, folder: Path, dealfl: str) -> None:
        self._folder = folder
        path = folder / "bin"
        path.mkdir()
        for name, line in (*STAND_INS.items(), ("dealfl", dealfl)):
            (path / name).write_text(f"#!/bin/bash\n{line}\n")
            (path / name).chmod(0o755)
        self._environment = {**os.environ, "PATH": f"{path}{os.pathsep}{os.environ['PATH']}"}
        self._ports = {name: free_port() for name in ("laptop-a", "laptop-c")}
        self._staying: list[subprocess.Popen[str]] = []
        (folder / "laptop-a").mkdir()
        example = ROOT / "examples" / "network" / "heating.toml"
        (folder / "laptop-a" / "heating.toml").write_text(example.read_text())

    def start(self, block: Block) -> subprocess.Popen[str]:
        """Start a block on the machine that its first line names."""
        machine = block.code.partition("\n")[0].removeprefix("# ").replace(" ", "-").lower()
        code = re.sub(
            "--host (laptop-.)",
            lambda found: f"--host 127.0.0.1 --port {self._ports[found[1]]}",
            block.code,
        )
        program = ["bash", "-euo", "pipefail"] if block.language == "sh" else [sys.executable]
        if block.stays:  # so that a signal reaches it
            code = re.sub(r"^dealfl", "exec dealfl", code, flags=re.MULTILINE)
        return subprocess.Popen(
            [*program, "-c", code],
            cwd=self._folder / machine, env=self._environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def run(self, block: Block) -> None:
        """Run a block; what it shows may take a while to become true."""
        if block.stays:
            self._staying.append(self.start(block))
            return
        end_s = time.monotonic() + PATIENCE_S
        while True:
            process = self.start(block)
            printed, _ = process.communicate(timeout=PATIENCE_S)
            done = process.returncode == 0
            if done and (block.expected is None or matches(block.expected, printed)):
                return
            assert time.monotonic() < end_s, f"network.md, line {block.line}, prints:\n{printed}"
            time.sleep(0.3)

    @contextmanager
    def running(self) -> Iterator[None]:
        """End what stays, as a user would; nothing of it may have failed."""
        try:
            yield
            assert [one.poll() for one in self._staying] == [None] * len(self._staying)
        finally:
            for process in reversed(self._staying):
                process.terminate()
            printed = [process.communicate(timeout=60)[0] for process in self._staying]
        assert [one.returncode for one in self._staying] == [0] * len(self._staying), printed


def test_every_block_of_the_page_runs_and_prints_what_it_says(tmp_path: Path) -> None:
    require_mosquitto()
    blocks = list(find_blocks(PAGE.read_text("utf-8")))
    with dealfl_for_shells(tmp_path) as dealfl:
        machines = Machines(tmp_path, dealfl)
        with machines.running():
            for block in blocks:
                machines.run(block)
    assert sum(block.stays for block in blocks) == 4


def test_every_fence_is_run_or_compared_but_those_that_need_another_machine() -> None:
    text = PAGE.read_text("utf-8")
    blocks = list(find_blocks(text))
    compared = sum(block.expected is not None for block in blocks)
    opened = len(re.findall(r"^```(\w+)$", text, re.MULTILINE))
    others = 3  # a drawing, a unit, the containers
    assert opened == len(blocks) + compared + others
