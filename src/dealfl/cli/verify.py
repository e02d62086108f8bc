"""`dealfl verify`: verify certificates of erasure, offline.

examples:
  dealfl verify runs/houses/certificates/0001.json
  dealfl verify runs/houses/certificates/*.json           all of a run
  dealfl verify 0001.json --key issuer.pem                the key of the issuer, from elsewhere
  dealfl verify 0001.json --log runs/houses/certificates  and its entry in the log
  dealfl verify 0001.json --retrain runs/houses           and the digest, by training again
  dealfl verify 0001.json --page certificate.html         a page for people
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from dealfl.cli.erase import show_version
from dealfl.cli.printing import JSON, command, format_table, option, print_result
from dealfl.errors import BadInput, DealError

if TYPE_CHECKING:
    from dealfl.erasure import Erasure


_OF_ONE = ("proof", "prove", "since", "retrain", "person", "page")


def _verify(arguments: argparse.Namespace) -> int:
    from dealfl.erasure import Evidence, is_about, prove_entry, verify_certificate
    from dealfl.report import write_certificate_page

    if len(arguments.certificates) > 1:
        return _verify_all(arguments)
    (path,) = arguments.certificates
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
    claimed = f"{erasure.claimed:,}, as workers state; not verified"
    rows = [
        ("request", erasure.request),
        ("requested by", erasure.requested_by),
        ("persons, examples", f"{erasure.persons:,}, {erasure.examples:,}"),
        *([("examples claimed", claimed)] if erasure.claimed != erasure.examples else []),
        ("workers outstanding", f"{erasure.outstanding:,} of {erasure.workers:,}"),
        ("model after", show_version(erasure.after)),
        *([("retrained", plain["retrained"])] if "retrained" in plain else []),
        ("final", "yes" if erasure.final else "no"),
        ("not covered", "; ".join(erasure.not_covered)),
    ]
    return print_result(arguments, plain, f"{path} is valid{logged}\n" + format_table(rows, "  "))


def _verify_all(arguments: argparse.Namespace) -> int:
    """Verify several certificates; one that is not valid does not hide the others."""
    from dealfl.erasure import Evidence, verify_certificate

    single = [f"--{option}" for option in _OF_ONE if getattr(arguments, option) is not None]
    if single:
        raise BadInput(f"{single[0]} is about one certificate; give one file")
    rows, plain, bad = [], [], 0
    for path in arguments.certificates:
        try:
            erasure, entry = verify_certificate(path, Evidence(arguments.key, arguments.log))
        except DealError as error:
            bad += 1
            rows.append((str(path), f"NOT VALID: {error}"))
            plain.append({"file": str(path), "valid": False, "problem": str(error)})
            continue
        final = "final" if erasure.final else "not final"
        content = f"persons {erasure.persons:,}, examples {erasure.examples:,}, {final}"
        rows.append((str(path), f"valid: {content}"))
        told = {"file": str(path), "valid": True, "entry": entry}
        plain.append(told | msgspec.to_builtins(erasure))
    print_result(arguments, plain, format_table(rows))
    return 2 if bad else 0


def _require_retrained(erasure: "Erasure", run_folder: str) -> str:
    """Return the digest of training on what is held; raise an error if it is another one."""
    from dealfl.runs import RunFolder, retrain

    digest = retrain(RunFolder.at(run_folder))
    if erasure.after is None or digest != erasure.after.digest:
        raise BadInput(
            f"training on what is held gives {digest[:16]}…, the certificate says "
            f"{show_version(erasure.after)}; if others were erased since, verify the last "
            "certificate"
        )
    return digest


COMMAND = command(
    "verify certificates of erasure, offline",
    option(
        "certificates",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="certificate; several only with --key and --log",
    ),
    option(
        "--key",
        type=Path,
        metavar="PEM",
        help="public key of the issuer (default: keys/ beside the certificate)",
    ),
    option("--log", type=Path, metavar="FOLDER", help="folder of the log"),
    option("--proof", type=Path, help="proof that the certificate is in the log"),
    option("--prove", type=Path, metavar="FILE", help="write such a proof from --log"),
    option(
        "--since",
        type=Path,
        metavar="HEAD",
        help="earlier head of the log; the proof shows that the log only grew since then",
    ),
    option(
        "--retrain",
        metavar="RUN",
        help="train again on what the workers of this run hold, and compare the digests",
    ),
    option(
        "--person",
        nargs=2,
        metavar=("NAME", "SALT"),
        help="check that the certificate is about this person",
    ),
    option("--page", type=Path, metavar="HTML", help="write a page for people"),
    JSON,
    run=_verify,
    description="Verify the signature of certificates and, with --log, their entries in a log.",
    doc=__doc__,
)
