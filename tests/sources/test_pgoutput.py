"""Messages of PostgreSQL's output plugin, read many at once and one by one: both must say the same, however the
messages are cut into batches."""

from __future__ import annotations

import struct
from collections import Counter
from random import Random

import pytest

from headwater.sources.postgres.pgoutput import Decoder

from . import pgoutput_reference as reference

VALUES = [b"", b"1", b"some text", b'a"b', b"back\\slash", b"(x)", b"a,b", b" ", b"\t", b"\v", b"\f", b"\r\n",
          "ä€😀".encode(), "\u00a0".encode(), b"\xa0\xff", b"t", b"n", b"x" * 300]  # fmt: skip


class Server:
    """Says what a server would say of random transactions."""

    def __init__(self, seed: int) -> None:
        self._chance = Random(seed)
        self._columns = {oid: self._chance.choice([0, 1, 2, 5]) for oid in (7, 8, 1 << 31)}
        self._described: set[int] = set()
        self._place = 1000
        self.messages: list[bytes] = []

    def run(self, transactions: int) -> None:
        for number in range(transactions):
            commit, end = self._place + 10, self._place + 10 + self._chance.randint(1, 60)
            self._place = end
            at = 800_000_000_000_000 + number
            self.messages.append(b"B" + struct.pack(">qqI", commit, at, (1 << 32) - 50 + number & 0xFFFFFFFF))
            for _ in range(self._chance.choice([0, 1, 1, 1, 2, 7])):
                self._change()
            self.messages.append(b"C" + struct.pack(">bqqq", 0, commit, end, at))

    def _change(self) -> None:
        oid = self._chance.choice(list(self._columns))
        if self._chance.random() < 0.1:
            self._columns[oid] = self._chance.choice([0, 1, 2, 5])
            self._described.discard(oid)
        width = self._columns[oid]
        if oid not in self._described:
            names = b"".join(b"\0" + f"c{n}".encode() + b"\0" + struct.pack(">Ii", 25, -1) for n in range(width))
            name = b"public\0t\0f"
            self.messages.append(b"R" + struct.pack(">I", oid) + name + struct.pack(">H", width) + names)
            self._described.add(oid)
        head = struct.pack(">I", oid)
        match self._chance.randint(0, 9):
            case 0 | 1 | 2:
                self.messages.append(b"I" + head + b"N" + self._tuple(width))
            case 3 | 4 | 5 | 6:
                old, new = self._tuple(width), self._tuple(width, unchanged=True)
                self.messages.append(b"U" + head + b"O" + old + b"N" + new)
            case 7:
                self.messages.append(b"D" + head + b"O" + self._tuple(width))
            case 8:
                key = self._chance.choice([b"K" + self._tuple(width) + b"N", b"N"])
                self.messages.append(b"U" + head + key + self._tuple(width))
            case _:
                self.messages.append(b"T" + struct.pack(">IBI", 1, 0, oid))
                self.messages.append(b"O" + struct.pack(">q", 1) + b"origin\0")

    def _tuple(self, width: int, unchanged: bool = False) -> bytes:
        said = [struct.pack(">H", width)]
        for _ in range(width):
            if self._chance.random() < 0.2:
                said.append(b"u" if unchanged and self._chance.random() < 0.5 else b"n")
            else:
                value = self._chance.choice(VALUES)
                said.append(b"t" + struct.pack(">I", len(value)) + value)
        return b"".join(said)


Said = tuple[int, int, int, bool, frozenset[int], Counter[tuple[reference.Relation, int, bytes]]]


def one_by_one(messages: list[bytes], since: int) -> tuple[list[Said], set[int]]:
    found, partial = list[Said](), set[int]()
    for one in reference.transactions(messages):
        if one.end > since:
            told = bool(one.changes or one.truncated)
            rows = Counter((change.relation, change.count, change.row) for change in one.changes)
            at = one.at - reference.EPOCH_MICROSECONDS
            found.append((one.xid, at, one.end, told, frozenset(one.truncated), rows))
            partial |= one.partial
    return found, partial


def at_once(batches: list[list[bytes]], since: int) -> tuple[list[Said], set[int]]:
    decoder, found, partial = Decoder(since), list[Said](), set[int]()
    truncated, rows = set[int](), Counter[tuple[reference.Relation, int, bytes]]()
    for messages in batches:
        batch = decoder.decode(messages)
        partial |= set(batch.partial)
        each = [Counter[tuple[reference.Relation, int, bytes]]() for _ in batch.xids]
        for one in batch.rows:
            relation = reference.Relation(one.relation.oid, one.relation.columns)
            assert sorted(one.transaction.tolist()) == one.transaction.tolist()
            for n, count, text in zip(one.transaction.tolist(), one.count.tolist(), one.texts.to_pylist(), strict=True):
                each[n][relation, count, text] += 1
        for n, xid in enumerate(batch.xids.tolist()):
            rows += each[n]
            for place, oids in batch.truncated:
                truncated |= set(oids) if place == n else set()
            if end := int(batch.ends[n]):
                told = bool(batch.told[n])
                found.append((xid, int(batch.at[n]), end, told, frozenset(truncated), rows))
                assert int(batch.upto[n]) == end
                truncated, rows = set(), Counter()
    return found, partial


@pytest.mark.parametrize("seed", range(150))
def test_both_decoders_say_the_same(seed: int) -> None:
    server, chance = Server(seed), Random(-seed - 1)
    server.run(chance.choice([1, 5, 60]))
    ends = [one.end for one in reference.transactions(server.messages)]
    since = chance.choice([0, chance.choice(ends), chance.choice(ends) + chance.randint(1, 10)])
    batches, rest = list[list[bytes]](), list(server.messages)
    while rest:
        size = chance.choice([1, 2, 3, 10, 1000])
        batches.append(rest[:size])
        rest = rest[size:]
    assert at_once(batches, since) == one_by_one(server.messages, since)


def test_a_transaction_is_told_as_it_comes() -> None:
    """So that one of any size needs no more memory than a small one."""
    server = Server(1)
    server.run(1)
    begin, end = server.messages[0], server.messages[-1]
    relation = b"R" + struct.pack(">I", 1) + b"public\0t\0f" + struct.pack(">H", 0)
    insert = b"I" + struct.pack(">I", 1) + b"N" + struct.pack(">H", 0)
    decoder = Decoder(0)
    first, second = decoder.decode([begin, relation, insert, insert]), decoder.decode([insert, end])
    assert [len(b.rows[0].texts) for b in (first, second)] == [2, 1]
    assert [b.ends.tolist() != [0] for b in (first, second)] == [False, True]
    assert second.told.tolist() == [True]
