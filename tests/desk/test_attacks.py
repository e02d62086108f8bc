"""Attacks on a desk: none succeeds, and the desk answers afterwards."""

from __future__ import annotations

import http.client
import json
import os
import random
import socket
import ssl
import stat
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from urllib.parse import urlencode

import msgspec
import pytest
from playwright.sync_api import Browser

from dealfl.server import Ledger
from tests.desk.browsing import Tab
from tests.desk.desks import RunningDesk, Visitor
from tests.federation.parts import announce, joined
from tests.network.brokers import free_port
from tests.network.forks import wait_for
from tests.report.results import EVIL
from tests.runs.made_runs import FILMS

FORMS = (
    "/erasure/look",
    "/erasure/erase",
    "/erasure/readmit",
    "/erasure/continue",
    "/erasure/verify",
    "/erasure/certify/0",
    "/erasure/retrain/0",
    "/fleet",
    "/fleet/rows",
    "/fleet/worker/0/remove",
    "/model/export",
)
PAGES = ("/fleet", "/rounds", "/model", "/energy", "/erasure", "/job", "/events?page=fleet")


@pytest.fixture(scope="module")
def desk(shown: RunningDesk) -> RunningDesk:
    return shown


def works(desk: RunningDesk) -> bool:
    """Whether the desk still lets people in."""
    return Visitor(desk).get("/fleet").status == 200


def test_nothing_is_shown_without_a_session(desk: RunningDesk) -> None:
    for path in PAGES:
        answer = desk.ask(path)
        assert answer.status in (303, 401), path
        assert "films" not in answer.text
        assert desk.ask(path, Cookie=f"dealfl-desk-{desk.port}=guess").status in (303, 401)
    for path in FORMS:
        assert desk.ask(path, {"owner": "p1"}, Origin=desk.origin).status == 401, path
    assert "films" not in desk.ask("/").text


def test_a_form_of_another_page_is_refused(desk: RunningDesk, visitor: Visitor) -> None:
    token = visitor.form_token
    fields = {"form_token": token, "owner": "p1", "confirmed": "yes"}
    others: list[dict[str, str]] = [
        {"Origin": "https://example.org"},
        {"Origin": "https://example.org", "Sec_Fetch_Site": "same-origin"},
        {"Origin": f"http://127.0.0.1:{desk.port + 1}", "Sec_Fetch_Site": "same-site"},
        {"Origin": desk.origin, "Sec_Fetch_Site": "cross-site"},
        {"Origin": "null"},
        {"Origin": "null", "Sec_Fetch_Site": "cross-site"},
        {},
    ]
    for path in FORMS:
        for headers in others:
            answer = desk.ask(path, fields, Cookie=visitor.cookie, **headers)
            assert answer.status == 403, (path, headers)
        for wrong in ("", "0" * 32, token[:-1]):
            fields_of_others = fields | {"form_token": wrong}
            answer = desk.ask(path, fields_of_others, Cookie=visitor.cookie, Origin=desk.origin)
            assert answer.status == 403, path
        assert desk.ask(path, Cookie=visitor.cookie, method="PUT").status == 405
    assert visitor.post("/erasure/look", owner="p1").status == 200


def test_a_cross_site_form_in_a_browser_is_refused(
    chromium: Browser, desk: RunningDesk, tmp_path: Path
) -> None:
    with Tab(chromium, desk) as tab:
        evil = tmp_path / "evil.html"
        evil.write_text(
            f'<form method="post" action="{desk.origin}/erasure/erase">'
            '<input name="owner" value="p1"><input name="confirmed" value="yes"></form>'
            f'<iframe src="{desk.origin}/fleet"></iframe><script src="{desk.origin}/job"></script>'
        )
        tab.page.goto(evil.as_uri())
        with tab.page.expect_navigation():
            tab.page.evaluate("document.forms[0].submit()")
        assert "No session" in tab.page.inner_text("body")  # SameSite=Strict keeps the cookie
        assert tab.page.locator("form").count() == 0


