"""`dealfl erase`, `erasures`, `readmit`, `show`: erase persons, and show what a run holds."""

import argparse
import shlex
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from dealfl.cli.printing import (
    FILES,
    JSON,
    RUN,
    RUN_FIRST,
    command,
    format_table,
    open_folder,
    open_run,
    option,
    print_result,
    say,
    seconds,
)
from dealfl.errors import BadInput, unreadable

if TYPE_CHECKING:
    from dealfl.runs import RequestStatus, RunFolder, RunningServer


_MAX_FILE_BYTES = 1 << 30
_CERTIFICATES = Path("certificates")  # of a running server
_YEAR_S = 31_536_000.0
_ELSEWHERE = (
    "{} leads to a running server, which knows no names: each worker keeps its examples and the "
    "hashes of their owners to itself; use `dealfl show` with a run folder"
)


def _erase(arguments: argparse.Namespace) -> int:
    from dealfl.runs import RunFolder, erase_owners, require_known

    owners = [*arguments.owners, *(_read_names(arguments.file) if arguments.file else ())]
    run = _open_for(arguments, owners or arguments.example)
    if not isinstance(run, RunFolder):
        erased = run.erase(
            owners, arguments.by, _CERTIFICATES, arguments.wait, _report, arguments.example
        )
    else:
        if not arguments.unknown_too:
            require_known(run, owners)
        erased = erase_owners(
            run,
            owners,
            requested_by=arguments.by,
            examples=arguments.example,
            wait_s=arguments.wait,
            progress=_report,
        )
    plain = msgspec.to_builtins(erased.erasure) | {
        "nothing_held": erased.erasure.nothing_held,
        "certificate": str(erased.certificate),
        "salts": erased.salts,
        "known_before": erased.known_before,
        "also_held": erased.also_held,
    }
    print_result(arguments, plain, str(erased))
    return 0 if erased.erasure.final else 1


def _open_for(arguments: argparse.Namespace, names: Sequence[str]) -> "RunFolder | RunningServer":
    """Return the run; if a name stands in its place, say how the command is written."""
    from dealfl.runs import RunFolder

    given = arguments.run_folder
    runs = [name for name in names if _is_run(name)]
    if Path(given).exists() or (not runs and (names or Path(given).name != given)):
        return open_run(arguments)
    if not runs:
        with suppress(BadInput):
            runs = [str(RunFolder.at().path)]
    persons = [given, *(name for name in names if name not in runs)]
    again = f"{arguments.parser.prog} {shlex.join([*(runs or ['RUN'])[:1], *persons])}"
    raise BadInput(f"{given} is not a run; the run comes first: {again}")


def _is_run(name: str) -> bool:
    from dealfl.runs import RunFolder

    try:
        return RunFolder(Path(name)).ledger.is_file()
    except OSError:  # the name of a person can be longer than that of a file
        return False


def _report(line: str) -> None:
    say(f"dealfl: {line}", file=sys.stderr)


def _readmit(arguments: argparse.Namespace) -> int:
    from dealfl.runs import RunFolder, readmit_left_out, readmit_owners

    erased, run = None, open_run(arguments)
    if not isinstance(run, RunFolder):
        run.readmit(arguments.owners, arguments.by)
    else:
        erased = readmit_owners(run, arguments.owners, requested_by=arguments.by)
        erased += readmit_left_out(run, arguments.owners)
    plain = {"readmitted": arguments.owners, "were_erased": erased}
    return print_result(arguments, plain, _describe_readmitted(arguments.owners, erased))


def _describe_readmitted(owners: Sequence[str], erased: int | None) -> str:
    """Return who is readmitted; `erased` of them were erased, None if that is not known."""
    names = ", ".join(owners)
    if erased == 0:
        was = "was" if len(owners) == 1 else "were"
        return f"{names} {was} not erased from this run; nothing changes."
    text = f"New examples of {names} are admitted."
    if erased is not None and erased < len(owners):
        text += f" {erased:,} of {len(owners):,} persons were erased before."
    return text


