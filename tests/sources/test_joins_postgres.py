"""Join questions at PostgreSQL: collations, types that only look alike, values that do not fit, and index probes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from headwater.model.errors import SchemaChanged, ValueUnfit
from headwater.model.names import Position, TableName
from headwater.model.source import COUNT, ORDINAL, Joined, JoinQuestion
from headwater.sources.postgres.adapter import PROBING
from headwater.sources.postgres.joins import join_statement
from headwater.sources.postgres.reading import READ

from .postgres_database import Database, db
from .world import fold

__all__ = ["db"]  # a fixture

pytestmark = pytest.mark.postgres


def question(left: TableName, right: TableName, on: tuple[str, str], told: tuple[str, ...] = ()) -> JoinQuestion:
    """Rows 0 … 9 of the left, by id, with the right where its column equals; and `told` of the right."""
    tables = (Joined(left, ("id",)), Joined(right, ("id", *told), on=((on[1], 0, on[0]),)))
    names = ("l", "r", *told)
    return JoinQuestion(tables, ((0, "id"),), pa.table({"id": pa.array(range(10), pa.int64())}), names)


def joined(db: Database, asked: JoinQuestion, at: Position) -> Counter[Any]:
    return fold(db.source.ask_join(asked, at), ["l", "r"])


def two(db: Database, left: str, right: str) -> tuple[TableName, TableName]:
    names = [
        db.captured(f"CREATE TABLE {name} (id bigint PRIMARY KEY, {columns})", name)
        for name, columns in (("l", left), ("r", right))
    ]
    for column in right.split(","):
        db.run(f"CREATE INDEX ON r ({column.split()[0]})")
    return names[0], names[1]


def test_columns_that_only_look_alike_are_joined_exactly(db: Database) -> None:
    """Whatever they are compared by at home: in base rows, and in changes that are taken back."""
    try:
        db.run("CREATE COLLATION anycase (provider = icu, locale = 'und-u-ks-level2', deterministic = false)")
    except psycopg.errors.FeatureNotSupported:
        db.run('CREATE COLLATION anycase FROM "C"')
    db.run("""CREATE COLLATION other FROM "POSIX" """, "CREATE TYPE mood AS ENUM ('up', 'down')")
    u = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
    left, right = two(
        db,
        "t text, o text COLLATE other, small smallint, big bigint, m mood, d date",
        "s text COLLATE anycase, c char(4), u uuid, m mood, k time, i integer, d date, n name, v varchar(5)",
    )
    db.run(
        f"INSERT INTO r VALUES (1, 'Ab', 'x', '{u}', 'up', '10:00', 7, '2024-02-29', 'nm', 'vc'),"
        f" (2, 'ab', 'X', NULL, 'down', '10:00:00.5', 70000, 'infinity', 'NM', '')"
    )
    texts = ["Ab", "AB", "x", "x ", u, u.upper(), "up", "sideways", "10:00:00", "10:00"]
    for n, text in enumerate(texts):
        day = ["2024-02-29", "infinity", None][n % 3]
        db.main.execute("INSERT INTO l VALUES (%s, %s, %s, %s, %s, %s, %s)", [n, text, text, n, 70000 + n, "up", day])
    at = db.source.position()
    pairs = {
        ("t", "s"): {(0, 1)},
        ("o", "s"): {(0, 1)},
        ("o", "c"): {(2, 1)},
        ("t", "u"): {(4, 1)},
        ("t", "m"): {(6, 1)},
        ("m", "m"): {(n, 1) for n in range(10)},
        ("t", "k"): {(8, 1)},
        ("small", "i"): {(7, 1)},
        ("big", "i"): {(0, 2)},
        ("d", "d"): {(n, 1) for n in range(0, 10, 3)},
        ("t", "n"): set(),
        ("o", "v"): set(),
    }
    for on, expected in pairs.items():
        assert joined(db, question(left, right, on), at) == Counter(expected), on
    db.run("DELETE FROM l", "DELETE FROM r")
    for on, expected in pairs.items():
        assert joined(db, question(left, right, on), at) == Counter(expected), on
        assert not joined(db, question(left, right, on), db.source.position())


def test_a_value_that_does_not_fit_is_named_by_its_table(db: Database) -> None:
    left, right = two(db, "k int", "k int, d date, other date")
    db.run(
        "INSERT INTO l VALUES (1, 1), (2, 2)",
        "INSERT INTO r VALUES (5, 1, '2024-01-01', NULL), (6, 2, 'infinity', NULL)",
    )
    at = db.source.position()
    with pytest.raises(ValueUnfit, match=r"pg\.public\.r\.d: the value infinity of the row with id = 6"):
        list(db.source.ask_join(question(left, right, ("k", "k"), ("d",)), at))
    assert joined(db, question(left, right, ("k", "k"), ("other",)), at) == Counter({(1, 5): 1, (2, 6): 1})
    db.run("UPDATE l SET k = 1 WHERE id = 2")  # now nobody meets that row
    answer = fold(db.source.ask_join(question(left, right, ("k", "k"), ("d",)), db.source.position()), [ORDINAL, "r"])
    assert answer == Counter({(1, 5): 1, (2, 5): 1})


def test_a_table_that_is_altered_is_read_anew(db: Database) -> None:
    left, right = two(db, "k int", "k int, x int")
    db.run("INSERT INTO l VALUES (1, 1)", "INSERT INTO r VALUES (5, 1, 7)")
    asked, at = question(left, right, ("k", "k"), ("x",)), db.source.position()
    db.source.expect(db.source.identities({left: ["id", "k"], right: ["id", "k", "x"]}))
    assert joined(db, asked, at) == Counter({(1, 5): 1})
    db.run("ALTER TABLE r ADD COLUMN more text DEFAULT 'x'", "UPDATE r SET more = 'y', x = 8")
    assert fold(db.source.ask_join(asked, at), ["x"]) == Counter({(7,): 1})
    db.run("ALTER TABLE r DROP COLUMN x, ADD COLUMN x int")
    with pytest.raises(SchemaChanged):
        joined(db, asked, at)


def test_rows_that_changed_often_do_not_meet_in_all_their_versions(db: Database) -> None:
    """2,000 versions of either row since then, and one row that was."""
    left, right = two(db, "k int, x int", "k int, x int")
    db.run("INSERT INTO l VALUES (1, 1, 0)", "INSERT INTO r VALUES (5, 1, 0)")
    at = db.source.position()
    for table in "lr":
        db.run(f"DO $$ BEGIN FOR n IN 1..1000 LOOP UPDATE {table} SET x = n; END LOOP; END $$")
    (batch,) = db.source.ask_join(question(left, right, ("k", "k"), ("x",)), at)
    assert batch.to_pylist() == [{ORDINAL: 1, "l": 1, "r": 5, "x": 0, COUNT: 1}]


def test_every_probe_goes_through_an_index(db: Database) -> None:
    """Of tables with 100,000 rows, a question reads what its keys find."""
    tables = ["fact", "dim", "far"]
    db.run(
        "CREATE TABLE fact (id bigint PRIMARY KEY, dim_id int, note text)",
        "CREATE TABLE dim (id int PRIMARY KEY, code text)",
        "CREATE TABLE far (code text PRIMARY KEY, x int)",
        "INSERT INTO fact SELECT n, n % 50000, 'n' || n FROM generate_series(1, 100000) AS n",
        "INSERT INTO dim SELECT n, 'c' || n FROM generate_series(0, 99999) AS n",
        "INSERT INTO far SELECT 'c' || n, n FROM generate_series(0, 99999) AS n",
    )
    fact, dim, far = (db.captured("SELECT 1", name) for name in tables)
    db.run("ANALYZE")
    at = db.source.position()
    db.run("UPDATE fact SET note = note || '!' WHERE id <= 2000", "UPDATE far SET x = x + 1 WHERE x < 2000")
    keys = pa.table({"id": pa.array(range(1, 1001), pa.int64())})
    asked = JoinQuestion(
        (
            Joined(fact, ("note",)),
            Joined(dim, (), on=(("id", 0, "dim_id"),)),
            Joined(far, ("x",), on=(("code", 1, "code"),)),
        ),
        ((0, "id"),),
        keys,
        ("note", "x"),
    )
    found = fold(db.source.ask_join(asked, at), [ORDINAL, "note", "x"])
    assert found == Counter({(n - 1, f"n{n}", n): 1 for n in range(1, 1001)})
    known = {name: db.source._known.captured(db.main, name, columns) for name, columns in asked.named().items()}
    statement = join_statement(known, asked, at, (0, 20_000))
    with db.connect(autocommit=True) as connection:
        connection.execute(READ + PROBING)
        plan = "\n".join(
            row[0] for row in connection.execute(b"EXPLAIN (ANALYZE, COSTS OFF) " + statement.as_bytes(connection))
        )
    for table in tables:
        assert f"Seq Scan on {table}" not in plan, plan
    assert plan.count("Index Scan using") + plan.count("Index Only Scan using") >= 3, plan
    assert "Nested Loop (actual" in plan, plan
