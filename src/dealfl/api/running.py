"""Running a fleet: once, or with several schemes, seeds and settings side by side."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from dealfl.api.fleet import Fleet, require_fleet
from dealfl.api.result import Result, as_table, record_of
from dealfl.errors import BadInput, argument
from dealfl.parallel import AnyExecutor
from dealfl.report import choose_line, choose_view, write_page
from dealfl.runs import (
    Interrupted,
    NoFolder,
    Run,
    RunFolder,
    RunRecord,
    find_erased,
    keep_erased,
    open_model,
)
from dealfl.settings import plain_value
from dealfl.simulate import KeptOutcomes, Setting
from dealfl.simulate import sweep as simulate_all
from dealfl.storage import lock_file, log_to, make_folder
from dealfl.worker import COMPARED


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
    keep_data: bool = True,
    forget_one: bool = False,
    processes: int = 1,
    with_erased: bool = False,
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
        written. Data in memory are copied into it; the first erasure deletes the copy. A run with
        a folder can be stopped (Ctrl-C, or interrupt the kernel) and resumed.
    verbose
        Whether to show progress: in a terminal on the error output, in a notebook in the cell.
    compare
        Whether the fleet then runs under the other schemes, too.
    resume, restart
        Whether to continue a run that was stopped in `out`, or to discard the run in `out`.
    start_from
        A saved model or a run folder whose statistics the server starts with.
    keep_data
        Whether `out` keeps the journals, from which persons can be erased later, and data copied.
    forget_one
        Whether one person is erased at the end, and the model compared with one without them.
    processes
        Number of schemes that run at the same time, on Linux only; the result is the same.
    with_erased
        Whether to read persons who were erased from earlier runs of the same file beside `out`;
        by default they are left out.

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
    require_fleet(fleet)
    fleet = fleet if rounds is None else fleet.with_rounds(rounds)
    fleet = fleet if seed is None else fleet.with_settings({"job.seed": seed})
    folder = NoFolder() if out is None else RunFolder(Path(out))
    base = None if start_from is None else Path(start_from)
    running = Run(
        fleet.simulated,
        folder,
        compare=compare,
        start_from=base,
        keep_data=keep_data,
        processes=processes,
        warn=_warn,
    )
    if out is None:
        if resume or restart:
            raise BadInput(
                f"a run without a folder leaves nothing to resume; give {argument('out')}"
            )
        with choose_view(sys.stderr, fleet.name, verbose) as view:
            outcomes = running.run(view)
        assert running.statistics is not None, "a run that has ended has a model"
        return Result(fleet, outcomes, running.statistics)
    try:
        with folder.locked():
            _prepare(folder, fleet, resume=resume, restart=restart, with_erased=with_erased)
            outcomes, page = _run_in_folder(running, folder, fleet.name, verbose, forget_one)
    except Interrupted:
        again = f"dealfl.run(fleet, out={str(out)!r}, resume=True)"
        raise Interrupted(f"the run was stopped; {again} continues it") from None
    statistics = running.statistics or open_model(folder.path).learner.statistics
    return Result(fleet, outcomes, statistics, page)


def _warn(line: str) -> None:
    sys.stderr.write(f"dealfl: {line}\n")


def _run_in_folder(
    running: Run, folder: RunFolder, name: str, verbose: bool, forget_one: bool
) -> tuple[RunRecord, Path]:
    """Run to the end, or until a signal stops it; return the outcomes and the file to look at."""
    with (
        log_to(folder.path / "log.jsonl"),
        _stopped_by_signals(running.stop),
        choose_view(sys.stderr, name, verbose) as view,
    ):
        outcomes = running.run(view, forget_one=forget_one)
        page = running.save(outcomes, write_page if find_spec("plotly") is not None else None)
    return outcomes, page


def _prepare(
    folder: RunFolder, fleet: Fleet, *, resume: bool, restart: bool, with_erased: bool
) -> None:
    if resume and restart:
        raise BadInput(_both("a run"))
    if resume:
        if not folder.resumable:
            raise BadInput(
                f"{folder.path} holds no run that was stopped; leave out {argument('resume', True)}"
            )
        return
    if (folder.resumable or folder.finished) and not restart:
        stopped = f"a run that was stopped; {argument('resume', True)} continues it, "
        raise BadInput(
            f"{folder.path} holds {stopped if folder.resumable else 'a finished run; '}"
            f"{argument('restart', True)} discards it, another {argument('out')} keeps it"
        )
    file = "" if fleet.data is not None else fleet.document.tables.get("source", {}).get("file", "")
    erased = find_erased(folder, file) if file and not with_erased else []
    copied = {} if fleet.data is None else {fleet.document.tables["source"]["file"]: fleet.data}
    folder.prepare(fleet.job_text(), {name: data.text() for name, data in copied.items()})
    keep_erased(folder, erased)


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


# -- several runs -------------------------------------------------------------------------------


def compare(
    fleet: Fleet,
    schemes: Sequence[str] = COMPARED,
    seeds: int = 1,
    rounds: int | None = None,
    verbose: bool = True,
    processes: int = 1,
    *,
    executor: AnyExecutor | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    restart: bool = False,
) -> Any:  # noqa: ANN401 - pandas is optional
    """Run a fleet under several schemes, side by side.

    Parameters
    ----------
    fleet
        What to run.
    schemes
        Names of schemes; by default all.
    seeds
        Number of seeds: the job's and those that follow it.
    rounds
        Number of rounds; by default the fleet's.
    verbose
        Whether to show progress.
    processes
        Number of processes, on Linux only; the result is the same.
    executor, out, resume, restart
        See `sweep`.

    Returns
    -------
    DataFrame or Records
        One row a scheme; see `sweep`.

    Raises
    ------
    BadInput
        If a value is wrong.
    """
    return sweep(
        fleet,
        {"job.scheme": schemes},
        seeds,
        rounds,
        verbose,
        processes,
        executor=executor,
        out=out,
        resume=resume,
        restart=restart,
    )


def sweep(
    fleet: Fleet,
    vary: Mapping[str, Sequence[object]] | None = None,
    seeds: int = 1,
    rounds: int | None = None,
    verbose: bool = True,
    processes: int = 1,
    *,
    executor: AnyExecutor | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    restart: bool = False,
) -> Any:  # noqa: ANN401 - pandas is optional
    """Run a fleet with every combination of values.

    Parameters
    ----------
    fleet
        What to run.
    vary
        Values by key of the job, such as `{"job.forget_fraction": ["0", "0.05"]}`.
    seeds
        Number of seeds: the job's and those that follow it.
    rounds
        Number of rounds; by default the fleet's.
    verbose
        Whether to show progress.
    processes
        Number of processes, on Linux only; the result is the same.
    executor
        Where the simulations run instead: any `concurrent.futures.Executor`, such as that of loky
        or Dask's `Client.get_executor()`, or a function that makes one, which is called again when
        an executor dies. Files of the job must have the same path there. The result is the same.
    out
        Folder that keeps the outcome of each simulation that has ended; by default none.
    resume, restart
        Whether to continue a sweep that was stopped in `out`, or to discard what `out` keeps.

    Returns
    -------
    DataFrame or Records
        One row a combination: its values, `seeds`, `exact`, `metric`, and the mean over seeds of
        each measure. With several seeds, `NAME_ci` is half the width of the 95 % confidence
        interval.

    Raises
    ------
    BadInput
        If a value is wrong; nothing has run then.
    Interrupted
        If the sweep was stopped and can be resumed.
    DealError
        If the executor dies or cannot import dealfl; what `out` keeps is not lost.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(0, 1, (60, 2))
    >>> fleet = Fleet.from_arrays(X, X[:, 0] > X[:, 1], workers=3)
    >>> table = sweep(fleet, {"job.forget_fraction": ["0", "0.1"]}, rounds=1, verbose=False)
    >>> len(table)
    2
    """
    require_fleet(fleet)
    chosen = fleet if rounds is None else fleet.with_rounds(rounds)
    with kept_in(out, resume=resume, restart=restart) as kept:
        settings = sweep_settings(chosen, vary or {}, seeds, verbose, processes, executor, kept)
    return as_table([record_of(setting) for setting in settings])


def sweep_settings(
    fleet: Fleet,
    vary: Mapping[str, Sequence[object]],
    seeds: int,
    verbose: bool,
    processes: int,
    executor: AnyExecutor | None,
    kept: KeptOutcomes | None,
) -> list[Setting]:
    """Return the outcomes of every combination of values, for each seed."""
    plain = {key: plain_value(values) for key, values in vary.items()}
    with choose_line(sys.stderr, verbose) as line:
        return simulate_all(
            fleet.document, seeds, plain, line.show_sweep, fleet.data, processes, executor, kept
        )


@contextmanager
def kept_in(
    out: str | Path | None, *, resume: bool = False, restart: bool = False
) -> Iterator[KeptOutcomes | None]:
    """Yield the outcomes that a folder keeps, while no other process writes them."""
    if out is None:
        if resume or restart:
            raise BadInput(
                f"a sweep without a folder leaves nothing to resume; give {argument('out')}"
            )
        yield None
        return
    folder = Path(out)
    make_folder(folder)
    release = lock_file(folder / "running", f"the folder {folder}")
    kept = KeptOutcomes(folder)
    try:
        _require_choice(kept, folder, resume=resume, restart=restart)
        yield kept
    except KeyboardInterrupt:
        raise Interrupted(
            f"the sweep was stopped; {folder} keeps {len(kept)} simulations, and the same call "
            f"with {argument('resume', True)} continues it"
        ) from None
    finally:
        release()


def _both(what: str) -> str:
    resume, restart = argument("resume", True), argument("restart", True)
    return f"{resume} continues {what} and {restart} discards it; give one of them"


def _require_choice(kept: KeptOutcomes, folder: Path, *, resume: bool, restart: bool) -> None:
    if resume and restart:
        raise BadInput(_both("a sweep"))
    if restart:
        kept.clear()
    elif len(kept) and not resume:
        raise BadInput(
            f"{folder} keeps {len(kept)} simulations; {argument('resume', True)} continues, "
            f"{argument('restart', True)} discards them, another {argument('out')} keeps them"
        )
