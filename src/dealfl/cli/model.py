"""`dealfl model`: describe, export, use and score a model.

examples:
  dealfl model info runs/digits                        describe the model of a run
  dealfl model export runs/digits --out digits.deal    write a file for dealfl.learners.load
  dealfl model export runs/digits --arrays digits.npz  write arrays for numpy.load
  dealfl model predict runs/digits new.csv             predict each row
  dealfl model predict films.deal histories.csv --top 5    recommend five items to each owner
  dealfl model score runs/digits labelled.csv          score the model on rows with a target

MODEL is a saved model, a run folder, a ledger, or the credentials of an operator, who asks a
running server. A file is read in the format of the job, which an
exported model contains: CSV columns are matched by name, LIBSVM text needs no labels to predict,
ratings form one history for each owner. Without a job, columns are taken in the order of the
features, and the target to score is the last column.
"""

import argparse
import csv
import dataclasses
import io
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dealfl.cli.printing import (
    JSON,
    command,
    format_table,
    open_server,
    option,
    print_problems,
    print_result,
)
from dealfl.errors import BadInput
from dealfl.escaping import for_csv

if TYPE_CHECKING:
    from dealfl.runs import Model


_LISTED = 8


def _open(arguments: argparse.Namespace) -> "Model":
    """Return the model in files, or of the running server that credentials lead to."""
    from dealfl.runs import open_model

    server = open_server(arguments.model)
    if server is None:
        return open_model(arguments.model, arguments.job)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.deal"
        server.save_model(path)
        model = open_model(path, arguments.job)
    return dataclasses.replace(model, origin=f"the server of {arguments.model}")


def _info(arguments: argparse.Namespace) -> int:
    info = _open(arguments).info()
    rows = [(k.replace("_", " "), _shown(value)) for k, value in info.items() if k != "settings"]
    rows += [(f"  {key}", _shown(value)) for key, value in info["settings"].items()]
    return print_result(arguments, info, format_table(rows))


def _shown(value: Any) -> str:  # noqa: ANN401
    if value is None:
        return "unknown"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{key}: {_shown(part)}" for key, part in value.items())
    if isinstance(value, list):
        return ", ".join(map(str, value[:_LISTED])) + (", …" if len(value) > _LISTED else "")
    return f"{value:,}" if isinstance(value, int) else str(value)


def _export(arguments: argparse.Namespace) -> int:
    from dealfl.runs import export_model, save_arrays

    if not arguments.out and not arguments.arrays:
        raise BadInput("no output file; give --out MODEL.deal, --arrays ARRAYS.npz, or both")
    model = _open(arguments)
    written: dict[str, Any] = {"digest": model.learner.digest()}
    if arguments.out:
        export_model(model, Path(arguments.out), force=arguments.force)
        written["model"] = arguments.out
    if arguments.arrays:
        written["arrays"] = arguments.arrays
        written["names"] = save_arrays(model, Path(arguments.arrays), force=arguments.force)
    table = format_table([(key, _shown(value)) for key, value in written.items()])
    return print_result(arguments, written, table)


# -- predictions --------------------------------------------------------------------------------


def _predict(arguments: argparse.Namespace) -> int:
    from dealfl.learners import HistoryLearner
    from dealfl.runs import require_free

    if arguments.top is not None and arguments.top < 1:
        raise BadInput(f"--top is {arguments.top}; it must be a whole number ≥ 1")
    if arguments.out:
        require_free(Path(arguments.out), force=arguments.force)
    model = _open(arguments)
    recommends = isinstance(model.learner, HistoryLearner)
    if arguments.top is not None and not recommends:
        raise BadInput(f"--top is for items; {model.learner.name} predicts one value per row")
    return (_recommend_items if recommends else _predict_rows)(arguments, model)


