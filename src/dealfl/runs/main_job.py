"""The main job: a fleet under its own scheme and then under the others; it may be stopped."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from dealfl.errors import DealError
from dealfl.runs.kept_run import KeptRun
from dealfl.runs.logs import log
from dealfl.runs.models import statistics_from
from dealfl.runs.result import Result
from dealfl.simulate import Document, Fleet, Outcome, Progress, fleet_of
from dealfl.simulate.closing import closed
from dealfl.simulate.fleet import resumable_run
from dealfl.simulate.fleet_run import FleetRun

__all__ = ["Interrupted", "MainJob", "Watcher"]

_KEEP_EVERY_S = 5.0
_COMPARED = ("original", "newfl", "incremental", "deal")


class Interrupted(DealError):
    """The job was stopped, and can go on."""


class Watcher(Protocol):
    """Whoever wants to see how the job is doing."""

    def began(self, scheme: str, place: int, of: int) -> None:
        """Take note that a scheme has its turn."""

    def went_on(self, progress: Progress) -> None:
        """Take note of how far it has come."""

    def ended(self, outcome: Outcome) -> None:
        """Take note of what came out."""


class MainJob:
    """Runs the schemes of a job one after the other, and keeps what it would be a pity to lose.

    Stopped at whatever moment, it goes on from what it kept, and ends as if nothing had happened.
    """

    def __init__(
        self,
        document: Document,
        kept: KeptRun,
        *,
        compare: bool = True,
        start_from: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        own = fleet_of(document).job
        self._document, self._kept = document, kept
        self._start_from, self._clock = start_from, clock
        others = _COMPARED if compare else ()
        self.name = own.name
        self.schemes = [own.scheme, *(scheme for scheme in others if scheme != own.scheme)]
        self._run: FleetRun | None = None
        self._stopped = False

    def stop(self) -> None:
        """Stop soon, at a moment from which it can go on; safe in the handler of a signal."""
        self._stopped = True
        if self._run is not None:
            self._run.simulation.interrupted = True

    def run(self, watcher: Watcher) -> Result:
        """Run all schemes that are not done yet, and return what came out of all."""
        done = self._kept.outcomes()
        for place, scheme in enumerate(self.schemes, 1):
            watcher.began(scheme, place, len(self.schemes))
            if scheme not in done:
                done[scheme] = self._outcome(scheme, watcher)
                self._kept.put_outcomes(done)
            watcher.ended(done[scheme])
            self._go_on_unless_stopped()
        outcomes = tuple(done[scheme] for scheme in self.schemes)
        base = str(self._start_from or "")
        return Result(self.name, outcomes, settings=self._kept.job_text(), went_on_from=base)

    def finish(self, result: Result, write_page: Callable[[Result, Path], None] | None) -> Path:
        """Write result and page; return where to look. There is no going on any more."""
        shown = self._kept.write("result.json", json.dumps(result.as_dict(), indent=2).encode())
        if write_page is not None:
            shown = self._kept.folder / "report.html"
            write_page(result, shown)
        self._kept.end()
        return shown

    def _outcome(self, scheme: str, watcher: Watcher) -> Outcome:
        fleet = fleet_of(self._document.replaced("job.scheme", scheme))
        run = self._begun(fleet, watcher)
        self._run = run
        told, kept_s = len(run.rounds), self._clock()
        while not run.ended() and not self._stopped:
            run.advance()
            run.report()
            told = self._log_rounds(run, told)
            if self._clock() - kept_s > _KEEP_EVERY_S:
                self._keep(run)
                kept_s = self._clock()
        self._run = None  # the rest is short: from here on it is not interrupted any more
        self._keep(run)
        self._go_on_unless_stopped()
        return self._closed(run)

    def _begun(self, fleet: Fleet, watcher: Watcher) -> FleetRun:
        base = None
        if self._start_from is not None:
            base = statistics_from(self._start_from, fleet.plan.make())
        state = self._kept.state(fleet.job.scheme)
        return resumable_run(fleet, state, watcher.went_on, base)

    def _keep(self, run: FleetRun) -> None:
        scheme = run.fleet.job.scheme
        self._kept.put_state(scheme, run.state())
        if scheme == self.schemes[0]:
            self._kept.put_ledger(run.ledger.content())

    def _closed(self, run: FleetRun) -> Outcome:
        outcome = closed(run, run.ended())
        if outcome.scheme == self.schemes[0]:
            self._kept.put_ledger(run.ledger.content())
        run.close()
        log("scheme ended", job=self.name, reason=outcome.ended, rounds=len(outcome.rounds))
        return outcome

    def _log_rounds(self, run: FleetRun, told: int) -> int:
        for one in run.rounds[told:]:
            log(
                "round closed", job=self.name, round=one.number, reason=one.reason,
                selected=one.selected, replied=one.replied, learned=one.learned,
                evicted=one.evicted, compute_j=one.compute_j, radio_j=one.radio_j,
            )  # fmt: skip
        return len(run.rounds)

    def _go_on_unless_stopped(self) -> None:
        if self._stopped:
            log("stopped", job=self.name)
            raise Interrupted("stopped")