def test_names_that_lead_elsewhere_are_refused(desk: RunningDesk, visitor: Visitor) -> None:
    for host in ("example.org", f"example.org:{desk.port}", "127.0.0.1", "127.0.0.1:1", "", "["):
        answer = desk.ask("/fleet", Cookie=visitor.cookie, Host=host)
        assert answer.status == 421, host
        assert "films" not in answer.text
    assert desk.ask("/fleet", Cookie=visitor.cookie, Host=f"localhost:{desk.port}").status == 200
    twice = f"GET /fleet HTTP/1.1\r\nHost: 127.0.0.1:{desk.port}\r\nHost: example.org\r\n"
    answered = desk.send(f"{twice}Cookie: {visitor.cookie}\r\n\r\n".encode())
    assert b"films" not in answered


def test_wrong_tokens_are_limited_and_the_right_one_is_still_taken(
    start: Callable[..., RunningDesk], finished: Path
) -> None:
    desk = start(finished)
    statuses = [
        desk.ask("/login", {"token": f"t{n}"}, Origin=desk.origin).status for n in range(40)
    ]
    assert statuses[0] == 403
    assert statuses[-1] == 429
    for odd in ("", "\ud800", "x" * 200_000, desk.token[:-1], f"{desk.token} "):
        fields = f"token={odd}".encode(errors="surrogatepass")
        assert desk.ask("/login", fields, Origin=desk.origin).status in (400, 403, 413, 429)
    assert works(desk)


def test_the_cookie_and_the_headers_protect(desk: RunningDesk, visitor: Visitor) -> None:
    entered = desk.ask("/login", {"token": desk.token}, Origin=desk.origin)
    cookie = entered.headers["set-cookie"]
    assert cookie.startswith(f"dealfl-desk-{desk.port}=")
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert desk.token not in cookie
    for path in (*PAGES[:-1], "/nothing", "/"):
        headers = visitor.get(path).headers
        policy = headers["content-security-policy"]
        assert "script-src 'self';" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe-eval" not in policy
        assert headers["cache-control"] == "no-store"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in headers


def test_the_token_is_in_a_file_of_its_owner_only(
    start: Callable[..., RunningDesk], own_run: Path
) -> None:
    desk = start(own_run)
    file = Path(desk.about["file"])
    assert file.read_text().strip() == desk.address
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    words = Path(f"/proc/{desk.pid}/cmdline").read_bytes()
    assert desk.token.encode() not in words
    desk.stop()
    assert not file.exists()
    assert desk.token not in (own_run / "desk.jsonl").read_text()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
def test_another_user_of_the_machine_gets_nothing(desk: RunningDesk) -> None:
    program = (
        "import encodings.idna, os, sys, urllib.request\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        f"file, origin = {desk.about['file']!r}, {desk.origin!r}\n"
        "try:\n    print(open(file).read())\nexcept PermissionError:\n    print('refused')\n"
        "page = urllib.request.urlopen(origin + '/fleet').read().decode()\n"
        "print('films' in page, 'Token' in page)\n"
        f"print(open('/proc/{desk.pid}/cmdline').read().replace(chr(0), ' '))\n"
    )
    environment = {"no_proxy": "127.0.0.1", "PATH": os.environ["PATH"]}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True
    )
    assert done.stdout.splitlines()[:2] == ["refused", "False True"], done.stderr
    assert desk.token not in done.stdout


@pytest.mark.parametrize(
    "path",
    [
        "/static/../app.py",
        "/static/..%2f..%2fapp.py",
        "/static/%2e%2e/%2e%2e/etc/passwd",
        "/static//etc/passwd",
        "/erasure/certificate/..%2f..%2fowners.key/file",
        "/erasure/certificate/%2e%2e/file",
        "/events?page=../../owners.key",
        "/fleet/worker/..%2f..%2fjob.toml",
        "/../../../etc/passwd",
        "//example.org/fleet",
    ],
)
def test_no_path_leads_out(desk: RunningDesk, visitor: Visitor, path: str) -> None:
    answer = visitor.get(path)
    assert answer.status == 404
    assert "root:" not in answer.text
    assert "import" not in answer.text


