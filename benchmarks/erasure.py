"""Erasure: exactness, time, tampering and traces, on runs with twelve people and more.

Run alone: `python benchmarks/erasure.py [--quick] [--json]`.
"""

import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import numpy as np
from reporting import Report, main, progress

sys.path.insert(0, str(Path(__file__).parent.parent))  # the runs of the tests

import dealfl
from dealfl.audit import recommender_attacks, regression_attacks
from dealfl.erasure import (
    CertificateLog,
    load_keys,
    open_signing_key,
    read_certificate,
    sign_certificate,
)
from dealfl.errors import BadBytes
from dealfl.runs import RunFolder, erase_owners, list_owners, retrain
from tests.erasure.certified import ERASURE
from tests.runs.erased_people import LEARNERS, make_fleet


def run(quick: bool) -> Report:
    """Measure every figure of erasure."""
    report = Report("erasure")
    with progress("histories"):
        _compare_histories(report, 10 if quick else 300)
    with progress("certificates"):
        _mutate(report, 1_000 if quick else 10_000)
        _sign(report, 200)
    with progress("100 workers"):
        _time_many(report, 1_000 if quick else 10_000)
    with progress("attacks"):
        _attack(report, 20 if quick else 100)
    return report


def _compare_histories(report: Report, count: int) -> None:
    """Erase random people from random runs; compare with training without them."""
    equal = 0
    for number in range(count):
        draw = np.random.default_rng(number)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder)
            fleet = make_fleet(path, LEARNERS[number % len(LEARNERS)])
            rounds = int(draw.integers(1, 6))
            dealfl.run(fleet, rounds=rounds, seed=number, out=path / "run", verbose=False)
            one = RunFolder.at(path / "run")
            person = str(draw.choice([held.owner for held in list_owners(one)]))
            without = retrain(one, without=person)
            after = erase_owners(one, [person], requested_by="benchmark").erasure.after
            equal += after is not None and after.digest == without
    report.check(f"digest after erasure = training without the person, {count} histories",
           f"{count}", f"{equal}", equal == count)  # fmt: skip


def _mutate(report: Report, count: int) -> None:
    """Change certificates and proofs at random; none may be accepted."""
    with tempfile.TemporaryDirectory() as folder:
        key = open_signing_key(Path(folder))
        keys, made = load_keys(Path(folder)), sign_certificate(ERASURE, key)
    draw, accepted = np.random.default_rng(0), 0
    for _ in range(count):
        changed = bytearray(made)
        for place in draw.integers(len(made), size=int(draw.integers(1, 4))):
            changed[place] ^= int(draw.integers(1, 256))
        if bytes(changed) != made:
            with suppress(BadBytes):
                read_certificate(bytes(changed), keys)
                accepted += 1
    report.check(f"{count:,} changed certificates: accepted", "0", f"{accepted}", accepted == 0)


def _sign(report: Report, count: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        key, log = open_signing_key(Path(folder)), CertificateLog(Path(folder), "benchmark")
        start_s = time.process_time()
        for _ in range(count):
            log.append(sign_certificate(ERASURE, key), key)
        took_ms = 1e3 * (time.process_time() - start_s) / count
    report.check("signing and log entry, CPU ms", "≤ 1", f"{took_ms:.2f}", took_ms <= 1.0)


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
            start_s = time.process_time()
            erase_owners(one, people, requested_by="benchmark")
            took_s = time.process_time() - start_s
            report.check(f"erase {len(people):,} → certificate, 100 workers, CPU s",
                   f"≤ {target_s:g}", f"{took_s:.2f}", took_s <= target_s)  # fmt: skip


def _attack(report: Report, trials: int) -> None:
    points = recommender_attacks(trials) + regression_attacks(trials)
    report.rows.extend(asdict(one) for one in points)
    for one in points:
        if one.attack == "stale model, as in the paper" and "recall" in one.measure:
            report.check(
                "the paper's attack: recall", "1", f"{one.quality:.3f}", one.quality == 1.0
            )
        if one.attack == "stale model, refined":
            what = f"refined attack: {one.measure}"
            report.check(what, "≥ .99", f"{one.quality:.3f}", one.quality >= 0.99)


if __name__ == "__main__":
    main(run, __doc__ or "")
