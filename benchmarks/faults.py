"""What does a fault, a liar or a large number cost? The ledger is in memory, time is CPU time."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import time
from collections.abc import Callable
from statistics import median

from reporting import Report, main, progress

from dealfl.learners import NaiveBayes, Rows, statistics_of
from dealfl.messages import Announce, Assignment, Update
from dealfl.server import Ledger, Server, Terms
from dealfl.server.selection import FairUpperConfidence
from dealfl.worker import Record

TERMS = Terms(
    rounds=10**6, workers_per_round=100, ttl_s=60.0, presence_timeout_s=1e4, min_waiting=5,
    max_wait_s=1e9,
)  # fmt: skip


def make() -> NaiveBayes:
    """Return the small learner of this benchmark."""
    return NaiveBayes(3, ["a", "b"], feature_bound=1.0, fraction_bits=8)


SCHEMA = make().schema.digest()
RECORD = Record(1, b"owner", Rows.encode([0.0, 0.5, 1.0], "a"))
DELTA = statistics_of(make, [RECORD])[0].to_bytes()


def announce(number: int, incarnation: int, waiting: int) -> Announce:
    """Return what a worker says of itself."""
    return Announce(
        job="job", worker=f"w{number:06d}", incarnation=incarnation, journal_id=f"j{number}",
        schema_digest=SCHEMA, waiting=waiting, held=0,
    )  # fmt: skip


def reply(name: str) -> Update:
    """Return a worker's first update, in the first round."""
    return Update(
        job="job", worker=name, incarnation=1, sequence=1, round=1, delta=DELTA, learned=1,
        operations=10, elapsed_s=1.0, energy_j=0.1,
    )  # fmt: skip


def median_ms(call: Callable[[int], object], times: int) -> float:
    """Return the median CPU time of some calls."""
    spent_ms = []
    for number in range(times):
        start_s = time.process_time()
        call(number)
        spent_ms.append((time.process_time() - start_s) * 1e3)
    return median(spent_ms)


class Watched(Ledger):
    """A ledger that counts the bytes written for the parts of the server."""

    written = 0

    def put_parts(self, owner: str, parts: dict[str, bytes]) -> None:  # type: ignore[override]
        self.written += sum(map(len, parts.values()))
        super().put_parts(owner, parts)


def many_workers(report: Report, workers: int) -> None:
    """Measure an announcement, a reply and a restart of a server that knows many workers."""
    ledger = Watched()
    server = Server("job", make, ledger, TERMS, FairUpperConfidence(fairness=1e-4))
    server.handle([announce(number, 0, 3) for number in range(workers)], 0.0)
    figures = {
        "announcement, too few examples wait": median_ms(
            lambda n: server.handle([announce(n, 1, 2)], 1.0 + n), 50
        ),
        "announcement, the others are asleep": median_ms(
            lambda n: server.handle([announce(n, 1, 2)], 2e5 + n), 50
        ),
    }
    step = server.handle([announce(number, 1, 50) for number in range(workers)], 2e5 + 100)
    chosen = [one.worker for one in step.messages if isinstance(one, Assignment)]
    figures["announcement during a round"] = median_ms(
        lambda n: server.handle([announce(n, 1, 50)], 2e5 + 101), 50
    )
    before = ledger.written
    replies_ms = median_ms(lambda n: server.handle([reply(chosen[n])], 2e5 + 102), 40)
    written = (ledger.written - before) / 40
    reload_s = median_ms(lambda _: server.reload(), 3) / 1e3
    for what, spent_ms in figures.items():
        report.check(f"{what} ({workers:,} workers)", "≤ 1 ms", f"{spent_ms:.2f} ms", spent_ms <= 1)
    report.check(
        f"reply ({workers:,} workers)", "≤ 2 ms", f"{replies_ms:.2f} ms", replies_ms <= 2.0
    )
    report.check(
        f"state written by a reply ({workers:,} workers)", "≤ 10 KB", f"{written / 1e3:.1f} KB",
        written <= 10_000,
    )  # fmt: skip
    report.check(f"reload ({workers:,} workers)", "≤ 1 s", f"{reload_s:.2f} s", reload_s <= 1.0)


def run(quick: bool) -> Report:
    """Return the figures; `quick` takes fewer workers."""
    report = Report("faults")
    workers = 5_000 if quick else 50_000
    with progress(f"{workers:,} workers"):
        many_workers(report, workers)
    return report


if __name__ == "__main__":
    main(run, __doc__ or "")
