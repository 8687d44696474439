"""The addresses of the page: each reads what it needs in a thread of its own and answers with JSON.

/  /static/…                      what the browser runs
/api/overview  /api/events        now, and what changes from then on (server-sent events)
/api/views/NAME                   one view in full
/api/views/NAME/changes?after=    every change of a view once, as it comes (server-sent events)
/api/painting  /api/cuts  /api/travel  /api/freshness  /api/moment?at=&view=  /api/trust
/api/lab  /api/lab/NAME           plays of the published algorithms; /lab-report/… is the lab's report
/api/query                        POST {sql, at, format}
/api/work                         POST {do, view}: start a command; DELETE: stop it; GET: what became of it
/api/work/events                  the same as it changes (server-sent events)
/metrics                          for Prometheus
"""

from __future__ import annotations

import asyncio
import csv
import io
import threading
import time
from collections.abc import AsyncIterator, Callable, Collection
from functools import partial
from pathlib import Path
from typing import Any

import anyio.to_thread
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from headwater.model.errors import HeadwaterError, UsageError
from headwater.model.names import ViewName
from headwater.page import cells, lab
from headwater.page.answers import BEAT_SECONDS, GLANCE_SECONDS, LOOK_SECONDS, STREAM, TROUBLE_SECONDS, answer, event
from headwater.page.detail import Sizes, detail
from headwater.page.failing import Explained, sentences
from headwater.page.freshness import Past, of_view
from headwater.page.guard import Door, Guard
from headwater.page.look import Look, Now, maintained
from headwater.page.metrics import CONTENT_TYPE, StoredBytes, exposition
from headwater.page.moments import Moments, moment
from headwater.page.overview import overview, patch
from headwater.page.painting import painting
from headwater.page.query import Limits, run_query
from headwater.page.states import pinned
from headwater.page.travel import ticks, travel
from headwater.page.trust import trust
from headwater.page.work import Worker, commands
from headwater.page.working import Working
from headwater.runtime.project.project import Project
from headwater.runtime.reading.changes import Change, change_json, check_after, stretch
from headwater.runtime.reading.mentions import occurring

STATIC = Path(__file__).parent / "static"
DOWNLOAD_ROWS = 1_000_000
STRETCH = 2_000
"""So many transactions are read at a time for those who follow a view."""


def application(
    project: Project, token: str = "", closing: threading.Event | None = None, work: Worker | None = None
) -> Starlette:
    """The page of one project. Streams end when `closing` is set; `work` runs the commands that it may start."""
    worker = work or Worker(commands(project.config.folder))
    page = _Page(project, closing or threading.Event(), worker, bool(token))
    routes = [
        Route("/", page.index),
        Route("/api/overview", page.overview),
        Route("/api/events", page.events),
        Route("/api/views/{name:path}/changes", page.changes),
        Route("/api/views/{name:path}", page.view),
        Route("/api/painting", page.painting),
        Route("/api/cuts", page.cuts),
        Route("/api/travel", page.travel),
        Route("/api/freshness", page.freshness),
        Route("/api/moment", page.moment),
        Route("/api/trust", page.trust),
        Route("/api/query", page.query, methods=["POST"]),
        Route("/api/work", page.working.work, methods=["GET", "POST", "DELETE"]),
        Route("/api/work/events", page.working.events),
        Route("/api/lab", page.lab),
        Route("/api/lab/{name}", page.play),
        Route("/lab-report/{path:path}", page.report),
        Route("/metrics", page.metrics),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]
    return Starlette(
        routes=routes,
        middleware=[Middleware(Guard, door=Door(token)), Middleware(Explained)],
    )


class _Remembered:
    """What is remembered of one warehouse."""

    def __init__(self, look: Look) -> None:
        self.life = look.life
        self.sizes, self.past, self.moments = Sizes(look.project.storage), Past(look), Moments()
        self.stored = StoredBytes(look.project.storage)
        self.made: tuple[Now, dict[str, Any]] | None = None


