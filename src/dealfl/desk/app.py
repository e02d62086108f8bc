"""The desk as a web application: which page answers which address."""

from __future__ import annotations

import asyncio
import hmac
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from importlib.resources import files
from pathlib import Path
from urllib.parse import parse_qsl

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from dealfl.desk.guard import Door, Guard
from dealfl.desk.layout import (
    Page,
    Visit,
    banner,
    document,
    error_page,
    render,
    sentence,
    state_line,
)
from dealfl.desk.pages import (
    Search,
    certificate_page,
    energy_page,
    erasure_page,
    fleet_counts,
    fleet_page,
    fleet_rows,
    held_page,
    job_page,
    model_page,
    newest,
    request_page,
    rounds_page,
    uncertified,
    worker_page,
)
from dealfl.desk.sources import Certificate, Source
from dealfl.desk.tasks import Task, Tasks
from dealfl.desk.view import View, Watch
from dealfl.errors import DealError
from dealfl.escaping import for_html
from dealfl.pages import page_file, plotly_script
from dealfl.runs import RequestStatus, WorkerLine
from dealfl.storage import log

_MAX_STREAMS = 12
_ALIVE_S = 15.0  # between signs of life in a stream of events
_OPEN = ("/", "/login")
_CERTIFIED = "The certificate is written."

Handler = Callable[[Request], Awaitable[Response]]


