"""Letters from agent to agent: over real sockets, members of this epoch only, each as itself; else through the hub."""

from __future__ import annotations

import http.client
import shutil
import socket
import threading
from collections.abc import Iterator
from dataclasses import asdict, replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from random import Random
from typing import Any, ClassVar
from urllib.parse import urlsplit

import pytest
import urllib3

from agents.authority import Authority
from agents.hub_here import HubHere
from headwater.agent import neighbourhood
from headwater.agent.joining import AgentSettings
from headwater.agent.line import HubLine
from headwater.agent.listening import Listening
from headwater.agent.neighbourhood import Neighbourhood
from headwater.chain import inbox as inboxes
from headwater.chain.inbox import Inbox
from headwater.chain.letter import LONGEST, Letter
from headwater.chain.neighbours import Reach, digest, key_of, proof
from headwater.model.errors import ConfigError

CHAIN = "chain_v"


class Member:
    """An agent as its neighbours see it."""

    def __init__(self, hub: HubHere, node: str) -> None:
        self.node, self.name = node, f"agent-{node}"
        token = hub.enrolment.enrol(self.name)
        self.settings = AgentSettings(
            hub.folder / self.name, self.name, hub.settings.address, token, "", listen="127.0.0.1:0"
        )
        self.line, self.inbox = HubLine(self.settings, 2), Inbox()
        self.neighbourhood = Neighbourhood(self.line, lambda: [CHAIN])
        self.listening = Listening(self.settings, self.neighbourhood, self.inbox)
        self.start(self.listening.reach)

    def start(self, reach: Reach, number: int = 1) -> None:
        ticket, following = ("first", "t1") if number == 1 else (f"t{number - 1}", f"t{number}")
        self.line.start({"instance": self.node, "number": [number, 1], "ticket": ticket, "next": following,
                         "reach": asdict(reach)})  # fmt: skip

    def letter(self, to: Member | str, body: bytes = b"rows", epoch: int = 7) -> Letter:
        return Letter(CHAIN, epoch, self.node, to if isinstance(to, str) else to.node, "forward", body)

    def close(self) -> None:
        self.listening.close()
        self.neighbourhood.close()
        self.line.close()


class World:
    def __init__(self, folder: Path) -> None:
        self.hub = HubHere(folder)
        self.members = [Member(self.hub, node) for node in "abc"]
        self.open(7)

    def open(self, epoch: int, chain: str = CHAIN) -> None:
        told = {"Authorization": f"Bearer {self.hub.enrolment.secret()}", "X-Epoch": str(epoch), "X-Nodes": "a,b,c",
                "X-Agents": "agent-a,agent-b,agent-c"}  # fmt: skip
        url = f"{self.hub.settings.address}/chains/{chain}"
        assert urllib3.request("POST", url, body=b"told", headers=told, retries=False).status == 204

    def close(self) -> None:
        for member in self.members:
            member.close()
        self.hub.close()


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr("headwater.hub.enrolment.LATELY", 0.0)
    monkeypatch.setattr(neighbourhood, "_FRUITLESS_SECONDS", 0.0)
    made = World(tmp_path)
    yield made
    made.close()


def brought(to: Member, letter: Letter, key: str, **headers: str) -> int:
    """A letter by hand, with whatever it says."""
    of_body = digest(letter.body)
    said = {**letter.headers(), "X-Digest": of_body, "X-Proof": proof(key, letter, of_body), **headers}
    url = f"{to.listening.reach.address}/letters"
    return urllib3.request("POST", url, body=letter.body, headers=said, retries=False).status


def test_a_letter_goes_to_its_neighbour_and_the_hub_has_nothing_of_it(world: World) -> None:
    a, b, c = world.members
    assert a.neighbourhood.send(a.letter(b))
    assert b.neighbourhood.send(b.letter(c))
    assert b.neighbourhood.send(b.letter(a, b"back"))
    assert b.inbox.take(1) == a.letter(b)
    assert c.inbox.take(1) == b.letter(c)
    assert a.inbox.take(1) == b.letter(a, b"back")
    assert b.line.box(0) is None
    assert not a.neighbourhood.send(a.letter(c)), "not a neighbour"
    assert not a.neighbourhood.send(a.letter(b, epoch=6)), "not this epoch"


def test_who_does_not_listen_writes_all_the_same(world: World) -> None:
    a, b, _ = world.members
    a.start(Reach(), 2)
    assert a.neighbourhood.send(a.letter(b))
    assert not b.neighbourhood.send(b.letter(a)), "through the hub"


