"""`dealfl job`: write a first job file for a user's data, and list the keys of job files.

examples:
  dealfl job init houses.csv                     inspect the file, ask, and write houses.toml
  dealfl job init houses.csv --target price --yes    do not ask; use the proposals
  dealfl job init ratings.csv --out films.toml   a file of user, item, rating, timestamp
  dealfl job init u.data --format ratings        without a header: columns are c1, c2, …
  dealfl job keys                                list every key of a job file
  dealfl job keys battery                        those with this word in their name or meaning

Bounds, words, classes and items are proposed from the file and are fixed in the job. Rows that do
not fit them are quarantined and reported when the job runs.
"""

import argparse
import json
import shlex
import sys
import textwrap
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dealfl.cli.printing import JSON, command, format_table, option, print_result, say
from dealfl.errors import BadInput, unknown_name

if TYPE_CHECKING:
    from dealfl.jobs import Reading
    from dealfl.jobs.proposals import Ask, Found, Start, Wishes


_FORMATS = ("csv", "libsvm", "ratings")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_QUESTIONS = {
    "target": "Which column is the target to predict?",
    "owner": "Which column is the owner of the row?",
    "time": "Which column is the time?",
    "item": "Which column is the item?",
    "rating": "Which column is the rating?",
}
_NO_RATING = "No column is the rating: every row counts as liked (--rating COLUMN names one)."
_OPTIONAL = ("owner", "time", "rating")


def _keys(arguments: argparse.Namespace) -> int:
    from dealfl.simulate import describe_keys, find_keys

    found = find_keys(arguments.filter)
    if not found:
        raise BadInput(
            f"no key has {arguments.filter!r} in its name or meaning; `dealfl job keys` lists all"
        )
    if arguments.filter or arguments.json:
        return print_result(arguments, {"keys": found}, "\n".join(map(_describe_key, found)))
    say(describe_keys(), end="")
    return 0


def _describe_key(key: dict[str, str]) -> str:
    where = "" if key["section"].strip("[]") == key["key"].rpartition(".")[0] else key["section"]
    default = "required" if key["default"] == "required" else f"default {key['default']}"
    lines = textwrap.wrap(f"{key['takes']}; {default}", 92, break_long_words=False)
    head = key["key"] + (f"  ({where})" if where else "")
    return "\n    ".join([head, *textwrap.wrap(key["meaning"], 92), *lines])


def _init(arguments: argparse.Namespace) -> int:
    from dealfl.api import propose
    from dealfl.jobs.proposals import start
    from dealfl.storage import replace_file

    path = Path(arguments.file)
    out = Path(arguments.out or f"{path.name.split('.')[0]}.toml")
    if out.exists() and not arguments.force:
        raise BadInput(f"{out} already exists; use --force to replace it, or another --out")
    if not out.parent.is_dir():
        raise BadInput(f"--out {out}: the folder {out.parent} does not exist; create it first")
    wishes = _wishes(arguments)
    begun = start(path, wishes, _asking(arguments))
    proposal = propose(begun, wishes, out)
    reading = proposal.reading
    replace_file(out, proposal.document.text(), 0o666)
    if arguments.json:
        say(json.dumps(_plain(begun, reading, out), indent=2))
    else:
        _print_start(begun, reading, out)
    return 0


def _wishes(arguments: argparse.Namespace) -> "Wishes":
    from dealfl.jobs.proposals import Roles, Wishes
    from dealfl.learners import LEARNERS

    if arguments.learner and arguments.learner not in LEARNERS:
        raise unknown_name("learner", arguments.learner, LEARNERS)
    for name in ("workers", "rounds", "skip_lines"):
        if getattr(arguments, name) < 0:
            option = name.replace("_", "-")
            raise BadInput(f"--{option} is {getattr(arguments, name)}; it must be ≥ 0")
    delimiter = {"tab": "\t", "\\t": "\t"}.get(arguments.delimiter, arguments.delimiter)
    if len(delimiter) > 1:
        raise BadInput(f"--delimiter is {delimiter!r}; it must be one character, or tab")
    return Wishes(
        format=arguments.format,
        roles=Roles(**{role: getattr(arguments, role) for role in _QUESTIONS}),
        learner=arguments.learner,
        delimiter=delimiter,
        header=None if arguments.header is None else arguments.header == "yes",
        skip_lines=arguments.skip_lines,
        workers=arguments.workers,
        rounds=arguments.rounds,
    )


# -- asking -------------------------------------------------------------------------------------


def _asking(arguments: argparse.Namespace) -> "Ask":
    if arguments.yes or arguments.json or not sys.stdin.isatty():
        return partial(_guess, arguments.yes)
    return _prompt


def _guess(yes: bool, role: str, names: Sequence[str], proposal: str, required: bool) -> str:

    if proposal or not required:
        return proposal
    if yes and role == "target":
        return names[-1]
    last = f"; --yes uses the last, {names[-1]!r}" if role == "target" else ""
    raise BadInput(f"{_QUESTIONS[role]} Give --{role} with one of: {', '.join(names)}{last}")


