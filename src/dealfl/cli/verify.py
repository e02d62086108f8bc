"""`dealfl verify`: verify certificates of erasure, offline.

examples:
  dealfl verify runs/houses                               all certificates of a run, and its log
  dealfl verify runs/houses --retrain                     and the model, by training again
  dealfl verify 0001.json                                 one certificate
  dealfl verify 0001.json --key issuer.pem                the key of the issuer, from elsewhere
  dealfl verify 0001.json --log houses/certificates       and its entry in a log
  dealfl verify runs/houses 0001.json --page page.html    a page for people
"""

import argparse
import shlex
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from dealfl.cli.printing import JSON, command, format_table, option, print_result
from dealfl.errors import BadInput, DealError

if TYPE_CHECKING:
    from dealfl.erasure import Erasure, Evidence
    from dealfl.runs import RunFolder


_OF_ONE = ("proof", "prove", "since", "person", "page")


def _verify(arguments: argparse.Namespace) -> int:
    run, files, lost = _find(arguments.what)
    if run is not None and arguments.log is None:
        arguments.log = run.path / "certificates"
    if len(files) + len(lost) > 1:
        return _verify_all(arguments, run, files, lost)
    return _verify_one(arguments, run, files[0])


def _find(words: list[Path]) -> "tuple[RunFolder | None, list[Path], list[Path]]":
    """Return the run that is named, if one is, and the certificates: by default all of the run.

    Certificates of the run that are gone are separate.
    """
    from dealfl.erasure import find_lost, list_certificates
    from dealfl.runs import CERTIFICATES, RunFolder

    runs = [word for word in words if word.is_dir() or word.suffix == ".db"]
    files = [word for word in words if word not in runs]
    if not runs:
        return None, files, []
    if len(runs) > 1:
        raise BadInput(f"{runs[0]} and {runs[1]} are two runs; verify one after the other")
    run = RunFolder.at(runs[0])
    if files:
        return run, files, []
    folder = run.path / CERTIFICATES
    files, lost = list_certificates(folder), find_lost(folder)
    if not files and not lost:
        raise BadInput(f"{run.path} has no certificates: nobody was erased from it")
    return run, files, lost


def _verify_one(arguments: argparse.Namespace, run: "RunFolder | None", path: Path) -> int:
    from dealfl.erasure import Evidence, is_about, prove_entry, verify_certificate
    from dealfl.report import write_certificate_page

    evidence = Evidence(arguments.key, arguments.log, arguments.proof, arguments.since)
    erasure, entry = verify_certificate(path, evidence)
    if arguments.prove is not None:
        prove_entry(path, evidence, arguments.prove)
    if arguments.person and not is_about(erasure, *arguments.person):
        raise BadInput("the certificate names no person with this name and salt")
    plain = msgspec.to_builtins(erasure) | {"entry": entry}
    if arguments.retrain:
        plain["retrained"] = _require_retrained(erasure, run, path)
    if arguments.page is not None:
        write_certificate_page(erasure, path, arguments.page, entry, plain.get("retrained"))
    logged = "" if entry is None else f", entry {entry + 1} of the log"
    claimed = f"{erasure.claimed:,}, as workers state; not verified"
    rows = [
        ("request", erasure.request),
        ("requested by", erasure.requested_by),
        ("persons, examples", f"{erasure.persons:,}, {erasure.examples_seen}"),
        *([("examples claimed", claimed)] if erasure.claimed != erasure.examples else []),
        *([] if erasure.masks is msgspec.UNSET else [("seen by the server", str(erasure.masks))]),
        ("workers outstanding", f"{erasure.outstanding:,} of {erasure.workers:,}"),
        ("model before", str(erasure.before or "none published")),
        ("model after", str(erasure.after or "none published")),
        *([("retrained", plain["retrained"])] if "retrained" in plain else []),
        ("final", "yes" if erasure.final else "no"),
        ("not covered", "; ".join(erasure.not_covered)),
    ]
    nothing = "; nothing was held" if erasure.nothing_held else ""
    text = f"{path} is valid{logged}{nothing}\n" + format_table(rows, "  ")
    return print_result(arguments, plain, text)


