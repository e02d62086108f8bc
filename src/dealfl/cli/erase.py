"""`dealfl erase`, `erasures`, `readmit`, `show`: erase persons, and show what a run holds.

examples:
  dealfl erase ann                                erase ann from the latest run in runs/
  dealfl erase ann bob --run runs/houses          erase two persons from this run
  dealfl erase --file people.txt --by dpo@corp    one name per line; WHO is in the certificate
  dealfl erase ann --run operator.toml            erase ann from a running federation
  dealfl erase --example 3f9a01c2                 erase one example; `show ann --ids` lists them
  dealfl erasures list                            list all requests, and whether they are finished
  dealfl erasures status                          list the workers that have not answered
  dealfl erasures certify "REQUEST"               write a certificate of an earlier request
  dealfl erasures rotate-key                      sign with a new key
  dealfl readmit ann                              admit new examples of ann, who consents again
  dealfl show ann --run runs/houses               show what is held of a person, and where
  dealfl show --owners runs/houses                list all persons of whom examples are held
  dealfl show ann --ids                           show the ids of her examples, too

Every worker forgets the examples of the person, deletes their bytes and answers, also if it holds
none. The model is then equal, bit for bit, to one that never saw the person. The certificate is
signed and contains no personal data.
"""

import argparse
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from dealfl.cli.printing import JSON, command, format_table, open_server, option, print_result, say
from dealfl.errors import BadInput

if TYPE_CHECKING:
    from dealfl.erasure import ModelVersion
    from dealfl.runs import ErasureResult, RequestStatus


_MAX_FILE_BYTES = 1 << 30
_CERTIFICATES = Path("certificates")  # of a running server
_YEAR_S = 31_536_000.0


def _erase(arguments: argparse.Namespace) -> int:
    from dealfl.runs import RunFolder, erase_owners

    owners = [*arguments.owners, *(_read_names(arguments.file) if arguments.file else ())]
    if (server := open_server(arguments.run_folder)) is not None:
        erased = server.erase(
            owners, arguments.by, _CERTIFICATES, arguments.wait, _report, arguments.example
        )
    else:
        erased = erase_owners(
            RunFolder.at(arguments.run_folder),
            owners,
            requested_by=arguments.by,
            examples=arguments.example,
            wait_s=arguments.wait,
            progress=_report,
        )
    plain = msgspec.to_builtins(erased.erasure) | {
        "certificate": str(erased.certificate),
        "salts": erased.salts,
        "known_before": erased.known_before,
    }
    print_result(arguments, plain, _describe(erased))
    return 0 if erased.erasure.final else 1


def _report(line: str) -> None:
    say(f"dealfl: {line}", file=sys.stderr)


def _readmit(arguments: argparse.Namespace) -> int:
    from dealfl.runs import RunFolder, readmit_owners

    erased = None
    if (server := open_server(arguments.run_folder)) is not None:
        server.readmit(arguments.owners, arguments.by)
    else:
        run = RunFolder.at(arguments.run_folder)
        erased = readmit_owners(run, arguments.owners, requested_by=arguments.by)
    were = "" if erased is None else f" {erased:,} of them were erased."
    text = f"New examples of {', '.join(arguments.owners)} are admitted.{were}"
    plain = {"readmitted": arguments.owners, "were_erased": erased}
    return print_result(arguments, plain, text)


def _rotate(arguments: argparse.Namespace) -> int:
    from dealfl.erasure import rotate_signing_key
    from dealfl.runs import CERTIFICATES, RunFolder

    folder = RunFolder.at(arguments.run_folder).path / CERTIFICATES
    key = rotate_signing_key(folder).public.id
    text = f"{folder} signs with the key {key} now. Certificates of earlier keys stay valid."
    return print_result(arguments, {"key": key}, text)


def _certify(arguments: argparse.Namespace) -> int:
    from dealfl.runs import RunFolder, certify

    if (server := open_server(arguments.run_folder)) is not None:
        path = server.certify(arguments.request, arguments.by, _CERTIFICATES)
    else:
        path = certify(RunFolder.at(arguments.run_folder), arguments.request, arguments.by)
    return print_result(arguments, {"certificate": str(path)}, f"Wrote {path}.")


def _read_names(path: Path) -> list[str]:
    try:
        if path.stat().st_size > _MAX_FILE_BYTES:
            raise BadInput(f"{path} is larger than 1 GB; split it")
        lines = path.read_text("utf-8").splitlines()
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise BadInput(f"{path} is not UTF-8 text; save it as UTF-8") from error
    return [line.strip() for line in lines if line.strip()]