class _Page:
    """What all requests share."""

    def __init__(self, project: Project, closing: threading.Event, work: Worker, has_token: bool) -> None:
        self._closing = closing
        self._folders = (project.config.folder, Path.cwd())
        self._look = Look(project)
        self.working = Working(work, self._look, has_token, closing)
        self._remembered = _Remembered(self._look)
        self._limits = Limits()

    @property
    def _known(self) -> _Remembered:
        if self._remembered.life != self._look.life:
            self._remembered = _Remembered(self._look)
        return self._remembered

    async def index(self, request: Request) -> Response:
        return FileResponse(STATIC / "index.html")

    async def overview(self, request: Request) -> Response:
        return await _answer(self._overview)

    async def view(self, request: Request) -> Response:
        name = request.path_params["name"]
        return await _answer(lambda: detail(self._look, self._known.sizes, name))

    async def painting(self, request: Request) -> Response:
        return await _answer(lambda: painting(self._look.now()))

    async def cuts(self, request: Request) -> Response:
        return await _answer(lambda: ticks(self._look))

    async def travel(self, request: Request) -> Response:
        view, at = request.query_params.get("view", ""), request.query_params.get("at")
        return await _answer(lambda: travel(self._look, view, at))

    async def freshness(self, request: Request) -> Response:
        view = request.query_params.get("view") or None
        return await _answer(lambda: of_view(self._look, self._known.past, view))

    async def moment(self, request: Request) -> Response:
        view, at = request.query_params.get("view") or None, request.query_params.get("at")
        try:
            when = float(at) if at else None
        except ValueError:
            raise UsageError(f"{at!r} is no moment", "give seconds since 1970: at=1700000000") from None
        now = await anyio.to_thread.run_sync(self._look.now)

        def reads(name: str) -> Collection[str]:
            return now.reads(ViewName(name))[1] if name in now.cut.views else ()

        return await _answer(lambda: moment(self._known.moments.all(now), view, when, reads))

    async def trust(self, request: Request) -> Response:
        return await _answer(lambda: trust(self._look.now()))

    async def lab(self, request: Request) -> Response:
        return await _answer(lambda: lab.plays(self._folders))

    async def play(self, request: Request) -> Response:
        return await _answer(lambda: lab.play(request.path_params["name"]))

    async def report(self, request: Request) -> Response:
        found = lab.report_file(self._folders, request.path_params["path"])
        if found is None:
            return answer({"error": "there is no such file in the lab's report", "fix": "headwater lab run all"}, 404)
        return FileResponse(found)

    async def metrics(self, request: Request) -> Response:
        config = self._look.project.config
        text = await anyio.to_thread.run_sync(lambda: exposition(self._look.now, config, self._known.stored))
        return Response(text, headers={"content-type": CONTENT_TYPE})

    async def query(self, request: Request) -> Response:
        try:
            asked = msgspec.json.decode(await request.body(), type=Asked)
        except msgspec.DecodeError as error:
            raise UsageError(f"the question is not understood: {error}", 'send {"sql": "SELECT …"}') from error
        return await anyio.to_thread.run_sync(lambda: self._answered(asked))

    def _answered(self, asked: Asked) -> Response:
        limits = self._limits if asked.format == "json" else Limits(DOWNLOAD_ROWS, self._limits.seconds)
        named = occurring(asked.sql, maintained(self._look.now()).views)
        with pinned(self._look, named, asked.at) as views:
            rows, more = run_query(self._look.project.storage, views, asked.sql, limits)
        if asked.format == "csv":
            return _download(_csv(rows), "text/csv; charset=utf-8", "query.csv")
        if asked.format == "parquet":
            sink = pa.BufferOutputStream()
            pq.write_table(rows, sink, compression="zstd")
            return _download(sink.getvalue().to_pybytes(), "application/vnd.apache.parquet", "query.parquet")
        states = {name: int(min(p.seq, self._look.now().cut.views[name].seq)) for name, p in views.items()}
        return answer({**cells.table(rows), "more": more, "limit": limits.rows, "states": states})

    def _overview(self) -> dict[str, Any]:
        """Made once for every look, however many watch."""
        now, known = self._look.now(), self._known
        if known.made is None or known.made[0] is not now:
            known.moments.hear(now)
            known.made = (now, overview(now, self._look.project.config))
        return known.made[1]

    async def events(self, request: Request) -> Response:
        async def told() -> AsyncIterator[bytes]:
            known: dict[str, Any] = {}
            trouble: Exception | None = None
            quiet = 0.0
            while not self._closing.is_set():
                try:
                    found = await anyio.to_thread.run_sync(self._overview)
                except Exception as error:  # those who watch are told, and that it is over
                    if str(error) != str(trouble) or quiet >= BEAT_SECONDS:
                        yield event("trouble", sentences(error))
                        quiet = 0.0
                    known, trouble = {}, error
                    await asyncio.sleep(TROUBLE_SECONDS)
                    quiet += TROUBLE_SECONDS
                    continue
                trouble = None
                changed = found if not known else patch(known, found) if found is not known else {}
                if changed:
                    yield event("patch" if known else "whole", {**changed, "now": time.time()})
                    quiet = 0.0
                elif quiet >= BEAT_SECONDS:
                    yield b": still here\n\n"
                    quiet = 0.0
                known = found
                quiet += await self._news()

        return StreamingResponse(told(), media_type="text/event-stream", headers=STREAM)

    async def _news(self) -> float:
        """Until there is a new cut, or it is time to look at everything; how long that was."""
        waited = 0.0
        while waited < LOOK_SECONDS and not self._look.moved():
            await asyncio.sleep(GLANCE_SECONDS)
            waited += GLANCE_SECONDS
        return max(waited, GLANCE_SECONDS)

    async def changes(self, request: Request) -> Response:
        """Resumable: the id of each event is its `seq`, and a browser that comes back says the last one it had."""
        cut = await anyio.to_thread.run_sync(lambda: maintained(self._look.now()))
        name = cut.named(request.path_params["name"])
        said = request.headers.get("last-event-id") or request.query_params.get("after")
        if said and not said.isdecimal():
            raise UsageError(f"{said!r} is no transaction", "give its number: after=1042")
        begin = int(said) if said else int(cut.views[name].seq)
        folder = cut.views[name].folder
        check_after(name, cut.views[name], begin, folder)

        async def told() -> AsyncIterator[bytes]:
            at, quiet = begin, 0.0
            yield b": changes follow\n\n"
            while not self._closing.is_set():
                try:
                    found, at = await anyio.to_thread.run_sync(partial(self._stretch, name, at, folder))
                except HeadwaterError as error:
                    yield event("gone", {"error": error.what, "fix": error.fix})
                    return
                for change in found:
                    yield event("change", change_json(change), change.seq)
                quiet = 0.0 if found else quiet + LOOK_SECONDS
                if quiet >= BEAT_SECONDS:
                    yield b": still here\n\n"
                    quiet = 0.0
                await asyncio.sleep(0 if found else LOOK_SECONDS)

        return StreamingResponse(told(), media_type="text/event-stream", headers=STREAM)

    def _stretch(self, name: str, after: int, folder: str) -> tuple[list[Change], int]:
        cut = self._look.now().cut
        state = cut.views[cut.named(name)]
        check_after(name, state, after, folder)
        upto = min(int(state.seq), after + STRETCH)
        found = list(stretch(self._look.project.storage, cut.named(name), state, after, upto)) if after < upto else []
        return found, upto


class Asked(msgspec.Struct, frozen=True):
    """A question in SQL. `at` is the state, `format` json, csv or parquet."""

    sql: str
    at: str | None = None
    format: str = "json"


async def _answer(read: Callable[[], Any]) -> Response:
    return answer(await anyio.to_thread.run_sync(read))


def _download(data: bytes, kind: str, name: str) -> Response:
    return Response(data, media_type=kind, headers={"content-disposition": f'attachment; filename="{name}"'})


def _csv(rows: pa.Table) -> bytes:
    out = io.StringIO()
    writer = csv.writer(out)
    found = cells.table(rows, longest=None)
    writer.writerow([column["name"] for column in found["columns"]])
    writer.writerows(found["rows"])
    return out.getvalue().encode()
