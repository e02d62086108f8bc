"""`python -m checks.mutation`: do the tests notice a small wrong change?

A seeded sample of changes is made in copies of the project, one at a time in each; each runs
against the tests that call the changed function, the quickest first. `.mutation/` holds the copies,
which test calls what, and the results: a run that is stopped continues. `checks/equivalent.txt`
lists changes that change nothing, with the reason; they do not count.
"""

import argparse
import hashlib
import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeVar

import pytest

from checks.mutants import Mutant, mutants_of, mutate
from dealfl.storage.atomic_files import replace_file

__all__ = ["main", "sampled"]

Item = TypeVar("Item")
Result = TypeVar("Result")
ROOT = Path(__file__).parents[1]
HOME = ROOT / ".mutation"
LANES = os.cpu_count() or 1  # how many changes are tried at the same time
EQUIVALENT = ROOT / "checks" / "equivalent.txt"
_PACKAGE = "src/dealfl/"
_CORE = (
    "server/aggregation.py", "server/ledger.py", "server/ledger_reader.py", "server/sums.py",
    "worker/journal.py", "worker/outbox.py", "erasure/*.py", "network/authority.py",
    "network/credentials.py",
    "exact/statistics.py", "exact/encoding.py",
)  # fmt: skip
_REST = (
    "server/*.py", "worker/*.py", "learners/*.py", "network/*.py", "exact/*.py", "keyholder/*.py",
    "masks/*.py",
)  # fmt: skip
GROUPS = {"core": (_CORE, (), 0.95), "rest": (_REST, _CORE, 0.90)}
_FOLDERS = (
    "tests/statistics", "tests/learners", "tests/erasure", "tests/server", "tests/worker",
    "tests/selection", "tests/retention", "tests/transport", "tests/memory", "tests/federation",
    "tests/runs", "tests/power", "tests/traces", "tests/simulate", "tests/keyholder",
    "tests/network", "tests/desk",
)  # fmt: skip
_MAX_TESTS_S = 60.0  # time of all tests of one change
_GRACE_S = 60.0
_MAX_TEST_S = 150.0  # of the clock: the test waits for what a change prevents
_MAX_WALL = 10.0  # a busy machine is slow, which is no failure
_MAX_TESTS = 1500
_IN_PROCESSES = {  # what tests see in other processes only; their files, and a word in those
    f"{_PACKAGE}network/": ("tests/network/", "tests.network.forks"),
    f"{_PACKAGE}exact/compiled.py": ("tests/statistics/test_compiled", "subprocess"),
}


def sampled(mutants: Iterable[Mutant], seed: int, count: int) -> list[Mutant]:
    """Return a sample that hardly changes when other code does: the first by a seeded hash."""

    def place(one: Mutant) -> bytes:
        return hashlib.sha256(f"{seed} {one.name}".encode()).digest()

    return sorted(mutants, key=place)[:count]


def _mutants(group: str) -> list[Mutant]:
    """Return all changes of a group; every pattern of it must fit a file."""
    wanted, unwanted, _ = GROUPS[group]
    found: list[Mutant] = []
    for path in sorted((ROOT / _PACKAGE).rglob("*.py")):
        name = path.relative_to(ROOT / _PACKAGE).as_posix()
        if _fits(name, wanted) and not _fits(name, unwanted):
            found += mutants_of(_PACKAGE + name, path.read_text("utf-8"))
    names = {one.path.removeprefix(_PACKAGE) for one in found}
    unused = [pattern for pattern in wanted if not any(fnmatch(name, pattern) for name in names)]
    if unused:
        raise SystemExit(f"no file fits {', '.join(unused)}; correct the groups of this script")
    lines = EQUIVALENT.read_text("utf-8").splitlines() if EQUIVALENT.exists() else []
    equivalent = {line.partition("  # ")[0] for line in lines}
    return [one for one in found if one.name not in equivalent]


def _fits(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns)


def _copied(name: str) -> Path:
    """Copy the project as it is, without what git ignores; return the folder."""
    copy = HOME / name
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, check=True).stdout  # noqa: S603
    shutil.rmtree(copy, ignore_errors=True)  # a file that was removed must not be imported
    for name in filter(None, names.decode().split("\0")):
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name)
    return copy


