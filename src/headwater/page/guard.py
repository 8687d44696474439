"""Who may ask: the door of the page.

loopback      anybody on this machine; the Host must name this machine, so a page elsewhere whose name was pointed
              here (DNS rebinding) reads nothing
elsewhere     who has the token: in the address once (a cookie then stands for it), or as a bearer
everywhere    a request that another site made the browser send is refused; large requests are refused; nothing may
              be loaded from elsewhere, framed, or kept in caches
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headwater.runtime.listening import is_loopback

COOKIE = "headwater"
BODY_BYTES = 64 * 1024
_POLICY = "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; frame-ancestors 'none'; form-action 'self'"  # noqa: E501 # one header
_REPORT = "default-src 'none'; style-src 'unsafe-inline'; img-src 'self' data:; sandbox; frame-ancestors 'none'"
"""The lab's report is a page by itself: its styles are in it, and nothing in it may run."""
_HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


@dataclass(frozen=True)
class Door:
    """`token` is empty where only this machine can ask."""

    token: str = ""

    def refusal(self, scope: Scope) -> Response | None:
        """Why a request is not let in, None if it is."""
        headers = Headers(scope=scope)
        host = _hostname(headers.get("host", ""))
        if not self.token and not is_loopback(host):
            return _refused(421, "this page answers to the name of this machine only: open http://127.0.0.1")
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc.lower() != headers.get("host", "").lower():
            return _refused(403, "the request comes from another site")
        if headers.get("sec-fetch-site") == "cross-site" and headers.get("sec-fetch-mode") != "navigate":
            return _refused(403, "the request comes from another site")
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > BODY_BYTES:
            return _refused(413, f"a request may have {BODY_BYTES:,} bytes")
        return self._without_token(scope, headers) if self.token else None

    def _without_token(self, scope: Scope, headers: Headers) -> Response | None:
        if self._fits(_cookie(headers)) or self._fits(headers.get("authorization", "").removeprefix("Bearer ")):
            return None
        query = parse_qsl(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True)
        if scope["method"] == "GET" and any(name == "token" and self._fits(value) for name, value in query):
            rest = urlencode([pair for pair in query if pair[0] != "token"])
            path = "/" + quote(scope["path"]).lstrip("/")  # two slashes would name another site
            response = RedirectResponse(f"{path}?{rest}" if rest else path, status_code=303)
            secure = scope.get("scheme") == "https"
            response.set_cookie(COOKIE, self.token, httponly=True, samesite="strict", secure=secure, path="/")
            return response
        return _refused(401, "this page wants its token: open the address that 'headwater ui' printed")

    def _fits(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self.token.encode())


class Guard:
    """Asks the door before the application, and marks what goes out."""

    def __init__(self, app: ASGIApp, door: Door) -> None:
        self._app, self._door = app, door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return

        async def marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
                if scope["path"].startswith("/lab-report/"):
                    headers["content-security-policy"] = _REPORT
                headers.setdefault("cache-control", "no-store" if scope["path"].startswith("/api") else "no-cache")
            await send(message)

        refused = self._door.refusal(scope)
        await (refused(scope, receive, marked) if refused is not None else self._app(scope, _bounded(receive), marked))


def _bounded(receive: Receive) -> Receive:
    """A request that does not say how long it is must be short all the same."""
    seen = 0

    async def bounded() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        return message if seen <= BODY_BYTES else {"type": "http.disconnect"}

    return bounded


def _cookie(headers: Headers) -> str:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return found.value if found is not None else ""


def _hostname(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _refused(status: int, why: str) -> Response:
    return PlainTextResponse(f"{why}\n", status_code=status)
