"""Whatever is sent, it is answered with an error or the connection ends; the server lives, and stays small.

Messages are random, cut off, too long, in a wrong order, or those of an ordinary session with something changed. Each
connection is then read to its end: what comes back are whole messages, and it does end.
"""

from __future__ import annotations

import json
import os
import random
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from cli.small import small_project
from headwater.serve.errors import Refused
from headwater.serve.messages import message
from headwater.serve.statements import translated
from serve.conftest import PASSWORD, Served

Random = random.Random
TEXTS = [
    b"SELECT 1", b"SELECT * FROM people WHERE id = $1", b"BEGIN", b"COMMIT", b"SET headwater.at = 2", b"SHOW ALL",
    b"DECLARE c CURSOR FOR SELECT id FROM people", b"FETCH 2 FROM c", b"CLOSE c", b"SELECT pg_catalog.version()", b"",
    b"SELECT $1, $2", b";;", b"SELECT '", b"DEALLOCATE ALL", b"COPY people FROM STDIN", b"\xff\xfe", b"ROLLBACK TO x",
    b"SELECT relname FROM pg_class", b"SELECT " + b"(" * 300, b"SELECT 1/0, name FROM people", b"RESET ALL",
    b"SELECT 1; SELECT nope; SELECT 2", b"LISTEN x", b"EXPLAIN SELECT 1", b"SELECT id FROM people WHERE name = $3",
]  # fmt: skip
KINDS = [bytes([n]) for n in b"QPBDECSHFXpdcfzRKZ\x00\xff1"]


def text(chance: Random) -> bytes:
    return chance.choice(TEXTS) + b"\0"


def ordinary(chance: Random) -> list[tuple[bytes, bytes]]:
    """Messages of an ordinary client."""
    name = chance.choice([b"\0", b"s1\0", b"s2\0"])
    value = chance.choice([b"1", b"x", b"", b"\x00\x00\x00\x01"])
    bound = (
        struct.pack("!hhhi", 1, chance.randrange(2), 1, len(value)) + value + struct.pack("!hh", 1, chance.randrange(2))
    )
    parse = name + text(chance) + struct.pack("!hI", 1, chance.choice([0, 20, 23, 25, 17, 1700, 1184, 999]))
    return [
        (b"P", parse), (b"D", b"S" + name), (b"B", b"\0" + name + bound), (b"D", b"P\0"),
        (b"E", b"\0" + struct.pack("!i", chance.choice([0, 1, -1]))), (b"C", chance.choice([b"S", b"P"]) + name),
        (b"H", b""), (b"S", b""), (b"Q", text(chance)),
    ]  # fmt: skip


def noise(chance: Random) -> bytes:
    body = chance.randbytes(chance.randrange(40))
    return message(chance.choice(KINDS), body + chance.choice([b"", b"\0", b"\0\0\0\0"]))


def shortened(chance: Random) -> bytes:
    kind, body = chance.choice(ordinary(chance))
    return message(kind, body[: chance.randrange(len(body) + 1)])


def disordered(chance: Random) -> bytes:
    return message(*chance.choice(ordinary(chance))) + chance.choice([b"", message(b"S")])


def swapped(chance: Random) -> bytes:
    """An ordinary session, of which two messages have changed places."""
    whole = ordinary(chance)
    one, other = chance.randrange(len(whole)), chance.randrange(len(whole))
    whole[one], whole[other] = whole[other], whole[one]
    return b"".join(message(*part) for part in whole)


def mutated(chance: Random) -> bytes:
    whole = bytearray(message(*chance.choice(ordinary(chance))))
    for _ in range(chance.randrange(1, 4)):
        at = chance.randrange(len(whole))
        how = chance.randrange(3)
        if how == 0:
            whole[at] = chance.randrange(256)
        elif how == 1:
            whole.insert(at, chance.randrange(256))
        elif len(whole) > 1:
            del whole[at]
    return bytes(whole)


def oversized(chance: Random) -> bytes:
    length = chance.choice([-1, 0, 3, 4, 2**31 - 1, 17_000_000, 5_000_000])
    return chance.choice(KINDS) + struct.pack("!i", length) + chance.randbytes(chance.randrange(200))


def misspelt(chance: Random) -> bytes:
    """A statement with letters changed, whole as a message."""
    said = bytearray(chance.choice(TEXTS) + b" ")
    for _ in range(chance.randrange(1, 4)):
        said[chance.randrange(len(said))] = chance.choice(b" '\"$();,.*-/\\%1aZ\xc3")
    simple = message(b"Q", bytes(said) + b"\0")
    return simple if chance.random() < 0.5 else message(b"P", b"\0" + said + b"\0\0\0") + message(b"S")


Way = Callable[[Random], bytes]
GENTLE: list[Way] = [disordered, misspelt, swapped]
"""After these a connection goes on."""
WILD: list[Way] = [noise, shortened, disordered, mutated, misspelt, oversized]


def greeting(chance: Random) -> bytes:
    """What comes before a password."""
    start = struct.pack("!i", 3 << 16) + b"user\0headwater\0database\0headwater\0\0"
    whole = bytearray(
        struct.pack("!i", len(start) + 4) + start + message(b"p", b"SCRAM-SHA-256\0" + chance.randbytes(20))
    )
    for _ in range(chance.randrange(6)):
        whole[chance.randrange(len(whole))] = chance.randrange(256)
    return bytes(whole[: chance.randrange(1, len(whole) + 1)])


