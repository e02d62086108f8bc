"""A keyholder and workers that make masked updates; the test plays the server, honest or not."""

from __future__ import annotations

from typing import Any

from dealfl.exact import ArraySpec, Entries, Schema, Statistics
from dealfl.keyholder import Keyholder, KeyholderJournal, KeyholderRules
from dealfl.masks import (
    SERVER,
    Answer,
    Asker,
    Masker,
    Ring,
    Total,
    draw_private_key,
    header_of,
)
from dealfl.protocol import Header, MaskedUpdate, Open, Opened
from tests.keyholder.openings import find_isolated

SCHEMA = Schema("counter", {}, (ArraySpec("counts", 64), ArraySpec("small", 3, 32)))
RING = Ring(SCHEMA)
COHORT = 3


class Table:
    """A keyholder with enrolled workers w0, w1, …; each example is a cell of its own."""

    def __init__(self, workers: int = 8, kind: type[Keyholder] = Keyholder, **rules: Any) -> None:
        self.journal = KeyholderJournal()
        self.key = draw_private_key()
        self.rules = KeyholderRules(**({"cohort": COHORT} | rules))
        self.kind = kind
        self.keyholder = self.start()
        self.server = self.keyholder.enrol("server", SERVER)
        self.asker = Asker(self.server)
        self.names = [f"w{number}" for number in range(workers)]
        self.maskers = {name: Masker(self.keyholder.enrol(name)) for name in self.names}
        self.deltas: dict[bytes, Statistics] = {}
        self.masked: dict[bytes, bytes] = {}
        self.worker_of: dict[int, str] = {}
        self.shown: list[dict[int, int]] = []
        self.number = 0
        self.now_s = 0.0

    def start(self) -> Keyholder:
        return self.kind("keyholder", self.journal, self.key, self.rules, jobs=["job"])

    def update(
        self,
        name: str,
        sequence: int = 1,
        counts: dict[int, int] | None = None,
        *,
        incarnation: int = 1,
        fresh: int | None = None,
        masker: Masker | None = None,
        **other: Any,
    ) -> MaskedUpdate:
        """Return a masked update of some examples; all that it adds are fresh."""
        counts = counts or {}
        self.worker_of |= dict.fromkeys(counts, name)
        delta = Statistics(
            SCHEMA, {"counts": Entries.of(counts), "small": Entries.of({0: -len(counts)})}
        )
        by = masker or self.maskers[name]
        plain: dict[str, Any] = {
            "job": "job", "epoch": "e1", "nonce": by.draw_nonce(delta.to_bytes()),
            "fresh": sum(value > 0 for value in counts.values()) if fresh is None else fresh,
        }  # fmt: skip
        made = MaskedUpdate(
            worker=name, incarnation=incarnation, sequence=sequence, round=None,
            delta=delta.to_bytes(), keyholder=by.key_name, **(plain | other),
        )  # fmt: skip
        masked = by.mask(made, RING, SCHEMA.digest(), RING.vector(delta))
        self.deltas[masked.nonce] = delta
        self.masked[masked.nonce] = masked.delta
        return masked

    def header(self, *words: Any, **other: Any) -> Header:
        return header_of(self.update(*words, **other))

    def request(self, plus: list[Header], minus: list[Header] | None = None, **other: Any) -> Open:
        plain: dict[str, Any] = {
            "job": "job", "worker": "keyholder", "epoch": "e1", "number": self.number + 1,
            "cohort": COHORT, "schema": SCHEMA.canonical(), "plus": tuple(plus),
            "minus": tuple(minus or ()),
        }  # fmt: skip
        return self.asker.seal(Open(**(plain | other)))

    def send(self, request: Open) -> Answer | None:
        step = self.keyholder.handle([request], self.now_s)
        answers = [message for message in step.messages if isinstance(message, Opened)]
        return self.asker.read(answers[0]) if answers else None

    def ask(self, plus: list[Header], minus: list[Header] | None = None, **other: Any) -> Answer:
        """Send a request; note the sum that it shows, if it is opened."""
        answer = self.send(self.request(plus, minus, **other))
        assert answer is not None
        if not answer.refused:
            self.number += 1
            total = Total(RING)
            for header in plus:
                total.add(self.masked[header.nonce])
            for header in minus or ():
                total.subtract(self.masked[header.nonce])
            opened = RING.statistics(total.subtract(answer.masks).vector())
            self.shown.append(opened["counts"].to_dict())
        return answer

    def find_isolated(self) -> tuple[str, ...] | None:
        return find_isolated(self.shown, self.worker_of, COHORT)
