"""The hub's doors, as HTTP. Agents have theirs, the project's own processes one.

    POST /agents/NAME/start             a ticket, and the next one                           token
    POST /agents/NAME/life              a sign of life: which calls are worked on            token
    POST /agents/NAME/work              the next call; 204 if there is none for a while      token
    POST /agents/NAME/answers/NUMBER    the answer to a call, in pieces                      token
    POST /agents/NAME/stop              good-bye                                             token
    POST /agents/NAME/letters           a letter to another member of a chain                token
    POST /agents/NAME/box               the next letter for it; 204 if there is none         token
    POST /agents/NAME/chains/CHAIN      what a member of a chain is told                     token
    POST /agents/NAME/chains/CHAIN/neighbours, /direct    who can be reached; what was sent there
    POST /sources/NAME                  a call; the answer, in pieces                        the project's secret
    POST /chains/CHAIN                  an epoch begins                                      the project's secret
    POST /chains/CHAIN/letters, /box    as for agents                                        the project's secret
    POST /chains/CHAIN/done             a window is over: what it took is written down       the project's secret
    GET  /hub                           which project's hub this is

token: or a certificate that names the agent (`certificates`), as it was enrolled.

Bodies pass through unread, and none is accepted compressed. Who has no token learns nothing: not which agents there
are. An agent's token opens the doors under its own name only.
"""

from __future__ import annotations

import hmac
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from headwater.chain.neighbours import Reach
from headwater.hub.certificates import Certificate, certificate_of
from headwater.hub.chain_doors import ChainDoors
from headwater.hub.chain_records import ChainRecords
from headwater.hub.contacts import Contacts
from headwater.hub.desk import Desk
from headwater.hub.enrolment import LATELY, Connected, Enrolment, Proof, Refused, Start
from headwater.hub.relay import ChainClosed, Relay
from headwater.hub.requests import Handler, TooLarge, Unreadable, body_of, json_of, list_of, no, token_of, while_asked
from headwater.hub.settings import Opens
from headwater.model.errors import HeadwaterError, SourceUnavailable
from headwater.model.logged import event

log = logging.getLogger(__name__)

WAIT = 20.0
"""So long an agent waits for work before it asks again: proxies cut what is silent for longer."""
_LARGE = 64 * 1024 * 1024
"""No call is larger: keys of a question."""


