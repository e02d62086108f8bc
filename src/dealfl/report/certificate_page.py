"""A certificate of erasure as a page for people; it prints on one sheet of paper."""

from __future__ import annotations

from pathlib import Path

from msgspec import UNSET

from dealfl.erasure import Erasure, ModelVersion
from dealfl.escaping import for_html
from dealfl.report.wording import format_count
from dealfl.storage import replace_file

_NOT_VERIFIED = "not verified for this page"
_STYLE = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif }
body { max-width: 46rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.6rem }
.verdict { font-size: 1.15rem; border-left: .4rem solid #2a7; padding-left: 1rem }
.open { border-color: #c60 } table { border-collapse: collapse; width: 100% }
th { text-align: left; font-weight: 600; width: 14rem; vertical-align: top }
th, td { padding: .3rem .5rem; border-bottom: 1px solid #8884; overflow-wrap: anywhere }
code { font-size: .85em } @media (max-width: 30rem) { th, td { display: block; width: auto } }
@media print { :root { font-size: 11pt } body { margin: 0 } @page { margin: 2cm } }
"""


def write_certificate_page(
    erasure: Erasure,
    certificate: Path,
    path: Path,
    entry: int | None,
    retrained: str | None,
) -> None:
    """Write a page that explains a verified certificate, with what else was verified."""
    replace_file(
        path,
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Certificate of erasure</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style>'
        f"{explain_certificate(erasure, certificate.name, entry, retrained)}",
    )


def explain_certificate(
    erasure: Erasure, name: str, entry: int | None, retrained: str | None
) -> str:
    """Return HTML that explains a verified certificate, with what else was verified."""
    persons, answered = (
        format_count(erasure.persons, "person"),
        erasure.workers - erasure.outstanding,
    )
    rows = {
        "Requested": f"{erasure.requested_at}, by {erasure.requested_by}",
        "Certificate issued": erasure.issued_at,
        "Removed from the model": f"{format_count(erasure.examples, 'example')} of {persons}"
        if erasure.masks is UNSET
        else f"all examples of {persons}; their number is not visible under masks",
        "Deleted, as devices state": f"{format_count(erasure.claimed, 'example')}; not verified",
        "Devices": f"{answered:,} of {erasure.workers:,} have answered",
        "Model before": _describe(erasure.before),
        "Model after": _describe(erasure.after),
        "Not covered": "; ".join(erasure.not_covered),
        **({} if erasure.masks is UNSET else {"Seen by the server": str(erasure.masks)}),
        "Signature": "valid",
        "Entry in the log": _NOT_VERIFIED if entry is None else f"entry {entry + 1}, verified",
        "Training again": _NOT_VERIFIED
        if retrained is None
        else f"training on what is held gives the same model: {retrained}",
        "File": name,
    }
    heading = "Certificate of erasure" + ": nothing was held" * erasure.nothing_held
    table = "\n".join(
        f'<tr><th scope="row">{for_html(k)}</th><td>{for_html(v)}</td></tr>'
        for k, v in rows.items()
    )
    return (
        f"<h1>{heading}</h1>\n{_verdict(erasure, persons)}\n"
        f'<table class="certificate">{table}</table>\n'
        "<h2>What this means</h2>\n"
        "<p>All devices that take part in the job have received the order to delete every example "
        "of these persons. The model was then corrected exactly. It equals, in every number, a "
        "model that was trained without them. The long numbers above identify them; anybody who "
        "has the remaining data can compute the second one again and compare.</p>\n"
        "<p>The file is signed. <code>dealfl verify</code>, or another program that checks in-toto "
        "statements, shows that nobody has changed it. It contains no names: only somebody who has "
        "received the secret number (salt) of a person can show that it is about that person.</p>"
    )


def _verdict(erasure: Erasure, persons: str) -> str:
    job = for_html(erasure.job)
    if erasure.nothing_held:
        text = (
            f"Nothing was held of {persons} in the job “{job}”. All devices have answered, and "
            "none has an example of them. The model did not change."
        )
        return f'<p class="verdict open">{text}</p>'
    if erasure.final:
        text = f"The data of {persons} were erased from the job “{job}”. The erasure is complete."
        return f'<p class="verdict">{text}</p>'
    text = (
        f"The data of {persons} are being erased from the job “{job}”. "
        f"{erasure.outstanding:,} devices have not answered yet, or the published model does not "
        "show the erasure yet. A final certificate will follow."
    )
    return f'<p class="verdict open">{text}</p>'


def _describe(version: ModelVersion | None) -> str:
    return "none published" if version is None else f"version {version.version}, {version.digest}"
