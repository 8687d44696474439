"""Letters between members of chains: only members write, under their own names, and nothing grows without bound."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
import urllib3

from agents.hub_here import HubHere
from headwater.chain.letter import Letter
from headwater.hub import relay as relays
from headwater.hub.relay import ChainClosed, Relay


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