@dataclass(frozen=True)
class Hub:
    """`identity` is the warehouse's; `secret` opens the door of the project's own processes."""

    identity: str
    secret: str
    enrolment: Enrolment
    contacts: Contacts
    desk: Desk
    relay: Relay = field(default_factory=Relay)
    records: ChainRecords | None = None
    opens: Opens = "either"

    def app(self) -> Starlette:
        chains = ChainDoors(self.relay, self.records, self.desk, self.enrolment)
        doors = [
            Route("/hub", self.who, methods=["GET"]),
            Route("/sources/{name}", self._for_project(self.call), methods=["POST"]),
            Route("/agents/{name}/start", self._for_agents(self.start), methods=["POST"]),
            Route("/agents/{name}/life", self._for_agents(self.life), methods=["POST"]),
            Route("/agents/{name}/work", self._for_agents(self.work), methods=["POST"]),
            Route("/agents/{name}/answers/{number:int}", self._for_agents(self.answer), methods=["POST"]),
            Route("/agents/{name}/stop", self._for_agents(self.stop), methods=["POST"]),
            *chains.routes(self._for_agents, self._for_project),
        ]
        return Starlette(routes=doors, exception_handlers={HeadwaterError: _said, ClientDisconnect: _cut})

    async def who(self, request: Request) -> Response:
        return JSONResponse({"headwater": self.identity})

    # ── the project's own processes ──────────────────────────────────────────────────────────────────────────────

    def _for_project(self, door: Handler) -> Handler:
        async def opened(request: Request) -> Response:
            if not hmac.compare_digest(token_of(request), self.secret):
                return no(401, "the hub is not opened by this", "use the project's own commands")
            return await door(request)

        return opened

    async def call(self, request: Request) -> Response:
        name = request.path_params["name"]
        enrolled = await run_in_threadpool(self.enrolment.lately, name)
        if enrolled is None or enrolled.revoked:
            state = "was revoked" if enrolled is not None else "is not enrolled"
            return no(503, f"agent {name} {state}", f"'headwater agent enroll {name}' makes a token for it")
        body = await body_of(request, _LARGE)
        try:
            task = await self.desk.call(name, body)
        except SourceUnavailable as error:
            return no(503, f"{error.what}; {await run_in_threadpool(self.contacts.words, name)}", error.fix)
        return StreamingResponse(self.desk.pieces(name, task), media_type="application/octet-stream")

    # ── agents ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _for_agents(self, door: Callable[[Request, str], Awaitable[Response]]) -> Handler:
        async def opened(request: Request) -> Response:
            name = request.path_params["name"]
            proof = Proof(token_of(request), certificate_of(request))
            if wrong := _wrong(proof.certificate, name, self.opens):
                return no(401, *wrong)
            if not await self._opens(request, name):
                what = "token" if proof.token else "certificate"
                return no(
                    401, f"no agent of that name has this {what}", "enrol it: 'headwater agent enroll' at the hub"
                )
            begun, found = time.monotonic(), await door(request, name)
            if time.monotonic() - begun > LATELY and not await self._opens(request, name):
                return no(401, "this agent was revoked meanwhile", "enrol it: 'headwater agent enroll' at the hub")
            return found

        return opened

    async def _opens(self, request: Request, name: str) -> bool:
        proof = Proof(token_of(request), certificate_of(request))
        return await run_in_threadpool(self.enrolment.opens, name, proof)  # the warehouse may be far

    async def start(self, request: Request, name: str) -> Response:
        said = await json_of(request)
        instance = str(said.get("instance", ""))
        if not instance:
            return no(400, "a start without an instance", "are hub and agent of one version?")
        async with self.desk.agent(name).starting:  # of two that start at once one comes first
            self.desk.refuse_twin(name, instance)
            number = tuple(n for n in list_of(said.get("number")) if isinstance(n, int) and 0 <= n < 1 << 53)
            if len(number) != 2:
                return no(400, "a start without a number", "are hub and agent of one version?")
            start = Start(str(said.get("ticket", "")), str(said.get("next", "")), number)
            await run_in_threadpool(self.enrolment.starts, name, start, certificate_of(request))
            if self.desk.begins(name, instance, _reach(said.get("reach"))):
                self.relay.restarted(name)
        await run_in_threadpool(self.contacts.heard, name, said.get("about"), at_once=True)
        log.info("agent %s has started", name, extra=event("agent.started", agent=name))
        return JSONResponse({"wait": WAIT})

    async def life(self, request: Request, name: str) -> Response:
        said = await json_of(request)
        if not self.desk.knows(name, str(said.get("instance", ""))):
            return no(409, f"agent {name} has not started here", "it starts again by itself")
        working_on = [n for n in list_of(said.get("working_on")) if isinstance(n, int)]
        self.desk.sign_of_life(name, working_on)
        await run_in_threadpool(self.contacts.heard, name, said.get("about"))
        return Response(status_code=204)

    async def work(self, request: Request, name: str) -> Response:
        said = await json_of(request)
        if not self.desk.knows(name, str(said.get("instance", ""))):
            return no(409, f"agent {name} has not started here", "it starts again by itself")
        worker = said.get("worker")
        with self.desk.waits(name):
            work = self.desk.work(name, WAIT, worker if isinstance(worker, int) else -1)
            task, asked = await while_asked(request, work)
        if task is None:
            return Response(status_code=204)
        gone = not asked or not self.desk.knows(name, str(said.get("instance", "")))
        if gone or not await self._opens(request, name):  # since it began to wait
            self.desk.give_back(name, task)
            return Response(status_code=204)
        return Response(task.body, headers={"X-Call": str(task.number)}, media_type="application/octet-stream")

    async def answer(self, request: Request, name: str) -> Response:
        task = self.desk.answers(name, request.path_params["number"])
        if task is None:
            return no(410, "nobody waits for this answer any longer", "")
        try:
            async for piece in request.stream():
                if task.abandoned:
                    return no(410, "nobody waits for this answer any longer", "")
                task.alive_at = time.monotonic()
                if piece:
                    await task.bring(piece)
        except ClientDisconnect:
            return Response(status_code=400)  # whoever reads the answer sees that its end is missing
        finally:
            self.desk.done(name, task.number)
            await task.bring(None)
        return Response(status_code=204)

    async def stop(self, request: Request, name: str) -> Response:
        said = await json_of(request)
        if self.desk.knows(name, str(said.get("instance", ""))):
            self.desk.leaves(name)
            await run_in_threadpool(self.contacts.heard, name, said.get("about"), at_once=True)
        return Response(status_code=204)


def _reach(said: object) -> Reach:
    """Where an agent says that its neighbours reach it."""
    try:
        found = msgspec.convert(said, Reach)
    except msgspec.ValidationError:
        return Reach()
    usable = len(found.address) < 300 and found.address.startswith(("https://", "http://"))
    return found if usable and len(found.fingerprint) in (0, 64) else Reach()


def _wrong(certificate: Certificate | None, name: str, opens: Opens) -> tuple[str, str] | None:
    """What is wrong with the certificate of somebody who says that this is their name."""
    if certificate is None:
        if opens == "either":
            return None
        fix = 'certificate and key in agent.toml, as files; "headwater agent join --certificate" writes them'
        return "this hub opens for agents that show a certificate only", fix
    if certificate.over():
        return "the certificate's time is over", "renew it, and start the agent again"
    if name not in certificate.names:
        others = ", ".join(sorted(certificate.names)) or "nobody"
        return f"the certificate names {others}, and not {name}", "take the certificate that was made for this agent"
    return None


_STATUS = {ChainClosed: 410, Connected: 423, Refused: 403, Unreadable: 400, TooLarge: 413, SourceUnavailable: 503}


async def _said(request: Request, error: Exception) -> Response:
    assert isinstance(error, HeadwaterError)
    status = next((code for kind, code in _STATUS.items() if isinstance(error, kind)), 500)
    return no(status, error.what, error.fix)


async def _cut(request: Request, error: Exception) -> Response:
    """Whoever sent this has gone in the middle of it; nobody reads the answer."""
    return Response(status_code=400)
