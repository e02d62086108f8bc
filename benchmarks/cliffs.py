"""What large numbers cost the server: workers, erasures, updates behind a gap, features, items.

The ledger is in memory unless said otherwise; time is CPU time.
"""

import hashlib
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import msgspec
import numpy as np
from reporting import Report

from dealfl.erasure import hash_request
from dealfl.learners import Learner, NaiveBayes, PersonalizedPageRank, Rows, Tikhonov, statistics_of
from dealfl.protocol.messages import Announce, Assignment, Erase, Erased, Message, Published, Update
from dealfl.server import Ledger, Rules, Server
from dealfl.server.selection import Everyone, FairUpperConfidence
from dealfl.worker import Record

RULES = Rules(
    rounds=10**6, workers_per_round=100, ttl_s=60.0, presence_timeout_s=1e4, min_waiting=5,
    max_wait_s=1e9, publish_every_s=0.0,
)  # fmt: skip


def make() -> NaiveBayes:
    """Return the small learner of this benchmark."""
    return NaiveBayes(3, ["a", "b"], feature_bound=1.0, fraction_bits=8)


SCHEMA = make().schema.digest()
RECORD = Record(1, b"owner", Rows.encode([0.0, 0.5, 1.0], "a"))
DELTA = statistics_of(make, [RECORD])[0].to_bytes()


def announce(number: int, incarnation: int, waiting: int, **other: object) -> Announce:
    """Return what a worker says of itself."""
    plain = Announce(
        job="job", worker=f"w{number:06d}", incarnation=incarnation, journal_id=f"j{number}",
        schema_digest=SCHEMA, waiting=waiting, held=0,
    )  # fmt: skip
    return msgspec.structs.replace(plain, **other)


def reply(
    name: str, sequence: int = 1, round_number: int | None = 1, delta: bytes = DELTA
) -> Update:
    """Return an update of a worker."""
    return Update(
        job="job", worker=name, incarnation=1, sequence=sequence, round=round_number, delta=delta,
        learned=1, operations=10, elapsed_s=1.0, energy_j=0.1,
    )  # fmt: skip


def owner(number: int) -> bytes:
    """Return the hash of an owner."""
    return hashlib.sha256(b"%d" % number).digest()


def times_ms(call: Callable[[int], object], times: int) -> list[float]:
    """Return the CPU times of some calls."""
    spent_ms = []
    for number in range(times):
        start_s = time.process_time()
        call(number)
        spent_ms.append((time.process_time() - start_s) * 1e3)
    return spent_ms


def check_ms(report: Report, what: str, limit_ms: float, spent_ms: float) -> None:
    """Add a claim about a time."""
    report.check(what, f"≤ {limit_ms:g} ms", f"{spent_ms:.2f} ms", spent_ms <= limit_ms)


class Watched(Ledger):
    """A ledger that counts the bytes written for the parts of the server."""

    written = 0

    def put_parts(self, owner: str, parts: dict[str, bytes]) -> None:  # type: ignore[override]
        self.written += sum(map(len, parts.values()))
        super().put_parts(owner, parts)


def many_workers(report: Report, workers: int) -> None:
    """Measure an announcement, a reply and a restart of a server that knows many workers."""
    ledger = Watched()
    server = Server("job", make, ledger, RULES, FairUpperConfidence(fairness=1e-4))
    server.handle([announce(number, 0, 3) for number in range(workers)], 0.0)
    figures = {
        "announcement, too few examples wait": times_ms(
            lambda n: server.handle([announce(n, 1, 2)], 1.0 + n), 50
        ),
        "announcement, the others are asleep": times_ms(
            lambda n: server.handle([announce(n, 1, 2)], 2e5 + n), 50
        ),
    }
    step = server.handle([announce(number, 1, 50) for number in range(workers)], 2e5 + 100)
    chosen = [one.worker for one in step.messages if isinstance(one, Assignment)]
    figures["announcement during a round"] = times_ms(
        lambda n: server.handle([announce(n, 1, 50)], 2e5 + 101), 50
    )
    before = ledger.written
    replies_ms = median(times_ms(lambda n: server.handle([reply(chosen[n])], 2e5 + 102), 40))
    written = (ledger.written - before) / 40
    reload_s = median(times_ms(lambda _: server.reload(), 3)) / 1e3
    for what, spent_ms in figures.items():
        check_ms(report, f"{what} ({workers:,} workers)", 1, median(spent_ms))
    check_ms(report, f"reply ({workers:,} workers)", 2, replies_ms)
    report.check(
        f"state written by a reply ({workers:,} workers)", "≤ 10 KB", f"{written / 1e3:.1f} KB",
        written <= 10_000,
    )  # fmt: skip
    report.check(f"reload ({workers:,} workers)", "≤ 1 s", f"{reload_s:.2f} s", reload_s <= 1.0)