def _in_lanes(do: Callable[[Item, Path], Result], items: Iterable[Item]) -> Iterable[Result]:
    """Call a function for each item in one of the copies; yield the results in order."""
    copies = SimpleQueue[Path]()
    for lane in range(LANES):
        copies.put(_copied(f"copy-{lane}"))

    def call(item: Item) -> Result:
        copy = copies.get()
        try:
            return do(item, copy)
        finally:
            copies.put(copy)

    with ThreadPoolExecutor(LANES) as pool:
        yield from pool.map(call, items)


def _pytest(copy: Path, arguments: list[str], timeout_s: float | None = None) -> tuple[int, str]:
    """Run pytest in a copy, for a limited CPU time; return its exit code and output."""
    options = ["-q", "-p", "no:cacheprovider", "--hypothesis-seed=0", "--no-header", "--tb=line"]
    options += [f"-ofaulthandler_timeout={_MAX_TEST_S}", "-ofaulthandler_exit_on_timeout=true"]
    paths = os.pathsep.join([str(copy / "src"), str(copy)])
    environment = os.environ | {"PYTHONPATH": paths}
    command = [sys.executable, "-m", "pytest", *options, *arguments]
    try:
        done = subprocess.run(  # noqa: S603
            command, cwd=copy, env=environment, capture_output=True, text=True, check=False,
            timeout=None if timeout_s is None else _MAX_WALL * timeout_s,
            preexec_fn=None if timeout_s is None else partial(_limit_cpu, int(timeout_s)),
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return -1, "time limit"
    return done.returncode, done.stdout


def _limit_cpu(limit_s: int) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (limit_s, limit_s))


def _calls() -> dict[str, Any]:
    """Return how long each test takes and which functions it calls; record what changed."""
    path = HOME / "calls.json"
    known: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    files = {
        file.relative_to(ROOT).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest()
        for folder in _FOLDERS
        for file in sorted((ROOT / folder).glob("test_*.py"))
    }
    changed = [file for file, state in files.items() if known.get(file, [""])[0] != state]
    for file, called in zip(changed, _in_lanes(_record, changed), strict=True):
        known[file] = [files[file], called]
        replace_file(path, json.dumps(known))
    return {test: one for file in files for test, one in known[file][1].items()}


def _record(file: str, copy: Path) -> dict[str, Any]:
    """Return how long each test of a file takes and which functions it calls."""
    print(f"recording which functions {file} calls", flush=True)
    made = copy / "recorded.json"
    code, text = _pytest(copy, ["-p", "checks.call_map", f"--call-map={made}", file])
    if code:  # a test that fails without a change is not used
        print(text, flush=True)
    called: dict[str, Any] = json.loads(made.read_text("utf-8"))
    return called


def _importers(path: str) -> list[str]:
    """Return the files of the same package that import a file."""
    words = f".{Path(path).stem} import"
    files = sorted((ROOT / path).parent.glob("*.py"))
    return [one.relative_to(ROOT).as_posix() for one in files if words in one.read_text("utf-8")]


def _tests(mutant: Mutant, calls: dict[str, Any]) -> list[str]:
    """Return the tests that call the changed function, or else its module or who imports that."""
    exact = f"{mutant.path}:{mutant.function}"
    chosen = [test for test, (_, called) in calls.items() if exact in called]
    is_class = mutant.function.rpartition(".")[2].lstrip("_")[:1].isupper()
    if not chosen or is_class:  # a constant, a default, or a compiled loop, whose calls nobody sees
        near = tuple(f"{path}:" for path in (mutant.path, *_importers(mutant.path)))
        chosen = [t for t, (_, called) in calls.items() if any(c.startswith(near) for c in called)]
    chosen.sort(key=lambda test: calls[test][0])
    total_s, affordable = 0.0, list[str]()
    for test in chosen[:_MAX_TESTS]:
        total_s += calls[test][0]
        if affordable and total_s > _MAX_TESTS_S:
            break
        affordable.append(test)
    for changed, (files, word) in _IN_PROCESSES.items():
        if mutant.path.startswith(changed):
            affordable += [test for test in calls if test.startswith(files) and _has(test, word)]
    return list(dict.fromkeys(affordable))


