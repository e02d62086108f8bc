"""The same fleet with several seeds and settings, as a table."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from dealfl.api.describing import as_table
from dealfl.api.fleet import Fleet
from dealfl.api.prepared_job import plain_value
from dealfl.report import choose_line
from dealfl.simulate import Setting
from dealfl.simulate import sweep as simulate_all

__all__ = ["compare", "sweep", "sweep_settings"]

_SCHEMES = ("deal", "original", "newfl", "incremental")


def compare(
    fleet: Fleet,
    schemes: Sequence[str] = _SCHEMES,
    seeds: int = 1,
    rounds: int | None = None,
    verbose: bool = True,
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

    Returns
    -------
    DataFrame or Records
        One row a scheme; see `sweep`.

    Raises
    ------
    BadInput
        If a value is wrong.
    """
    return sweep(fleet, {"job.scheme": list(schemes)}, seeds, rounds, verbose)


def sweep(
    fleet: Fleet,
    vary: Mapping[str, Sequence[object]] | None = None,
    seeds: int = 1,
    rounds: int | None = None,
    verbose: bool = True,
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

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(0, 1, (60, 2))
    >>> fleet = Fleet.from_arrays(X, X[:, 0] > X[:, 1], workers=3)
    >>> table = sweep(fleet, {"job.forget_fraction": ["0", "0.1"]}, rounds=1, verbose=False)
    >>> len(table)
    2
    """
    chosen = fleet if rounds is None else fleet.with_rounds(rounds)
    return as_table([_record(one) for one in sweep_settings(chosen, vary or {}, seeds, verbose)])


def sweep_settings(
    fleet: Fleet, vary: Mapping[str, Sequence[object]], seeds: int = 1, verbose: bool = True
) -> list[Setting]:
    """Return the outcomes of every combination of values, for each seed.

    Parameters
    ----------
    fleet
        What to run.
    vary
        Values by key of the job.
    seeds
        Number of seeds.
    verbose
        Whether to show progress.

    Returns
    -------
    list of Setting
        Values, outcomes and estimates, one for each combination.

    Raises
    ------
    BadInput
        If a value is wrong; nothing has run then.
    """
    plain = {key: [plain_value(one) for one in values] for key, values in vary.items()}
    with choose_line(sys.stderr, verbose) as line:
        return simulate_all(fleet.document, seeds, plain, line.show_sweep, fleet.data)


def _record(setting: Setting) -> dict[str, Any]:
    first = setting.outcomes[0]
    record: dict[str, Any] = {
        **{key: _shown(value) for key, value in setting.values.items()},
        "seeds": len(setting.outcomes),
        "exact": all(one.exact for one in setting.outcomes),
        "metric": first.metric,
    }
    for name, estimate in setting.estimates().items():
        key = "quality" if name == first.metric else name.replace(" ", "_").replace("-", "_")
        record[key] = estimate.mean
        if estimate.half_width is not None:
            record[f"{key}_ci"] = estimate.half_width
    return record


def _shown(value: object) -> object:
    return value if isinstance(value, int | float | str | bool) else str(value)
