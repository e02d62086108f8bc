"""`dealfl erase`, `show`, `verify`: erase persons from a run, and prove it.

examples:
  dealfl erase ann                                erase ann from the latest run in runs/
  dealfl erase ann bob --run runs/houses          erase two persons from this run
  dealfl erase --file people.txt --by dpo@corp    one name per line; WHO is in the certificate
  dealfl erase ann --run operator.toml            erase ann from a running federation
  dealfl erase --list                             list all requests, and whether they are finished
  dealfl show ann --run runs/houses               show what is held of a person, and where
  dealfl show --owners runs/houses                list all persons of whom examples are held
  dealfl verify runs/houses/certificates/0001.json --log runs/houses/certificates

Every worker forgets the examples of the person, deletes their bytes and answers, also if it holds
none. The model is then equal, bit for bit, to one that never saw the person. The certificate is
signed and contains no personal data.
"""

import argparse
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from dealfl.cli.printing import add_json, examples_in, format_table, open_server, print_result, say
from dealfl.errors import BadInput

if TYPE_CHECKING:
    from dealfl.erasure import Erasure, ModelVersion
    from dealfl.runs import Erased

__all__ = ["add_parser", "add_show", "add_verify"]

_EPILOG = examples_in(__doc__)
_MAX_FILE_BYTES = 1 << 30
_CERTIFICATES = Path("certificates")  # of a running server


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Register the command `erase`."""
    parser = subparsers.add_parser(
        "erase",
        help="erase persons from a run, with a certificate",
        description="Erase all examples of persons from the workers and the model of a run.",
        epilog=_EPILOG,
    )
    parser.add_argument("owners", nargs="*", metavar="OWNER", help="name of a person")
    parser.add_argument("--file", type=Path, help="file with one name per line")
    parser.add_argument("--by", default="", metavar="WHO",
                        help="who requests it (default: your account)")  # fmt: skip
    parser.add_argument("--certify", metavar="REQUEST",
                        help="write a certificate of an earlier request; erase nobody")  # fmt: skip
    parser.add_argument(
        "--wait", type=float, default=60.0, metavar="SECONDS",
        help="maximum time to wait for the workers of a running server (default: 60)",
    )  # fmt: skip
    parser.add_argument("--list", action="store_true", help="list all requests; erase nobody")
    _add_run(parser)
    parser.set_defaults(run=_erase)


def add_show(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Register the command `show`."""
    parser = subparsers.add_parser(
        "show",
        help="show what a run holds of a person, and where",
        description="Show how many examples of a person each worker of a run holds.",
        epilog=_EPILOG,
    )
    parser.add_argument("owner", nargs="?", metavar="OWNER", help="name of the person")
    parser.add_argument("--owners", metavar="RUN", help="list all persons of a run instead")
    _add_run(parser)
    parser.set_defaults(run=_show)