def _has(test: str, word: str) -> bool:
    """Return whether the file of a test has a word."""
    return word in (ROOT / test.partition("::")[0]).read_text("utf-8")


def _try(tried: tuple[Mutant, list[str]], copy: Path) -> str:
    """Make a change in a copy, run tests, and undo it; return what happened."""
    mutant, tests = tried
    target = copy / mutant.path
    text = target.read_text("utf-8")
    arguments = copy / "tests.txt"
    arguments.write_text("\n".join([mutant.path, *tests]), "utf-8")  # doctests are tests, too
    if "compile_loop" in text:  # compiled callers in other files contain the unchanged loop
        for cached in copy.rglob("*.nb[ic]"):
            cached.unlink()
    try:
        target.write_text(mutate(text, mutant.index), "utf-8")
        stamp = time.time_ns() // 1000 * 1000
        os.utime(
            target, ns=(stamp, stamp + mutant.index * 10**9)
        )  # no compiled file is taken for it
        code, output = _pytest(copy, ["-x", f"@{arguments}"], _MAX_TESTS_S + _GRACE_S)
    finally:
        target.write_text(text, "utf-8")
    if code in (0, pytest.ExitCode.NO_TESTS_COLLECTED):
        return f"survived {len(tests)} tests"
    failed = [line for line in output.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return f"died: {failed[0] if failed else f'pytest ended with {code}'}"


def main() -> int:
    """Try a sample of each group; return 1 if too few die."""
    parser = argparse.ArgumentParser(prog="python -m checks.mutation", description=__doc__)
    parser.add_argument("--group", choices=GROUPS, action="append", help="default: both")
    parser.add_argument("--count", type=int, default=200, help="changes of each group")
    parser.add_argument("--seed", type=int, help="which sample; by default that of today")
    parser.add_argument("--again", action="store_true", help="try survivors again")
    given = parser.parse_args()
    seed = datetime.now(UTC).date().toordinal() if given.seed is None else given.seed
    print(f"the sample of seed {seed}; --seed {seed} continues it tomorrow", flush=True)
    HOME.mkdir(exist_ok=True)
    calls = _calls()
    enough = True
    for group in given.group or GROUPS:
        target = GROUPS[group][2]
        sample = sampled(_mutants(group), seed, given.count)
        outcomes = _outcomes(sample, calls, again=given.again)
        survivors = [name for name in outcomes if outcomes[name].startswith("survived")]
        share = 1 - len(survivors) / len(sample)
        enough &= share >= target
        print(f"{group}: {share:.1%} of {len(sample)} died; target ≥ {target:.0%}", flush=True)
    return int(not enough)


def _outcomes(sample: list[Mutant], calls: dict[str, Any], *, again: bool) -> dict[str, str]:
    """Return what happened with each change; try those whose outcome is not known."""
    results = HOME / "results.json"
    known: dict[str, list[str]] = json.loads(results.read_text()) if results.exists() else {}
    states = {one.name: _state(one) for one in sample}
    untried = []
    for one in sample:
        state, outcome = known.get(one.name, ["", ""])
        if state != states[one.name] or (again and outcome.startswith("survived")):
            untried.append(one)
    tried = _in_lanes(_try, [(one, _tests(one, calls)) for one in untried])
    for number, (one, outcome) in enumerate(zip(untried, tried, strict=True), 1):
        print(f"{number} of {len(untried)}: {one.name}: {outcome}", flush=True)
        known[one.name] = [states[one.name], outcome]
        replace_file(results, json.dumps(known, indent=1))
    for one in sample:
        outcome = known[one.name][1]
        if outcome.startswith("survived"):
            print(f"{one.path}:{one.line}: {one.function}: {one.change}  [{outcome}]", flush=True)
    return {one.name: known[one.name][1] for one in sample}


def _state(mutant: Mutant) -> str:
    """Return a hash of the changed file: another one is another change."""
    text = (ROOT / mutant.path).read_text("utf-8")
    return hashlib.sha256(mutate(text, mutant.index).encode()).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
