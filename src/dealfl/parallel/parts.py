"""One model from many parts: each is learned where it is, and the statistics are added."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from dealfl.errors import BadInput, Impossible, NotLearned
from dealfl.exact import Statistics
from dealfl.learners import HistoryLearner, Learner, RowLearner, is_frame
from dealfl.parallel.executors import AnyExecutor, call_each

AnyLearner = TypeVar("AnyLearner", bound=Learner)
Part = Any
"""Examples, or where to find them; see `learn`."""
_ANY_SIZE = 1 << 62  # the bytes are our own


def learn(
    parts: Iterable[Part],
    learner: AnyLearner,
    executor: AnyExecutor | None = None,
    *,
    target: str | None = None,
) -> AnyLearner:
    """Learn the parts of a table where they are, and add up what was learned.

    The result is the same as if the learner had learned all rows itself, whatever the parts, their
    order and the executor are: its digest is equal.

    Parameters
    ----------
    parts
        The parts, or a Dask data frame. A part is the arguments of `learner.learn`, such as
        `(X, y)` or a csr of histories; a data frame, if `target` is given; the path of a file
        (`.npz` with X and y; `.csv` or `.parquet`, which pandas reads); a Dask `Delayed`; or a
        function without arguments that returns one of these, and is called where the part is
        learned. An iterator is read as parts are needed.
    learner
        The learner that gets the sum. It does not change before all parts are learned.
    executor
        Where parts are learned: any `concurrent.futures.Executor`, or a function that makes one;
        by default here, one after the other.
    target
        Name of the column with the target, in data frames and in files of tables.

    Returns
    -------
    Learner
        The given learner.

    Raises
    ------
    BadInput
        If a part cannot be used; its number is named.
    DealError
        If the executor dies or cannot import dealfl.

    Notes
    -----
    Statistics are added, not examples: a `Neighbors` learner then predicts by `predict_votes`.

    Examples
    --------
    >>> import numpy as np
    >>> from dealfl import Tikhonov
    >>> X = np.random.default_rng(0).uniform(-1, 1, (90, 3))
    >>> parts = [(X[n::4], X[n::4, 0]) for n in range(4)]
    >>> model, alone = learn(parts, Tikhonov(3)), Tikhonov(3)
    >>> delta = alone.learn(X, X[:, 0])
    >>> model.digest() == alone.digest()
    True
    """
    total = _sum_of(parts, learner, executor, target)
    learner.merge(total.statistics)
    try:
        names = total.feature_names if isinstance(total, RowLearner) else ()
        if isinstance(learner, RowLearner) and names:
            learner.name_features(names)
    except BaseException:  # an interrupt
        learner.merge(-total.statistics)
        raise
    return learner


def forget(
    parts: Iterable[Part],
    learner: AnyLearner,
    executor: AnyExecutor | None = None,
    *,
    target: str | None = None,
) -> AnyLearner:
    """Forget the parts of a table: the result is the same as if they had never been learned.

    Parameters
    ----------
    parts, learner, executor, target
        See `learn`.

    Returns
    -------
    Learner
        The given learner.

    Raises
    ------
    NotLearned
        If the statistics show that the parts were never learned; the learner has not changed.
    BadInput
        If a part cannot be used; its number is named.
    DealError
        If the executor dies or cannot import dealfl.

    Examples
    --------
    >>> import numpy as np
    >>> from dealfl import Tikhonov
    >>> X = np.random.default_rng(0).uniform(-1, 1, (90, 3))
    >>> parts = [(X[n::4], X[n::4, 0]) for n in range(4)]
    >>> model = forget(parts[1:], learn(parts, Tikhonov(3)))
    >>> model.digest() == learn(parts[:1], Tikhonov(3)).digest()
    True
    """
    total = _sum_of(parts, learner, executor, target).statistics
    empty = type(learner)(**learner.settings)
    try:
        empty.check_statistics(learner.statistics - total)
    except Impossible as error:
        raise NotLearned(f"these examples were never learned: after this, {error}") from None
    learner.merge(-total)
    return learner


def _sum_of(
    parts: Iterable[Part], learner: Learner, executor: AnyExecutor | None, target: str | None
) -> Learner:
    """Return a new learner that has learned all parts."""
    if not isinstance(learner, Learner):
        raise BadInput(
            f"learner is {learner!r:.60}; the parts come first, then a learner to add to"
        )
    kind, settings = type(learner), learner.settings
    total = kind(**settings)
    if isinstance(learner, RowLearner) and isinstance(total, RowLearner) and learner.feature_names:
        total.name_features(learner.feature_names)
    partitions = getattr(parts, "to_delayed", None)  # of a Dask data frame
    listed = enumerate(parts if partitions is None else partitions())
    calls = ((n, (n, kind, settings, target, part)) for n, part in listed)
    ended = (
        ((n, _learn_part(*given)) for n, given in calls)
        if executor is None
        else call_each(executor, _learn_part, calls)
    )
    named: dict[int, tuple[str, ...]] = {}
    for number, (content, names) in ended:
        total.merge(Statistics.from_bytes(content, max_bytes=_ANY_SIZE))
        if names:
            named[number] = names
    if isinstance(total, RowLearner):
        for number in sorted(named):
            _require_names(number, named[number], total)
    return total


def _require_names(number: int, names: tuple[str, ...], total: RowLearner) -> None:
    """Refuse a frame whose columns are not those of the others."""
    known = total.feature_names or names
    if names != known:
        different = [pair for pair in zip(names, known, strict=False) if pair[0] != pair[1]]
        own, other = different[0] if different else (f"{len(names)} columns", f"{len(known)}")
        raise BadInput(
            f"part {number}: its columns are not those of the other parts: {own!r} instead of "
            f"{other!r}; nothing was learned"
        )
    total.name_features(known)


def _learn_part(
    number: int,
    kind: Callable[..., Learner],
    settings: Mapping[str, Any],
    target: str | None,
    part: Part,
) -> tuple[bytes, tuple[str, ...]]:
    """Learn a part where it is; return its statistics, and the names of its features."""
    learner: Any = kind(**settings)
    try:
        examples = _examples(part, target, histories=isinstance(learner, HistoryLearner))
        delta: Statistics = learner.learn(*examples)
    except BadInput as error:
        raise type(error)(f"part {number}: {error}") from error
    return delta.to_bytes(), learner.feature_names if isinstance(learner, RowLearner) else ()


def _examples(part: Part, target: str | None, *, histories: bool) -> tuple[Any, ...]:
    """Return the arguments of `learn`, made or read here."""
    if hasattr(part, "compute"):
        return _examples(part.compute(scheduler="synchronous"), target, histories=histories)
    if callable(part):
        return _examples(part(), target, histories=histories)
    if isinstance(part, str | Path):
        return _examples(_read(Path(part)), target, histories=histories)
    if histories:
        return part if isinstance(part, tuple) else (part,)
    if target is not None and is_frame(part):
        return _split_frame(part, target)
    if isinstance(part, tuple) and len(part) == 2:
        return part
    what = "a frame without target=" if is_frame(part) else f"a {type(part).__name__}"
    raise BadInput(
        f"it is {what}; a part is (X, y), a data frame with target=, a file, or a function that "
        "returns one of them"
    )


def _split_frame(frame: Any, target: str) -> tuple[Any, Any]:  # noqa: ANN401 - of any package
    names = list(frame.columns)
    if target not in names:
        raise BadInput(f"it has no column {target!r}; it has: {', '.join(map(str, names))}")
    return frame[[name for name in names if name != target]], frame[target]


def _read(path: Path) -> Part:
    """Read a file: arrays X and y, or a table."""
    kind = path.suffix
    if kind not in (".npz", ".csv", ".parquet"):
        raise BadInput(f"{path} is not .npz, .csv or .parquet; pass a function that reads it")
    if not path.is_file():
        raise BadInput(f"{path} does not exist where the part is learned")
    try:
        return _read_arrays(path) if kind == ".npz" else _read_table(path)
    except BadInput:
        raise
    except Exception as error:  # damage makes readers raise almost anything
        reason = str(error) or type(error).__name__
        raise BadInput(f"{path} cannot be read: {reason}") from error


def _read_arrays(path: Path) -> Part:
    with path.open("rb") as file:  # of a damaged one, numpy leaves its own open
        arrays = np.load(file, allow_pickle=False)
        if not isinstance(arrays, np.lib.npyio.NpzFile):
            raise BadInput(f"{path} has one array without a name; save it by np.savez with X and y")
        missing = [name for name in "Xy" if name not in arrays]
        if missing:
            raise BadInput(f"{path} has no array {missing[0]!r}; it has: {list(arrays)}")
        return arrays["X"], arrays["y"]


def _read_table(path: Path) -> Part:
    try:
        pandas = import_module("pandas")
    except ModuleNotFoundError:
        raise BadInput(f"{path}: pandas is missing; install it, or pass a function") from None
    return pandas.read_csv(path) if path.suffix == ".csv" else pandas.read_parquet(path)
