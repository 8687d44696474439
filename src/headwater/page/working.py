"""The addresses at which the page is told to do something: /api/work, and /api/work/events to follow it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import anyio.to_thread
import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from headwater.model.errors import UnknownName, UsageError
from headwater.page.answers import BEAT_SECONDS, LOOK_SECONDS, STREAM, answer, event
from headwater.page.look import Look, maintained
from headwater.page.serving import TOKEN_VARIABLE
from headwater.page.work import KINDS, Worker


class Wanted(msgspec.Struct, frozen=True):
    """What to start. `confirmed` are the changes of the plan that a person said yes to."""

    do: str
    view: str = ""
    confirmed: Any = None


class Working:
    """`may_apply` where the page has a token: whoever got in has been told it."""

    def __init__(self, worker: Worker, look: Look, may_apply: bool, closing: threading.Event) -> None:
        self._worker, self._look, self._may_apply, self._closing = worker, look, may_apply, closing

    async def work(self, request: Request) -> Response:
        if request.method == "DELETE":
            self._worker.stop()
        elif request.method == "POST":
            wanted = _wanted(request.headers.get("content-type", ""), await request.body())
            await anyio.to_thread.run_sync(lambda: self._start(wanted))
        return answer(self._told())

    async def events(self, request: Request) -> Response:
        async def told() -> AsyncIterator[bytes]:
            known: Any = None
            quiet = 0.0
            while not self._closing.is_set():
                found = self._told()
                if found != known or quiet >= BEAT_SECONDS:
                    yield event("work", found)
                    known, quiet = found, 0.0
                await asyncio.sleep(LOOK_SECONDS)
                quiet += LOOK_SECONDS

        return StreamingResponse(told(), media_type="text/event-stream", headers=STREAM)

    def _told(self) -> dict[str, Any]:
        return {**self._worker.told(), "may_apply": self._may_apply}

    def _start(self, wanted: Wanted) -> None:
        if wanted.do not in KINDS:
            raise UnknownName("work", wanted.do, KINDS)
        if wanted.do in ("plan", "apply") and not self._may_apply:
            what = "what changes the project is only done at a page with a token"
            raise UsageError(what, f"start it with {TOKEN_VARIABLE} set, or type 'headwater apply'")
        cut = maintained(self._look.now())
        named = wanted.view and wanted.do in ("verify", "judge")
        if wanted.do == "judge" and not named:
            raise UsageError("no view is named", "name one")
        view = cut.named(wanted.view) if named else ""
        self._worker.start(wanted.do, view, wanted.confirmed)


def _wanted(kind: str, body: bytes) -> Wanted:
    """Told as JSON only: a form of another site cannot send that without being asked about first."""
    if kind.partition(";")[0].strip() != "application/json":
        raise UsageError("what to do is said as JSON", "send content-type: application/json")
    try:
        return msgspec.json.decode(body, type=Wanted)
    except msgspec.DecodeError as error:
        raise UsageError(f"what to do is not understood: {error}", 'send {"do": "verify", "view": "…"}') from error