def _verify_all(
    arguments: argparse.Namespace, run: "RunFolder | None", files: list[Path], lost: list[Path]
) -> int:
    """Verify several certificates; one that is not valid does not hide the others."""
    from dealfl.erasure import Evidence, load_keys, verify_certificate

    if arguments.key is not None:
        load_keys(arguments.key)  # a file that is no key says nothing about the certificates
    single = [f"--{option}" for option in _OF_ONE if getattr(arguments, option) is not None]
    if single:
        raise BadInput(f"{single[0]} is about one certificate; give one file")
    rows, plain, bad, evidence = [], [], 0, Evidence(arguments.key, arguments.log)
    latest = _find_latest(files, evidence) if arguments.retrain else None
    for path in files:
        try:
            erasure, entry = verify_certificate(path, evidence)
            told = {"file": str(path), "valid": True, "entry": entry}
            if path == latest:
                told["retrained"] = _require_retrained(erasure, run, path)
        except DealError as error:
            bad += 1
            rows.append((str(path), f"NOT VALID: {error}"))
            plain.append({"file": str(path), "valid": False, "problem": str(error)})
            continue
        final = "final" if erasure.final else "not final"
        content = f"persons {erasure.persons:,}, examples {erasure.examples:,}, {final}"
        content += ", nothing was held" if erasure.nothing_held else ""
        again = ", equal to training again" if "retrained" in told else ""
        rows.append((str(path), f"valid: {content}{again}"))
        plain.append(told | msgspec.to_builtins(erasure))
    for path in lost:
        problem = "it is gone, but the log has its entry; restore a copy of it"
        rows.append((str(path), f"NOT VALID: {problem}"))
        plain.append({"file": str(path), "valid": False, "problem": problem})
    print_result(arguments, plain, format_table(rows))
    return 2 if bad or lost else 0


def _find_latest(files: list[Path], evidence: "Evidence") -> Path:
    """Return the certificate of the latest version; an earlier request can be certified later."""
    from dealfl.erasure import verify_certificate

    versions: list[tuple[int, Path]] = []
    for path in files:
        with suppress(DealError):
            erasure, _ = verify_certificate(path, evidence)
            versions.append((-1 if erasure.after is None else erasure.after.version, path))
    return max(reversed(versions), key=lambda pair: pair[0])[1] if versions else files[-1]


def _require_retrained(erasure: "Erasure", run: "RunFolder | None", path: Path) -> str:
    """Return the digest of training on what is held; raise an error if it is another one."""
    from dealfl.runs import RunFolder, retrain

    run = run or RunFolder(path.resolve().parent.parent)  # the certificate may lie in its run
    if not run.ledger.is_file():
        again = shlex.join(["dealfl", "verify", "RUN", str(path), "--retrain"])
        raise BadInput(f"{path} does not lie in the folder of its run; name the run: {again}")
    digest = retrain(run)
    if erasure.after is None or digest != erasure.after.digest:
        raise BadInput(
            f"training on what is held gives {digest[:16]}…, the certificate says "
            f"{erasure.after or 'none published'}; if others were erased since, verify the last "
            "certificate"
        )
    return digest


COMMAND = command(
    "verify certificates of erasure, offline",
    option(
        "what",
        type=Path,
        nargs="+",
        metavar="RUN|FILE",
        help="run folder, for all its certificates and its log; or certificates",
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
        action="store_true",
        help="train again on what the workers of the run hold, and compare the digests with the "
        "certificate of the latest version",
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
    description="Verify the signature of certificates and, with a run or --log, their entries in "
    "a log.",
    doc=__doc__,
)
