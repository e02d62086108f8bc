"""`dealfl datasets`: list, fetch and check datasets.

examples:
  dealfl datasets                    list the datasets and where they are
  dealfl datasets fetch movielens    download into the cache
  dealfl datasets fetch --paper      those that `dealfl reproduce` needs
  dealfl datasets check covtype      verify checksums and read every row

Files are searched in the cache (DEALFL_CACHE, or the user's cache directory), then in the directory
DEALFL_DATA. Other files are downloaded if the catalog has a URL.
"""

import argparse
import sys
from typing import TYPE_CHECKING, Any

from dealfl.cli.printing import (
    ACTION_JSON,
    JSON,
    command,
    format_table,
    option,
    print_problems,
    print_result,
    say,
)
from dealfl.errors import BadInput, DealError

if TYPE_CHECKING:
    from dealfl.data import Dataset, Directories


def _list(arguments: argparse.Namespace) -> int:
    from dealfl.data import CATALOG, Directories

    directories = Directories.from_environment()
    rows = [_described(dataset, directories) for dataset in CATALOG.usable().values()]
    print_problems(CATALOG.problems())
    header = ("NAME", "TASK", "ROWS x COLUMNS", "FOUND", "LICENCE")
    table = [(row["name"], row["task"], _size(row), row["found"], row["licence"]) for row in rows]
    return print_result(arguments, {"datasets": rows}, format_table([header, *table]))


def _fetch(arguments: argparse.Namespace) -> int:
    from dealfl.data import CATALOG, Directories, find_dataset

    datasets = [find_dataset(name) for name in arguments.names]
    if arguments.paper:
        datasets += [dataset for dataset in CATALOG.usable().values() if dataset.of_paper]
    if not datasets:
        raise BadInput("no dataset is named; give names, or --paper for those of the paper")
    directories = Directories.from_environment()
    rows = []
    for number, dataset in enumerate(datasets, 1):
        say(f"dealfl: {number} of {len(datasets)}: {dataset.name}", file=sys.stderr, flush=True)
        rows.append(_fetched(dataset, directories))
    print_result(arguments, {"fetched": rows}, format_table([list(row.values()) for row in rows]))
    return int(any(row["state"] == "failed" for row in rows))


def _check(arguments: argparse.Namespace) -> int:
    from dealfl.data import CATALOG, Directories, State, check, find_dataset

    directories = Directories.from_environment()
    names = arguments.names or list(CATALOG.usable())
    datasets = [find_dataset(name) for name in names]
    findings = [finding for dataset in datasets for finding in check(dataset, directories)]
    rows = [
        {"name": f.dataset, "file": f.file, "state": f.state.value, "detail": f.detail}
        for f in findings
    ]
    table = [(row["name"], row["state"], row["file"], row["detail"]) for row in rows]
    print_result(arguments, {"checked": rows}, format_table(table))
    wrong = {State.DAMAGED, State.MISSING} if arguments.names else {State.DAMAGED}
    return int(any(finding.state in wrong for finding in findings))


def _described(dataset: "Dataset", directories: "Directories") -> dict[str, Any]:
    return {
        "name": dataset.name,
        "task": dataset.task.value,
        "rows": dataset.rows,
        "columns": dataset.columns,
        "complete": dataset.complete,
        "found": _location(dataset, directories),
        "licence": dataset.licence,
        "address": dataset.address,
        "description": dataset.description,
    }


def _size(row: dict[str, Any]) -> str:
    size = f"{row['rows']:,} x {row['columns']:,}"
    return size if row["complete"] else f"{size} (a subset)"


def _location(dataset: "Dataset", directories: "Directories") -> str:
    if dataset.origin:
        return dataset.origin
    local = [directories.find(file) for file in dataset.files]
    if all(local):
        return " and ".join(dict.fromkeys(file.directory for file in local if file))
    downloadable = all(file.url for file in directories.missing(dataset))
    return "can be downloaded" if downloadable else "get it yourself"


def _fetched(dataset: "Dataset", directories: "Directories") -> dict[str, str]:
    from dealfl.data import fetch

    try:
        paths = fetch(dataset, directories)
    except DealError as error:  # continue with the next dataset
        return {"name": dataset.name, "state": "failed", "detail": str(error)}
    detail = ", ".join(map(str, paths)) if paths else _location(dataset, directories)
    return {"name": dataset.name, "state": "fetched" if paths else "here", "detail": detail}


COMMAND = command(
    "list, fetch and check datasets",
    JSON,
    run=_list,
    description="List the datasets of the catalog, fetch them, or check them.",
    doc=__doc__,
    actions={
        "fetch": command(
            "download datasets into the cache",
            option("names", nargs="*", metavar="NAME", help="dataset of the catalog"),
            option("--paper", action="store_true", help="all that the figures of the paper need"),
            ACTION_JSON,
            run=_fetch,
        ),
        "check": command(
            "verify checksums and read every row",
            option(
                "names", nargs="*", metavar="NAME", help="dataset of the catalog (default: all)"
            ),
            ACTION_JSON,
            run=_check,
        ),
    },
)
