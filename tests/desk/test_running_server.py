"""A desk of a running server, over a real broker: live, trusted or not; the server is killed."""

from __future__ import annotations

import json
import os
import re
import signal
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from dealfl.erasure import Evidence, is_about, verify_certificate
from dealfl.network import write_credentials
from tests.desk.browsing import Tab
from tests.desk.desks import ChildDesk, RunningDesk, Visitor, pid_of
from tests.network.brokers import start_broker
from tests.network.federations import JOB, Federation
from tests.network.forks import Forks, is_alive, wait_for

Start = Callable[..., RunningDesk]
PEOPLE = JOB.replace("[source]\n", '[source]\nowner = "who"\n').replace(
    "ttl_s = 2.0", "ttl_s = 2.0\nrelease_batch = 1\npublish_every_s = 0.2"
)


def rows(first: int, count: int, who: str) -> str:
    return "".join(f"{n},{n}.5,{who}\n" for n in range(first, first + count))


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory, forks: Forks) -> Iterator[Federation]:
    """A server and two workers that know ann and bob."""
    folder = tmp_path_factory.mktemp("federation")
    broker = start_broker(folder / "broker")
    running = Federation(folder, forks, broker, PEOPLE)
    write_credentials(folder / "operator.toml", running.operator)
    (reader,) = broker.broker.enrol(["reader"], operator=True)
    write_credentials(folder / "reader.toml", reader)
    for name, who in (("w1", "ann"), ("w2", "bob")):
        running.enrol(name)
        (folder / f"{name}.csv").write_text("x,y,who\n" + rows(100 * int(name[1]), 20, who))
        running.work(name, "--data", folder / f"{name}.csv", "--phone", "honor")
    running.wait_until_learned(40)
    yield running
    forks.end_all()
    broker.kill()


def test_a_change_is_visible_without_loading_the_page_again(
    chromium: Browser, federation: Federation, start: Start
) -> None:
    desk = start(federation.folder / "operator.toml")
    with Tab(chromium, desk) as tab:
        page = tab.page
        page.wait_for_function("() => document.querySelectorAll('#rows tbody tr').length === 2")
        federation.enrol("late")
        federation.work("late")
        wait_for(lambda: sum(federation.status["workers"].values()) == 3, "the third worker")
        page.wait_for_function("() => document.querySelectorAll('#rows tbody tr').length === 3")
        assert page.inner_text("#state") == "serving"
        page = tab.open("rounds")
        page.wait_for_function("() => document.querySelectorAll('#history tbody tr').length > 0")
        with (federation.folder / "w1.csv").open("a") as file:
            file.write(rows(150, 1, "ann"))
        count = page.locator("#history tbody tr").count()
        page.wait_for_function(
            "(count) => document.querySelectorAll('#history tbody tr').length > count", arg=count
        )
        assert tab.problems == []
        assert tab.hosts == {f"127.0.0.1:{desk.port}"}


def test_an_operator_who_is_not_trusted_changes_nothing(
    federation: Federation, start: Start
) -> None:
    visitor = Visitor(start(federation.folder / "reader.toml", "--allow-changes"))
    assert "a running server knows no names" in visitor.post("/erasure/look", owner="bob").text
    refused = visitor.post("/erasure/erase", owner="bob", confirmed="yes")
    assert refused.status == 400
    assert "reader may not erase; start the server with --trust reader" in refused.text
    assert federation.status["erasures"] == 0


def test_kill_9_of_the_server_during_an_erasure_loses_nothing(
    chromium: Browser, federation: Federation, start: Start
) -> None:
    desk = start(federation.folder / "operator.toml", "--allow-changes")
    with Tab(chromium, desk) as tab:
        page = tab.open("erasure")
        page.fill("#person input[name=owner]", "ann")
        page.click("#person button")
        page.check("input[name=confirmed]")
        page.click("text=Erase and certify")
        page.wait_for_url("**/erasure/request/*")
        federation.forks.end(federation.server)
        assert "answered" in page.inner_text("#progress")
        for early in (federation.folder / "run" / "certificates").glob("*.json"):
            early.unlink()  # as if the server was killed before: then only the desk can prove
        federation.server = federation.serve()
        page.wait_for_function(
            "() => document.querySelector('#progress').innerText.includes('done, published')",
            timeout=40_000,
        )
        assert page.inner_text("#salt").count("ann") == 1
        salt = page.inner_text("#salt code")
        page.click("#certify button")
        assert "The erasure is complete" in page.inner_text(".paper")
        page = tab.open("erasure")
        assert "operator" in page.inner_text("#requests")
    certificate = verify_certificate(issued(federation.folder), Evidence())[0]
    assert (certificate.final, certificate.persons) == (True, 1)
    assert is_about(certificate, "ann", salt)
    assert not is_about(certificate, "bob", salt)
    status = federation.status
    assert (status["erasures"], status["erasures_pending"]) == (1, 0)
    assert status["statistics_digest"] == federation.central_digest(range(200, 220))
    logged = [path.read_text() for path in federation.folder.rglob("*.jsonl")]
    assert not [text for text in logged if '"ann"' in text or " ann" in text]


