"""A person is erased in the browser, from the form to a certificate that verifies."""

from __future__ import annotations

import getpass
import json
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from playwright.sync_api import Browser

from dealfl.cli import main
from dealfl.runs import RunFolder, find_holdings, list_erasures, list_owners
from dealfl.runs.erasing import file_erasure
from dealfl.runs.finished_run import open_finished
from dealfl.server import Ledger
from tests.desk.browsing import Tab
from tests.desk.desks import RunningDesk, Visitor
from tests.network.forks import wait_for

Start = Callable[..., RunningDesk]


def somebody(run: Path) -> str:
    """Return a person of whom the run holds examples."""
    return next(held.owner for held in list_owners(RunFolder(run)) if held.owner.startswith("p"))


def test_from_the_form_to_a_certificate_that_verifies(
    chromium: Browser, start: Start, own_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    person = somebody(own_run)
    desk = start(own_run, "--allow-changes")
    with Tab(chromium, desk, width=390) as tab:
        page = tab.open("erasure")
        page.fill("#person input[name=owner]", person.upper())
        page.click("#person button")
        assert "holds nothing of" in page.inner_text("#held")
        page.click(f".near button:text-is('{person}')")
        held = find_holdings(RunFolder(own_run), person)
        assert page.locator("#held tbody tr").count() == len(held)
        page.fill("input[name=by]", "dpo@corp")
        page.check("input[name=confirmed]")
        page.click("text=Erase and certify")
        page.wait_for_url("**/erasure/request/*")
        salt = page.locator("#salt tbody code").inner_text()
        page.click("text=The final certificate", timeout=60_000)
        assert "The erasure is complete" in page.inner_text(".paper")
        assert "dpo@corp" in page.inner_text(".paper")
        with page.expect_download() as download:
            page.click("text=Download the certificate")
        page.click("text=Train again and compare")
        page.wait_for_function(
            "() => document.body?.innerText.includes('held gives the same model')"
        )
        assert not tab.is_wide()
        assert tab.faults() == []
        saved = download.value.path()
        page = tab.open("erasure")
        page.wait_for_selector("#requests :text('done, published')")  # pages are seconds old
        page.set_input_files("#file", saved)
        page.wait_for_function("() => document.querySelector('textarea').value.length > 100")
        page.check("input[name=retrain]")
        page.click("#verify button")
        text = page.inner_text(".paper")
        assert "entry 1, verified" in text
        assert "gives the same model" in text
        assert tab.problems == []
    assert find_holdings(RunFolder(own_run), person) == []
    (certificate,) = sorted((own_run / "certificates").glob("*.json"))
    assert main(["verify", str(own_run), str(certificate), "--retrain",
                 "--person", person, salt, "--json"]) == 0  # fmt: skip
    assert json.loads(capsys.readouterr().out)["requested_by"] == "dpo@corp"
    logged = (own_run / "desk.jsonl").read_text()
    assert '"event": "erasure requested"' in logged
    assert person not in logged.replace("persons", "")


def test_the_form_says_what_is_wrong(start: Start, own_run: Path) -> None:
    visitor = Visitor(start(own_run, "--allow-changes"))
    assert "No person is named" in visitor.post("/erasure/look", owner=" ").text
    unknown = visitor.post("/erasure/look", owner="nobody at all")
    assert "does not know the name" in unknown.text
    assert "Erase and certify" not in unknown.text
    missing = visitor.post("/erasure/erase", owner=somebody(own_run))
    assert missing.status == 400
    assert "confirmation is not checked" in missing.text
    bad = visitor.post("/erasure/verify", certificate='{"payload": "<b>"}')
    assert bad.status == 400
    assert "no key to verify with" in bad.text
    assert visitor.get("/erasure/certificate/0").status == 404
    assert list_erasures(RunFolder(own_run)) == []


def test_what_is_no_certificate_is_named_without_paths_of_this_machine(
    start: Start, own_run: Path
) -> None:
    assert main(["erase", str(own_run), somebody(own_run), "--json"]) == 0
    visitor = Visitor(start(own_run))
    deep = ("[" * 4_000, "[" * 50_000, '{"payload":' * 300, "9" * 4_000)
    for text in (*deep, "\x00", '{"payload": ""}'):
        bad = visitor.post("/erasure/verify", certificate=text)
        assert bad.status == 400, text[:20]
        assert "<h1>Not a valid certificate</h1>" in bad.text
        assert "this text is no certificate of erasure" in bad.text


def test_an_erasure_after_the_run_keeps_what_the_fleet_has_reported(own_run: Path) -> None:
    with closing(Ledger(own_run / "ledger.db")) as ledger:
        before = {name: (row.device, row.capacity_j, 0.4, True)
                  for name, row in ledger.workers().items()}  # fmt: skip
        ledger.put_workers(
            msgspec.structs.replace(row, battery=0.4, charging=True)
            for row in ledger.workers().values()
        )
    assert any(device for device, *_ in before.values())
    assert main(["erase", str(own_run), somebody(own_run), "--json"]) == 0
    with closing(Ledger(own_run / "ledger.db")) as ledger:
        after = {name: (row.device, row.capacity_j, row.battery, row.charging)
                 for name, row in ledger.workers().items()}  # fmt: skip
    assert after == before


def test_a_desk_that_only_shows_changes_nothing(visitor: Visitor, finished: Path) -> None:
    before = (finished / "ledger.db").read_bytes()
    page = visitor.post("/erasure/look", owner=somebody(finished)).text
    assert '<button class="danger" disabled>' in page
    handle = visitor.get("/fleet").text.partition("/fleet/worker/")[2].partition('"')[0]
    for path in ("/erasure/erase", "/erasure/readmit", f"/fleet/worker/{handle}/remove"):
        answer = visitor.post(path, owner=somebody(finished), confirmed="yes")
        assert answer.status == 403, path
        assert "--allow-changes" in answer.text
    assert (finished / "ledger.db").read_bytes() == before


def test_a_person_is_readmitted_and_a_lost_phone_removed(start: Start, own_run: Path) -> None:
    visitor = Visitor(start(own_run, "--allow-changes"))
    assert visitor.post("/erasure/readmit", owner="p1", confirmed="yes").status == 303
    wait_for(lambda: "New examples of the person" in visitor.get("/erasure").text, "readmission")
    log = own_run / "desk.jsonl"
    wait_for(lambda: "change done" in log.read_text(), "the end of the child process")
    handle = visitor.get("/fleet").text.partition("/fleet/worker/")[2].partition('"')[0]
    removed = visitor.post(f"/fleet/worker/{handle}/remove", confirmed="yes")
    assert "New digest:" in removed.text
    wait_for(lambda: "removed" in visitor.get("/fleet").text, "removal")
    records = [json.loads(line) for line in log.read_text().splitlines()]
    records = [record for record in records if record["event"] != "no answer"]  # to one who left
    events = [record["event"] for record in records]
    assert events == ["readmission requested", "readmitted", "change done", "worker removed"]
    assert {records[0]["reason"], records[-1]["reason"]} == {getpass.getuser()}


@pytest.mark.parametrize("after_s", [0.0, 0.1])
def test_kill_9_of_the_desk_during_an_erasure_loses_nothing(
    start: Start, own_run: Path, after_s: float
) -> None:
    person = somebody(own_run)
    first = start(own_run, "--allow-changes")
    visitor = Visitor(first)
    token = visitor.form_token
    fields = {"form_token": token, "owner": person, "confirmed": "yes", "by": "dpo"}
    answered = first.ask("/erasure/erase", fields, Cookie=visitor.cookie, Origin=first.origin)
    assert answered.status == 303
    time.sleep(after_s)
    first.kill()
    run = RunFolder(own_run)
    visitor = Visitor(start(own_run, "--allow-changes"))
    page = visitor.get("/erasure").text
    assert "dpo" in page  # the request is there
    if "A process ended early" in page:
        visitor.post("/erasure/continue")
    wait_for(lambda: "done, published" in visitor.get("/erasure").text, "the erasure")
    (status,) = list_erasures(run)
    assert status.published
    assert find_holdings(run, person) == []
    wait_for(lambda: list((own_run / "certificates").glob("*.json")), "the certificate")
    assert main(["verify", str(own_run), "--retrain"]) == 0


def test_an_erasure_whose_process_was_killed_half_way_is_carried_out(
    start: Start, own_run: Path
) -> None:
    run, person = RunFolder(own_run), somebody(own_run)
    request = file_erasure(run, [person], requested_by="dpo")
    with open_finished(run, run.owners_key()) as parts:  # the server knows it, and no worker
        parts.server.erase(request.name, request.entries, parts.simulation.now_s, "dpo")
    visitor = Visitor(start(own_run, "--allow-changes"))
    assert "1 request to carry out, 0 carried out without" in visitor.get("/erasure").text
    visitor.post("/erasure/continue")
    wait_for(lambda: "done, published" in visitor.get("/erasure").text, "the erasure")
    assert find_holdings(run, person) == []
    wait_for(lambda: list((own_run / "certificates").glob("*.json")), "the certificate")
    assert main(["verify", str(own_run), "--retrain"]) == 0


def test_an_erasure_whose_process_was_killed_before_it_certified_gets_its_certificate(
    start: Start, own_run: Path
) -> None:
    run = RunFolder(own_run)
    request = file_erasure(run, [somebody(own_run)], requested_by="dpo")
    with open_finished(run, run.owners_key()) as parts:
        parts.erase(request.name, request.entries, "dpo")
    visitor = Visitor(start(own_run, "--allow-changes"))
    page = visitor.get("/erasure").text
    assert "done, published" in page
    assert "0 requests to carry out, 1 carried out without a certificate" in page
    visitor.post("/erasure/continue")
    wait_for(lambda: list((own_run / "certificates").glob("*.json")), "the certificate")
    wait_for(lambda: "A process ended early" not in visitor.get("/erasure").text, "the notice")
    assert len(list((own_run / "certificates").glob("*.json"))) == 1
    assert main(["verify", str(own_run), "--retrain"]) == 0


def test_a_run_that_vanishes_is_explained(start: Start, own_run: Path) -> None:
    visitor = Visitor(start(own_run))
    assert visitor.get("/fleet").status == 200
    own_run.rename(own_run.with_name("elsewhere"))
    wait_for(lambda: "no longer exists" in visitor.get("/fleet").text, "the sentence")
    assert visitor.get("/rounds").status == 200
    failed = visitor.post("/model/export")
    assert failed.status == 400
    assert "Traceback" not in failed.text
    own_run.with_name("elsewhere").rename(own_run)
    wait_for(lambda: "no longer exists" not in visitor.get("/fleet").text, "the run again")