def _describe(erased: "ErasureResult") -> str:
    erasure = erased.erasure
    rows = [
        (
            "persons",
            f"{erasure.persons:,}"
            + f", {erased.known_before:,} erased before" * bool(erased.known_before),
        ),
        (
            "examples deleted",
            f"{erasure.examples:,}"
            + f" from the model; {erasure.claimed:,} as workers state"
            * (erasure.claimed != erasure.examples),
        ),
        (
            "workers",
            f"{erasure.workers - erasure.outstanding:,} of {erasure.workers:,} have answered",
        ),
        ("model before", show_version(erasure.before)),
        ("model after", show_version(erasure.after)),
        ("certificate", str(erased.certificate)),
        *((f"salt of {name[:32]}", salt) for name, salt in erased.salts.items()),
    ]
    ending = (
        "The model is equal to one that never saw them. Each salt proves, with the name, that the\n"
        "certificate is about that person; it is stored nowhere."
    )
    if not erasure.claimed:
        ending = (
            "No worker holds anything of these persons, so the model is as it was; `dealfl show\n"
            "--owners RUN` lists all names. Their examples are refused until `dealfl readmit`."
        )
    if not erasure.final:
        ending = (
            "NOT FINISHED: workers have not answered, or no version shows it; see\n"
            "`dealfl erasures list`."
        )
    return format_table(rows, "  ") + "\n\n" + ending


def _requests(arguments: argparse.Namespace) -> "list[RequestStatus]":
    from dealfl.runs import RunFolder, list_erasures

    if (server := open_server(arguments.run_folder)) is not None:
        return server.erasures()
    return list_erasures(RunFolder.at(arguments.run_folder))


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

    if arguments.owners is not None:
        owners = list_owners(RunFolder.at(arguments.owners))
        table = [(owner.owner, str(owner.examples), ", ".join(owner.workers)) for owner in owners]
        text = format_table([("OWNER", "EXAMPLES", "WORKERS"), *table])
        return print_result(arguments, [asdict(owner) for owner in owners], text)
    if arguments.owner is None:
        raise BadInput("no person is named; give a name, or --owners RUN to list all")
    holdings = find_holdings(RunFolder.at(arguments.run_folder), arguments.owner)
    header = ("WORKER", "LEARNED", "WAITING", "EVICTED")
    rows = [
        (holding.worker, str(holding.learned), str(holding.waiting), str(holding.grace))
        for holding in holdings
    ]
    text = format_table([header, *rows])
    if arguments.ids:
        text += "".join(f"\n{identity}" for holding in holdings for identity in holding.ids)
    text = text if holdings else f"No worker holds examples of {arguments.owner}."
    return print_result(arguments, [asdict(holding) for holding in holdings], text)


def show_version(version: "ModelVersion | None") -> str:
    """Return the digest and the number of a version."""
    return "none published" if version is None else f"{version.digest} (version {version.version})"


_BY = option("--by", default="", metavar="WHO", help="who requests it (default: your account)")
_RUN = option(
    "--run",
    "--server",
    dest="run_folder",
    default="",
    metavar="RUN",
    help="run folder, or credentials of an operator (default: the latest run in runs/)",
)
ERASE = command(
    "erase persons from a run, with a certificate",
    option("owners", nargs="*", metavar="OWNER", help="name of a person"),
    option(
        "--example",
        nargs="+",
        default=[],
        metavar="ID",
        help="erase single examples; show OWNER --ids lists ids",
    ),
    option("--file", type=Path, help="file with one name per line"),
    _BY,
    option(
        "--wait",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="maximum time to wait for the workers of a running server (default: 60)",
    ),
    _RUN,
    JSON,
    run=_erase,
    description="Erase all examples of persons from the workers and the model of a run.",
    doc=__doc__,
)
ERASURES = command(
    "list requests of erasure, certify them, renew the key that signs",
    description="List the requests of erasure of a run, and write later certificates.",
    doc=__doc__,
    noun="verb",
    actions={
        "list": command(
            "list all requests, and whether they are finished",
            _RUN,
            JSON,
            run=_list,
            description="List all requests, and whether they are finished.",
        ),
        "status": command(
            "list the workers that have not answered",
            _RUN,
            JSON,
            run=_status,
            description="List the workers that have not answered.",
        ),
        "certify": command(
            "write a certificate of an earlier request",
            option("request", metavar="REQUEST", help="name of the request"),
            _BY,
            _RUN,
            JSON,
            run=_certify,
            description="Write a certificate of an earlier request.",
        ),
        "rotate-key": command(
            "create a new signing key",
            _RUN,
            JSON,
            run=_rotate,
            description="Create a new signing key.",
        ),
    },
)
READMIT = command(
    "admit new examples of persons who were erased and consent again",
    option("owners", nargs="+", metavar="OWNER", help="name of a person"),
    _BY,
    _RUN,
    JSON,
    run=_readmit,
    description="Admit new examples of persons who were erased and consent again. Their old "
    "examples stay erased: a worker refuses an example that is equal to one it has erased.",
    doc=__doc__,
)
SHOW = command(
    "show what a run holds of a person, and where",
    option("owner", nargs="?", metavar="OWNER", help="name of the person"),
    option("--owners", metavar="RUN", help="list all persons of a run instead"),
    option("--ids", action="store_true", help="list the ids of the examples"),
    _RUN,
    JSON,
    run=_show,
    description="Show how many examples of a person each worker of a run holds.",
    doc=__doc__,
)
