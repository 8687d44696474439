"""The doors of chains: members and warehouses fetch and leave letters (`relay`)."""

from __future__ import annotations

from collections.abc import Callable

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headwater.chain.letter import LONGEST, Letter
from headwater.chain.line import AWAY
from headwater.chain.neighbours import encoded
from headwater.hub.chain_records import ChainRecords
from headwater.hub.desk import Desk
from headwater.hub.enrolment import Enrolment
from headwater.hub.relay import Relay
from headwater.hub.requests import AgentHandler, Handler, Unreadable, body_of, json_of, no, while_asked
from headwater.maintenance.strategies.chain_messages import KINDS

MOST_WAIT = 20.0


class ChainDoors:
    """`desk` knows which agents are connected, and where their neighbours reach them; `enrolled`, who may be."""

    def __init__(self, relay: Relay, records: ChainRecords | None, desk: Desk, enrolment: Enrolment) -> None:
        self._relay, self._records, self._desk, self._enrolment = relay, records, desk, enrolment

    def routes(
        self, for_agents: Callable[[AgentHandler], Handler], for_project: Callable[[Handler], Handler]
    ) -> list[Route]:
        return [
            Route("/agents/{name}/letters", for_agents(self.leave), methods=["POST"]),
            Route("/agents/{name}/box", for_agents(self.fetch), methods=["POST"]),
            Route("/agents/{name}/chains/{chain}", for_agents(self.tell), methods=["POST"]),
            Route("/agents/{name}/chains/{chain}/neighbours", for_agents(self.introduce), methods=["POST"]),
            Route("/agents/{name}/chains/{chain}/direct", for_agents(self.count), methods=["POST"]),
            Route("/chains/{chain}", for_project(self.open), methods=["POST"]),
            Route("/chains/{chain}/letters", for_project(self.send), methods=["POST"]),
            Route("/chains/{chain}/box", for_project(self.receive), methods=["POST"]),
            Route("/chains/{chain}/done", for_project(self.done), methods=["POST"]),
        ]

    # ── members ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def leave(self, request: Request, name: str) -> Response:
        self._relay.from_agent(name, await _letter(request))
        return Response(status_code=204)

    async def fetch(self, request: Request, name: str) -> Response:
        wait = await _wait(request)
        with self._desk.waits(name):
            letter, asked = await while_asked(request, self._relay.for_agent(name, wait))
        if letter is not None and not asked:
            self._relay.give_back(name, letter)
        return _told(letter)

    async def tell(self, request: Request, name: str) -> Response:
        epoch, told = self._relay.told(request.path_params["chain"], name)
        return Response(told, headers={"X-Epoch": str(epoch)}, media_type="application/octet-stream")

    async def introduce(self, request: Request, name: str) -> Response:
        """Where neighbours are, and the keys of this epoch; one that may not connect is nobody's neighbour."""
        chain = request.path_params["chain"]
        around = [agent for agent in self._relay.around(chain, name) if await run_in_threadpool(self._enrolled, agent)]
        found = self._relay.neighbours(chain, name, {agent: self._desk.reach(agent) for agent in around})
        return Response(encoded(found), media_type="application/json")

    def _enrolled(self, agent: str) -> bool:
        found = self._enrolment.lately(agent)
        return found is not None and not found.revoked

    async def count(self, request: Request, name: str) -> Response:
        """How many letters went from this member to its neighbours directly, in a window."""
        chain, said = request.path_params["chain"], await json_of(request)
        letters, window = said.get("letters"), said.get("window")
        if not isinstance(letters, dict) or not isinstance(window, int):
            return no(400, "letters that are not counted", "are hub and agent of one version?")
        counted = {kind: n for kind, n in letters.items() if kind in KINDS and isinstance(n, int) and 0 < n < 1 << 31}
        late = self._relay.went(chain, _epoch(request), name, (window, counted))
        if late and self._records is not None:
            await run_in_threadpool(self._records.late, chain, window, counted)
        return Response(status_code=204)

    # ── the warehouse ────────────────────────────────────────────────────────────────────────────────────────────

    async def open(self, request: Request) -> Response:
        nodes, agents = (request.headers.get(name, "").split(",") for name in ("x-nodes", "x-agents"))
        if len(nodes) != len(agents):
            return no(400, "a chain whose members are not told apart", "are hub and engine of one version?")
        told = await body_of(request, LONGEST)
        self._relay.open(request.path_params["chain"], _epoch(request), dict(zip(nodes, agents, strict=True)), told)
        return Response(status_code=204)

    async def send(self, request: Request) -> Response:
        self._relay.from_warehouse(await _letter(request))
        return Response(status_code=204)

    async def receive(self, request: Request) -> Response:
        chain, epoch = request.path_params["chain"], _epoch(request)
        letter = await self._relay.for_warehouse(chain, epoch, await _wait(request))
        if letter is not None:
            return _told(letter)
        away = [name for name in self._relay.agents(chain) if not self._desk.here(name)]
        return Response(status_code=204, headers={AWAY: ",".join(away)})

    async def done(self, request: Request) -> Response:
        chain, epoch, said = request.path_params["chain"], _epoch(request), await json_of(request)
        window, members = said.get("window"), said.get("members")
        if self._records is not None and isinstance(window, int) and isinstance(members, int):
            counts = self._relay.counted(chain, epoch, window)
            await run_in_threadpool(self._records.over, chain, window, members, counts)
        return Response(status_code=204)


async def _wait(request: Request) -> float:
    said = (await json_of(request)).get("wait", 0)
    return min(float(said), MOST_WAIT) if isinstance(said, int | float) else 0.0


async def _letter(request: Request) -> Letter:
    said = {name: request.headers.get(f"x-{name}", "") for name in ("chain", "to", "kind")}
    body = await body_of(request, LONGEST)
    return Letter(said["chain"][:200], _epoch(request), "", said["to"][:200], said["kind"][:40], body)


def _epoch(request: Request) -> int:
    said = request.headers.get("x-epoch", "")
    if not said.isdigit() or len(said) > 18:
        raise Unreadable("a letter of no epoch", "are hub and agent of one version?")
    return int(said)


def _told(letter: Letter | None) -> Response:
    if letter is None:
        return Response(status_code=204)
    return Response(letter.body, headers=letter.headers(), media_type="application/octet-stream")
