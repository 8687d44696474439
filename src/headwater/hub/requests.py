"""What the hub's doors read, and how they refuse."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from headwater.model.errors import HeadwaterError

T = TypeVar("T")

Handler = Callable[[Request], Awaitable[Response]]
AgentHandler = Callable[[Request, str], Awaitable[Response]]

SMALL = 64 * 1024
"""No sign of life is larger."""


def token_of(request: Request) -> str:
    """What opens a door, as it was shown."""
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    return token if kind.lower() == "bearer" and token.isascii() else ""


async def json_of(request: Request) -> dict[str, object]:
    try:
        said = msgspec.json.decode(await body_of(request, SMALL))
    except (msgspec.DecodeError, RecursionError):
        said = None
    if not isinstance(said, dict):
        raise Unreadable("what was sent is no JSON object", "are hub and agent of one version?")
    return said


def list_of(said: object) -> list[object]:
    return said if isinstance(said, list) else []


async def body_of(request: Request, most: int) -> bytes:
    if request.headers.get("content-encoding", "identity") != "identity":
        raise Unreadable("compressed bodies are not accepted", "send it as it is")
    held = bytearray()
    async for piece in request.stream():
        held += piece
        if len(held) > most:
            raise TooLarge(f"more than {most:,} bytes were sent", "are hub and agent of one version?")
    return bytes(held)


async def while_asked(request: Request, found: Coroutine[Any, Any, T | None]) -> tuple[T | None, bool]:
    """What is waited for, and whether the one who asks is still there: nothing is waited for longer than that. The
    request's body must have been read. What was found for one who has gone is to be given back."""
    waiting = asyncio.create_task(found)
    gone = asyncio.ensure_future(request.receive())
    try:
        await asyncio.wait({waiting, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not waiting.done():
            waiting.cancel()
            await asyncio.wait({waiting})
        return (None if waiting.cancelled() else waiting.result()), not gone.done()
    finally:
        waiting.cancel()
        gone.cancel()


class Unreadable(HeadwaterError):
    """Nothing that a hub understands."""


class TooLarge(HeadwaterError):
    """More than a hub takes."""


def no(status: int, what: str, fix: str) -> Response:
    return JSONResponse({"what": what, "fix": fix}, status_code=status)