class Desk:
    """The pages and forms of one run."""

    def __init__(self, watch: Watch, door: Door, *, may_change: bool) -> None:
        self._watch, self._door, self._may_change = watch, door, may_change
        self._source: Source = watch.source
        self._tasks = Tasks(self._touch)
        self._retrained: dict[str, str] = {}  # digests by file of a certificate
        self._static = _read_static()
        self._streams = 0
        self._touching: set[asyncio.Task[None]] = set()

    def _touch(self) -> None:
        touching = asyncio.ensure_future(self._watch.touch())
        self._touching.add(touching)
        touching.add_done_callback(self._touching.discard)

    def make(self) -> Guard:
        """Return the application, behind its guard."""
        pages: Mapping[str, Handler] = {
            "/": self._enter,
            "/fleet": self._fleet,
            "/fleet/worker/{handle}": self._worker,
            "/rounds": self._page,
            "/model": self._page,
            "/energy": self._page,
            "/erasure": self._page,
            "/job": self._page,
            "/erasure/request/{handle}": self._request,
            "/erasure/certificate/{handle}": self._certificate,
            "/erasure/certificate/{handle}/file": self._certificate_file,
            "/events": self._events,
            "/static/{name}": self._file,
        }
        forms: Mapping[str, Handler] = {
            "/fleet": self._fleet,
            "/fleet/rows": self._rows,
            "/fleet/worker/{handle}/remove": self._remove,
            "/model/export": self._export,
            "/erasure/look": self._look,
            "/erasure/erase": self._erase,
            "/erasure/readmit": self._readmit,
            "/erasure/continue": self._carry_on,
            "/erasure/certify/{handle}": self._certify,
            "/erasure/retrain/{handle}": self._retrain,
            "/erasure/verify": self._verify,
        }
        routes = [Route(path, handler) for path, handler in pages.items()]
        routes += [Route(path, self._checked(h), methods=["POST"]) for path, h in forms.items()]
        routes.append(Route("/login", self._login, methods=["POST"]))
        app = Starlette(
            routes=routes,
            exception_handlers={
                HTTPException: _explain,
                DealError: _explain,
                OSError: _explain,
                Exception: _apologise,
            },
        )
        return Guard(app, self._door, _OPEN)

    # -- who looks -------------------------------------------------------------------------------

    def _visit(self, request: Request) -> Visit:
        token = self._door.form_token(request.state.session)
        return Visit(token, self._may_change, self._source.who, can_retrain=not self._source.remote)

    def _checked(self, handler: Handler) -> Handler:
        """Return a handler of a form of this desk; others are refused."""

        async def check(request: Request) -> Response:
            request.state.fields = await _read_fields(request)
            given = request.state.fields.get("form_token", "").encode(errors="replace")
            expected = self._door.form_token(request.state.session).encode()
            if not hmac.compare_digest(given, expected):
                raise HTTPException(403, "This form is not of this session; load the page again.")
            return await handler(request)

        return check

    def _require_permission(self, request: Request) -> None:
        if not self._may_change:
            raise HTTPException(403, "This desk only shows; start it with --allow-changes.")
        if "/erasure/c" not in request.url.path and not request.state.fields.get("confirmed"):
            raise HTTPException(400, "The box of the confirmation is not checked.")

    async def _enter(self, request: Request) -> Response:
        if request.state.session:
            return RedirectResponse("/fleet", 303)
        body = (
            '<main class="narrow"><h1>dealfl desk</h1>'
            '<p id="entering" hidden>Opening the desk …</p>'
            '<form method="post" action="/login" autocomplete="off" id="login"><label>Token'
            '<input type="password" name="token" required maxlength="200" autofocus></label>'
            '<button>Open</button></form><p class="quiet">Open the address that '
            "<code>dealfl desk</code> has printed: it ends with the token. The file "
            "<code>desk-address</code>, which only its owner can read, has it, too.</p></main>\n"
        )
        return HTMLResponse(document("dealfl desk", body, script="login"))

    async def _login(self, request: Request) -> Response:
        fields = await _read_fields(request)
        session = self._door.open(fields.get("token", ""))
        if session is not None:
            response: Response = RedirectResponse("/fleet", 303)
            self._door.set_cookie(response, session)
            return response
        if self._door.is_pestered:
            raise HTTPException(429, "There were many wrong tokens; wait a minute.")
        raise HTTPException(403, "The token is wrong: each start of a desk draws a new one.")

    # -- pages ------------------------------------------------------------------------------------

    async def _show(self, page: Page, status: int = 200) -> Response:
        return HTMLResponse(render(page, self._watch.view, self._source.where), status)

    async def _page(self, request: Request) -> Response:
        await self._watch.ready()
        page = await self._make(request.url.path.strip("/"), self._visit(request))
        assert page is not None, "the routes are those of pages"
        return await self._show(page)

    async def _make(self, path: str, visit: Visit) -> Page | None:
        """Return the page at a path, from the present view; None if there is none."""
        view = self._watch.view
        plain: Mapping[str, Callable[[], Page]] = {
            "rounds": lambda: rounds_page(view),
            "model": lambda: model_page(view, visit),
            "energy": lambda: energy_page(view),
            "job": lambda: job_page(view),
            "fleet": lambda: fleet_page(view, visit, Search()),
        }
        if path in plain:
            return plain[path]()
        if path == "erasure":
            return erasure_page(view, visit, await self._certificates(), self._tasks.listed)
        kind, _, handle = path.rpartition("/")
        if kind == "erasure/request" and (status := self._find_request(handle)):
            mine = newest(await self._certificates()).get(status.name)
            return request_page(view, visit, status, mine, self._tasks.find(status.name))
        if kind == "fleet/worker" and (line := self._find_worker(handle)):
            return worker_page(view, visit, line, [])
        return None

    async def _certificates(self) -> list[Certificate]:
        return await asyncio.to_thread(self._source.certificates)

    def _find_request(self, handle: str) -> RequestStatus | None:
        view: View = self._watch.view
        return view.erasures.get(view.find(handle, view.erasures) or "")

    def _find_worker(self, handle: str) -> WorkerLine | None:
        view: View = self._watch.view
        return view.workers.get(view.find(handle, view.workers) or "")

    async def _fleet(self, request: Request) -> Response:
        view = await self._watch.ready()
        search = Search.read(getattr(request.state, "fields", {}))
        return await self._show(fleet_page(view, self._visit(request), search))

    async def _rows(self, request: Request) -> Response:
        view = await self._watch.ready()
        search = Search.read(request.state.fields)
        return HTMLResponse(fleet_rows(view, self._visit(request), search))

    async def _worker(self, request: Request) -> Response:
        await self._watch.ready()
        line = self._find_worker(request.path_params["handle"])
        if line is None:
            raise HTTPException(404, "There is no such worker; the desk was started again.")
        history = await asyncio.to_thread(self._source.worker_rounds, line.name)
        return await self._show(worker_page(self._watch.view, self._visit(request), line, history))

    async def _request(self, request: Request) -> Response:
        await self._watch.ready()
        page = await self._make(request.url.path.strip("/"), self._visit(request))
        if page is None:
            raise HTTPException(404, "There is no such request here; see the page of erasures.")
        return await self._show(page)

    async def _find_certificate(self, request: Request) -> Certificate:
        certificates = {each.path.name: each for each in await self._certificates()}
        name = self._watch.view.find(request.path_params["handle"], certificates)
        if name is None:
            raise HTTPException(404, "There is no such certificate; see the page of erasures.")
        return certificates[name]

    async def _certificate(self, request: Request) -> Response:
        found = await self._find_certificate(request)
        retrained = self._retrained.get(found.path.name)
        visit = self._visit(request)
        page = certificate_page(self._watch.view, visit, found, retrained, here=True)
        return await self._show(page)

    async def _certificate_file(self, request: Request) -> Response:
        found = await self._find_certificate(request)
        name = f'attachment; filename="{found.path.name}"'
        content = await asyncio.to_thread(found.path.read_bytes)
        return Response(content, headers={"Content-Disposition": name},
                        media_type="application/json")  # fmt: skip

    async def _file(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in self._static:
            raise HTTPException(404, "There is no such file.")
        content, kind = self._static[name]
        # nothing of a run is in these files
        return Response(content, media_type=kind, headers={"Cache-Control": "private, max-age=60"})

    # -- events -----------------------------------------------------------------------------------

    async def _events(self, request: Request) -> Response:
        """Send the sections of a page, and again those that change."""
        path, visit = request.query_params.get("page", ""), self._visit(request)
        if await self._make(path, visit) is None:
            raise HTTPException(404, "There is no such page.")
        if self._streams >= _MAX_STREAMS:
            raise HTTPException(503, "Too many pages are open; close some.")
        self._streams += 1
        return _Events(self._stream(path, visit), self._end_stream)

    def _end_stream(self) -> None:
        self._streams -= 1

    async def _stream(self, path: str, visit: Visit) -> AsyncIterator[str]:
        sent: dict[str, str] = {}
        version = -1
        while True:
            now = await self._watch.next_version(version, _ALIVE_S)
            if now == version:
                yield ": alive\n\n"
                continue
            version = now
            changed = await self._sections(path, visit, version)
            news = {name: html for name, html in changed.items() if sent.get(name) != html}
            sent |= news
            yield f"data: {json.dumps(news)}\n\n" if news else ": same\n\n"

    async def _sections(self, path: str, visit: Visit, version: int) -> dict[str, str]:
        view = self._watch.view
        live = {"state": state_line(view), "banner": banner(view)}
        if path == "fleet":  # the script asks for the rows that are searched for
            return live | {"counts": fleet_counts(view), "refetch": str(version)}
        page = await self._make(path, visit)
        if page is not None:
            live |= {name: part for name, part in page.sections.items() if name not in page.fixed}
        return live

    # -- forms ------------------------------------------------------------------------------------

    async def _look(self, request: Request) -> Response:
        owner = request.state.fields.get("owner", "").strip()
        if not owner:
            raise HTTPException(400, "No person is named.")
        held = await asyncio.to_thread(self._source.hold, owner)
        return await self._show(held_page(self._visit(request), owner, held))

    async def _erase(self, request: Request) -> Response:
        self._require_permission(request)
        fields, source = request.state.fields, self._source
        by = fields.get("by", "").strip()[:64]
        new = await asyncio.to_thread(source.request, fields.get("owner", ""), by)
        log("erasure requested", reason=source.who, persons=1)
        task = Task("Erasure", new.name, salts=new.salts, commitments=new.commitments)

        def work(say: Callable[[str], None]) -> str:
            source.complete(new, say)
            return "The first certificate is written." if source.remote else _CERTIFIED

        self._tasks.start(task, work)
        await self._wait_for(new.name)
        return RedirectResponse(f"/erasure/request/{self._watch.view.handle(new.name)}", 303)

    async def _wait_for(self, request: str) -> None:
        """Wait a moment until a request is in the view."""
        version = self._watch.version
        for _ in range(20):
            if request in self._watch.view.erasures:
                return
            self._watch.look_now()
            version = await self._watch.next_version(version, 0.5)

    async def _readmit(self, request: Request) -> Response:
        self._require_permission(request)
        owner, source = request.state.fields.get("owner", ""), self._source
        log("readmission requested", reason=source.who, persons=1)
        self._tasks.start(Task("Readmission"), lambda _: source.readmit(owner, source.who))
        return RedirectResponse("/erasure", 303)

    async def _remove(self, request: Request) -> Response:
        self._require_permission(request)
        line = self._find_worker(request.path_params["handle"])
        if line is None:
            raise HTTPException(404, "There is no such worker; the desk was started again.")
        text = await asyncio.to_thread(self._source.remove, line.name)
        log("worker removed", reason=self._source.who)
        self._watch.look_now()
        done = f'<p class="verdict">{sentence(text)}</p><p><a href="/fleet">The fleet</a></p>'
        return await self._show(Page("fleet", "Removed", {"done": done}))

    async def _carry_on(self, request: Request) -> Response:
        self._require_permission(request)

        def work(_: Callable[[str], None]) -> str:
            self._source.carry_on()
            for name in uncertified(self._watch.view, self._source.certificates()):
                self._issue(name)
            return "The queue is empty, and every request has a certificate."

        log("queue carried out", reason=self._source.who)
        self._tasks.start(Task("Requests in the queue"), work)
        return RedirectResponse("/erasure", 303)

    async def _certify(self, request: Request) -> Response:
        self._require_permission(request)
        status = self._find_request(request.path_params["handle"])
        if status is None:
            raise HTTPException(404, "There is no such request here; see the page of erasures.")
        path = await asyncio.to_thread(self._issue, status.name)
        log("certificate", reason=self._source.who)
        address = f"/erasure/certificate/{self._watch.view.handle(path.name)}"
        return RedirectResponse(address, 303)

    def _issue(self, name: str) -> Path:
        """Write a certificate of a request; if it was made here, with its commitments."""
        task = self._tasks.find(name)
        return self._source.certify(name, task.commitments if task else ())

    async def _retrain(self, request: Request) -> Response:
        found = await self._find_certificate(request)
        self._retrained[found.path.name] = await self._compare(found)
        return RedirectResponse(request.url.path.replace("/retrain/", "/certificate/"), 303)

    async def _compare(self, certificate: Certificate) -> str:
        """Train again; refuse a certificate of another model."""
        digest = await asyncio.to_thread(self._source.retrain)
        after = certificate.erasure.after
        if after is None or digest != after.digest:
            raise HTTPException(
                409,
                f"Training on what is held gives {digest[:16]}…, not the model of the certificate. "
                "If others were erased since, verify the last certificate.",
            )
        return digest

    async def _verify(self, request: Request) -> Response:
        fields = request.state.fields
        content = fields.get("certificate", "").strip().encode(errors="replace")
        try:
            found = await asyncio.to_thread(self._source.verify, content)
        except DealError as error:
            text = f'<p class="verdict open">{for_html(sentence(str(error)))}</p>'
            back = '<p><a href="/erasure">Verify another</a></p>'
            page = Page("erasure", "Not a valid certificate", {"why": text + back})
            return await self._show(page, 400)
        retrained = await self._compare(found) if fields.get("retrain") else None
        visit = self._visit(request)
        page = certificate_page(self._watch.view, visit, found, retrained, here=False)
        return await self._show(page)

    async def _export(self, request: Request) -> Response:  # noqa: ARG002
        content = await asyncio.to_thread(self._source.export)
        headers = {"Content-Disposition": 'attachment; filename="model.deal"'}
        return Response(content, media_type="application/octet-stream", headers=headers)


class _Events(StreamingResponse):
    """A stream of events that tells its end, also if its reader has left before it began."""

    def __init__(self, stream: AsyncIterator[str], ended: Callable[[], None]) -> None:
        headers = {"X-Accel-Buffering": "no"}
        super().__init__(stream, media_type="text/event-stream", headers=headers)
        self._ended = ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._ended()


async def _read_fields(request: Request) -> dict[str, str]:
    """Return the fields of a form; its size was limited before."""
    body = await request.body()
    try:
        pairs = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=20)
    except ValueError:
        raise HTTPException(400, "The form cannot be read.") from None
    return dict(pairs)


async def _explain(_: Request, error: Exception) -> Response:
    """Return a sentence on what is wrong, never a traceback."""
    status = error.status_code if isinstance(error, HTTPException) else 400
    text = error.detail if isinstance(error, HTTPException) else str(error)
    title = "Not found" if status == 404 else "That did not work"
    return HTMLResponse(error_page(title, sentence(text)), status)


async def _apologise(_: Request, __: Exception) -> Response:
    """Return a sentence on an error that nobody expected; the guard logs it."""
    text = "The desk has a defect here; its file desk.jsonl says where. Other pages work."
    return HTMLResponse(error_page("That did not work", text), 500)


def _read_static() -> dict[str, tuple[bytes, str]]:
    folder = files("dealfl.desk")
    script, style = "text/javascript", "text/css"
    texts = {
        "page.css": (page_file("page.css"), style),
        "page.js": (page_file("page.js"), script),
        "plotly.js": (plotly_script(), script),
    }
    for name, kind in {"desk.css": style, "desk.js": script, "login.js": script}.items():
        texts[name] = (folder.joinpath(name).read_text(encoding="utf-8"), kind)
    return {name: (text.encode(), kind) for name, (text, kind) in texts.items()}