def erased_before(ledger: Ledger, count: int) -> None:
    """Put requests into the list, of one owner each."""
    with ledger.transaction():
        for number in range(count):
            ledger.erasures.put(f"r{number}", (owner(number),), 1.0)


def many_erasures(report: Report, erasures: int) -> None:
    """Measure a request, an answer, and a newcomer, who gets the list in parts."""
    ledger = Ledger()
    server = Server("job", make, ledger, RULES, Everyone())
    server.handle([announce(number, 0, 0) for number in range(20)], 0.0)
    erased_before(ledger, erasures)
    names = [f"x{number}" for number in range(50)]
    owners = [(owner(erasures + number),) for number in range(50)]
    requests = times_ms(lambda n: server.erase(names[n], owners[n], 2.0), 50)
    answers = [
        Erased(job="job", worker=f"w{n % 20:06d}", request=name, hash=hash_request(name, one),
               examples=0)
        for n, (name, one) in enumerate(zip(names, owners, strict=True))
    ]  # fmt: skip
    answers_ms = times_ms(lambda n: server.handle([answers[n]], 3.0), 50)
    passed = (ledger.erasures.end(),)
    settled_ms = times_ms(lambda n: server.handle([announce(n, 1, 0, erased=passed)], 4.0), 20)
    parts: list[Erase] = []
    parts_ms: list[float] = []
    while len(parts) == len(parts_ms):  # until nothing is sent
        place = (parts[-1].after,) if parts else ()
        message = announce(999, int(bool(parts)), 0, erased=place)
        start_s = time.process_time()
        step = server.handle([message], 5.0)
        parts_ms.append((time.process_time() - start_s) * 1e3)
        parts += [one for one in step.messages if isinstance(one, Erase)]
    about = f"({erasures:,} erasures)"
    check_ms(report, f"request {about}", 5, median(requests))
    check_ms(report, f"answer {about}", 2, median(answers_ms))
    check_ms(report, f"announcement that settles all, longest {about}", 20, max(settled_ms))
    sent = sum(len(part.owners) for part in parts)
    size = max(len(msgspec.msgpack.encode(part)) for part in parts)
    report.check(
        f"largest message to a newcomer {about}", "≤ 200 KB", f"{size / 1e3:.0f} KB", size <= 2e5
    )
    report.check(
        f"owners that the newcomer gets {about}", f"{erasures + 50:,}", f"{sent:,}",
        sent == erasures + 50,
    )  # fmt: skip
    report.rows.append(
        {"erasures": erasures, "parts": len(parts), "ms a part": median(parts_ms),
         "longest ms": max(parts_ms)}
    )  # fmt: skip


def publications(report: Report, workers: int, erasures: int) -> None:
    """Measure publications while erasures of many workers are open, and after they are settled."""
    ledger = Ledger()
    server = Server("job", make, ledger, RULES, Everyone())
    server.handle([announce(number, 0, 0) for number in range(workers)], 0.0)
    erased_before(ledger, erasures)
    requests = [(one.name, hash_request(one.name, one.owners)) for one in ledger.reader.erasures()]
    for name, own in requests:
        server.handle(
            [Erased(job="job", worker=f"w{n:06d}", request=name, hash=own, examples=0)
             for n in range(workers - 1)], 1.0,
        )  # fmt: skip
    passed = (ledger.erasures.end(),)
    server.handle([announce(n, 1, 0, erased=passed) for n in range(workers - 1)], 2.0)
    last = f"w{workers - 1:06d}"
    server.handle([announce(workers - 1, 1, 5)], 3.0)
    server.handle([reply(last)], 4.0)

    def publish(number: int) -> None:
        step = server.handle([reply(last, number, None)], 5.0 + number)
        assert any(isinstance(one, Published) for one in step.messages)

    open_ms = times_ms(lambda n: publish(2 + n), 20)
    server.handle([announce(workers - 1, 1, 0, erased=passed, sequence=21)], 40.0)
    settled_ms = times_ms(lambda n: publish(22 + n), 20)
    about = f"({workers:,} workers, {erasures:,} erasures)"
    check_ms(report, f"publication, erasures are open, longest {about}", 20, max(open_ms))
    check_ms(report, f"publication, erasures are settled, longest {about}", 20, max(settled_ms))


