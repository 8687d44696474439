"""What travels between hub and agents: every value of the port comes back equal, and nothing else gets in."""

from __future__ import annotations

import datetime as dt
import random
from contextlib import suppress
from decimal import Decimal

import pyarrow as pa
import pytest

from headwater.model.conditions import Condition
from headwater.model.errors import HeadwaterError, LifeChanged, SourceUnavailable, UnknownName
from headwater.model.names import Position, SourceName, TableName
from headwater.model.schema import Column, Identity, TableSchema
from headwater.model.source import TRANSACTIONS, Capture, Chunk, Joined, JoinQuestion, Poll, Question
from headwater.sources.agent.calls import Call, perform, read_call
from headwater.sources.agent.frames import LARGEST, Kind, Malformed, frame, frames, together
from headwater.sources.agent.values import heard, heard_rows, told, told_error

TABLE = TableName(SourceName("crm"), 'odd "name" ü', "sch.ema")
KEYS = pa.table({"a": pa.array([1, 2], pa.int64()), "b": ["x", None]})
VALUES = [
    None, True, 5, 2**60, "ü\x00\n", 1.5,
    [1, [2, ("x", None)]],
    frozenset({"a", "b"}),
    {TABLE: TableSchema(TABLE, (Column("a", pa.decimal128(38, 9), "numeric"), Column("b", None, "geometry")), ("a",))},
    {TABLE: {"a": Identity("1", "2", "3", ("1=red",))}},
    Capture("gen", frozenset({TABLE}), {TABLE: "dropped"}, ("other",)),
    Question(TABLE, ("a", "b"), KEYS, ("a",), (Condition("d", "in", (Decimal("1.50"), Decimal("-2"))),)),
    Condition("t", ">=", dt.datetime(2024, 2, 29, 1, 2, 3, 4, dt.UTC)),
    Condition("d", "<", dt.date(1, 1, 1)),
    JoinQuestion((Joined(TABLE, ("a",)), Joined(TABLE, ("b",), (), (("b", 0, "a"),))), ((0, "a"),), KEYS, ("a", "b")),
    Poll(Position("9"), TRANSACTIONS.empty_table(), {TABLE: KEYS}, True, {"t1": Position("8")}),
    Chunk(TABLE, 3, ("1", "2"), 10),
    [(dt.datetime(2024, 1, 1, tzinfo=dt.UTC), dt.datetime(2024, 1, 2, tzinfo=dt.UTC)), None],
]  # fmt: skip


def message(value: object) -> bytes:
    return b"".join(told(value)) + frame(Kind.END)


@pytest.mark.parametrize("value", VALUES, ids=lambda v: type(v).__name__)
@pytest.mark.parametrize("size", [1, 7, 1 << 20])
def test_a_value_comes_back_equal_however_it_is_cut(value: object, size: int) -> None:
    sent = message(value)
    found = heard(frames(sent[at : at + size] for at in range(0, len(sent), size)))
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("value", VALUES[6:10], ids=lambda v: type(v).__name__)
def test_half_a_message_did_not_arrive(value: object) -> None:
    sent = message(value)
    for end in range(0, len(sent), 3):
        with pytest.raises(SourceUnavailable):
            hear_all(sent[:end])


def hear_all(sent: bytes) -> None:
    found = frames([sent])
    heard(found)
    for _ in heard_rows(found):
        pass


def test_errors_are_raised_as_what_they_were() -> None:
    with pytest.raises(LifeChanged, match="restored") as found:
        heard(frames([told_error(LifeChanged("restored", "apply"))]))
    assert found.value.fix == "apply"
    with pytest.raises(UnknownName, match="unknown table"):
        heard(frames([told_error(UnknownName("table", "orderz", ["orders"]))]))


def test_an_error_of_a_kind_that_is_not_ours_is_a_plain_one() -> None:
    body = b'{"kind": "SystemExit", "what": "x", "fix": ""}'
    with pytest.raises(HeadwaterError) as found:
        heard(frames([frame(Kind.ERROR, body)]))
    assert type(found.value) is HeadwaterError


@pytest.mark.parametrize(
    "structure",
    [
        b'{"value": {"$": "SourceSpec", "v": {"name": "x", "url": "y"}}, "tables": 0}',
        b'{"value": {"$": "TableName", "v": {"source": "x", "evil": 1}}, "tables": 0}',
        b'{"value": {"$": "type", "v": "AAAA"}, "tables": 0}',
        b'{"value": {"$": "decimal", "v": "x"}, "tables": 0}',
        b'{"value": {"$": "table", "v": 4}, "tables": 0}',
        b'{"value": [1], "tables": 0}',
        b'{"value": 1}',
        b"[]",
        b"\xff",
        b'{"value": ' + b'{"$": "list", "v": [' * 100 + b"1" + b"]}" * 100 + b', "tables": 0}',
    ],
)
def test_what_is_no_value_of_the_port_is_refused(structure: bytes) -> None:
    with pytest.raises(Malformed):
        heard(frames([frame(Kind.VALUE, structure), frame(Kind.END)]))


def test_announced_sizes_are_not_believed() -> None:
    with pytest.raises(Malformed, match="announced"):
        list(frames([b"A" + (LARGEST + 1).to_bytes(4, "big")]))


def test_noise_is_refused_and_breaks_nothing() -> None:
    noise = random.Random(7)
    good = message(VALUES[13])
    for _ in range(3000):
        broken = bytearray(good)
        for _ in range(noise.randint(1, 4)):
            broken[noise.randrange(len(broken))] = noise.randrange(256)
        with suppress(HeadwaterError):
            hear_all(bytes(broken))


def test_pieces_are_put_together() -> None:
    pieces = [bytes([n]) * n for n in range(1, 60)]
    assert b"".join(together(iter(pieces), 100)) == b"".join(pieces)
    assert all(len(piece) >= 100 for piece in list(together(iter(pieces), 100))[:-1])


def test_a_call_says_what_it_cannot_do() -> None:
    body = b"".join(Call("crm", (), "close", (), {}).told())
    with pytest.raises(HeadwaterError, match="cannot 'close'"):
        heard(frames(perform(read_call(body), lambda call: None)))  # type: ignore[arg-type, return-value]
