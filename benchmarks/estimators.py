"""A stranger's first minute: estimators in a new process, and the start of every command's help.

Scikit-learn's estimators run in the same way. The cache of compiled loops is filled by a first
process, whose time is a row of its own.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import resource
import subprocess
import sys
import tempfile

from reporting import Report, main, progress

from dealfl.cli import parser
from dealfl.errors import DealError

FOLDS = """
import time
from sklearn.datasets import load_digits
from sklearn.model_selection import cross_val_score
from {package} import KNeighborsClassifier
X, y = load_digits(return_X_y=True)
begin_s = time.process_time()
score = cross_val_score(KNeighborsClassifier(), X, y, cv=5).mean()
print(time.process_time() - begin_s, score)
"""
SPARSE = """
import time
import numpy as np
from scipy import sparse
from {package} import RidgeClassifier
X = sparse.random_array((5000, {columns}), density=0.01, format="csr", rng=np.random.default_rng(0))
y = np.random.default_rng(1).integers(0, 2, 5000)
begin_s = time.process_time()
try:
    score = RidgeClassifier().fit(X, y).score(X, y)
except ValueError as refusal:
    score = str(refusal).replace("\\n", " ")
print(time.process_time() - begin_s, score)
"""


def run(quick: bool) -> Report:
    """Measure all rows."""
    report = Report("estimators")
    with progress("neighbours"):
        add_neighbors(report)
    with progress("sparse ridge"):
        add_sparse(report, quick)
    with progress("help"):
        add_help(report, quick)
    return report


def measure(code: str, **variables: str) -> tuple[float, str]:
    """Run some code in a new process; return the CPU time that it prints, and its result."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise DealError(done.stderr)
    spent_s, result = done.stdout.split(" ", 1)
    return float(spent_s), result.strip()


def add_neighbors(report: Report) -> None:
    """Cross-validate neighbours on digits: with an empty cache, a filled one, and no numba."""
    own, theirs = (FOLDS.format(package=name) for name in ("dealfl.sklearn", "sklearn.neighbors"))
    with tempfile.TemporaryDirectory() as cache:
        empty = measure(own, NUMBA_CACHE_DIR=cache)
        measure(own, NUMBA_CACHE_DIR=cache, DEALFL_NUMBA="always")
        filled = min(measure(own, NUMBA_CACHE_DIR=cache) for _ in range(3))
    plain = min(measure(own, DEALFL_NUMBA="never") for _ in range(3))
    peer = min(measure(theirs) for _ in range(3))
    what = "KNeighborsClassifier, 5-fold digits, new process"
    times = f"{filled[0]:.2f} s"
    report.check(f"{what}, cache filled", "≤ 0.8 s of CPU", times, filled[0] <= 0.8)
    report.check(f"{what}, without numba", "≤ 2 s of CPU", f"{plain[0]:.2f} s", plain[0] <= 2.0)
    measured = {
        "empty cache": empty,
        "filled cache": filled,
        "without numba": plain,
        "scikit-learn": peer,
    }
    for label, (spent_s, score) in measured.items():
        row = {"KNeighborsClassifier": label, "CPU, s": spent_s, "accuracy": float(score)}
        report.rows.append(row)


def add_sparse(report: Report, quick: bool) -> None:
    """Fit ridge to sparse tables; one is too wide and must be refused."""
    own, theirs = "dealfl.sklearn", "sklearn.linear_model"
    narrow = measure(SPARSE.format(package=own, columns=3_000))
    what = "RidgeClassifier on sparse 5,000 x 3,000"
    report.check(what, "≤ 3 s of CPU", f"{narrow[0]:.2f} s", narrow[0] <= 3.0)
    wide = measure(SPARSE.format(package=own, columns=20_000))
    refused = "GB" in wide[1] and wide[0] <= 0.2
    what = "RidgeClassifier on sparse 5,000 x 20,000"
    measured = f"{wide[0]:.2f} s: {wide[1]}"
    report.check(what, "refused with an estimate in ≤ 0.2 s", measured, refused)
    if not quick:
        peer = measure(SPARSE.format(package=theirs, columns=3_000))
        report.rows.append({"RidgeClassifier": "scikit-learn, 3,000 columns", "CPU, s": peer[0]})


def add_help(report: Report, quick: bool) -> None:
    """Start the help of every command."""
    commands = next(
        list(action.choices) for action in parser()._actions if isinstance(action.choices, dict)
    )
    times = 1 if quick else 3
    slowest = {name: min(_start_help(name) for _ in range(times)) for name in commands}
    name = max(slowest, key=lambda command: slowest[command])
    what = f"start of `dealfl COMMAND --help`, slowest of {len(slowest)}"
    measured = f"{slowest[name]:.2f} s ({name})"
    report.check(what, "≤ 0.3 s of CPU", measured, slowest[name] <= 0.3)


def _start_help(command: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    words = [sys.executable, "-m", "dealfl", command, "--help"]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main(run, "estimators and help in a new process")