def test_nobody_writes_as_somebody_else(world: World) -> None:
    a, b, c = world.members
    of_a, of_c = a.line.neighbours(CHAIN).others[0].send, c.line.neighbours(CHAIN).others[0].send
    good = a.letter(b)
    assert brought(b, good, of_a) == 204
    assert brought(b, good, of_a) == 204, "twice does no harm: it is taken by its number"
    assert b.inbox.take(1) == good
    assert brought(b, good, of_c) == 401, "a member with the key of another"
    assert brought(b, replace(good, sender="c"), of_a) == 401
    assert brought(b, replace(good, sender="b"), of_a) == 410
    assert brought(b, replace(good, sender="stranger"), of_a) == 410
    assert brought(b, replace(good, kind="backward"), of_a, **{"X-Proof": proof(of_a, good, digest(b"rows"))}) == 401
    assert brought(b, replace(good, body=b"else"), of_a, **{"X-Digest": digest(b"rows")}) == 401
    swapped = proof(of_a, good, digest(b"rows"))
    assert brought(b, replace(good, body=b"else"), of_a, **{"X-Digest": digest(b"rows"), "X-Proof": swapped}) == 400
    assert brought(a, replace(good, sender="b", to="a"), of_a) == 401, "a stolen letter, sent back"
    assert brought(c, replace(good, to="c"), of_a) == 410
    assert brought(b, replace(good, to="c"), of_a) == 410
    assert brought(c, good, of_a) == 410, "a stolen letter, brought to another"
    assert brought(b, good, "00" * 32) == 401
    assert brought(b, good, of_a, **{"X-Proof": "ü"}) == 401
    assert b.inbox.take(0) is None
    assert c.inbox.take(0) is None


def test_letters_of_another_epoch_or_chain_are_refused(world: World) -> None:
    a, b, _ = world.members
    old = a.line.neighbours(CHAIN).others[0].send
    assert brought(b, a.letter(b), old) == 204
    world.open(8)
    assert brought(b, a.letter(b, epoch=8), old) == 401, "keys are of an epoch"
    assert brought(b, a.letter(b, epoch=7), old) == 410
    new = a.line.neighbours(CHAIN).others[0].send
    world.open(9, "chain_w")
    assert brought(b, replace(a.letter(b, epoch=8), chain="chain_w"), new) == 410
    assert a.neighbourhood.send(a.letter(b, epoch=8))


def test_keys_are_of_a_chain_an_epoch_and_a_way() -> None:
    ways = [(chain, epoch, way) for chain in "vw" for epoch in (1, 2) for way in (("a", "b"), ("b", "a"), ("a", "c"))]
    assert len({key_of(b"secret", *one) for one in ways}) == len(ways)