def test_too_much_is_refused(desk: RunningDesk, visitor: Visitor) -> None:
    large = {"form_token": visitor.form_token, "certificate": "x" * 300_000}
    answer = desk.ask("/erasure/verify", large, Cookie=visitor.cookie, Origin=desk.origin)
    assert answer.status == 413
    many = {f"f{number}": "x" for number in range(100)} | {"form_token": visitor.form_token}
    answer = desk.ask("/fleet", many, Cookie=visitor.cookie, Origin=desk.origin)
    assert answer.status == 400
    long = desk.send(b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\n\r\n")
    assert b" 200 " not in long
    chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    head = (
        f"POST /erasure/verify HTTP/1.1\r\nHost: 127.0.0.1:{desk.port}\r\nOrigin: {desk.origin}\r\n"
        f"Cookie: {visitor.cookie}\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    assert b" 413 " in desk.send(head.encode() + 10 * chunk)


def test_streams_of_events_and_connections_are_limited_and_end_with_their_reader(
    start: Callable[..., RunningDesk], finished: Path
) -> None:
    desk = start(finished)
    visitor = Visitor(desk)
    head = f"GET /events?page=fleet HTTP/1.1\r\nHost: 127.0.0.1:{desk.port}\r\n"
    request = f"{head}Cookie: {visitor.cookie}\r\n\r\n".encode()
    streams = []
    for _ in range(13):
        stream = socket.create_connection(("127.0.0.1", desk.port), 60)
        stream.sendall(request)
        streams.append((stream, stream.recv(4096)))
    assert [b" 200 " in first for _, first in streams] == [True] * 12 + [False]
    assert works(desk)  # hung readers hold nothing up
    for stream, _ in streams:
        stream.close()
    until_s = time.monotonic() + 120
    while time.monotonic() < until_s:
        with socket.create_connection(("127.0.0.1", desk.port), 60) as stream:
            stream.sendall(request)
            if b" 200 " in stream.recv(4096):
                break
        time.sleep(0.2)
    else:
        pytest.fail("streams without a reader stay open")
    silent = [socket.create_connection(("127.0.0.1", desk.port), 60) for _ in range(300)]
    assert works(desk)  # while they are open
    for connection in silent:
        connection.close()


def connect(desk: RunningDesk, request: bytes) -> socket.socket:
    """Open a connection, and send a request."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.settimeout(10.0)
    connection.connect(("127.0.0.1", desk.port))
    with suppress(OSError):  # the desk may have closed it already
        connection.sendall(request)
    return connection


def receive(connection: socket.socket) -> bytes:
    """Return the first bytes that come back; none of a connection that is closed."""
    with suppress(ConnectionError):
        return connection.recv(100)
    return b""


@contextmanager
def pestered(desk: RunningDesk, path: str, *more: str, then: bytes = b"") -> Iterator[set[bytes]]:
    """Open 110 connections, one after the other, which read the first line and then stay.

    Yields the statuses of the answers.
    """
    lines = [f"{path} HTTP/1.1", f"Host: 127.0.0.1:{desk.port}", *more, "", ""]
    with ExitStack() as stack:
        statuses = set()
        for _ in range(110):
            connection = stack.enter_context(closing(connect(desk, "\r\n".join(lines).encode())))
            statuses.add(receive(connection).split()[1])
            connection.sendall(then)
        yield statuses


def test_connections_that_stay_after_an_answer_hold_nothing_up(desk: RunningDesk) -> None:
    with pestered(desk, "GET /", then=b"G") as statuses:  # the first byte of the next request
        assert statuses == {b"200"}
        assert works(desk)


@pytest.mark.parametrize("option", ["Connection: close", "Connection: keep-alive"])
def test_answers_that_nobody_reads_hold_nothing_up(desk: RunningDesk, option: str) -> None:
    with pestered(desk, "GET /static/plotly.js", option) as statuses:
        assert statuses == {b"200"}
        assert works(desk)


def test_forms_that_never_arrive_hold_nothing_up(desk: RunningDesk) -> None:
    head = (f"Origin: {desk.origin}", "Content-Length: 100", "Expect: 100-continue")
    with pestered(desk, "POST /login", *head, then=b"token=") as statuses:
        assert statuses == {b"100"}
        assert works(desk)


def test_streams_that_begin_at_the_same_time_are_counted(
    start: Callable[..., RunningDesk], finished: Path
) -> None:
    desk = start(finished)
    cookie = Visitor(desk).cookie
    head = f"GET /events?page=erasure HTTP/1.1\r\nHost: 127.0.0.1:{desk.port}\r\n"
    request = f"{head}Cookie: {cookie}\r\n\r\n".encode()
    streams = [connect(desk, request) for _ in range(35)]
    statuses = Counter(receive(stream).split()[1] for stream in streams)
    for stream in streams:
        stream.close()
    assert statuses == {b"200": 12, b"503": 23}

    def is_accepted() -> bool:
        with closing(connect(desk, request)) as stream:
            return b" 200 " in receive(stream)

    wait_for(is_accepted, "a stream after the others were closed")


def test_a_page_number_that_is_no_number_is_the_first_page(visitor: Visitor) -> None:
    first = visitor.post("/fleet/rows", page="1")
    for odd in ("²", "①", "٣", "-1", "9" * 5000, "1e3", "\x00"):
        answer = visitor.post("/fleet/rows", page=odd)
        assert answer.status == 200, odd
        assert "w1" in answer.text
    assert visitor.post("/fleet/rows", page="²").text == first.text


VALUES = ("", "p1", "yes", "²", "\x00", "\ud800", "-1", "9" * 5000, "../x", "{}", "[]", EVIL)
FIELDS = ("owner", "by", "confirmed", "page", "search", "sort", "state", "certificate", "retrain")


def garbage_form(draw: random.Random, desk: RunningDesk, cookie: str, token: str) -> bytes:
    """Return a form of this desk with strange fields: its handler is reached."""
    names = draw.sample(FIELDS, draw.randrange(len(FIELDS)))
    fields = {name: draw.choice((*VALUES, draw.randbytes(20).decode("latin-1"))) for name in names}
    body = urlencode({"form_token": token} | fields, errors="surrogatepass").encode()
    if draw.random() < 0.1:
        body += b"&" + draw.randbytes(30)
    lines = [
        f"POST {draw.choice(FORMS)} HTTP/1.1",
        f"Host: 127.0.0.1:{desk.port}",
        f"Origin: {desk.origin}",
        f"Cookie: {cookie}",
        f"Content-Length: {len(body)}",
        "Connection: close",
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def garbage(draw: random.Random, desk: RunningDesk, cookie: str, token: str) -> bytes:
    """Return a request in which something is wrong, or nothing but noise."""
    if draw.random() < 0.2:
        return garbage_form(draw, desk, cookie, token)
    methods = ["GET", "POST", "PUT", "HEAD", "TRACE", "\x00", "GET" * 50]
    paths = [*PAGES, *FORMS, "/login", "*", "", "/%", "/\xff", "http://example.org/", "/" * 3000]
    head = (
        f"{draw.choice(methods)} {draw.choice(paths)} HTTP/{draw.choice(['1.1', '1.0', '2', 'x'])}"
    )
    lines = [head, f"Host: {draw.choice([f'127.0.0.1:{desk.port}', 'x', ''])}"]
    more = [
        f"Cookie: {cookie}",
        "Cookie: =;;;=,\x01",
        f"Origin: {desk.origin}",
        "Content-Length: -1",
        "Content-Length: 99999999999999999999",
        f"Content-Length: {draw.randrange(100)}",
        "Transfer-Encoding: chunked",
        "Transfer-Encoding: gzip",
        "Expect: 100-continue",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-Fetch-Site: same-origin",
        "X: " + "y" * draw.randrange(2000),
        "broken",
    ]
    lines += draw.sample(more, draw.randrange(6))
    body = draw.randbytes(draw.randrange(200))
    request = "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body
    if draw.random() < 0.2:
        place = draw.randrange(len(request))
        request = request[:place] + draw.randbytes(draw.randrange(1, 30)) + request[place + 5 :]
    return draw.randbytes(draw.randrange(1, 300)) if draw.random() < 0.1 else request


def send_garbage(desk: RunningDesk, visitor: Visitor, count: int, seed: int) -> None:
    draw, token, handled = random.Random(seed), visitor.form_token, 0
    for number in range(count):
        cookie = visitor.cookie if draw.random() < 0.5 else "x=y"
        request = garbage(draw, desk, cookie, token)
        answered = desk.send(request, 10.0, ends=b"Connection: close\r\n" not in request)
        assert b"Traceback" not in answered, (seed, number)
        assert b" 500 " not in answered[:40], (seed, number, answered)
        handled += request.startswith(b"POST /") and b" 200 " in answered[:40]
    assert handled > count // 100, "hardly any handler was reached"
    assert works(desk)
    assert "Traceback" not in desk.output
    log = Path(desk.about["file"]).with_name("desk.jsonl")
    assert "a page failed" not in log.read_text()


def test_a_malformed_body_of_a_request_for_a_head_is_refused(desk: RunningDesk) -> None:
    head = f"HEAD / HTTP/1.1\r\nHost: 127.0.0.1:{desk.port}\r\nTransfer-Encoding: chunked"
    assert b" 400 " in desk.send(head.encode() + b"\r\n\r\nno size\r\n", 10.0)[:40]
    assert works(desk)
    assert "Traceback" not in desk.output


def test_malformed_requests_change_nothing(desk: RunningDesk, visitor: Visitor) -> None:
    send_garbage(desk, visitor, 1_000, 7)


@pytest.mark.soak
def test_a_hundred_thousand_malformed_requests_change_nothing(
    desk: RunningDesk, visitor: Visitor
) -> None:
    send_garbage(desk, visitor, 100_000, int(os.environ.get("SOAK_SEED", "1")))


def test_markup_in_the_name_of_a_person_is_text(chromium: Browser, desk: RunningDesk) -> None:
    with Tab(chromium, desk) as tab:
        page = tab.open("erasure")
        page.fill("#person input[name=owner]", EVIL)
        page.click("#person button")
        assert EVIL in page.inner_text("#held")
        assert page.locator("#held table tbody tr").count() >= 1  # it is a person of the run
        page.go_back()
        page.fill("#person input[name=owner]", EVIL[:-30])
        page.click("#person button")
        assert "nothing of" in page.inner_text("#held")
        assert page.locator(".near button").first.inner_text().startswith("</script>")
        assert page.evaluate("window.owned") is None
        assert tab.problems == []


@pytest.fixture
def evil_run(tmp_path: Path) -> Path:
    """A run in which every name that another party chooses is markup."""
    folder = tmp_path / "evil"
    folder.mkdir()
    job = FILMS.replace('name = "films"', f"name = {json.dumps(EVIL[:60])}")
    (folder / "job.toml").write_text(job.replace('"alien"', json.dumps(EVIL)))
    name, device, flag = f"1{EVIL}"[:64], f"2{EVIL}"[:64], f"3{EVIL}"
    with closing(Ledger(folder / "ledger.db")) as ledger:
        server = joined("w", ledger=ledger)
        server.handle([announce("w", 1, device=device)], 1.0)
        row = msgspec.structs.replace(ledger.workers()["w"], name=name, flag=flag, device=device)
        ledger.put_workers([row])
        ledger.rounds.open(99, 1e9, 2e9, {name: 3}, 1)
        ledger.rounds.put_reply(99, name, 1e9 + 1, declined=EVIL[:200])
        ledger.rounds.close(99, 1e9 + 2, EVIL, EVIL)
        server.erase(EVIL[:100], [b"x" * 32], 2.0, EVIL[:64])
    event = {"time": EVIL, "event": EVIL, "worker": EVIL, "reason": EVIL, "figures": {EVIL: EVIL}}
    (folder / "log.jsonl").write_text(f"{json.dumps(event)}\n[]\nno json\n")
    return folder


def test_markup_in_every_other_name_is_text(
    chromium: Browser, start: Callable[..., RunningDesk], evil_run: Path
) -> None:
    with Tab(chromium, start(evil_run)) as tab:
        for path in ("fleet", "rounds", "model", "energy", "erasure", "job"):
            page = tab.open(path)
            assert page.evaluate("window.owned") is None, path
            assert page.locator("main img, main a[href*=example]").count() == 0, path
            assert not tab.is_wide()
            if path == "fleet":
                assert "1</script>" in page.inner_text("#rows")
                assert "declined: </script>" in page.inner_text("#rows")
                page.click("#rows tbody tr:has-text('script') a")
                assert page.locator("h1").inner_text().startswith("1</script>")
            if path == "erasure":
                page.click("#requests tbody a")
                assert "script" not in page.url
        assert tab.problems == []


def test_tls_serves_other_addresses_by_the_names_in_the_certificate(
    start: Callable[..., RunningDesk], finished: Path, tmp_path: Path
) -> None:
    key, pem = tmp_path / "desk.key", tmp_path / "desk.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ed25519", "-nodes", "-days", "1"]
    names = ["-subj", "/CN=desk", "-addext", "subjectAltName=DNS:desk.test,IP:127.0.0.2"]
    subprocess.run([*command, *names, "-keyout", key, "-out", pem], check=True, capture_output=True)
    desk = start(finished, "--listen", "127.0.0.2", "--tls-certificate", pem, "--tls-key", key)
    assert desk.address.startswith("https://127.0.0.2:")
    trusting = ssl.create_default_context(cafile=str(pem))
    for host, status in ((f"desk.test:{desk.port}", 200), (f"127.0.0.1:{desk.port}", 421)):
        client = http.client.HTTPSConnection("127.0.0.2", desk.port, context=trusting, timeout=60)
        client.request("GET", "/", headers={"Host": host})
        assert client.getresponse().status == status, host
        client.close()
    client = http.client.HTTPSConnection("127.0.0.2", desk.port, context=trusting, timeout=60)
    headers = {"Host": f"desk.test:{desk.port}", "Origin": f"https://desk.test:{desk.port}"}
    client.request("POST", "/login", f"token={desk.token}", headers)
    assert "Secure" in client.getresponse().headers["set-cookie"]
    client.close()
    with ExitStack() as stack:  # who begins no TLS session keeps nobody else out
        for _ in range(400):
            stack.enter_context(socket.create_connection(("127.0.0.2", desk.port), 10))
        files = Path(f"/proc/{desk.pid}/fd")
        wait_for(lambda: len(list(files.iterdir())) < 150, "closed connections")
        client = http.client.HTTPSConnection("127.0.0.2", desk.port, context=trusting, timeout=10)
        client.request("GET", "/", headers={"Host": f"desk.test:{desk.port}"})
        assert client.getresponse().status == 200
        client.close()


def test_every_address_of_this_machine_works_without_tls(
    start: Callable[..., RunningDesk], finished: Path
) -> None:
    desk = start(finished, "--listen", "127.0.0.2")
    assert desk.address.startswith("http://127.0.0.2:")
    client = http.client.HTTPConnection("127.0.0.2", desk.port, timeout=60)
    with closing(client):
        client.request("POST", "/login", f"token={desk.token}", {"Origin": desk.origin})
        entered = client.getresponse()
        entered.read()
        assert entered.status == 303
        cookie = entered.headers["set-cookie"].partition(";")[0]
        client.request("GET", "/fleet", headers={"Cookie": cookie})
        assert client.getresponse().status == 200


def test_a_port_in_use_is_explained(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from dealfl.cli import main

    port = free_port()
    with socket.create_server(("127.0.0.1", port)):
        assert main(["desk", str(finished), "--port", str(port)]) == 1
    assert f"cannot listen on 127.0.0.1:{port}" in capsys.readouterr().err


def test_other_machines_need_tls(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from dealfl.cli import main

    assert main(["desk", str(finished), "--listen", "0.0.0.0"]) == 2
    assert "give --tls-certificate and --tls-key" in capsys.readouterr().err
    assert main(["desk", str(finished), "--tls-key", "x.pem"]) == 2
    assert main(["desk", str(finished / "no")]) == 2
