"""Erasure: exactness and traces over random histories, tampering, time, attacks.

Run alone: `python benchmarks/erasure.py [--quick] [--json]`. A history is a federation in one
process, with its files, in which everything happens that may happen; see tests/erasure.
"""

import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import numpy as np
from reporting import Report, main, progress

sys.path.insert(0, str(Path(__file__).parent.parent))  # the histories of the tests

import dealfl
from dealfl.audit import SUBJECTS, try_attacks
from dealfl.erasure import (
    CertificateLog,
    check_proof,
    load_keys,
    open_signing_key,
    read_certificate,
    read_head,
    sign_certificate,
)
from dealfl.errors import BadBytes
from dealfl.runs import RunFolder, erase_owners, list_owners
from tests.erasure.certified import ERASURE
from tests.erasure.histories import History
from tests.erasure.run_histories import RunHistory


def run(quick: bool) -> Report:
    """Measure every figure of erasure."""
    report = Report("erasure")
    with progress("histories"):
        _live_histories(report, 10 if quick else 300, 2 if quick else 20)
    with progress("certificates"):
        _tamper(report, 1_000 if quick else 10_000)
        _sign(report, 200)
    with progress("100 workers"):
        _time_many(report, 1_000 if quick else 10_000)
    with progress("attacks"):
        _attack(report, 20 if quick else 100)
    return report


def _live_histories(report: Report, count: int, runs: int) -> None:
    """Erase people in random histories; compare digests, and search all files."""
    equal = traces = needles = 0
    for number in range(count):
        with tempfile.TemporaryDirectory() as folder:
            history = History(1_000 + number, Path(folder))  # other seeds than those of the tests
            history.run()
            digest, never_saw = history.digests()
            equal += digest == never_saw and history.is_settled()
            needles += len(history.needles())
            traces += len(history.find_traces())
            history.close()
    for number in range(runs):
        with tempfile.TemporaryDirectory() as folder:
            one = RunHistory(1_000 + number, Path(folder))
            one.run()
            digest, never_saw, found = one.erase()
            equal += digest == never_saw
            traces += len(found)
    every = count + runs
    report.check(f"digest after erasure = training without the person, {every} histories",
                 f"{every}", f"{equal}", equal == every)  # fmt: skip
    report.check(f"needles found in the files of {every} histories, {needles:,} looked for",
                 "0", f"{traces}", traces == 0)  # fmt: skip


def _tamper(report: Report, count: int) -> None:
    """Change certificates and proofs at random; none may be accepted."""
    with tempfile.TemporaryDirectory() as folder:
        key, log = open_signing_key(Path(folder)), CertificateLog(Path(folder), "benchmark")
        keys, made = load_keys(Path(folder)), sign_certificate(ERASURE, key)
        for number in range(9):
            log.append(made if number == 4 else b"another %d" % number, key)
        earlier = read_head((Path(folder) / "head").read_text("utf-8"), keys)
        log.append(b"the last", key)
        proof = log.prove(made, keys, earlier)
    read_certificate(made, keys)
    check_proof(proof, made, keys, earlier)
    accepted = _count_accepted(made, count, lambda wrong: read_certificate(wrong, keys))
    accepted += _count_accepted(proof, count, lambda wrong: check_proof(wrong, made, keys, earlier))
    what = f"{count:,} changed certificates and {count:,} changed proofs: accepted"
    report.check(what, "0", f"{accepted}", accepted == 0)


def _count_accepted(content: bytes, count: int, read: Callable[[bytes], object]) -> int:
    """Flip, insert and delete bytes; return how often that is not noticed."""
    draw, accepted = np.random.default_rng(0), 0
    for _ in range(count):
        wrong = bytearray(content)
        for place in draw.integers(len(content) - 4, size=int(draw.integers(1, 4))).tolist():
            kind, byte = int(draw.integers(3)), int(draw.integers(1, 256))
            if kind == 0:
                wrong[place] ^= byte
            elif kind == 1:
                wrong.insert(place, byte)
            else:
                del wrong[place]
        if bytes(wrong) != content:
            with suppress(BadBytes):
                read(bytes(wrong))
                accepted += 1
    return accepted


def _sign(report: Report, count: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        key, log = open_signing_key(Path(folder)), CertificateLog(Path(folder), "benchmark")
        cpu_s, wall_s = time.process_time(), time.perf_counter()
        for _ in range(count):
            log.append(sign_certificate(ERASURE, key), key)
        took_ms = 1e3 * (time.process_time() - cpu_s) / count
        waited_ms = 1e3 * (time.perf_counter() - wall_s) / count
    report.check("signing and log entry, CPU ms", "≤ 1", f"{took_ms:.2f}", took_ms <= 1.0)
    report.rows.append({"with the disk": "signing and log entry", "wall_s": waited_ms / 1e3})


def _time_many(report: Report, persons: int) -> None:
    """Erase one person, and many, from a run with 100 workers with journals on disk."""
    draw = np.random.default_rng(0)
    rows = draw.uniform(0, 1, (2_000, 4))
    with tempfile.TemporaryDirectory() as folder:
        fleet = dealfl.Fleet.from_arrays(rows, rows[:, 0] > rows[:, 1], workers=100)
        dealfl.run(fleet, rounds=3, out=Path(folder) / "run", verbose=False)
        one = RunFolder.at(Path(folder) / "run")
        names = [held.owner for held in list_owners(one)]
        for people, target_s in ((names[:1], 1.0), ([str(n) for n in range(persons)], 60.0)):
            start_s, wall_s = time.process_time(), time.perf_counter()
            erase_owners(one, people, requested_by="benchmark")
            took_s, waited_s = time.process_time() - start_s, time.perf_counter() - wall_s
            report.rows.append(
                {"with the disk": f"erase {len(people):,} → certificate", "wall_s": waited_s}
            )
            report.check(f"erase {len(people):,} → certificate, 100 workers, CPU s",
                   f"≤ {target_s:g}", f"{took_s:.2f}", took_s <= target_s)  # fmt: skip


def _attack(report: Report, trials: int) -> None:
    points = [one for subject in SUBJECTS for one in try_attacks(subject, trials)]
    report.rows.extend(asdict(one) for one in points)
    found = {(one.attack, one.measure): one.quality for one in points}
    literal, refined = "stale model, as in the paper", "stale model, refined"
    recall, precision = found[literal, "mean recall"], found[literal, "mean precision"]
    what = f"the paper's attack, literal: recall (its precision: {precision:.3f})"
    report.check(what, "1", f"{recall:.3f}", recall == 1.0)
    for measure in ("mean recall", "mean precision"):
        value = found[refined, measure]
        report.check(f"refined attack: {measure}", "≥ .99", f"{value:.3f}", value >= 0.99)
    least = min(one.trials for one in points)
    report.check("trials at each point of a curve", f"≥ {trials}", f"{least}", least >= trials)


if __name__ == "__main__":
    main(run, __doc__ or "")