def test_a_revoked_member_is_out(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b, c = world.members
    key = a.line.neighbours(CHAIN).others[0].send
    assert brought(b, a.letter(b), key) == 204
    world.hub.enrolment.revoke("agent-a")
    assert brought(b, a.letter(b), key) == 204, "for a few seconds, as at the hub"
    monkeypatch.setattr(neighbourhood, "FRESH_SECONDS", 0.0)
    assert brought(b, a.letter(b), key) == 410
    assert not b.neighbourhood.send(b.letter(a))
    assert b.neighbourhood.send(b.letter(c))
    world.hub.close()
    assert brought(c, b.letter(c), "00" * 32) == 410, "without the hub nobody is known"
    world.hub.open()


def test_noise_and_sizes(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b, _ = world.members
    place, noise = urlsplit(b.listening.reach.address), Random(3)
    key = a.line.neighbours(CHAIN).others[0].send
    good = a.letter(b)
    for n in range(60):
        with socket.create_connection((place.hostname or "", place.port or 0), 5) as line:
            head = f"POST /letters HTTP/1.1\r\nHost: x\r\nX-Chain: {CHAIN}\r\n".encode() if n % 2 else b""
            line.sendall(head + noise.randbytes(noise.randint(1, 3000)))
    names = ["X-Chain", "X-Epoch", "X-From", "X-To", "X-Kind", "X-Digest", "X-Proof"]
    for _ in range(60):
        odd = noise.choice(["", "x" * 5000, "-1", "9" * 30, "¼", "null", "../..", "0x7", "a,b"])
        assert brought(b, good, key, **{noise.choice(names): odd.encode().decode("latin-1")}) in (400, 401, 410)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=10)
    said = {**good.headers(), "X-Digest": digest(b""), "X-Proof": proof(key, good, digest(b""))}
    for length in (str(LONGEST + 1), "9" * 12, "9" * 13, "-1", "x", ""):
        connection.close()
        connection.putrequest("POST", "/letters")
        for name, value in {**said, "Content-Length": length}.items():
            connection.putheader(name, value)
        connection.endheaders()
        assert connection.getresponse().status in (400, 413), "before a byte of it was read"
    pool, url = urllib3.PoolManager(), f"{b.listening.reach.address}/letters"
    chunked = pool.request("POST", url, body=iter([b"x" * 100]), headers=said, chunked=True, retries=False)
    assert chunked.status == 400
    monkeypatch.setattr(inboxes, "MOST_LETTERS", 2)
    assert [brought(b, a.letter(b, bytes([n])), key) for n in range(4)] == [204, 204, 503, 503]
    assert [b.inbox.take(1) for _ in range(2)] == [a.letter(b, bytes([n])) for n in range(2)]
    assert a.neighbourhood.send(good)


class Curious(BaseHTTPRequestHandler):
    heard: ClassVar[list[bytes]] = []

    def do_POST(self) -> None:
        self.heard.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(204)
        self.send_header("X-Proof", "00" * 32)
        self.end_headers()

    def log_message(self, *words: Any) -> None:
        pass


def test_whoever_else_listens_there_is_told_nothing(world: World) -> None:
    a, b, _ = world.members
    other = HTTPServer(("127.0.0.1", 0), Curious)
    threading.Thread(target=other.serve_forever, daemon=True).start()
    b.start(Reach(f"http://127.0.0.1:{other.server_port}"), 2)
    assert not a.neighbourhood.send(a.letter(b, b"a secret row"))
    assert len(Curious.heard) == 1
    assert b"secret" not in Curious.heard[0]
    assert not a.neighbourhood.send(a.letter(b, b"a secret row"))
    assert len(Curious.heard) == 1, "nor asked again and again"
    other.shutdown()
    other.server_close()


def test_a_neighbour_that_is_gone_is_tried_again_later(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbourhood, "AWAY_SECONDS", 0.0)
    a, b, _ = world.members
    assert a.neighbourhood.send(a.letter(b))
    b.listening.close()
    assert not a.neighbourhood.send(a.letter(b, b"2"))
    b.listening = Listening(b.settings, b.neighbourhood, b.inbox)
    b.start(b.listening.reach, 2)
    monkeypatch.setattr(neighbourhood, "FRESH_SECONDS", 0.0)
    assert a.neighbourhood.send(a.letter(b, b"3"))


@pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl to make certificates")
def test_over_tls_it_is_the_certificate_that_the_hub_has_told(world: World) -> None:
    a, b, _ = world.members
    authority = Authority(world.hub.folder / "ca")
    own, other = authority.sign("b"), authority.sign("b")
    b.listening.close()
    b.settings = replace(b.settings, certificate=own.certificate, key=own.key)
    b.listening = Listening(b.settings, b.neighbourhood, b.inbox)
    b.start(b.listening.reach, 2)
    assert b.listening.reach.address.startswith("https://")
    assert a.neighbourhood.send(a.letter(b))
    assert b.inbox.take(1) == a.letter(b)
    b.listening.close()
    b.settings = replace(b.settings, certificate=other.certificate, key=other.key)
    listening = Listening(b.settings, b.neighbourhood, b.inbox)
    b.listening = listening
    b.start(replace(listening.reach, fingerprint=digest(b"another")), 3)
    world.open(8)
    assert not a.neighbourhood.send(a.letter(b, epoch=8))
    assert b.inbox.take(0) is None


def test_nothing_goes_in_the_clear_to_another_machine(world: World, tmp_path: Path) -> None:
    a, b, _ = world.members
    b.start(Reach("http://192.0.2.1:9"), 2)
    assert not a.neighbourhood.send(a.letter(b))
    for listen, said in (("0.0.0.0:0", "has no certificate"), ("nowhere", "host:port")):
        settings = AgentSettings(tmp_path, "x", "http://127.0.0.1:1", "t", "", listen=listen)
        with pytest.raises(ConfigError, match=said):
            Listening(settings, a.neighbourhood, Inbox())