def issued(folder: Path) -> Path:
    """Return the one certificate that a desk has fetched."""
    (path,) = (folder / "certificates").glob("*.json")
    return path


def test_the_logs_tell_what_happened_once_and_formatted(federation: Federation) -> None:
    folder = federation.folder
    with (folder / "w2.csv").open("a") as file:
        file.write("no number,3.5,bob\n" + rows(250, 1, "bob"))
    wait_for(lambda: "rows cannot be used" in events(folder / "w2"), "the bad row")
    wait_for(lambda: events(folder / "w2").count("update counted") >= 2, "the good one")
    for event in ("server started", "connected", "worker joined", "round closed", "update counted",
                  "version published", "erasure requested"):  # fmt: skip
        wait_for(lambda: event in events(folder / "run"), event)  # noqa: B023 - within this turn
    for event in ("connected", "selected", "update sent", "update counted"):
        assert event in events(folder / "w2"), event
    assert "erased" in events(folder / "w1")
    for path in folder.rglob("*.jsonl"):
        assert not re.search(r"%[sdrf(.]", path.read_text()), path
    printed = (folder / "w2.log").read_text()
    assert printed.count("w2.csv: 1 rows cannot be used (column 'x')") == 1
    rounds = [line["round"] for line in lines(folder / "run") if line["event"] == "round closed"]
    assert rounds == sorted(set(rounds))


def lines(folder: Path, name: str = "log.jsonl") -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / name).read_text().splitlines()]


def events(folder: Path) -> list[object]:
    return [line["event"] for line in lines(folder)]


def test_a_server_that_stops_is_explained_and_found_again(
    federation: Federation, start: Start
) -> None:
    visitor = Visitor(start(federation.folder / "operator.toml"))
    wait_for(lambda: "w2" in visitor.get("/fleet").text, "the fleet")
    federation.forks.end(federation.server)
    wait_for(lambda: "No contact: no answer within" in visitor.get("/fleet").text, "the sentence")
    assert "w2" in visitor.get("/fleet").text  # what was seen before
    federation.server = federation.serve()
    wait_for(lambda: "No contact: no answer within" not in visitor.get("/fleet").text, "the server")


def handle_of(visitor: Visitor, worker: str) -> str:
    """Return what stands for a worker in addresses of a desk."""

    def find() -> re.Match[str] | None:
        page = visitor.get("/fleet").text
        return re.search(rf'/fleet/worker/([^"/]+)">{worker}<', page)

    wait_for(find, worker)
    found = find()
    assert found is not None
    return found[1]


def test_a_person_is_readmitted_through_a_desk(federation: Federation, start: Start) -> None:
    folder = federation.folder
    visitor = Visitor(start(folder / "operator.toml", "--allow-changes"))
    count = events(folder / "run").count("erasure requested")
    assert visitor.post("/erasure/erase", owner="ann", confirmed="yes").status == 303
    wait_for(lambda: federation.status["erasures_pending"] == 0, "the erasure")
    wait_for(lambda: events(folder / "run").count("erasure requested") > count, "the server's log")
    before, learned = events(folder / "run").count("erasure requested"), federation.status
    unconfirmed = visitor.post("/erasure/readmit", owner="ann")
    assert (unconfirmed.status, "not checked" in unconfirmed.text) == (400, True)
    assert visitor.post("/erasure/readmit", owner="ann", confirmed="yes").status == 303
    wait_for(lambda: "readmission requested" in events(folder / "run"), "the server's log")
    assert events(folder / "run").count("erasure requested") == before
    told = [line["event"] for line in lines(folder, "desk.jsonl")]
    assert "readmission requested" in told
    wait_for(lambda: "are admitted when the workers" in visitor.get("/erasure").text, "the answer")
    with (folder / "w1.csv").open("a") as file:
        file.write(rows(160, 3, "ann"))
    wait_for(
        lambda: federation.status["examples_learned"] >= learned["examples_learned"] + 3,
        "new examples of ann",
    )


