"""The page of erasures: requests and their state, a form for a person, certificates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dealfl.desk.layout import (
    Page,
    Visit,
    entry,
    figure,
    figures,
    form,
    grid,
    hidden,
    meter,
    moment,
)
from dealfl.desk.sources import Certificate, Held
from dealfl.desk.tasks import Task
from dealfl.desk.view import View
from dealfl.erasure import read_stamp
from dealfl.escaping import for_html
from dealfl.report import explain_certificate, format_count
from dealfl.runs import RequestStatus

_LISTED = 100


def erasure_page(
    view: View, visit: Visit, certificates: Sequence[Certificate], tasks: Sequence[Task]
) -> Page:
    """Return the page of erasures."""
    sections = {
        "now": _now(view, visit, certificates, tasks),
        "tasks": _tasks(tasks),
        "person": _person_form(visit),
        "requests": _requests(view, certificates),
        "certificates": _certificates(view, certificates),
        "verify": _verify_form(visit),
        "readmit": _readmit_form(visit),
    }
    fixed = frozenset({"person", "verify", "readmit"})
    return Page("erasure", "Erasure", sections, live="erasure", fixed=fixed)


def _now(
    view: View, visit: Visit, certificates: Sequence[Certificate], tasks: Sequence[Task]
) -> str:
    requests = [status for status in view.erasures.values() if status.kind != "readmit"]
    waiting = [status for status in requests if not status.published]
    shown = [
        figure("requests", f"{len(requests):,}", "to erase persons"),
        figure("open", f"{len(waiting):,}", "not in a published version yet",
               kind="bad" if waiting else "good"),
        figure("examples removed", f"{sum(status.examples for status in requests):,}",
               "from the model"),
    ]  # fmt: skip
    bare = len(uncertified(view, certificates))
    more = ""
    if (waiting or bare) and view.finished and all(task.kind != "wait" for task in tasks):
        text = f"A process ended early: {format_count(len(waiting), 'request')} to carry out, "
        text += f"{bare:,} carried out without a certificate."
        carry_on = form("/erasure/continue", visit, "", button="Carry out now")
        more = f'<div class="notice">{for_html(text)} {carry_on}</div>'
    return figures(shown) + more


def _tasks(tasks: Sequence[Task]) -> str:
    """Return what this desk does for its reader now, or has done."""
    lines = "".join(
        f'<li class="{task.kind}"><strong>{for_html(task.title)}</strong>: '
        f"{for_html(task.text)}</li>"
        for task in reversed(tasks)
    )
    return f'<ul class="tasks" role="status">{lines}</ul>' if lines else ""


def _person_form(visit: Visit) -> str:
    inside = entry("owner", "Name of the person", hint="as it stands in the data")
    shown = form("/erasure/look", visit, inside, button="Show what is held", change=False)
    return (
        f'<div class="box"><h2>Forget a person</h2><p class="quiet">The name stays on this page '
        f"and in this process: workers get a keyed hash of it.</p>{shown}</div>"
    )


def _readmit_form(visit: Visit) -> str:
    inside = entry("owner", "Name of a person who consents again")
    inside += (
        '<label class="check"><input type="checkbox" name="confirmed" value="yes" required>'
        "New examples of this person may be learned again.</label>"
    )
    shown = form("/erasure/readmit", visit, inside, button="Readmit")
    return f"<details><summary>Readmit a person</summary>{shown}</details>"


def _verify_form(visit: Visit) -> str:
    inside = (
        '<div class="drop" id="drop"><label>Certificate<textarea name="certificate" rows="4" '
        'required maxlength="20000" spellcheck="false" '
        'placeholder="Drop the file here, or paste its content"></textarea></label>'
        '<input type="file" id="file" accept=".json,application/json" hidden '
        'aria-label="Certificate file"></div>'
    )
    if visit.can_retrain:
        inside += (
            '<label class="check"><input type="checkbox" name="retrain" value="yes">'
            "Train again on what the workers hold, and compare the digests</label>"
        )
    shown = form("/erasure/verify", visit, inside, button="Verify", change=False)
    return f'<div class="box"><h2>Verify a certificate</h2>{shown}</div>'


def _requests(view: View, certificates: Sequence[Certificate]) -> str:
    by_request = newest(certificates)
    head = ["request", "state", "persons", "answered", "examples removed", "by", "certificate"]
    rows = []
    ordered = sorted(view.erasures.values(), key=lambda status: status.name, reverse=True)
    for status in ordered[:_LISTED]:
        certificate = by_request.get(status.name)
        link = "–"
        if certificate is not None:
            address = f"/erasure/certificate/{view.handle(certificate.path.name)}"
            link = f'<a href="{address}">{"final" if certificate.erasure.final else "open"}</a>'
        rows.append(
            [
                (
                    f'<a href="/erasure/request/{view.handle(status.name)}">'
                    f"{for_html(read_stamp(status.name) or status.name)}</a>"
                ),
                state_of(status),
                f"{status.persons:,}",
                _answered(view, status),
                f"{status.examples:,}",
                for_html(status.requested_by or "–"),
                link,
            ]
        )
    table = grid("Requests, the latest first", head, rows, empty="Nobody was erased yet.")
    return f"<h2>Requests</h2>\n{table}"


def newest(certificates: Sequence[Certificate]) -> Mapping[str, Certificate]:
    """Return the latest certificate of each request; a final one stays."""
    by_request: dict[str, Certificate] = {}
    for each in certificates:  # the latest first
        known = by_request.setdefault(each.erasure.request, each)
        if each.erasure.final and not known.erasure.final:
            by_request[each.erasure.request] = each
    return by_request


def uncertified(view: View, certificates: Sequence[Certificate]) -> list[str]:
    """Return the requests that are carried out and have no certificate."""
    certified = newest(certificates)
    return [
        status.name for status in view.erasures.values()
        if status.published and status.kind != "readmit" and status.name not in certified
    ]  # fmt: skip


def state_of(status: RequestStatus) -> str:
    """Return the state of a request in a word with a colour."""
    if status.kind == "readmit":
        return '<span class="dot is-awake">readmission</span>'
    if status.published:
        return '<span class="dot is-awake">done, published</span>'
    if status.kind == "queued":
        return '<span class="dot is-overdue">queued</span>'
    return '<span class="dot is-training">workers answer</span>'


def _answered(view: View, status: RequestStatus) -> str:
    total = len(view.workers)
    if status.published or not total:
        return f"{status.answered:,}"
    return meter(status.answered / total, "replied", f"{status.answered:,} of {total:,}")


def _certificates(view: View, certificates: Sequence[Certificate]) -> str:
    rows = [
        [
            (
                f'<a href="/erasure/certificate/{view.handle(each.path.name)}">'
                f"{for_html(each.path.name)}</a>"
            ),
            for_html(each.erasure.issued_at),
            "final" if each.erasure.final else "not final",
            f"{each.erasure.persons:,}",
            "not here" if each.entry is None else f"entry {each.entry + 1:,}",
        ]
        for each in certificates[:_LISTED]
    ]
    head = ["file", "issued", "state", "persons", "in the log"]
    table = grid("Valid certificates, the latest first", head, rows, empty="No certificate yet.")
    return f"<h2>Certificates</h2>\n{table}"


# -- one person -----------------------------------------------------------------------------------


def held_page(visit: Visit, owner: str, held: Held) -> Page:
    """Return what is held of a person, and the form that erases."""
    sections = {"held": _held(visit, owner, held), "erase": ""}
    if held.known:
        inside = hidden("owner", owner)
        inside += entry("by", "Requested by", value=visit.who, hint="stands in the certificate")
        inside += (
            '<label class="check"><input type="checkbox" name="confirmed" value="yes" required>'
            "Erase all examples of this person. This cannot be undone.</label>"
        )
        sections["erase"] = '<div class="box">' + form(
            "/erasure/erase", visit, inside, button="Erase and certify", kind="danger"
        ) + "</div>"  # fmt: skip
    return Page("erasure", "What is held", sections)


def _held(visit: Visit, owner: str, held: Held) -> str:
    name = f"<strong>{for_html(owner)}</strong>"
    if held.holdings is None:
        return (
            f"<p>{name}: a running server knows no names. Each worker keeps its examples and the "
            "hashes of their owners to itself. Every worker gets the request, and answers how many "
            "examples it has deleted.</p>"
        )
    if held.holdings:
        count = sum(each.learned + each.waiting + each.grace for each in held.holdings)
        rows = [
            [for_html(each.worker), f"{each.learned:,}", f"{each.waiting:,}", f"{each.grace:,}"]
            for each in held.holdings
        ]
        head = ["worker", "learned", "waiting", "evicted"]
        caption = f"{format_count(count, 'example')} on {format_count(len(rows), 'worker')}"
        return f"<p>Examples of {name}:</p>" + grid(caption, head, rows, empty="")
    if held.known:
        return f"<p>No worker holds examples of {name} now. A certificate can state that.</p>"
    near = "".join(
        form("/erasure/look", visit, hidden("owner", other), button=other, change=False)
        for other in held.near
    )
    hint = f'<p>Did you mean:</p><div class="near">{near}</div>' if near else ""
    return f"<p>The run holds nothing of {name}, and does not know the name.</p>{hint}"


def request_page(
    view: View,
    visit: Visit,
    status: RequestStatus,
    certificate: Certificate | None,
    task: Task | None,
) -> Page:
    """Return the progress of a request, as the run has it on record."""
    handle = view.handle(status.name)
    sections = {
        "progress": request_progress(view, status, certificate, task),
        "salt": _salts(task),
        "certify": _certify_form(visit, status, certificate, handle),
    }
    fixed = frozenset({"salt"})
    title = f"Request of {read_stamp(status.name) or status.name}"
    return Page("erasure", title, sections, live=f"erasure/request/{handle}", fixed=fixed)


def _certify_form(
    visit: Visit, status: RequestStatus, certificate: Certificate | None, handle: str
) -> str:
    if status.kind == "readmit":
        return ""
    is_final = certificate is not None and certificate.erasure.final
    which = (
        "final certificate" if status.published and not is_final else "certificate of this state"
    )
    return form(f"/erasure/certify/{handle}", visit, "", button=f"Issue a {which}")


def request_progress(
    view: View, status: RequestStatus, certificate: Certificate | None, task: Task | None
) -> str:
    """Return how far a request is."""
    total = max(len(view.workers), 1)
    share = 1.0 if status.published else status.answered / total
    steps = [
        f"<p>{state_of(status)}</p>",
        (
            f"<p>{meter(share, 'replied', '')}{status.answered:,} of {len(view.workers):,} workers "
            f"have answered. Examples deleted, as they state: {status.claimed:,}; removed from the "
            f"model: {status.examples:,}.</p>"
        ),
        f"<p>{for_html(task.text)}</p>" if task is not None and task.text else "",
        _missing(view, status),
    ]
    if certificate is not None:
        kind = "The final certificate" if certificate.erasure.final else "An earlier state"
        address = f"/erasure/certificate/{view.handle(certificate.path.name)}"
        steps.append(
            f'<p class="verdict"><a class="button" href="{address}">{kind}</a> '
            f'<a href="{address}/file" download>{for_html(certificate.path.name)}</a></p>'
        )
    return "".join(steps)


def _missing(view: View, status: RequestStatus) -> str:
    if not status.outstanding:
        return ""
    heard_s = status.heard_s or {}
    rows = [[for_html(name), moment(heard_s.get(name), "never")] for name in status.outstanding]
    count = len(view.workers) - status.answered
    caption = f"{format_count(count, 'worker')} not answered yet"
    if count > len(rows):
        caption += f"; the first {len(rows):,}"
    return grid(caption, ["worker", "last heard"], rows, empty="")


def _salts(task: Task | None) -> str:
    if task is None or not task.salts:
        return ""
    rows = [[for_html(name), f"<code>{for_html(salt)}</code>"] for name, salt in task.salts.items()]
    return (
        '<div class="box"><h2>Salt</h2><p>Give it to the person with the certificate. With the '
        "name it proves that the certificate is about them. It is stored nowhere: note it now."
        f"</p>{grid('Salt', ['person', 'salt'], rows, empty='')}</div>"
    )


def certificate_page(
    view: View, visit: Visit, certificate: Certificate, retrained: str | None, *, here: bool
) -> Page:
    """Return a verified certificate for people."""
    explained = explain_certificate(
        certificate.erasure, certificate.path.name, certificate.entry, retrained
    )
    title, _, rest = explained.partition("</h1>")
    handle = view.handle(certificate.path.name)
    links = ""
    if here:
        again = form(f"/erasure/retrain/{handle}", visit, "", button="Train again and compare",
                     change=False) if visit.can_retrain else ""  # fmt: skip
        links = (
            f'<p><a class="button" href="/erasure/certificate/{handle}/file" download>'
            f"Download the certificate</a></p>{again}"
        )
    sections = {"certificate": f'<div class="box paper">{rest}</div>', "links": links}
    return Page("erasure", title.removeprefix("<h1>"), sections)
