"""A worker needs little: what its process loads, and its tests where there is no scipy."""

import os
import subprocess
import sys
from pathlib import Path

from dealfl.protocol import SELECTORS
from dealfl.server import selection

ROOT = Path(__file__).parents[2]
LOADED = """
import sys
from dealfl.cli import parser
parser("work")
from dealfl.jobs import Document
from dealfl.storage import log_to
from dealfl.network import read_credentials, run_until_stopped, work
from dealfl.storage import make_folder
print(*sys.modules)
"""
FOREIGN = {  # what the process of a worker never loads
    "dealfl.api",
    "dealfl.audit",
    "dealfl.jobs.proposals",
    "dealfl.network.broker",
    "dealfl.network.serving",
    "dealfl.report",
    "dealfl.runs",
    "dealfl.server",
    "dealfl.simulate",
    "dealfl.sklearn",
    "cryptography",  # only for TLS with certificates
    "numba",
    "numpy.ma",
    "numpy.testing",
    "pandas",
    "plotly",
    "rich",
    "scipy",
    "sklearn",
}
WITHOUT = (  # tests of what a worker does
    "tests/worker",
    "tests/learners/test_learner_contract.py",
    "tests/network/test_feed_formats.py",
    "tests/network/test_machine_device.py",
    "tests/network/test_work_model.py",
)
LONG = "interleaving or killed or memory1 or sometimes"


def _run(*words: str) -> str:
    done = subprocess.run(
        [sys.executable, *words],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "DEALFL_NUMBA": "never"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_worker_loads_nothing_of_the_server_and_no_scipy() -> None:
    loaded = _run("-c", LOADED).split()
    assert "dealfl.worker.worker" in loaded
    foreign = {name for name in loaded if any(f"{name}.".startswith(f"{f}.") for f in FOREIGN)}
    assert foreign == set()


def test_what_a_worker_does_needs_no_scipy() -> None:
    plugins = ("-p", "tests.without_scipy", "-p", "no:cacheprovider", "-p", "no:xdist")
    _run("-m", "pytest", *plugins, "-k", f"not ({LONG})", *WITHOUT)


def test_the_names_of_the_selectors_are_those_of_their_classes() -> None:
    assert list(SELECTORS) == list(selection.SELECTORS)