def add_verify(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Register the command `verify`."""
    parser = subparsers.add_parser(
        "verify",
        help="verify a certificate of erasure, offline",
        description="Verify the signature of a certificate and, with --log, its entry in a log.",
        epilog=_EPILOG,
    )
    parser.add_argument("certificate", type=Path, metavar="FILE", help="the certificate")
    parser.add_argument(
        "--key", type=Path, metavar="PEM",
        help="public key of the issuer (default: keys/ beside the certificate)",
    )  # fmt: skip
    parser.add_argument("--log", type=Path, metavar="FOLDER", help="folder of the log")
    parser.add_argument("--proof", type=Path, help="proof that the certificate is in the log")
    parser.add_argument("--prove", type=Path, metavar="FILE", help="write such a proof from --log")
    parser.add_argument(
        "--since", type=Path, metavar="HEAD",
        help="earlier head of the log; the proof shows that the log only grew since then",
    )  # fmt: skip
    parser.add_argument(
        "--retrain", metavar="RUN",
        help="train again on what the workers of this run hold, and compare the digests",
    )  # fmt: skip
    parser.add_argument(
        "--person", nargs=2, metavar=("NAME", "SALT"),
        help="check that the certificate is about this person",
    )  # fmt: skip
    parser.add_argument("--page", type=Path, metavar="HTML", help="write a page for people")
    add_json(parser)
    parser.set_defaults(run=_verify)


def _add_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--run", dest="run_folder", default="", metavar="RUN",
        help="run folder, or credentials of an operator (default: the latest run in runs/)",
    )  # fmt: skip
    add_json(parser)


def _erase(arguments: argparse.Namespace) -> int:
    from dealfl.runs import RunFolder, erase_owners

    if arguments.list:
        return _list(arguments)
    if arguments.certify:
        return _certify(arguments)
    owners = [*arguments.owners, *(_read_names(arguments.file) if arguments.file else ())]
    server = open_server(arguments.run_folder)
    if server is None:
        run = RunFolder.at(arguments.run_folder)
        erased = erase_owners(run, owners, requested_by=arguments.by)
    else:
        erased = server.erase(
            owners, arguments.by, _CERTIFICATES, arguments.wait,
            progress=lambda line: say(f"dealfl: {line}", file=sys.stderr),
        )  # fmt: skip
    plain = msgspec.to_builtins(erased.erasure) | {
        "certificate": str(erased.certificate), "salts": erased.salts,
        "known_before": erased.known_before,
    }  # fmt: skip
    print_result(arguments, plain, _describe(erased))
    return 0 if erased.erasure.final else 1


def _certify(arguments: argparse.Namespace) -> int:
    from dealfl.runs import RunFolder, certify

    if (server := open_server(arguments.run_folder)) is not None:
        path = server.certify(arguments.certify, arguments.by, _CERTIFICATES)
    else:
        path = certify(RunFolder.at(arguments.run_folder), arguments.certify, arguments.by)
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


def _describe(erased: "Erased") -> str:
    one = erased.erasure
    rows = [
        (
            "persons",
            f"{one.persons:,}"
            + f", {erased.known_before:,} erased before" * bool(erased.known_before),
        ),
        ("examples deleted", f"{one.examples:,}"),
        ("workers", f"{one.workers - one.outstanding:,} of {one.workers:,} have answered"),
        ("model before", _show_version(one.before)),
        ("model after", _show_version(one.after)),
        ("certificate", str(erased.certificate)),
        *((f"salt of {name}", salt) for name, salt in erased.salts.items()),
    ]
    ending = (
        "The model is equal to one that never saw them. Each salt proves, with the name, that the\n"
        "certificate is about that person; it is stored nowhere."
    )
    if not one.final:
        ending = "NOT FINISHED: workers have not answered, or no version shows it; see --list."
    return format_table(rows, "  ") + "\n\n" + ending


def _list(arguments: argparse.Namespace) -> int:
    from dealfl.runs import RunFolder, list_erasures

    if (server := open_server(arguments.run_folder)) is not None:
        requests = server.erasures()
    else:
        requests = list_erasures(RunFolder.at(arguments.run_folder))
    header = ("REQUEST", "PERSONS", "EXAMPLES", "ANSWERED", "OUTSTANDING", "PUBLISHED")
    rows = [
        (one.name, str(one.persons), str(one.examples), str(one.answered),
         ", ".join(one.outstanding) or "-", "yes" if one.published else "no")
        for one in requests
    ]  # fmt: skip
    return print_result(arguments, [asdict(one) for one in requests], format_table([header, *rows]))


def _show(arguments: argparse.Namespace) -> int:
    from dealfl.runs import RunFolder, find_holdings, list_owners

    if arguments.owners is not None:
        owners = list_owners(RunFolder.at(arguments.owners))
        table = [(one.owner, str(one.examples), ", ".join(one.workers)) for one in owners]
        text = format_table([("OWNER", "EXAMPLES", "WORKERS"), *table])
        return print_result(arguments, [asdict(one) for one in owners], text)
    if arguments.owner is None:
        raise BadInput("no person is named; give a name, or --owners RUN to list all")
    found = find_holdings(RunFolder.at(arguments.run_folder), arguments.owner)
    header = ("WORKER", "LEARNED", "WAITING", "EVICTED")
    rows = [(one.worker, str(one.learned), str(one.waiting), str(one.grace)) for one in found]
    text = (
        format_table([header, *rows])
        if found
        else f"No worker holds examples of {arguments.owner}."
    )
    return print_result(arguments, [asdict(one) for one in found], text)


def _verify(arguments: argparse.Namespace) -> int:
    from dealfl.report import write_certificate_page
    from dealfl.runs import Evidence, is_about, prove_entry, verify_certificate

    path = arguments.certificate
    evidence = Evidence(arguments.key, arguments.log, arguments.proof, arguments.since)
    erasure, entry = verify_certificate(path, evidence)
    if arguments.prove is not None:
        prove_entry(path, evidence, arguments.prove)
    if arguments.person and not is_about(erasure, *arguments.person):
        raise BadInput("the certificate names no person with this name and salt")
    if arguments.page is not None:
        write_certificate_page(erasure, path, arguments.page)
    plain = msgspec.to_builtins(erasure) | {"entry": entry}
    if arguments.retrain is not None:
        plain["retrained"] = _require_retrained(erasure, arguments.retrain)
    logged = "" if entry is None else f", entry {entry + 1} of the log"
    rows = [
        ("request", erasure.request), ("requested by", erasure.requested_by),
        ("persons, examples", f"{erasure.persons:,}, {erasure.examples:,}"),
        ("workers outstanding", f"{erasure.outstanding:,} of {erasure.workers:,}"),
        ("model after", _show_version(erasure.after)),
        *([("retrained", plain["retrained"])] if "retrained" in plain else []),
        ("final", "yes" if erasure.final else "no"),
        ("not covered", "; ".join(erasure.not_covered)),
    ]  # fmt: skip
    return print_result(arguments, plain, f"{path} is valid{logged}\n" + format_table(rows, "  "))


def _require_retrained(erasure: "Erasure", run_folder: str) -> str:
    """Return the digest of training on what is held; raise an error if it is another one."""
    from dealfl.runs import RunFolder, retrain

    digest = retrain(RunFolder.at(run_folder))
    if erasure.after is None or digest != erasure.after.digest:
        raise BadInput(
            f"training on what is held gives {digest[:16]}…, the certificate says "
            f"{_show_version(erasure.after)}; if others were erased since, verify the last "
            "certificate"
        )
    return digest


def _show_version(version: "ModelVersion | None") -> str:
    return "none published" if version is None else f"{version.digest} (version {version.version})"