def _rotate(arguments: argparse.Namespace) -> int:
    from dealfl.erasure import rotate_signing_key
    from dealfl.runs import CERTIFICATES

    folder = open_folder(arguments).path / CERTIFICATES
    key = rotate_signing_key(folder).public.id
    text = f"{folder} signs with the key {key} now. Certificates of earlier keys stay valid."
    return print_result(arguments, {"key": key}, text)


def _certify(arguments: argparse.Namespace) -> int:
    from dealfl.runs import RunFolder, certify

    run = open_run(arguments)
    if isinstance(run, RunFolder):
        path = certify(run, arguments.request, arguments.by)
    else:
        path = run.certify(arguments.request, arguments.by, _CERTIFICATES)
    return print_result(arguments, {"certificate": str(path)}, f"Wrote {path}.")


def _read_names(path: Path) -> list[str]:
    try:
        if path.stat().st_size > _MAX_FILE_BYTES:
            raise BadInput(f"{path} is larger than 1 GB; split it")
        lines = path.read_text("utf-8-sig").split("\n")  # names have other separators in them
    except OSError as error:
        raise unreadable(path, error) from error
    except UnicodeDecodeError as error:
        raise BadInput(f"{path} is not UTF-8 text; save it as UTF-8") from error
    return [line.strip() for line in lines if line.strip()]


def _requests(arguments: argparse.Namespace) -> "list[RequestStatus]":
    from dealfl.runs import RunFolder, list_erasures

    run = open_run(arguments)
    return list_erasures(run) if isinstance(run, RunFolder) else run.erasures()


def _list(arguments: argparse.Namespace) -> int:
    requests = _requests(arguments)
    header = (
        "REQUEST",
        "KIND",
        "BY",
        "PERSONS",
        "EXAMPLES",
        "ANSWERED",
        "OUTSTANDING",
        "PUBLISHED",
    )
    rows = [
        (
            request.name,
            request.kind,
            request.requested_by or "-",
            str(request.persons),
            str(request.examples),
            str(request.answered),
            ", ".join(request.outstanding) or "-",
            "yes" if request.published else "no",
        )
        for request in requests
    ]
    return print_result(
        arguments, [asdict(request) for request in requests], format_table([header, *rows])
    )


def _status(arguments: argparse.Namespace) -> int:
    waiting = [
        (worker, request.name, request.requested_s, (request.heard_s or {}).get(worker))
        for request in _requests(arguments)
        for worker in request.outstanding
    ]
    header = ("WORKER", "REQUEST", "OUTSTANDING SINCE", "LAST HEARD")
    rows = [(*entry[:2], _show_time(entry[2]), _show_time(entry[3])) for entry in waiting]
    text = format_table([header, *rows]) if rows else "All workers have answered all requests."
    keys = ("worker", "request", "since_s", "heard_s")
    return print_result(arguments, [dict(zip(keys, entry, strict=True)) for entry in waiting], text)


def _show_time(time_s: float | None) -> str:
    """Return a time; the clock of a simulated run starts at 0."""
    if time_s is None:
        return "never"
    real = datetime.fromtimestamp(time_s, UTC).isoformat(sep=" ", timespec="seconds")
    return real if time_s > _YEAR_S else f"{time_s:,.0f} s after the start"


def _show(arguments: argparse.Namespace) -> int:
    from dealfl.runs import RunFolder, find_holdings, list_owners

    asks = [name for name in (arguments.owner, "all" if arguments.owners else None) if name]
    run = _open_for(arguments, asks)
    if not isinstance(run, RunFolder):
        raise BadInput(_ELSEWHERE.format(arguments.run_folder))
    if arguments.owners:
        owners = list_owners(run)
        table = [(owner.owner, str(owner.examples), ", ".join(owner.workers)) for owner in owners]
        text = format_table([("OWNER", "EXAMPLES", "WORKERS"), *table])
        return print_result(arguments, [asdict(owner) for owner in owners], text)
    if arguments.owner is None:
        raise BadInput("no person is named; give a name, or --owners to list all")
    holdings = find_holdings(run, arguments.owner)
    header = ("WORKER", "LEARNED", "WAITING", "EVICTED")
    rows = [
        (holding.worker, str(holding.learned), str(holding.waiting), str(holding.grace))
        for holding in holdings
    ]
    text = format_table([header, *rows])
    if arguments.ids:
        text += "".join(f"\n{identity}" for holding in holdings for identity in holding.ids)
    text = text if holdings else _describe_nobody(run, arguments.owner)
    return print_result(arguments, [asdict(holding) for holding in holdings], text)


