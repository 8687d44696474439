"""Letters between members of chains: only members write, under their own names, and nothing grows without bound."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import urllib3

from agents.hub_here import HubHere
from headwater.chain.letter import Letter
from headwater.chain.letters import opened
from headwater.hub import relay as relays
from headwater.hub.relay import ChainClosed, Relay
from headwater.maintenance.strategies.chain_messages import Restarted
from headwater.model.chain import Chain
from headwater.model.names import ViewName

CHAIN = Chain(ViewName("v"), "pull-push", 1.0, (), (), ())


def letter(to: str, body: bytes = b"x", epoch: int = 7, chain: str = "chain_v") -> Letter:
    return Letter(chain, epoch, "", to, "forward", body)


def fetched(relay: Relay, agent: str) -> Letter | None:
    return asyncio.run(relay.for_agent(agent, 0))


@pytest.fixture
def relay() -> Relay:
    made = Relay()
    made.open("chain_v", 7, {"a": "agent-a", "b": "agent-b"}, b"told")
    return made


def test_a_letter_says_who_showed_the_token_and_not_who_is_named_in_it(relay: Relay) -> None:
    relay.from_agent("agent-a", Letter("chain_v", 7, "b", "b", "forward", b"x"))
    found = fetched(relay, "agent-b")
    assert found is not None
    assert (found.sender, found.to) == ("a", "b")


@pytest.mark.parametrize(
    ("agent", "wrong"),
    [
        ("stranger", letter("b")),
        ("agent-a", letter("c")),
        ("agent-a", letter("b", epoch=6)),
        ("agent-a", letter("b", chain="chain_w")),
    ],
)
def test_nobody_else_and_nowhere_else(relay: Relay, agent: str, wrong: Letter) -> None:
    with pytest.raises(ChainClosed):
        relay.from_agent(agent, wrong)
    assert fetched(relay, "agent-b") is None


def test_a_stranger_is_not_told_of_a_chain(relay: Relay) -> None:
    assert relay.told("chain_v", "agent-a") == (7, b"told")
    with pytest.raises(ChainClosed):
        relay.told("chain_v", "stranger")


def test_what_lies_in_a_box_is_not_put_there_twice_and_is_counted_once(relay: Relay) -> None:
    for _ in range(3):
        relay.from_agent("agent-a", letter("b"))
    assert fetched(relay, "agent-b") is not None
    assert fetched(relay, "agent-b") is None
    assert relay.counted("chain_v", 7, 1).through == {"forward": 1}


def test_a_new_epoch_throws_away_what_was_under_way(relay: Relay) -> None:
    relay.from_agent("agent-a", letter("b"))
    relay.open("chain_v", 3, {"a": "agent-a", "b": "agent-b"}, b"told")
    assert fetched(relay, "agent-b") is None
    with pytest.raises(ChainClosed):
        relay.from_agent("agent-a", letter("b"))


def test_boxes_are_bounded(relay: Relay, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relays, "MOST_LETTERS", 5)
    for n in range(20):
        relay.from_agent("agent-a", letter("b", str(n).encode()))
    bodies = [found.body for _ in range(20) if (found := fetched(relay, "agent-b")) is not None]
    assert bodies == [b"15", b"16", b"17", b"18", b"19"]


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[HubHere]:
    here = HubHere(tmp_path)
    yield here
    here.close()


def test_doors_of_chains_want_what_opens_them(hub: HubHere) -> None:
    token = hub.enrolment.enrol("a1")
    http = urllib3.PoolManager()

    def post(door: str, shown: str, body: bytes = b"{}", **headers: str) -> int:
        told = {"Authorization": f"Bearer {shown}", **{f"X-{k}": v for k, v in headers.items()}}
        return http.request("POST", f"{hub.settings.address}{door}", body=body, headers=told, retries=False).status

    doors = ("/chains/chain_v", "/chains/chain_v/letters", "/chains/chain_v/box", "/chains/chain_v/done")
    assert [post(door, token, Epoch="1") for door in doors] == [401] * 4, "an agent's token opens none of these"
    assert [post(f"/agents/a2/{door}", token) for door in ("letters", "box", "chains/chain_v")] == [401] * 3
    secret = hub.enrolment.secret()
    assert post("/chains/chain_v", secret, b"told", Epoch="5", Nodes="a,b", Agents="a1,a2") == 204
    assert post("/agents/a1/chains/chain_v", token) == 200
    assert post("/agents/a1/letters", token, b"x", Chain="chain_v", Epoch="5", To="b", Kind="forward") == 204
    assert post("/agents/a1/letters", token, b"x", Chain="chain_v", Epoch="4", To="b") == 410
    assert post("/agents/a1/letters", token, b"x", Chain="chain_v", Epoch="five", To="b") == 400
    assert post("/agents/a1/letters", token, b"x" * (65 << 20), Chain="chain_v", Epoch="5", To="b") == 413
    assert post("/agents/a1/box", token, b"nonsense") == 400
    assert post("/chains/chain_v/box", secret, Epoch="5") == 204


def test_who_waits_at_the_end_of_a_line_that_was_cut_takes_nothing(relay: Relay) -> None:
    async def played() -> tuple[Letter | None, Letter | None]:
        stale = asyncio.create_task(relay.for_agent("agent-b", 2))
        await asyncio.sleep(0.05)
        present = asyncio.create_task(relay.for_agent("agent-b", 2))
        await asyncio.sleep(0.05)
        relay.from_agent("agent-a", letter("b"))
        return await stale, await present

    stale, present = asyncio.run(played())
    assert stale is None
    assert present is not None


def test_what_was_taken_for_somebody_who_has_gone_is_there_for_the_next(hub: HubHere) -> None:
    """A member that was killed waits at the end of a line that is closed."""
    token, secret = hub.enrolment.enrol("agent-a"), hub.enrolment.secret()
    chain = {"X-Epoch": "5", "X-Nodes": "a,b", "X-Agents": "agent-a,agent-b"}

    def post(door: str, opens: str, body: bytes = b"{}", **headers: str) -> urllib3.BaseHTTPResponse:
        return urllib3.request(
            "POST", f"{hub.settings.address}{door}", body=body, headers={"Authorization": f"Bearer {opens}", **headers},
            timeout=5, retries=False,
        )  # fmt: skip

    assert post("/chains/chain_v", secret, **chain).status == 204
    for n in range(3):
        with socket.create_connection((hub.settings.host, hub.settings.port)) as gone:
            body = b'{"wait": 10}'
            head = f"POST /agents/agent-a/box HTTP/1.1\r\nHost: hub\r\nAuthorization: Bearer {token}\r\n"
            gone.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            time.sleep(0.2)
        time.sleep(0.2)
        sent = {"X-Chain": "chain_v", "X-Epoch": "5", "X-To": "a", "X-Kind": "request"}
        assert post("/chains/chain_v/letters", secret, b"%d" % n, **sent).status == 204
        assert post("/agents/agent-a/box", token).data == b"%d" % n


def test_what_is_given_back_is_the_next_one_unless_its_epoch_is_over(relay: Relay) -> None:
    for body in (b"1", b"2"):
        relay.from_agent("agent-a", letter("b", body))
    first = fetched(relay, "agent-b")
    assert first is not None
    relay.give_back("agent-b", first)
    again = [fetched(relay, "agent-b"), fetched(relay, "agent-b")]
    assert [found.body for found in again if found is not None] == [b"1", b"2"]
    relay.open("chain_v", 8, {"a": "agent-a", "b": "agent-b"}, b"told")
    relay.give_back("agent-b", first)
    assert fetched(relay, "agent-b") is None


def test_the_hub_tells_a_warehouse_that_a_member_has_begun_anew(relay: Relay) -> None:
    relay.open("chain_w", 3, {"x": "agent-b", "y": "agent-c"}, b"told")
    relay.restarted("agent-a")
    told = asyncio.run(relay.for_warehouse("chain_v", 7, 0))
    assert told is not None
    assert (told.sender, told.kind) == ("a", "restarted")
    assert opened(told, CHAIN) == Restarted()
    assert asyncio.run(relay.for_warehouse("chain_w", 3, 0)) is None, "it is no member of that one"
    relay.restarted("agent-a")
    relay.open("chain_v", 8, {"a": "agent-a", "b": "agent-b"}, b"told")
    assert asyncio.run(relay.for_warehouse("chain_v", 8, 0)) is None, "what began afterwards is not concerned"


def test_an_agent_that_comes_back_is_anew_and_one_that_was_cut_off_is_not(hub: HubHere) -> None:
    token, secret = hub.enrolment.enrol("agent-a"), hub.enrolment.secret()

    def post(door: str, opens: str, said: dict[str, object], **headers: str) -> urllib3.BaseHTTPResponse:
        return urllib3.request(
            "POST", f"{hub.settings.address}{door}", body=json.dumps(said).encode(),
            headers={"Authorization": f"Bearer {opens}", **headers}, timeout=5, retries=False,
        )  # fmt: skip

    def start(instance: str, number: tuple[int, int], ticket: str) -> None:
        said = {"instance": instance, "number": number, "ticket": ticket, "next": f"{ticket}+"}
        assert post("/agents/agent-a/start", token, said).status == 200

    def told() -> str | None:
        found = post("/chains/chain_v/box", secret, {}, **{"X-Epoch": "5"})
        return found.headers["X-Kind"] if found.status == 200 else None

    start("one", (1, 1), "first")
    chain = {"X-Epoch": "5", "X-Nodes": "a,b", "X-Agents": "agent-a,agent-b"}
    assert post("/chains/chain_v", secret, {}, **chain).status == 204
    start("one", (1, 2), "first+")  # its line was cut
    assert told() is None
    assert post("/agents/agent-a/stop", token, {"instance": "one"}).status == 204
    start("two", (2, 1), "first++")
    assert told() == "restarted"