def _predict_rows(arguments: argparse.Namespace, model: Any) -> int:  # noqa: ANN401
    from dealfl.runs import predict

    predicted = list(predict(model, Path(arguments.data)))
    problems = [row.problem for row in predicted if row.problem is not None]
    rows = [{"line": row.line, "prediction": row.value} for row in predicted]
    _write(arguments, rows, problems, ("line", "prediction"))
    return int(len(problems) == len(predicted))


def _recommend_items(arguments: argparse.Namespace, model: Any) -> int:  # noqa: ANN401
    from dealfl.runs import recommend

    recommended, problems, count = recommend(model, Path(arguments.data), arguments.top or 10)
    rows = [dataclasses.asdict(row) for row in recommended]
    _write(arguments, rows, problems, ("owner", "rank", "item", "score"))
    return int(len(problems) == count)


def _write(
    arguments: argparse.Namespace,
    rows: list[dict[str, Any]],
    problems: Sequence[Any],
    columns: Sequence[str],
) -> None:
    from dealfl.storage import replace_file

    text = io.StringIO(newline="")
    table = csv.DictWriter(text, columns, lineterminator="\n")
    table.writeheader()
    table.writerows({name: for_csv(cell) for name, cell in row.items()} for row in rows)
    if arguments.out:
        replace_file(arguments.out, text.getvalue())
    plain = [dataclasses.asdict(problem) for problem in problems]
    kept = {"out": arguments.out} if arguments.out else {"predictions": rows}
    shown = f"{arguments.out}: {len(rows):,} rows" if arguments.out else text.getvalue()[:-1]
    print_result(arguments, {**kept, "rows": len(rows), "problems": plain}, shown)
    if not arguments.json:
        print_problems([f"{arguments.data}, {problem}" for problem in problems])


# -- score --------------------------------------------------------------------------------------


def _score(arguments: argparse.Namespace) -> int:
    from dealfl.report import format_quality
    from dealfl.runs import score

    model = _open(arguments)
    scored = score(model, Path(arguments.data))
    what = "histories" if scored.metric.startswith("hit rate") else "rows"
    rows = [
        (scored.metric, format_quality(scored.value)),
        ("tested", f"{scored.tested:,} {what}"),
        ("quarantined", f"{scored.quarantined:,} rows" if scored.quarantined else "none"),
        *((("", f"first: {scored.first_quarantined}"),) if scored.quarantined else ()),
        *(("skipped", note) for note in scored.notes),
    ]
    plain = {"learner": model.learner.name, **scored.as_dict()}
    return print_result(arguments, plain, format_table(rows))


_MODEL = option(
    "model", metavar="MODEL", help="saved model, run folder, ledger, or credentials of an operator"
)
_JOB = option("--job", metavar="JOB.toml", help="job file, if MODEL has none")
_FORCE = option("--force", action="store_true", help="replace an existing file")
COMMAND = command(
    "describe, export, use and score a model",
    description="Describe a model, export it, predict with it, or score it.",
    doc=__doc__,
    actions={
        "info": command(
            "show learner, settings, digest and sizes",
            _MODEL,
            _JOB,
            JSON,
            run=_info,
        ),
        "export": command(
            "write a model file, or numpy arrays",
            _MODEL,
            _JOB,
            JSON,
            option("--out", metavar="MODEL.deal", help="model file for learners.load"),
            option("--arrays", metavar="ARRAYS.npz", help="arrays for numpy.load"),
            _FORCE,
            run=_export,
        ),
        "predict": command(
            "predict a file in the format of the job",
            _MODEL,
            _JOB,
            JSON,
            option("data", metavar="FILE", help="rows, or lines of owner and item"),
            option("--out", metavar="FILE.csv", help="output file (default: standard output)"),
            option("--top", type=int, metavar="K", help="number of items per owner (default: 10)"),
            _FORCE,
            run=_predict,
        ),
        "score": command(
            "accuracy, R² or hit rate on a labelled file",
            _MODEL,
            _JOB,
            JSON,
            option("data", metavar="FILE", help="rows with their target, or ratings"),
            run=_score,
        ),
    },
)
