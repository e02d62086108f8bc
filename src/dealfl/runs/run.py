"""A run: a fleet with the scheme of its job, then with other schemes, in one folder."""

from __future__ import annotations

import gc
import json
import secrets
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import replace
from functools import partial
from importlib import resources
from pathlib import Path

from dealfl.errors import DealError
from dealfl.exact import Statistics
from dealfl.runs.erasing import carry_out, forget_person
from dealfl.runs.erasures import find_queued
from dealfl.runs.finished_run import keep_journals
from dealfl.runs.folder import RESULT, RunFolder
from dealfl.runs.left_out import without_erased
from dealfl.runs.models import read_statistics
from dealfl.runs.result import FAIR, NotedProgress, RunProgress, RunRecord, Threshold, Watcher
from dealfl.server import Ledger
from dealfl.simulate import (
    FleetRun,
    FleetSpec,
    Outcome,
    Processes,
    Progress,
    Round,
    RunState,
    Split,
    finish,
    require_processes,
    split_fleet,
    start_run,
)
from dealfl.storage import log, replace_file
from dealfl.worker import COMPARED

_SAVE_EVERY_S = 5.0
_SAVED_BYTES_PER_S = 1e8
_SAVING_SHARE = 0.05  # at most this share of the time is spent on saving
_OWN, *_BASELINES = COMPARED


def default_job() -> str:
    """Return the TOML text of the default job, in which 15 phones learn handwritten digits."""
    return resources.files("dealfl.runs").joinpath("digits.toml").read_text("utf-8")


class Interrupted(DealError):
    """The run was stopped, and can be resumed."""


class NoFolder(RunFolder):
    """The twin of a folder for a run that leaves no files and cannot be resumed."""

    def __init__(self) -> None:
        super().__init__(Path())

    def job_text(self) -> str:
        """Return no text: who shows the result writes the job."""
        return ""

    def owners_key(self) -> bytes:
        """Return a new key."""
        return secrets.token_bytes(32)

    def outcomes(self) -> dict[str, Outcome]:
        """Return no outcomes."""
        return {}

    def save_outcomes(self, outcomes: dict[str, Outcome]) -> None:
        """Write nothing."""

    def state(self, scheme: str) -> None:
        """Return nothing to resume from."""

    def save_state(self, scheme: str, state: RunState) -> None:
        """Write nothing."""

    def save_ledger(self, ledger: Ledger) -> None:
        """Write nothing."""

    def save_progress(self, progress: RunProgress) -> None:
        """Write nothing."""


