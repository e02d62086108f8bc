"""Who gets a page: checks before every request, and headers after.

A browser may be led here by any page of the internet, and any user of this machine can connect to
a port of it. Nothing is shown without the cookie of a session, which the token of the desk buys;
nothing is changed without a token in the form, from a page of this desk.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
import time
import traceback
from collections import OrderedDict
from collections.abc import Iterable
from pathlib import Path

from h11 import LocalProtocolError
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dealfl.desk.layout import error_page
from dealfl.storage import log

MAX_FORM_BYTES = 1 << 18  # also of a dropped certificate, which has 8 KB at most
_MAX_SESSIONS = 32
_MAX_WRONG = 20  # tokens in a minute
_BODY_S = 10.0  # for the body of a request
_SAFE = ("GET", "HEAD")
_EMPTY = "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"  # a sheet that plotly fills
_POLICY = (
    f"default-src 'none'; script-src 'self'; style-src 'self' {_EMPTY}; "
    "style-src-attr 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


class Door:
    """The token of a desk, and the sessions that were opened with it."""

    def __init__(self, port: int, hosts: Iterable[str], *, tls: bool = False) -> None:
        self.token = secrets.token_urlsafe(32)
        self.cookie = f"dealfl-desk-{port}"
        scheme, default = ("https", 443) if tls else ("http", 80)
        self.hosts = {f"{host}:{port}" for host in hosts}
        if port == default:
            self.hosts |= set(hosts)
        self.origins = {f"{scheme}://{host}" for host in self.hosts}
        self._tls = tls
        self._key = secrets.token_bytes(32)
        self._sessions: OrderedDict[str, None] = OrderedDict()
        self._wrong_s: list[float] = []

    def open(self, token: str) -> str | None:
        """Return a new session for the token; None for a wrong one."""
        if not hmac.compare_digest(token.encode(errors="replace"), self.token.encode()):
            now_s = time.monotonic()
            self._wrong_s = [at for at in self._wrong_s if now_s - at < 60.0][-_MAX_WRONG:]
            self._wrong_s.append(now_s)
            return None
        session = secrets.token_urlsafe(32)
        self._sessions[session] = None
        while len(self._sessions) > _MAX_SESSIONS:
            self._sessions.popitem(last=False)
        return session

    @property
    def is_pestered(self) -> bool:
        """Whether there were many wrong tokens in the last minute; the right one is still taken."""
        return len(self._wrong_s) >= _MAX_WRONG and time.monotonic() - self._wrong_s[0] < 60.0

    def is_open(self, session: str) -> bool:
        """Return whether a session exists."""
        given, matches = session.encode(errors="replace"), False
        for known in self._sessions:
            matches |= hmac.compare_digest(given, known.encode())
        return matches

    def form_token(self, session: str) -> str:
        """Return what the forms of a session must contain."""
        content = session.encode(errors="replace")
        return hmac.new(self._key, content, hashlib.sha256).hexdigest()[:32]

    def set_cookie(self, response: Response, session: str) -> None:
        """Let the browser keep a session, for this desk only."""
        response.set_cookie(
            self.cookie, session, httponly=True, samesite="strict", secure=self._tls, path="/"
        )

    def session_of(self, headers: Headers) -> str:
        """Return the session in the cookies of a request; empty if there is none that is open.

        Other programs on other ports of this machine can set cookies, too.
        """
        for cookie in headers.get("cookie", "").split(";"):
            name, _, value = cookie.strip().partition("=")
            if name == self.cookie and self.is_open(value):
                return value
        return ""


class Refused(Exception):
    """A request that gets no further, with its status."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status, self.text = status, text


class Guard:
    """Checks requests: host, origin, method, size, session; adds headers to all responses."""

    def __init__(self, app: ASGIApp, door: Door, open_paths: Iterable[str]) -> None:
        self._app, self._door, self._open_paths = app, door, tuple(open_paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request, or refuse it."""
        if scope["type"] == "lifespan":
            return
        if scope["type"] != "http":
            raise RuntimeError("a desk has no web sockets")

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            await self._handle(scope, receive, send_safely)
        except LocalProtocolError as error:  # the rest of a request was malformed, and is refused
            log("no answer", reason=_origin_of(error), level="warning")
        except Exception as error:  # starlette has answered, and raises it again
            log("a page failed", reason=_origin_of(error), level="error")

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            body = await self._check(scope, receive)
        except Refused as refused:
            await refuse(scope, refused)(scope, receive, send)
        else:
            await self._app(scope, body, send)

    async def _check(self, scope: Scope, receive: Receive) -> Receive:
        """Return the body of a request that may pass."""
        headers, path = Headers(scope=scope), scope["path"]
        if headers.getlist("host") != [headers.get("host", "")] or (
            headers.get("host", "").lower() not in self._door.hosts
        ):
            raise Refused(421, "This address is not that of the desk.")
        session = self._door.session_of(headers)
        scope["state"] = {"session": session}
        if not session and path not in self._open_paths and not path.startswith("/static/"):
            raise Refused(401, "")
        if scope["method"] in _SAFE:
            if headers.get("sec-fetch-site", "none") == "cross-site" and path != "/":
                raise Refused(403, "Another site has requested this page.")
            return receive
        if scope["method"] != "POST":
            raise Refused(405, "A desk takes GET and POST only.")
        self._check_origin(headers)
        return await self._read(headers, receive)

    def _check_origin(self, headers: Headers) -> None:
        """Refuse what another page sends; with `no-referrer`, the origin of a form is null."""
        origin, site = headers.get("origin", "null"), headers.get("sec-fetch-site", "")
        if origin in self._door.origins and site in ("", "same-origin"):
            return
        if origin == "null" and site == "same-origin":
            return
        raise Refused(403, "Another page has sent this form.")

    async def _read(self, headers: Headers, receive: Receive) -> Receive:
        """Read a whole body within limits of size and time."""
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > MAX_FORM_BYTES:
            raise Refused(413, f"More than {MAX_FORM_BYTES:,} bytes are not read.")
        parts, more = [], True
        try:
            async with asyncio.timeout(_BODY_S):
                while more:
                    message = await receive()
                    parts.append(message.get("body", b""))
                    more = message.get("more_body", False)
                    if sum(map(len, parts)) > MAX_FORM_BYTES:
                        raise Refused(413, f"More than {MAX_FORM_BYTES:,} bytes are not read.")
        except TimeoutError:
            raise Refused(408, "The form did not arrive in time.") from None
        whole: Message | None = {"type": "http.request", "body": b"".join(parts)}

        async def replay() -> Message:
            nonlocal whole
            message, whole = whole, None
            return message if message is not None else await receive()

        return replay


def _origin_of(error: Exception) -> str:
    """Return the kind of an error and its line; its text may contain names."""
    *_, frame = traceback.extract_tb(error.__traceback__)
    return f"{type(error).__name__} at {Path(frame.filename).name}:{frame.lineno}"


def refuse(scope: Scope, refused: Refused) -> Response:
    """Return the answer to a request that is refused: a page for people, a line for programs."""
    if refused.status == 401 and scope["method"] in _SAFE and scope["path"] != "/events":
        return HTMLResponse("", 303, {"Location": "/"})
    text = refused.text or "No session: open the address that the desk has printed."
    if "text/html" in Headers(scope=scope).get("accept", ""):
        return HTMLResponse(error_page("Not allowed", text), refused.status)
    return PlainTextResponse(text, refused.status)