def gaps(report: Report, behind: int, features: int) -> None:
    """Measure a fold while another worker's updates wait behind a gap."""

    def tikhonov() -> Learner:
        return Tikhonov(features, feature_bound=1.0, target_bound=1.0)

    draw = np.random.default_rng(0)
    model = tikhonov()
    delta = model.learn(draw.random((1, features)), [0.5]).to_bytes()
    schema = model.schema.digest()

    def fold_ms(waiting: int) -> tuple[float, int]:
        ledger = Ledger()
        server = Server("job", tikhonov, ledger, RULES, Everyone())
        joining: list[Message] = [announce(n, 0, 0, schema_digest=schema) for n in range(2)]
        server.handle(joining, 0.0)
        late = [reply("w000000", 2 + n, None, delta) for n in range(waiting)]
        server.handle(late, 1.0)
        spent = times_ms(lambda n: server.handle([reply("w000001", 1 + n, None, delta)], 2.0), 20)
        return median(spent), server.reader.workers()[0].updates_waiting

    (alone_ms, _), (with_gap_ms, stored) = fold_ms(0), fold_ms(behind)
    about = f"({behind} updates, {features} features)"
    report.check(f"updates stored behind a gap {about}", "≤ 64", str(stored), stored <= 64)
    report.check(
        f"fold of another worker {about}", "≤ 1.5 × without a gap",
        f"{with_gap_ms:.1f} ms, without {alone_ms:.1f} ms", with_gap_ms <= 1.5 * alone_ms,
    )  # fmt: skip


def compaction(report: Report, erasures: int) -> None:
    """Measure the share of its time that a server with a large file spends on compaction."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.db"
        ledger = Ledger(path)
        server = Server("job", make, ledger, RULES, Everyone())
        server.handle([announce(1, 0, 0)], 0.0)
        erased_before(ledger, erasures)
        ledger.checkpoint()
        size = path.stat().st_size

        def settle(number: int) -> None:
            server.erase(f"x{number}", (owner(erasures + number),), 1.0 + number)
            passed = (ledger.erasures.end(),)
            server.handle([announce(1, 1, 0, erased=passed)], 1.0 + number)

        spent_ms = times_ms(settle, 100)
        ledger.close()
    share = sum(spent_ms) / 1e3 / 100.0
    report.check(
        f"100 s with an erasure settled in each, file of {size / 1e6:.0f} MB", "≤ 2 % of the time",
        f"{share:.2%}, longest call {max(spent_ms):.0f} ms", share <= 0.02,
    )  # fmt: skip


def large_examples(report: Report) -> None:
    """Measure the check of one wide example, and three items among many."""
    model = Tikhonov(2000, feature_bound=1.0, target_bound=1.0)
    model.learn(np.random.default_rng(0).random((1, 2000)), [0.5])
    check_ms(
        report, "check() of one Tikhonov example, 2,000 features, without numba", 50,
        median(times_ms(lambda _: model.check(), 5)),
    )  # fmt: skip
    spent_ms = {}
    for power in (10, 23):
        ppr = PersonalizedPageRank(2**power)
        histories = [[[n, n + 5, 2**power - 1 - n]] for n in range(50)]
        spent_ms[power] = median(times_ms(lambda n, p=ppr, h=histories: p.learn(h[n]), 50))  # type: ignore[misc]
    report.check(
        "learn() of three items among 2²³", "≤ 3 × among 2¹⁰",
        f"{spent_ms[23]:.2f} ms, among 2¹⁰ {spent_ms[10]:.2f} ms", spent_ms[23] <= 3 * spent_ms[10],
    )  # fmt: skip