def _describe_nobody(run: "RunFolder", owner: str) -> str:
    """Return that nothing is held of a person, and the names that may be meant."""
    from dealfl.runs import find_unknown

    _, near = find_unknown(run, [owner])
    meant = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
    return f"No worker holds examples of {owner}.{meant}"


_BY = option("--by", default="", metavar="WHO", help="who requests it (default: your account)")
ERASE = command(
    "erase persons from a run, with a certificate",
    RUN_FIRST,
    option("owners", nargs="*", metavar="OWNER", help="name of a person"),
    option(
        "--example",
        nargs="+",
        default=[],
        metavar="ID",
        help="erase single examples; show OWNER --ids lists ids",
    ),
    option("--file", type=Path, help="file with one name per line"),
    option(
        "--unknown-too",
        action="store_true",
        help="certify also for names of whom the run holds nothing",
    ),
    _BY,
    option(
        "--wait",
        type=seconds,
        default=60.0,
        metavar="SECONDS",
        help="maximum time to wait for the workers of a running server (default: 60)",
    ),
    JSON,
    run=_erase,
    doc="""Erase all examples of persons from the workers and the model of a run.

    examples:
      dealfl erase runs/houses ann bob                 erase two persons
      dealfl erase runs/houses --file people.txt       one name per line
      dealfl erase runs/houses ann --by dpo@corp       who requests it is in the certificate
      dealfl erase operator.toml ann                   erase ann from a running federation
      dealfl erase runs/houses --example 3f9a01c2      one example; `dealfl show` lists ids

    Every worker forgets the examples of the person, deletes their bytes and answers, also if it
    holds none. The model is then equal, bit for bit, to one that never saw the person. The
    certificate is signed and contains no personal data.
    """,
)
ERASURES = command(
    "list requests of erasure, certify them, renew the key that signs",
    doc="""List the requests of erasure of a run, and write later certificates.

    examples:
      dealfl erasures list runs/houses                 all requests, and whether they are finished
      dealfl erasures list operator.toml               those of a running federation
      dealfl erasures status                           the workers that have not answered
      dealfl erasures certify runs/houses "REQUEST"    write a certificate of an earlier request
      dealfl erasures rotate-key runs/houses           sign with a new key
    """,
    actions={
        "list": command(
            "list all requests, and whether they are finished",
            RUN,
            JSON,
            run=_list,
        ),
        "status": command(
            "list the workers that have not answered",
            RUN,
            JSON,
            run=_status,
        ),
        "certify": command(
            "write a certificate of an earlier request",
            RUN_FIRST,
            option("request", metavar="REQUEST", help="name of the request"),
            _BY,
            JSON,
            run=_certify,
        ),
        "rotate-key": command(
            "create a new signing key",
            FILES,
            JSON,
            run=_rotate,
        ),
    },
)
READMIT = command(
    "admit new examples of persons who were erased and consent again",
    RUN_FIRST,
    option("owners", nargs="+", metavar="OWNER", help="name of a person"),
    _BY,
    JSON,
    run=_readmit,
    doc="""Admit new examples of persons who were erased and consent again.

    examples:
      dealfl readmit runs/houses ann        admit new examples of ann
      dealfl readmit operator.toml ann      in a running federation

    Their old examples stay erased: a worker refuses an example that is equal to one it has erased.
    """,
)
SHOW = command(
    "show what a run holds of a person, and where",
    RUN,
    option("owner", nargs="?", metavar="OWNER", help="name of the person"),
    option("--owners", action="store_true", help="list all persons instead"),
    option("--ids", action="store_true", help="list the ids of the examples"),
    JSON,
    run=_show,
    doc="""Show how many examples of a person each worker of a run holds.

    examples:
      dealfl show runs/houses ann           what is held of ann, and where
      dealfl show runs/houses ann --ids     and the ids of her examples
      dealfl show runs/houses --owners      all persons of whom examples are held
      dealfl show --owners                  those of the latest run in runs/
    """,
)