def _prompt(role: str, names: Sequence[str], proposal: str, required: bool) -> str:

    offered = proposal or (names[-1] if required else "")
    say(f"{_QUESTIONS[role]} ({', '.join(names)})", file=sys.stderr)
    while True:
        say(f"  {role} [{offered or 'none'}]: ", end="", file=sys.stderr, flush=True)
        line = sys.stdin.readline()
        if not line:
            raise BadInput(f"no answer; give the column with --{role}")
        answer = line.strip() or offered
        if answer in names:
            return answer
        if not required and answer in ("", "none"):
            return ""
        say(f"  no column {answer!r}", file=sys.stderr)


# -- output -------------------------------------------------------------------------------------


def _part(begun: "Start", name: str) -> str:
    roles = begun.roles
    for role in _QUESTIONS:
        if getattr(roles, role) == name:
            return role
    return "-" if name in begun.left_out else "feature"


def _range(column: "Found") -> str:
    if column.kind == "text":
        words = ", ".join(list(column.words)[:3])
        return words[:30] + ("…" if len(words) > 30 or column.distinct > 3 else "")
    if column.kind == "date":
        days = [_EPOCH + timedelta(days=day) for day in (column.low, column.high)]
        return " … ".join(f"{day:%Y-%m-%d}" for day in days)
    return f"{column.low:g} … {column.high:g}" if column.kind == "number" else ""


def _print_start(begun: "Start", reading: "Reading", out: Path) -> None:
    rows = [("COLUMN", "KIND", "RANGE", "MISSING", "DISTINCT", "PART")]
    for column in begun.columns:
        many = f"{column.distinct:,}{'+' if column.overflown else ''}"
        part = _part(begun, column.name)
        missing = f"{column.missing:,}"
        rows.append((column.name, column.kind, _range(column), missing, many, part))
    lines = [format_table(rows)]
    lines += [f"not a feature: {name}, {reason}" for name, reason in begun.left_out.items()]
    total = begun.columns[0].rows
    what = "histories" if begun.format == "ratings" else "examples"
    count, aside = len(reading.examples), len(reading.quarantine)
    summary = (
        f"{total:,} rows give {count:,} {what} for {begun.learner}; {aside:,} are quarantined."
    )
    notes = [f"Skipped: {note}." for note in reading.notes]
    notes += [_NO_RATING] if _lacks_rating(begun) else []
    lines += ["", summary, *notes, f"Wrote {out}. Check it, then run:", f"  {_next(out)}"]
    say("\n".join(lines))


def _lacks_rating(begun: "Start") -> bool:
    return begun.format == "ratings" and not begun.roles.rating


def _next(out: Path) -> str:
    return shlex.join(["dealfl", "run", str(out)])


def _plain(begun: "Start", reading: "Reading", out: Path) -> dict[str, Any]:
    columns = [
        {
            "name": column.name,
            "kind": column.kind,
            "low": column.low if column.low < column.high else None,
            "high": column.high if column.low < column.high else None,
            "missing": column.missing,
            "distinct": column.distinct,
            "part": _part(begun, column.name),
        }
        for column in begun.columns
    ]
    return {
        "job": str(out),
        "format": begun.format,
        "learner": begun.learner,
        "columns": columns,
        "left_out": begun.left_out,
        "examples": len(reading.examples),
        "quarantined": len(reading.quarantine),
        "quarantined_by_column": reading.quarantine.by_column,
        "notes": [*reading.notes, *([_NO_RATING] if _lacks_rating(begun) else [])],
        "next": _next(out),
    }


COMMAND = command(
    "write a job file for your own data",
    description="Write a job file for your own data, or list the keys of job files.",
    doc=__doc__,
    actions={
        "init": command(
            "inspect a data file and write a job file for it",
            option("file", metavar="FILE", help="CSV, LIBSVM or ratings file; can be compressed"),
            option("--out", metavar="JOB.toml", help="job file (default: NAME.toml for NAME.csv)"),
            option(
                "--format", choices=_FORMATS, default="", help="file format, if detection fails"
            ),
            *(
                option(
                    f"--{role}",
                    metavar="COLUMN",
                    default="",
                    help=question + (" (none: no column)" if role in _OPTIONAL else ""),
                )
                for role, question in _QUESTIONS.items()
            ),
            option(
                "--learner",
                metavar="NAME",
                default="",
                help="learner (default: the first that fits)",
            ),
            option(
                "--delimiter", metavar="CHARACTER", default="", help="separator of columns, or tab"
            ),
            option(
                "--header", choices=("yes", "no"), help="whether the first row names the columns"
            ),
            option(
                "--skip-lines",
                type=int,
                default=0,
                metavar="N",
                help="lines before the table (default: 0)",
            ),
            option(
                "--workers",
                type=int,
                default=0,
                metavar="N",
                help="number of devices (default: by data)",
            ),
            option(
                "--rounds", type=int, default=0, metavar="N", help="number of rounds (default: 10)"
            ),
            option("--yes", action="store_true", help="do not ask; use the proposals"),
            option("--force", action="store_true", help="replace an existing job file"),
            option("--json", action="store_true", help="print one JSON object; do not ask"),
            run=_init,
        ),
        "keys": command(
            "list the keys of job, phone and laboratory files",
            option(
                "filter",
                nargs="?",
                default="",
                metavar="FILTER",
                help="text in the name or the meaning of a key (default: all keys)",
            ),
            JSON,
            run=_keys,
        ),
    },
)
