"""Many transactions of the log at once say what they say one by one: the same history, read in both ways."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pyarrow as pa
import pytest

from headwater.model.names import Position, TableName
from headwater.model.source import Poll
from headwater.sources.mariadb import many_images, runs, window
from mariadb_server import MariadbServer

from .log_database import Database, scanned

SERVERS = [pytest.param(name, marks=getattr(pytest.mark, name)) for name in ("mariadb", "mysql")]
NEVER = 1 << 40

VALUES: dict[str, tuple[str, tuple[str, ...]]] = {
    "tiny": ("tinyint", ("-128", "-1", "0", "127")),
    "tiny_u": ("tinyint unsigned", ("0", "128", "255")),
    "small": ("smallint", ("-32768", "32767")),
    "medium": ("mediumint", ("-8388608", "-1", "8388607")),
    "medium_u": ("mediumint unsigned", ("0", "16777215")),
    "i": ("int", ("-2147483648", "-1", "7", "2147483647")),
    "i_u": ("int unsigned", ("0", "4294967295")),
    "big": ("bigint", ("-9223372036854775808", "-1", "9223372036854775807")),
    "big_u": ("bigint unsigned", ("0", "18446744073709551615")),
    "f": ("float", ("0", "-1.5", "3.4e38")),
    "d": ("double", ("0", "-1e-300", "1.7e308")),
    "money": ("decimal(10,2)", ("0", "-0.01", "12345678.90", "-99999999.99")),
    "digits": ("decimal(18,0)", ("-999999999999999999", "999999999999999999")),
    "part": ("decimal(9,9)", ("0.000000001", "-0.999999999")),
    "wide": ("decimal(38,10)", ("-1.5", "9999999999999999999999999999.9999999999")),
    "day": ("date", ("'0001-01-01'", "'1969-12-31'", "'2024-02-29'", "'9999-12-31'")),
    "odd_day": ("date", ("'2024-01-01'", "'0000-00-00'", "'2024-02-00'")),
    "moment": ("datetime", ("'0001-01-01 00:00:00'", "'2024-02-29 23:59:59'")),
    "moment6": ("datetime(6)", ("'1969-12-31 23:59:59.999999'", "'9999-12-31 23:59:59.999999'")),
    "stamp": ("timestamp NULL", ("'1970-01-01 00:00:01'", "'2038-01-19 03:14:07'")),
    "stamp3": ("timestamp(3) NULL", ("'2024-02-29 12:00:00.123'", "'1999-12-31 23:59:59.999'")),
    "hours": ("time(2)", ("'-838:59:59'", "'00:00:00.01'", "'12:30:00.99'")),
    "y": ("year", ("1901", "2155")),
    "text": ("varchar(40)", ("''", "'plain'", "' two  '", "'Žluťoučký 🐎'", "'''quoted'''")),
    "long_text": ("varchar(300)", ("''", "repeat('ä', 300)")),
    "fixed": ("char(10)", ("''", "'ab'", "' ab '")),
    "latin": ("varchar(20) CHARACTER SET latin1", ("'é'", "'plain'")),
    "blob_": ("blob", ("''", "X'00ff'")),
    "text_": ("text", ("''", "repeat('x', 500)")),
    "bin_": ("binary(4)", ("X'01'", "X'01020304'")),
    "kind": ("enum('a','b')", ("'a'", "'b'")),
    "kinds": ("set('a','b','c')", ("''", "'a,c'")),
    "flag": ("bit(1)", ("b'0'", "b'1'")),
    "flags": ("bit(20)", ("b'101'", "b'11111111111111111111'")),
}  # fmt: skip


@pytest.fixture(params=SERVERS)
def db(request: pytest.FixtureRequest) -> Iterator[Database]:
    server: MariadbServer = request.getfixturevalue(request.param)
    database = Database(server)
    yield database
    database.close()


def statements(chance: Random, number: int) -> Iterator[str]:
    """Mostly transactions of one statement, as a run has them, and now and then something else in between."""

    def row() -> str:
        said = ("NULL" if chance.random() < 0.2 else chance.choice(values) for _, values in VALUES.values())
        return f"({number}, {', '.join(said)})"

    kind = chance.randrange(30)
    if kind < 14:
        yield f"INSERT INTO t VALUES {row()}"
    elif kind < 22:
        name = chance.choice(list(VALUES))
        many = f"id % 97 = {chance.randrange(97)}"
        yield f"UPDATE t SET {name} = {chance.choice(VALUES[name][1])} WHERE {many}"
    elif kind < 25:
        yield f"DELETE FROM t WHERE id % 89 = {chance.randrange(89)}"
    elif kind < 27:
        yield f"INSERT INTO u VALUES ({number}, 'beside')"
    elif kind == 27:
        yield from ("BEGIN", f"INSERT INTO t VALUES {row()}", f"INSERT INTO u VALUES ({number}, 'with it')", "COMMIT")
    elif kind == 28:
        name = f"'x{number}'"
        yield from (f"XA START {name}", f"INSERT INTO t VALUES {row()}", f"XA END {name}", f"XA PREPARE {name}")
        yield f"XA COMMIT {name}"
    else:
        yield chance.choice(("FLUSH BINARY LOGS", "FLUSH TABLES", "ALTER TABLE u COMMENT = 'other'"))


def polls(db: Database, start: Position, tables: dict[TableName, list[str]], limit: int) -> list[Poll]:
    source, at, found = db.adapter(), start, []
    while True:
        found.append(source.poll(at, tables, limit))
        at = found[-1].end
        if not found[-1].more:
            source.close()
            return found


def schema(table: pa.Table) -> dict[str, pa.DataType]:
    return {field.name: field.type for field in table.schema}


def said(poll: Poll) -> tuple[object, ...]:
    """The server notes checkpoints behind the last transaction when it likes, so the end of the log moves."""
    changes = {name: table.to_pylist() for name, table in poll.changes.items()}
    end = poll.end if poll.more else None
    return end, poll.more, poll.transactions.to_pylist(), changes, list(map(schema, poll.changes.values()))


@pytest.mark.parametrize("seed", [1, 2])
def test_whatever_is_told_is_the_same(db: Database, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = Random(seed)
    db.run("SET sql_mode = ''")
    columns = ", ".join(f"{name} {kind}" for name, (kind, _) in VALUES.items())
    t = db.captured(f"CREATE TABLE t (id int PRIMARY KEY, {columns})")
    u = db.captured("CREATE TABLE u (id int, s varchar(9))", "u")
    tables = {t: ["id", *VALUES], u: ["id", "s"]}
    start, places = db.source.position(), list[Position]()
    for number in range(500):
        db.run(*statements(chance, number))
        if chance.randrange(40) == 0:
            places.append(db.source.position())
    taken = list[int]()
    many = many_images.decoded
    monkeypatch.setattr(runs, "LARGEST", 8192)
    monkeypatch.setattr(
        "headwater.sources.mariadb.poll.decoded", lambda part, wanted: taken.append(len(part.of)) or many(part, wanted)
    )
    for limit in (3, 50, 1_000_000):
        monkeypatch.setattr(runs, "FEWEST", NEVER)
        one_by_one = polls(db, start, tables, limit)
        assert not taken
        monkeypatch.setattr(runs, "FEWEST", 1)
        together = polls(db, start, tables, limit)
        assert sum(taken) > 100
        for many_told, told in zip(together, one_by_one, strict=True):
            assert said(many_told) == said(told)
        taken.clear()
    fitting = ["id", *(name for name in VALUES if name != "odd_day")]
    for at in places:
        found = []
        for fewest in (NEVER, 1):
            monkeypatch.setattr(runs, "FEWEST", fewest)
            monkeypatch.setattr(window, "_windows", {})  # what was read before is read again
            found.append(scanned(db, t, fitting, at))
        assert found[0] == found[1]
