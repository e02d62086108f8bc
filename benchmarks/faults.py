"""What do faults, liars and large numbers do to a federation?

Chaotic runs with restores, hostile messages and the search for needles are those of the tests, with
other seeds and more of them. Cliffs are times of the server's calls when something is large.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import random
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import cliffs
from reporting import Report, main, progress

sys.path.insert(0, str(Path(__file__).parents[1]))
from dealfl.worker import SCHEMES
from tests.federation import test_chaos, test_restores
from tests.federation.parts import bayes, pagerank
from tests.server import test_hostile_messages as hostile
from tests.traces import test_traces as traces
from tests.traces.needles import find_needles

SEED = 7_000_000  # the tests use others


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


def run(quick: bool) -> Report:
    """Return the figures; `quick` takes smaller numbers."""
    report = Report("faults")
    random.seed(SEED)
    with progress("chaotic runs with restores"):
        chaos(report, 16 if quick else 160)
    with progress("hostile messages"):
        liars(report, 6 if quick else 30)
    with progress("needles"):
        needles(report)
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