def test_a_lost_worker_is_removed_through_a_desk(federation: Federation, start: Start) -> None:
    folder, learned = federation.folder, federation.status["examples_learned"]
    digest = federation.status["statistics_digest"]
    federation.enrol("lost")
    (folder / "lost.csv").write_text("x,y,who\n" + rows(300, 5, "carl"))
    process = federation.work("lost", "--data", folder / "lost.csv")
    wait_for(lambda: federation.status["examples_learned"] == learned + 5, "its examples")
    assert federation.status["statistics_digest"] != digest
    federation.forks.end(process)
    visitor = Visitor(start(folder / "operator.toml", "--allow-changes"))
    path = f"/fleet/worker/{handle_of(visitor, 'lost')}/remove"
    assert visitor.post(path).status == 400  # without a confirmation
    removed = visitor.post(path, confirmed="yes")
    assert (removed.status, digest in removed.text) == (200, True)
    assert federation.status["statistics_digest"] == digest
    wait_for(lambda: "worker removed" in events(folder / "run"), "the server's log")
    assert "worker removed" in [line["event"] for line in lines(folder, "desk.jsonl")]


def test_the_desk_of_the_folder_of_a_running_server_removes_nobody(
    federation: Federation, start: Start
) -> None:
    visitor = Visitor(start(federation.folder / "run", "--allow-changes"))
    digest = federation.status["statistics_digest"]
    path = f"/fleet/worker/{handle_of(visitor, 'w2')}/remove"
    refused = visitor.post(path, confirmed="yes")
    assert refused.status == 400
    assert "is in use" in refused.text
    assert federation.status["statistics_digest"] == digest


def test_metrics_of_a_running_server_are_served(federation: Federation) -> None:
    output = federation.folder / "metrics.log"
    federation.forks.start(output, ["metrics", federation.folder / "reader.toml", "--json"])
    wait_for(lambda: output.exists() and "\n" in output.read_text(), "the address")
    address = json.loads(output.read_text().splitlines()[0])["address"]
    with urllib.request.urlopen(address, timeout=60) as answer:
        text = answer.read().decode()
    learned = federation.status["examples_learned"]
    assert f"dealfl_examples_learned_total {learned:.1f}" in text.splitlines()
    assert "w2" not in text


def has_grown(federation: Federation, figure: str, target: int) -> bool:
    return bool(federation.status[figure] >= target)


@contextmanager
def stopped(processes: Sequence[int]) -> Iterator[None]:
    """Stop processes for a while, as Ctrl-Z does."""
    for process in processes:
        os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        for process in processes:
            os.kill(process, signal.SIGCONT)


def test_stopped_desks_hold_up_neither_the_server_nor_its_rounds(
    federation: Federation, start: Start
) -> None:
    """The desk that the server has started, one of its folder and one over the broker."""
    folder = federation.folder
    federation.forks.end(federation.server)
    federation.server = federation.serve("--desk")
    child = ChildDesk(folder / "server.log")
    desks = [start(folder / "run"), start(folder / "operator.toml")]
    for desk in (child, *desks):
        wait_for(partial(handle_of, Visitor(desk), "w2"), "the fleet")
    processes = [pid_of(folder / "run"), *(desk.pid for desk in desks)]
    with stopped(processes):
        before = federation.status
        with (folder / "w2.csv").open("a") as file:
            file.write(rows(260, 3, "bob"))
        for figure, more in {"examples_learned": 3, "rounds_closed": 1}.items():
            wait_for(partial(has_grown, federation, figure, before[figure] + more), figure)
    wait_for(partial(handle_of, Visitor(child), "w2"), "a desk that continues")
    federation.forks.end(federation.server, signal.SIGTERM)
    wait_for(lambda: not is_alive(processes[0]), "the end of the server's desk")
    federation.server = federation.serve()
