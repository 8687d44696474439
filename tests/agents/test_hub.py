"""The hub's doors: who may pass, what is refused, and what an agent that dies leaves behind."""

from __future__ import annotations

import socket
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import urllib3

from headwater.agent.agent import Agent
from headwater.agent.joining import Invitation, join, read_settings
from headwater.agent.line import HubLine
from headwater.agent.state import FILE as STATE
from headwater.hub import desk
from headwater.hub.contacts import Contacts
from headwater.hub.enrolment import Enrolment, Refused, Start
from headwater.hub.serving import open_hub
from headwater.model.errors import ConfigError, SourceRefused, SourceUnavailable, UsageError, WarehouseError
from headwater.model.names import SourceName, TableName
from headwater.model.source import SourceSpec
from headwater.sources import connect
from headwater.sources.agent.adapter import AgentSource
from headwater.storage import Storage

from .hub_here import HubHere, running

TABLE = TableName(SourceName("crm"), "customers")


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[HubHere]:
    opened = HubHere(tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def laptop(hub: HubHere, tmp_path: Path) -> Path:
    """The folder of an agent beside a small database."""
    with closing(sqlite3.connect(tmp_path / "crm.db")) as database, database:
        database.execute("CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT)")
        database.executemany("INSERT INTO customers VALUES (?, ?)", [(n, f"name {n}") for n in range(1000)])
    database.close()
    return hub.invited("laptop", f"sqlite:///{tmp_path / 'crm.db'}")


def source_of(hub: HubHere, agent: str = "laptop") -> AgentSource:
    found = connect(SourceSpec(SourceName("crm"), f"agent://{agent}", tuple(hub.options().items())))
    assert isinstance(found, AgentSource)
    return found


def raw_post(hub: HubHere, door: str, body: bytes, laptop: Path) -> socket.socket:
    """A request that nobody waits for the answer of."""
    made = socket.create_connection((hub.settings.host, hub.settings.port))
    head = f"POST {door} HTTP/1.1\r\nHost: hub\r\nAuthorization: Bearer {read_settings(laptop).token}\r\n"
    made.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    return made


def post(hub: HubHere, door: str, body: bytes = b"{}", token: str = "", **headers: str) -> Any:
    return urllib3.request(
        "POST", f"{hub.settings.address}{door}", body=body, headers={"Authorization": f"Bearer {token}", **headers},
        retries=False, timeout=10,
    )  # fmt: skip


# ── who may pass ─────────────────────────────────────────────────────────────────────────────────────────────────────

DOORS = ("start", "life", "work", "answers/1", "stop")


@pytest.mark.parametrize("door", DOORS)
def test_an_agents_token_opens_its_own_doors_only(hub: HubHere, door: str) -> None:
    one, other = hub.enrolment.enrol("one"), hub.enrolment.enrol("other")
    for token in ("", "x", other, hub.enrolment.secret(), one + "x", "ü"):
        assert post(hub, f"/agents/one/{door}", token=token.encode("utf-8", "ignore").decode("latin-1")).status == 401
    unknown = post(hub, f"/agents/nobody/{door}", token=one)
    wrong = post(hub, f"/agents/other/{door}", token=one)
    assert (unknown.status, unknown.data) == (wrong.status, wrong.data) == (401, wrong.data)  # names are not told


def test_no_agent_reaches_another_ones_source(hub: HubHere) -> None:
    token = hub.enrolment.enrol("one")
    assert post(hub, "/sources/one", token=token).status == 401


def test_a_revoked_token_opens_nothing(hub: HubHere, laptop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.hub.enrolment.LATELY", 0.0)
    with running(laptop):
        assert TABLE in source_of(hub).describe()
        hub.enrolment.revoke("laptop")
        with pytest.raises(SourceUnavailable, match="was revoked"):
            source_of(hub).describe()
    with pytest.raises(SourceRefused, match="no agent of that name has this token"):
        Agent(read_settings(laptop)).run()


def test_a_new_invitation_makes_the_old_one_void(hub: HubHere, laptop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.hub.enrolment.LATELY", 0.0)
    hub.enrolment.enrol("laptop")
    with pytest.raises(SourceRefused):
        Agent(read_settings(laptop)).run()


@pytest.mark.parametrize("name", ["", "../x", "a/b", "ü", "x" * 64, ".hidden", "a b", "a\n"])
def test_odd_names_are_refused(hub: HubHere, name: str) -> None:
    with pytest.raises(UsageError, match="cannot be the name"):
        hub.enrolment.enrol(name)
    assert hub.enrolment.find(name) is None


# ── copies and backups ───────────────────────────────────────────────────────────────────────────────────────────────


def test_tickets(tmp_path: Path) -> None:
    enrolment = Enrolment(Storage(str(tmp_path)))
    enrolment.enrol("a")
    enrolment.starts("a", Start("first", "t1", (1, 1)))
    enrolment.starts("a", Start("first", "t2", (2, 1)))  # it died before it had written t1 down
    enrolment.starts("a", Start("t2", "t3", (3, 1)))
    enrolment.starts("a", Start("t3", "t4", (3, 2)))
    for old in ("first", "t1", "t2", "", "t5"):
        with pytest.raises(Refused, match="restored from a backup"):
            enrolment.starts("a", Start(old, "mine", (9, 9)))
    enrolment.starts("a", Start("t4", "t5", (4, 1)))  # the refused ones have changed nothing
    enrolment.enrol("a")
    enrolment.starts("a", Start("first", "t1", (1, 1)))


def test_a_start_that_arrives_late_changes_nothing(tmp_path: Path) -> None:
    """It was held up on its way until the agent was killed and had started again."""
    enrolment = Enrolment(Storage(str(tmp_path)))
    enrolment.enrol("a")
    enrolment.starts("a", Start("first", "t1", (2, 1)))
    for late in ((1, 1), (1, 7), (2, 1)):
        with pytest.raises(Refused):
            enrolment.starts("a", Start("first", "late", late))
    enrolment.starts("a", Start("t1", "t2", (2, 2)))


def test_an_agent_that_was_killed_and_begun_again_waits_until_its_hub_knows(
    hub: HubHere, laptop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.hub.desk.PATIENCE", 3.0)
    killed = Agent(read_settings(laptop))
    killed._start()  # and nothing more is heard of it
    with running(laptop):
        assert TABLE in source_of(hub).describe()


def test_an_agent_restored_from_a_backup_is_refused_until_it_is_enrolled_again(hub: HubHere, laptop: Path) -> None:
    for _ in range(2):
        with running(laptop):
            pass
    backup = (laptop / STATE).read_bytes()
    for _ in range(2):
        with running(laptop):
            pass
    (laptop / STATE).write_bytes(backup)
    with pytest.raises(SourceRefused, match="restored from a backup"):
        Agent(read_settings(laptop)).run()
    hub.invited("laptop", read_settings(laptop).database)
    with running(laptop):
        assert TABLE in source_of(hub).describe()


def test_the_same_agent_twice_is_refused(hub: HubHere, laptop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.agent.agent.TWIN_SECONDS", 1.0)
    with running(laptop):
        with pytest.raises(SourceRefused, match="connected already"):
            Agent(read_settings(laptop)).run()
        assert TABLE in source_of(hub).describe()


def test_one_that_lives_is_not_followed_however_long_it_has_nothing_to_do(
    hub: HubHere, laptop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(desk, "GONE", 0.2)
    monkeypatch.setattr("headwater.agent.agent.TWIN_SECONDS", 1.0)
    with running(laptop):
        time.sleep(1.0)  # it only waits for work: its sign of life is due later
        other = Agent(read_settings(laptop))
        threading.Timer(5, other.stop).start()  # were it let in, it would run for ever
        with pytest.raises(SourceRefused, match="connected already"):
            other.run()


def test_one_that_was_killed_while_it_waited_is_followed_at_once(hub: HubHere, laptop: Path) -> None:
    """Its lines are closed. When its long polls would have ended shows nothing: it once counted as here for 15 s more
    after that, which was longer than the next one waited, and that one gave up for good."""
    line = HubLine(read_settings(laptop), 2)
    line.start({"instance": "killed", "number": [1, 1], "ticket": "first", "next": "next"})
    polls = [raw_post(hub, f"/agents/laptop/{door}", b'{"instance": "killed", "wait": 20}', laptop)
             for door in ("work", "box")]  # fmt: skip
    time.sleep(0.5)
    for poll in polls:
        poll.close()
    (laptop / STATE).write_text('{"ticket": "next", "runs": 1}')
    begun = time.monotonic()
    with running(laptop):
        assert time.monotonic() - begun < desk.GONE + 3


def test_a_call_whose_agent_is_killed_is_handed_to_the_one_that_follows(hub: HubHere, laptop: Path) -> None:
    line = HubLine(read_settings(laptop), 2)
    line.start({"instance": "killed", "number": [1, 1], "ticket": "first", "next": "next"})
    told: list[Any] = []
    caller = threading.Thread(target=lambda: told.append(source_of(hub).describe()))
    caller.start()
    assert line.work("killed", worker=77) is not None
    line.close()
    (laptop / STATE).write_text('{"ticket": "next", "runs": 1}')
    begun = time.monotonic()
    with running(laptop, wait=False):
        caller.join(10)
    assert TABLE in told[0]
    assert time.monotonic() - begun < desk.PATIENCE / 2


def test_a_call_that_was_lost_on_its_way_is_handed_out_again(
    hub: HubHere, laptop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that asks for work has none. But what kills its agent is not handed out for ever."""
    monkeypatch.setattr(desk, "PATIENCE", 4.0)
    line = HubLine(read_settings(laptop), 2)
    line.start({"instance": "lost", "number": [1, 1], "ticket": "first", "next": "next"})
    failed: list[BaseException] = []

    def call() -> None:
        try:
            source_of(hub).describe()
        except SourceUnavailable as error:
            failed.append(error)

    caller = threading.Thread(target=call)
    caller.start()
    found = [line.work("lost", worker=3) for _ in range(desk.LOSSES)]
    assert len({work.number if work is not None else -n for n, work in enumerate(found)}) == 1
    with raw_post(hub, "/agents/laptop/work", b'{"instance": "lost", "worker": 3}', laptop) as poll:
        poll.settimeout(2)
        with pytest.raises(TimeoutError):
            poll.recv(1)
    caller.join(desk.PATIENCE + 5)
    assert "is away" in str(failed[0])


# ── what is refused ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_is_no_message_is_refused(hub: HubHere, laptop: Path) -> None:
    token = read_settings(laptop).token
    for body in (b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 50_000):
        assert post(hub, "/agents/laptop/start", body, token).status == 400
    assert post(hub, "/agents/laptop/start", b"{}", token).status == 400
    assert post(hub, "/agents/laptop/start", b'{"x": "' + b"y" * 100_000 + b'"}', token).status == 413
    bomb = post(hub, "/agents/laptop/start", b"x" * 100, token, **{"Content-Encoding": "gzip"})
    assert bomb.status == 400
    assert post(hub, "/agents/laptop/answers/77", b"x", token).status == 410
    assert post(hub, "/agents/laptop/answers/x", b"x", token).status == 404
    assert post(hub, "/agents/laptop/life", b'{"instance": "another"}', token).status == 409
    with running(laptop):
        assert TABLE in source_of(hub).describe()


def test_a_port_that_is_taken_is_said(hub: HubHere, tmp_path: Path) -> None:
    assert open_hub(hub.storage, "a warehouse", hub.settings) is None  # the project's own: it is shared
    with pytest.raises(ConfigError, match="another program listens there"):
        open_hub(hub.storage, "another warehouse", hub.settings)


def test_what_is_no_invitation() -> None:
    for word in ("", "x", "headwater-agent-1.", "headwater-agent-1.WzFd", "headwater-agent-1.###"):
        with pytest.raises(UsageError, match="no invitation"):
            Invitation.read(word)
    assert Invitation.read(Invitation("a", "http://x", "t").word()) == Invitation("a", "http://x", "t")


# ── comings and goings ───────────────────────────────────────────────────────────────────────────────────────────────


def test_who_is_away_was_last_heard_of(hub: HubHere, laptop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk, "GRACE", 0.0)
    with pytest.raises(SourceUnavailable, match="agent laptop is away; it was never here"):
        source_of(hub).describe()
    with running(laptop):
        source_of(hub).describe()
    with pytest.raises(SourceUnavailable, match="agent laptop is away; it was last heard of at 20"):
        source_of(hub).describe()
    last = Contacts(hub.storage).last("laptop")
    assert last is not None
    assert last.database == "sqlite"
    with pytest.raises(SourceUnavailable, match="agent nobody is not enrolled"):
        source_of(hub, "nobody").describe()


def test_a_full_disk_sends_no_agent_away(hub: HubHere, laptop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put = Storage.put

    def full(storage: Storage, relative: str, data: bytes) -> None:
        if "contacts" in relative:
            raise WarehouseError("the disk is full")
        put(storage, relative, data)

    monkeypatch.setattr(Storage, "put", full)
    with running(laptop):
        assert TABLE in source_of(hub).describe()


def test_a_hub_that_was_closed_is_found_again(hub: HubHere, laptop: Path) -> None:
    with running(laptop):
        source = source_of(hub)
        source.describe()
        hub.close()
        with pytest.raises(SourceUnavailable):
            source.describe()
        hub.open()
        assert TABLE in source.describe()  # a hub that has just opened waits for its agents


def test_an_agent_that_dies_at_work_is_not_waited_for(
    hub: HubHere, laptop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has taken a call, and is never heard of again: the caller learns it and can ask another time."""
    monkeypatch.setattr(desk, "PATIENCE", 1.0)
    line = HubLine(read_settings(laptop), 2)
    line.start({"instance": "dies", "number": [1, 1], "ticket": "first", "next": "next"})
    failed: list[BaseException] = []

    def call() -> None:
        try:
            source_of(hub).describe()
        except SourceUnavailable as error:
            failed.append(error)

    caller = threading.Thread(target=call)
    caller.start()
    assert line.work("dies") is not None
    caller.join(10)
    assert "is away" in str(failed[0])


@pytest.mark.parametrize("size", range(10, 230, 20))
def test_an_answer_of_the_hub_that_is_cut_off_did_not_arrive(tmp_path: Path, size: int) -> None:
    """Anywhere, among its headers too: of those http.client makes a whole answer without a body."""
    whole = (
        b"HTTP/1.1 200 OK\r\nx-chain: chain_v\r\nx-epoch: 5\r\nx-from: a\r\nx-to: b\r\nx-kind: request\r\nx-call: 7\r\n"
    )
    whole += b"content-length: 69\r\ncontent-type: application/octet-stream\r\n\r\n" + b"x" * 69
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            for _ in range(3):
                near, _address = listening.accept()
                near.recv(65536)
                near.sendall(whole[:size])
                near.shutdown(socket.SHUT_RDWR)
                near.close()

        threading.Thread(target=answer, daemon=True).start()
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        join(tmp_path, Invitation("laptop", address, "token"), "sqlite:///own.db")
        line = HubLine(read_settings(tmp_path), 1)
        for asked in (lambda: line.box(1), lambda: line.work("one"), lambda: line.chain("chain_v")):
            with pytest.raises(SourceUnavailable):
                asked()


def test_an_answer_that_is_cut_off_did_not_arrive(hub: HubHere, laptop: Path) -> None:
    line = HubLine(read_settings(laptop), 2)
    line.start({"instance": "cut", "number": [1, 1], "ticket": "first", "next": "next"})
    failed: list[BaseException] = []

    def call() -> None:
        try:
            source_of(hub).describe()
        except SourceUnavailable as error:
            failed.append(error)

    caller = threading.Thread(target=call)
    caller.start()
    work = line.work("cut")
    assert work is not None

    def half() -> Iterator[bytes]:
        yield b"J\x00\x00\x10\x00half"
        raise ConnectionResetError("the cable was pulled")

    with pytest.raises(SourceUnavailable):
        line.answer(work.number, half())
    caller.join(10)
    assert "cut off" in str(failed[0])


def test_many_ask_at_once_and_each_gets_its_own_answer(hub: HubHere, laptop: Path) -> None:
    found: dict[int, int] = {}
    with running(laptop):
        first = source_of(hub)
        first.install([TABLE])
        at = first.position()

        def read(number: int) -> None:
            chunk = first.chunks(TABLE, 10**6)[0] if number == 0 else chunks[0]
            found[number] = sum(b.num_rows for b in source_of(hub).scan(chunk, ["id", "name"], at))

        chunks = first.chunks(TABLE, 10**6)
        threads = [threading.Thread(target=read, args=(n,)) for n in range(1, 13)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    assert found == dict.fromkeys(range(1, 13), 1000)


def test_a_caller_that_leaves_keeps_nobody(hub: HubHere, laptop: Path) -> None:
    with closing(sqlite3.connect(read_settings(laptop).database.removeprefix("sqlite:///"))) as database, database:
        database.executemany("INSERT INTO customers VALUES (?, ?)", [(n, "x" * 500) for n in range(1000, 40_000)])
    database.close()
    with running(laptop):
        source = source_of(hub)
        source.install([TABLE])
        at = source.position()
        for _ in range(6):  # more than there are workers
            rows = source_of(hub).scan(source.chunks(TABLE, 10**6)[0], ["id", "name"], at)
            next(rows)
            rows.close()  # type: ignore[attr-defined]
        began = time.monotonic()
        assert source.position() == at
        assert time.monotonic() - began < 10


def test_secrets_are_not_told(hub: HubHere, laptop: Path) -> None:
    settings = read_settings(laptop)
    assert settings.token not in repr(settings)
    assert settings.token not in repr(Invitation("a", "b", settings.token))
    assert (laptop / "agent.toml").stat().st_mode & 0o077 == 0
    assert settings.token not in (Path(hub.storage.url) / "hub/agents/laptop.json").read_text()
    assert (Path(hub.storage.url) / "hub/secret").stat().st_mode & 0o077 == 0