def read_out(wire: socket.socket) -> bytes:
    found = b""
    with suppress(ConnectionError):
        while more := wire.recv(1 << 16):
            found += more
    return found


def check_whole(answer: bytes) -> None:
    """Messages from the first byte to the last; the last may be cut by a connection that was reset. Nothing came
    unexpected."""
    assert b"CXX000" not in answer, answer[answer.index(b"CXX000") :][:200]
    at = 0
    while at + 5 <= len(answer):
        assert answer[at : at + 1] in b"RSKZTDCEINts123nGvA", answer[at : at + 20]
        length = struct.unpack("!i", answer[at + 1 : at + 5])[0]
        assert length >= 4
        at += 1 + length


def play(served: Served, chance: Random, messages: int) -> None:
    """About so many messages, over one connection."""
    ways = GENTLE if chance.random() < 0.6 else WILD
    if chance.random() < 0.15:
        with socket.create_connection(("127.0.0.1", served.port), timeout=60) as wire:
            with suppress(OSError):
                wire.sendall(greeting(chance))
                wire.shutdown(socket.SHUT_WR)
            answer = read_out(wire)
            check_whole(answer[1:] if answer[:1] in (b"N", b"S") and answer[1:2] != b"\0" else answer)
        return
    with served.connect() as client, socket.socket(fileno=os.dup(client.fileno())) as wire:
        wire.settimeout(60)
        with suppress(OSError):  # it may be shut in the middle
            for way in chance.choices(ways, k=messages):
                wire.sendall(way(chance))
            if chance.random() < 0.7:
                wire.sendall(message(b"S") + message(b"X"))
            wire.shutdown(socket.SHUT_WR)
        check_whole(read_out(wire))


def fuzz(served: Served, seed: int, messages: int) -> None:
    chance = Random(seed)
    for _ in range(max(1, messages // 20)):
        play(served, chance, 20)


def alive(served: Served) -> bool:
    with served.connect() as client:
        return client.execute("SELECT count(*) FROM people WHERE id > %s", (0,)).fetchone() == (3,)


@pytest.mark.parametrize("seed", range(2))
def test_some_hundred_messages(served: Served, seed: int) -> None:
    fuzz(served, seed, 400)
    assert alive(served)


@pytest.mark.parametrize(
    "query",
    ["SELECT 1" + "::int" * 3_000, "SELECT " + "(" * 3_000, "SELECT 1" + " UNION ALL SELECT 1" * 1_200,
     "SELECT '" + "x" * 1_100_000 + "'"],
)  # fmt: skip
def test_statements_that_would_take_too_much(served: Served, query: str) -> None:
    with served.connect() as client:
        with pytest.raises(psycopg.Error) as raised:
            client.execute(query)  # type: ignore[call-overload]
        assert raised.value.sqlstate in ("54000", "54001", "42601")
    assert alive(served)


def test_who_only_connects_takes_no_more_than_a_few_threads(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.serve.server.STRANGERS", 10 - served.server._terms.connections)
    before, waiting = threading.active_count(), []
    try:
        for _ in range(40):
            waiting.append(socket.create_connection(("127.0.0.1", served.port), timeout=5))
        assert b"too many clients" in read_out(waiting[-1])
        assert threading.active_count() <= before + 12
    finally:
        for connection in waiting:
            connection.close()


def resident(process: int) -> int:
    """Megabytes."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 2**20


@pytest.mark.soak
def test_ten_thousand_messages(tmp_path: Path) -> None:
    """Against the command itself, in a process whose size is watched; four clients at a time."""
    folder = small_project(tmp_path / "small")
    (tmp_path / "password").write_text(PASSWORD)
    said = ["--port", "0", "--json", "--password-file", str(tmp_path / "password"), "--project", str(folder)]
    log = tmp_path / "err"
    with (
        log.open("w") as errors,
        subprocess.Popen(
            [sys.executable, "-m", "headwater.cli.main", "serve", *said],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        port = int(json.loads(process.stdout.readline())["url"].rsplit(":", 1)[1].split("/")[0])
        served = Served(port, folder, None)  # type: ignore[arg-type] # only its address is used
        failed: list[Any] = []

        def some(seed: int, messages: int) -> None:
            try:
                fuzz(served, seed, messages)
            except BaseException as error:
                failed.append(error)

        try:
            sizes = []
            for round_ in range(5):
                threads = [threading.Thread(target=some, args=[100 + 4 * round_ + n, 500]) for n in range(4)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                assert not failed, failed[0]
                assert process.poll() is None
                assert alive(served)
                sizes.append(resident(process.pid))
            assert sizes[-1] < sizes[1] + 100, sizes
        finally:
            process.terminate()
        assert process.wait(30) == 0
    assert "Traceback" not in log.read_text()


def test_what_cannot_be_taken_apart_is_a_syntax_error() -> None:
    for text in ("SELECT '", 'SELECT "', "SELECT $$", "SELECT /*", "SELECT E'\\"):
        with pytest.raises(Refused) as raised:
            translated(text)
        assert raised.value.state == "42601", text
