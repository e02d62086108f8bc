"""Running a fleet: progress, a folder if one is wanted, and the result."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from dealfl.api.data import name_features
from dealfl.api.fleet import Fleet
from dealfl.api.result import Result
from dealfl.errors import BadInput
from dealfl.learners import Learner, RowLearner
from dealfl.report import choose_view, write_page
from dealfl.runs import Interrupted, NoFolder, Run, RunFolder, log_to, open_model
from dealfl.runs import Result as RunResult

__all__ = ["run"]


def run(
    fleet: Fleet,
    rounds: int | None = None,
    seed: int | None = None,
    out: str | Path | None = None,
    verbose: bool = True,
    *,
    compare: bool = False,
    resume: bool = False,
    restart: bool = False,
    start_from: str | Path | None = None,
) -> Result:
    """Run a fleet to its end under a virtual clock: a real server, real workers, modelled phones.

    Parameters
    ----------
    fleet
        What to run.
    rounds
        Number of rounds after which the run ends; by default the fleet's.
    seed
        Seed of all random draws; by default the job's. The same fleet and seed give the same
        result.
    out
        Folder for ledger, result and report, as `dealfl run` leaves them; by default nothing is
        written. Data in memory are copied into it, readable by their owner only. A run with a
        folder can be stopped (Ctrl-C, or interrupt the kernel) and resumed.
    verbose
        Whether to show progress: in a terminal on the error output, in a notebook in the cell.
    compare
        Whether the fleet then runs under the other schemes, too.
    resume
        Whether to continue a run that was stopped in `out`.
    restart
        Whether to discard the run in `out`.
    start_from
        A saved model or a run folder whose statistics the server starts with.

    Returns
    -------
    Result
        Quality, exactness, energy, model, tables and plots.

    Raises
    ------
    BadInput
        If a value is wrong, or `out` holds a run and neither `resume` nor `restart` is given.
    Interrupted
        If the run was stopped and can be resumed.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(0, 1, (60, 2))
    >>> fleet = Fleet.from_arrays(X, X[:, 0] > X[:, 1], workers=3)
    >>> result = run(fleet, rounds=2, verbose=False)
    >>> result.exact, len(result.rounds)
    (True, 2)
    """
    fleet = fleet if rounds is None else fleet.with_rounds(rounds)
    fleet = fleet if seed is None else fleet.with_settings({"job.seed": seed})
    base = None if start_from is None else Path(start_from)
    if out is None:
        if resume or restart:
            raise BadInput("a run without a folder leaves nothing to resume; give out=")
        running = Run(fleet.simulated, NoFolder(fleet.job_text()), compare=compare, start_from=base)
        with choose_view(sys.stderr, fleet.name, verbose) as view:
            return Result(fleet, running.run(view), _named(fleet, running.model))
    folder = RunFolder(Path(out))
    running = Run(fleet.simulated, folder, compare=compare, start_from=base)
    try:
        with folder.locked():
            _prepare(folder, fleet, resume=resume, restart=restart)
            outcomes, page = _run_in_folder(running, folder, fleet.name, verbose)
    except Interrupted:
        again = f"dealfl.run(fleet, out={str(out)!r}, resume=True)"
        raise Interrupted(f"the run was stopped; {again} continues it") from None
    model = running.model or open_model(folder.path).learner
    return Result(fleet, outcomes, _named(fleet, model), page)


def _run_in_folder(
    running: Run, folder: RunFolder, name: str, verbose: bool
) -> tuple[RunResult, Path]:
    """Run to the end, or until a signal stops it; return the outcomes and the file to look at."""
    with (
        log_to(folder.path / "log.jsonl"),
        _stopped_by_signals(running.stop),
        choose_view(sys.stderr, name, verbose) as view,
    ):
        outcomes = running.run(view)
        page = running.save(outcomes, write_page if find_spec("plotly") is not None else None)
    return outcomes, page


def _named(fleet: Fleet, model: Learner | None) -> Learner:
    assert model is not None, "a run that has ended has a model"
    names = name_features(fleet)
    if isinstance(model, RowLearner) and names:
        model.name_features(names)
    return model


def _prepare(folder: RunFolder, fleet: Fleet, *, resume: bool, restart: bool) -> None:
    if resume and restart:
        raise BadInput("--resume continues a run and --restart discards it; give one of them")
    if resume:
        if not folder.resumable:
            raise BadInput(f"{folder.path} holds no run that was stopped; leave out --resume")
        return
    if (folder.resumable or folder.finished) and not restart:
        stopped = "a run that was stopped; --resume (resume=True) continues it, "
        raise BadInput(
            f"{folder.path} holds {stopped if folder.resumable else 'a finished run; '}"
            "--restart (restart=True) discards it, --out FOLDER (out=) writes elsewhere"
        )
    folder.prepare(fleet.job_text())
    fleet.save_data(folder.path)


@contextmanager
def _stopped_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Let Ctrl-C and SIGTERM stop a run where it can be resumed; a second one ends it at once."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may handle signals
        return

    def handler(number: int, _: object) -> None:
        stop()
        signal.signal(number, signal.default_int_handler)

    before = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
