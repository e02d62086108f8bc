"""`dealfl demo`: real processes, a kill, an erasure, equal digests, nothing left running."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.network.brokers import require_mosquitto
from tests.network.forks import wait_for


@pytest.fixture(autouse=True)
def _with_mosquitto() -> None:
    require_mosquitto()


def start(folder: Path) -> subprocess.Popen[str]:
    """Start the demonstration with a folder of its own for temporary files."""
    return subprocess.Popen(
        [sys.executable, "-m", "dealfl", "demo", "--json"],
        env={**os.environ, "TMPDIR": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def left_running(folder: Path) -> list[str]:
    """Return the command lines of processes that mention a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes()
        except OSError:
            continue
        if bytes(folder) in words:
            found.append(words.replace(b"\0", b" ").decode(errors="replace"))
    return found


def test_the_digests_are_equal_and_nothing_is_left(tmp_path: Path) -> None:
    process = start(tmp_path)
    out, steps = process.communicate(timeout=200)
    proof = json.loads(out)
    assert proof["holds"], proof
    assert proof["federated"] == proof["central"]
    assert proof["erased"] > 0
    assert process.returncode == 0
    assert "killed w3" in steps
    assert "certificate: signed" in steps
    assert left_running(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_leaves_nothing_running(tmp_path: Path) -> None:
    process = start(tmp_path)
    assert process.stderr is not None
    assert "broker:" in process.stderr.readline()
    assert "started" in process.stderr.readline()
    wait_for(lambda: len(left_running(tmp_path)) == 12, "all processes")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert left_running(tmp_path) == []
    assert list(tmp_path.iterdir()) == []
