"""The keyholder of a simulated fleet, with the enrolments that people would carry around."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from dealfl.exact import Statistics
from dealfl.jobs import PrivacyKeys
from dealfl.keyholder import Keyholder, KeyholderJournal, KeyholderRules
from dealfl.learners import Learner
from dealfl.masks import (
    SERVER,
    Asker,
    Enrolment,
    Masker,
    Ring,
    Scope,
    Total,
    draw_private_key,
    require_cryptography,
    sum_masks,
)
from dealfl.protocol import Header
from dealfl.server import Privacy


class VaultState(msgspec.Struct, frozen=True):
    """The secrets of a simulated keyholder and its members."""

    private_key: bytes
    server: Enrolment
    workers: dict[str, Enrolment]


class Vault:
    """A keyholder, and what each worker and the server hold of it."""

    def __init__(
        self,
        keys: PrivacyKeys,
        job: str,
        names: Iterable[str],
        bits: int | None,  # that every sum fits
        state: VaultState | None,
    ) -> None:
        require_cryptography()
        self.journal = KeyholderJournal()
        private_key = state.private_key if state else draw_private_key()
        rules = KeyholderRules(cohort=keys.cohort)
        reported = [] if state else [job]  # a resumed one has reported before
        self.keyholder = Keyholder(keys.keyholder, self.journal, private_key, rules, reported)
        if state is None:
            enrol = self.keyholder.enrol
            workers = {name: enrol(name) for name in names}
            state = VaultState(private_key, enrol("server", SERVER), workers)
        self.state = state
        self._job = job
        self._keys = keys
        self._bits = bits

    def make_privacy(self) -> Privacy:
        """Return what the server needs."""
        return Privacy(
            Asker(self.state.server),
            self._job,
            name=self._keys.keyholder,
            cohort=self._keys.cohort,
            max_workers=len(self.state.workers),
            bits=self._bits,
        )

    def make_masker(self, name: str) -> Masker:
        """Return what a worker needs."""
        return Masker(self.state.workers[name], self._bits)

    def unmask(
        self, updates: Iterable[tuple[Header, bytes]], learner: Learner, epoch: str
    ) -> Statistics:
        """Return the sum of masked updates, as only who holds the secrets of all workers can."""
        ring = Ring(learner.schema, self._bits)
        scope = Scope(self._job, epoch, learner.schema.digest())
        total = Total(ring)
        for header, masked in updates:
            shared = self.state.workers[header.worker].shared
            total.add(ring.unpack(masked)).subtract(sum_masks(ring, scope, [(shared, header)]))
        return ring.statistics(total.vector())