class Run:
    """Runs the schemes of a job, and saves its state regularly.

    A run that is stopped and resumed has the same result as a run without a stop.
    """

    def __init__(
        self,
        fleet: FleetSpec,
        folder: RunFolder,
        *,
        compare: bool = True,
        start_from: Path | None = None,
        keep_data: bool = True,
        processes: int = 1,
        warn: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._warn = warn
        self._fleet, self._folder, self._start_from = fleet, folder, start_from
        self._keep_data = keep_data and not isinstance(folder, NoFolder)
        own, others = fleet.job.scheme, (*_BASELINES, _OWN) if compare else ()
        self.schemes = [own, *(scheme for scheme in others if scheme != own)]
        self._curve: list[str] = []
        if compare and fleet.job.sleep and own != FAIR:
            own_waiting = fleet.job.rules.min_waiting  # is among those to be compared
            waits = [waiting for waiting in fleet.thresholds if waiting != own_waiting]
            self._curve = [f"{FAIR}@{waiting}" for waiting in waits]
        self._stopped, self._processes = False, require_processes(processes)
        self.statistics: Statistics | None = None  # of the first scheme's model

    def stop(self) -> None:
        """Stop at the next point from which the run can be resumed; safe in a signal handler."""
        self._stopped = True

    def run(self, watcher: Watcher, *, forget_one: bool = False) -> RunRecord:
        """Run all schemes that are not finished."""
        noted = NotedProgress(watcher, self._folder.save_progress)
        try:
            result = self._run_schemes(noted)
            return self._forget_one(result) if forget_one else result
        except BaseException:
            noted.stop()
            raise

    def _forget_one(self, result: RunRecord) -> RunRecord:
        forgotten = forget_person(self._folder)
        if forgotten is not None:
            self.statistics = None  # the ledger has newer ones
        return replace(result, forgotten=forgotten)

    def _run_schemes(self, watcher: Watcher) -> RunRecord:
        done = self._folder.outcomes()
        if not isinstance(self._folder, NoFolder):
            self._fleet = without_erased(self._fleet, self._folder, self._warn)

        def keep(outcomes: dict[str, Outcome]) -> None:
            done.update(outcomes)
            self._folder.save_outcomes(done)

        split = split_fleet(self._fleet)  # all schemes and processes share the examples
        schemes = [*self.schemes, *self._curve]
        left = [scheme for scheme in schemes if scheme not in done][1:]
        others = {scheme: partial(self._run_scheme, scheme, split) for scheme in left}
        with Processes(others, self._processes, keep) as processes:
            for number, scheme in enumerate(schemes, 1):
                watcher.start_scheme(scheme, number, len(schemes))
                if scheme in processes:
                    processes.finish(scheme, watcher.show_progress, lambda: self._stopped)
                    self._raise_if_stopped()
                if scheme not in done:
                    poll = partial(processes.poll, busy=1)
                    keep({scheme: self._run_scheme(scheme, split, watcher.show_progress, poll)})
                    gc.collect()  # the run is a cycle of references; its model may be large
                watcher.finish_scheme(done[scheme])
                self._raise_if_stopped()
        return RunRecord(
            self._fleet.job.name,
            tuple(done[scheme] for scheme in self.schemes),
            settings=self._folder.job_text(),
            started_from=str(self._start_from or ""),
            central=split.central_quality(),
            curve=tuple(
                Threshold.of(done[scheme]) for scheme in (self._curve and [FAIR, *self._curve])
            ),
        )

    def save(self, result: RunRecord, write_page: Callable[[RunRecord, Path], None] | None) -> Path:
        """Write the result and the report, and delete the saved state."""
        assert not isinstance(self._folder, NoFolder), "without a folder nothing can be written"
        if self._keep_data and carry_out(self._folder):
            self.statistics = None  # the ledger has newer ones
        if not self._keep_data:
            self._folder.discard_copy()
        self._folder.save_record(result)
        shown = replace_file(self._folder.path / RESULT, json.dumps(result.as_dict(), indent=2))
        if write_page is not None:
            shown = self._folder.path / "report.html"
            write_page(result, shown)
        self._folder.discard_state()
        return shown

    def _run_scheme(
        self,
        scheme: str,
        split: Split,
        show: Callable[[Progress], None],
        poll: Callable[[], None] = lambda: None,
    ) -> Outcome:
        with closing(self._start(scheme, split, show)) as run:
            logged, saved_s, saving_s = len(run.rounds), time.monotonic(), 0.0
            applied = set[Path]()  # earlier schemes may have applied requests before
            self._apply_requests(run, applied)

            def after_step() -> None:
                nonlocal logged, saved_s, saving_s
                _log_rounds(run.fleet.job.name, scheme, run.rounds[logged:])
                logged = len(run.rounds)
                self._apply_requests(run, applied)
                poll()
                start_s = time.monotonic()
                if start_s <= saved_s + max(_SAVE_EVERY_S, saving_s / _SAVING_SHARE):
                    return
                saving_s = max(saving_s, run.size_bytes / _SAVED_BYTES_PER_S)
                if start_s > saved_s + saving_s / _SAVING_SHARE:
                    self._save_progress(scheme, run)
                    saved_s = time.monotonic()
                    saving_s = saved_s - start_s

            run.pump(lambda: self._stopped, after_step)
            if self._stopped:
                self._save_progress(scheme, run)
                self._raise_if_stopped()
            outcome = finish(run)  # short, so a stop does not interrupt it
            if scheme == self.schemes[0]:
                run.server.publish_last(run.simulation.now_s)
                self.statistics = run.server.model.statistics
            self._save_ledger(run)
            if self._keep_data and scheme == self.schemes[0]:
                keep_journals(self._folder, run.workers.journals())
        rounds = len(outcome.rounds)
        log("scheme ended", job=outcome.job, scheme=scheme, reason=outcome.ended, rounds=rounds)
        return outcome

    def _apply_requests(self, run: FleetRun, applied: set[Path]) -> None:
        """Erase the persons of new requests; at the end they are carried out on the files, too."""
        if isinstance(self._folder, NoFolder):
            return
        for file, request in find_queued(self._folder, skipped=applied).items():
            run.erase(request.name, request.entries, request.requested_by)
            applied.add(file)

    def _start(self, scheme: str, split: Split, show: Callable[[Progress], None]) -> FleetRun:
        fleet, base = self._fleet.as_system(scheme), None
        if self._start_from is not None:
            base = read_statistics(self._start_from, fleet.plan.make())
        state, key = self._folder.state(scheme), self._folder.owners_key()
        return start_run(fleet, state, progress=show, base=base, owners_key=key, split=split)

    def _save_progress(self, scheme: str, run: FleetRun) -> None:
        self._folder.save_state(scheme, run.state())
        self._save_ledger(run)

    def _save_ledger(self, run: FleetRun) -> None:
        if run.fleet.job.scheme == self.schemes[0]:
            self._folder.save_ledger(run.ledger)

    def _raise_if_stopped(self) -> None:
        if self._stopped:
            log("stopped", job=self._fleet.job.name)
            raise Interrupted("stopped")


def _log_rounds(job: str, scheme: str, rounds: Iterable[Round]) -> None:
    """Log closed rounds of a job under a scheme."""
    for row in rounds:
        log(
            "round closed",
            job=job,
            scheme=scheme,
            round=row.number,
            reason=row.reason,
            selected=row.selected,
            replied=row.replied,
            learned=row.learned,
            evicted=row.evicted,
            compute_j=row.compute_j,
            radio_j=row.radio_j,
        )
