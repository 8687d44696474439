"""What only MySQL has: JSON as a type of its own, tags of transactions, parts of rows, hidden columns, roles.

What it shares with MariaDB is tested in `test_mariadb.py`, and which state its snapshots show in
`test_mysql_moments.py`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from random import Random

import pyarrow as pa
import pymysql
import pytest

from headwater.model.conditions import Condition
from headwater.model.errors import SchemaChanged, SourceRefused
from headwater.model.names import TableName
from headwater.model.source import Chunk, Question, SourceSpec
from headwater.sources.mariadb.adapter import MariadbSource
from headwater.sources.mariadb.connection import ConnectionPool
from headwater.sources.mariadb.dialect import dialect_of, number_of, steps_to
from headwater.sources.mariadb.gtids import Gtids
from headwater.sources.mariadb.moments import readable_key, still
from mariadb_server import MariadbServer

from .log_database import SRC, Bag, Database, fold, scanned, told


@pytest.fixture
def db(mysql: MariadbServer) -> Iterator[Database]:
    database = Database(mysql)
    yield database
    database.close()


# ── JSON ─────────────────────────────────────────────────────────────────────────────────────────────────────────

DOCUMENTS = [
    "'null'", "'true'", "'[false, null, true]'", "'{}'", "'[]'", "'\"\"'",
    "'{\"b\": 1, \"aa\": {\"c\": [1, 2, {\"d\": \"e\"}]}, \"\": -1}'",
    "'[0, -1, 32767, -32768, 65535, 65536, 2147483647, -2147483648, 4294967295, 4294967296]'",
    "'[-9223372036854775808, 9223372036854775807, 18446744073709551615, 18446744073709551616]'",
    "'[1.0, 0.1, -0.0, 1e20, 1e-7, 123456789012345680000, 1.7976931348623157e308, 5e-324, 100000000000000.5]'",
    "JSON_QUOTE('it\\'s \"x\" \\\\ / ß 漢 😀 \\n\\t\\b\\r\\f\\0 \\Z')",
    "JSON_OBJECT('d', 12.340, 'e', -0.05, 'big', 123456789012345678901234567890.5)",
    "JSON_ARRAY(TIMESTAMP'2024-02-29 23:59:59.5', DATE'2024-02-29', TIME'-838:59:59', TIME'01:02:03.000004')",
    "JSON_ARRAY(CAST(TIMESTAMP'2001-01-01 00:00:00' AS DATETIME(6)), CAST(X'00FF80' AS BINARY), b'101')",
    "JSON_OBJECT('blob', CAST('abc' AS BINARY(3)), 'year', CAST(2024 AS YEAR))",
    "JSON_ARRAY(REPEAT('x', 200), REPEAT('y', 70000), 7, JSON_OBJECT('k', JSON_ARRAY(1, 'z')))",
    "CAST(CONCAT('[', REPEAT('{\"key\": [1, 2.5, \"t\"]}, ', 4000), '0]') AS JSON)",
    "CAST(CONCAT('{', REPEAT('', 0), '\"', REPEAT('k', 300), '\": [70000, -70000]}') AS JSON)",
]  # fmt: skip


@pytest.mark.mysql
def test_json_reads_the_same_from_table_and_log(db: Database) -> None:
    t = db.captured("CREATE TABLE t (id int PRIMARY KEY, j json, after_it int)")
    start, chance = db.source.position(), Random(5)
    for number, document in enumerate(DOCUMENTS):
        db.run(f"INSERT INTO t VALUES ({number}, {document}, {number})")
    doubles = [chance.choice((-1, 1)) * chance.random() * 10.0 ** chance.randint(-25, 25) for _ in range(2000)]
    doubles += [float(f"1e{n}") for n in range(-20, 25)] + [float(f"12345e{n}") for n in range(-25, 25)]
    with db.main.cursor() as cursor:
        cursor.execute("INSERT INTO t VALUES (1000, %s, NULL), (1001, NULL, 1)", [json.dumps(doubles)])
    at = db.source.position()
    whole = scanned(db, t, ["id", "j", "after_it"], at)
    poll = db.source.poll(start, {t: ["id", "j", "after_it"]}, 10_000)
    logged = sum((Counter(bag) for bag in told(poll, t)), Counter())
    texts, theirs = ({row[0]: row[1].split(", ") for row in bag if row[1]} for bag in (logged, whole))
    for number in texts:
        for mine, other in zip(texts[number], theirs[number], strict=True):
            assert mine == other, DOCUMENTS[number] if number < 1000 else "a double"
    assert logged == whole
    one = Condition("j", "=", '{"a": 1.0}')
    db.run("""INSERT INTO t VALUES (2000, '{"a": 1.0}', 1), (2001, '{"a": 1}', 1)""")
    found = db.source.scan(Chunk(t, 0), ["id"], db.source.position(), [one])
    assert fold(found) == {(2000,): 1}, "equal as texts"
    db.run("DELETE FROM t")
    assert scanned(db, t, ["id", "j", "after_it"], at) == whole, "from the log alone"


@pytest.mark.mysql
def test_a_part_of_a_row_halts(db: Database) -> None:
    t = db.captured("CREATE TABLE t (id int PRIMARY KEY, j json, other int)")
    db.source.expect(db.source.identities({t: ["id", "j"]}))
    db.run("INSERT INTO t VALUES (1, JSON_OBJECT('a', REPEAT('x', 1000), 'b', 2), 3)")
    start = db.source.position()
    db.run("SET binlog_row_value_options = 'PARTIAL_JSON'", "UPDATE t SET j = JSON_SET(j, '$.b', 3)")
    with pytest.raises(SchemaChanged, match="binlog_row_image"):
        db.source.poll(start, {t: ["id", "j"]}, 10)


# ── transactions ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.mysql
def test_transactions_have_the_names_that_the_server_gives_them(db: Database) -> None:
    t = db.captured("CREATE TABLE t (id int PRIMARY KEY)")
    start = db.source.position()
    before = Gtids.parse(str(db.run("SELECT @@GLOBAL.gtid_executed")[0][0]))
    db.run("INSERT INTO t VALUES (1)", "SET gtid_next = 'AUTOMATIC:tag_of_mine'", "INSERT INTO t VALUES (2)")
    db.run("SET gtid_next = 'AUTOMATIC'", "SET binlog_transaction_compression = ON", "INSERT INTO t VALUES (3)")
    db.run("SET gtid_next = '11111111-2222-3333-4444-555555555555:9000000000'", "INSERT INTO t VALUES (4)")
    db.run("SET gtid_next = '11111111-2222-3333-4444-555555555555:other:77'", "INSERT INTO t VALUES (5)")
    db.run("SET gtid_next = 'AUTOMATIC'", "XA START 'x'", "INSERT INTO t VALUES (6)", "XA END 'x'")
    db.run("XA COMMIT 'x' ONE PHASE", "CREATE TABLE u AS SELECT * FROM t", "INSERT INTO t VALUES (7)")
    poll = db.source.poll(start, {t: ["id"]}, 100)
    assert told(poll, t) == [{(n,): 1} for n in range(1, 8)]
    names = poll.transactions.column(0).to_pylist()
    assert names[3:5] == [f"11111111-2222-3333-4444-555555555555:{n}" for n in ("9000000000", "other:77")]
    assert ":tag_of_mine:" in names[1]
    after = Gtids.parse(str(db.run("SELECT @@GLOBAL.gtid_executed")[0][0]))
    for name in names:
        assert name in after
        assert name not in before
    assert after.includes(before)
    assert not before.includes(after)
    assert scanned(db, t, ["id"], start) == {}
    assert scanned(db, t, ["id"], poll.end) == {(n,): 1 for n in range(1, 8)}


def test_sets_of_transactions() -> None:
    a, b = "aaaaaaaa-0000-0000-0000-000000000001", "bbbbbbbb-0000-0000-0000-000000000002"
    held = Gtids.parse(f"{a}:1-5:7:tag:2-3,\n{b}:10")
    for name in (f"{a}:1", f"{a}:5", f"{a}:7", f"{a}:tag:3", f"{b}:10"):
        assert name in held
    for name in (f"{a}:6", f"{a}:8", f"{a}:tag:1", f"{b}:9", f"{b}:tag:2", "", "x"):
        assert name not in held
    assert held.includes(Gtids.parse(f"{a}:2-4:tag:2"))
    assert not held.includes(Gtids.parse(f"{a}:4-7"))
    assert held.includes(Gtids.parse(""))


def test_the_words_of_each_version() -> None:
    assert dialect_of("9.7.4-2").log_end == dialect_of("8.4.3").log_end == "SHOW BINARY LOG STATUS"
    assert dialect_of("8.0.40").log_end == dialect_of("5.5.5-10.11.6-MariaDB").log_end == "SHOW MASTER STATUS"
    assert number_of("5.5.5-10.11.6-MariaDB") == (10, 11)
    assert number_of("5.7.44-log") < dialect_of("5.7.44-log").oldest
    modes = [s.split()[-1] for s in steps_to("gtid_mode", "OFF_PERMISSIVE", "ON", dialect_of("8.0.40"))]
    assert modes == ["ON_PERMISSIVE;", "ON;"]


# ── columns that nobody sees, and keys ───────────────────────────────────────────────────────────────────────────


@pytest.mark.mysql
def test_hidden_and_computed_columns_move_nothing(db: Database) -> None:
    t = db.captured(
        "CREATE TABLE t (a int, v int AS (a + 1) VIRTUAL, s int AS (a + 2) STORED, i int INVISIBLE DEFAULT 5,"
        " x varchar(20), KEY ((a * 2)), KEY ((lower(x))))"
    )
    start = db.source.position()
    db.run("INSERT INTO t (a, x) VALUES (1, 'One')", "ALTER TABLE t ADD COLUMN n int DEFAULT 9, ALGORITHM = INSTANT")
    db.run("UPDATE t SET a = 2, x = 'Two'")
    at = db.source.position()
    columns = ["a", "s", "i", "x"]
    poll = db.source.poll(start, {t: columns}, 10)
    assert told(poll, t) == [{(1, 3, 5, "One"): 1}, {(1, 3, 5, "One"): -1, (2, 4, 5, "Two"): 1}]
    assert scanned(db, t, columns, at) == {(2, 4, 5, "Two"): 1}
    db.run("DELETE FROM t")
    assert scanned(db, t, columns, at) == {(2, 4, 5, "Two"): 1}
    assert scanned(db, t, columns, start) == {}


@pytest.mark.mysql
def test_a_key_that_the_server_made_up_is_one(db: Database) -> None:
    db.run("SET sql_generate_invisible_primary_key = ON")
    t = db.captured("CREATE TABLE t (a int)")
    schema = db.source.describe()[t]
    assert schema.key == ("my_row_id",)
    start = db.source.position()
    db.run("INSERT INTO t (a) VALUES (1), (1)")
    assert told(db.source.poll(start, {t: ["a"]}, 10), t) == [{(1,): 2}]
    keys = pa.table({"a": pa.array([1])})
    at = db.source.position()
    assert fold(db.source.ask(Question(t, ("a",), keys, ("my_row_id",)), at)) == Bag({(1,): 1, (2,): 1})


@pytest.mark.mysql
def test_a_key_that_was_dropped_is_none(db: Database) -> None:
    """The columns are remembered, and stay what they are; the key must not be."""
    from headwater.sources.mariadb import catalog

    t = db.captured("CREATE TABLE t (a int PRIMARY KEY, b int)")
    start = db.source.position()
    assert scanned(db, t, ["a"], start) == {}
    db.run("ALTER TABLE t DROP PRIMARY KEY", "INSERT INTO t VALUES (1, 1), (1, 2)")
    assert catalog.primary_key(db.main, t) == ()
    assert not readable_key(catalog.tables(db.main, SRC, "t")[t])
    assert scanned(db, t, ["a", "b"], db.source.position()) == {(1, 1): 1, (1, 2): 1}


@pytest.mark.mysql
def test_a_table_without_a_key_is_warned_of_and_may_be_locked_or_not(mysql: MariadbServer, db: Database) -> None:
    user = f"poor_{db.name}"
    db.run("CREATE TABLE t (id int PRIMARY KEY)", "CREATE TABLE h (id int)")
    db.run(f"CREATE USER {user} IDENTIFIED BY 'verysecret'", f"GRANT SELECT ON {db.name}.* TO {user}")
    t, h = TableName(SRC, "t"), TableName(SRC, "h")
    spec = SourceSpec(SRC, mysql.url(db.name, user, "verysecret"))
    said = [line for line in MariadbSource(spec).advice([t, h]) if "primary key" in line]
    assert len(said) == 1
    assert "shop.h" in said[0]
    assert "GRANT LOCK TABLES" in said[0]
    pool = ConnectionPool(spec)
    with still(pool, [h], "READ") as locking:
        assert locking is None
    db.run(f"GRANT LOCK TABLES ON {db.name}.* TO {user}")
    assert not any("GRANT" in line for line in MariadbSource(spec).advice([h]))
    with still(pool, [h], "READ") as locking:
        assert locking is not None
        db.run("SET lock_wait_timeout = 1")
        with pytest.raises(pymysql.err.OperationalError, match="Lock wait"):
            db.run("INSERT INTO h VALUES (1)")
    db.run("INSERT INTO h VALUES (1)", f"DROP USER {user}")


# ── who may ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.mysql
def test_rights_may_come_by_a_role(mysql: MariadbServer, db: Database) -> None:
    user, role, t = f"poor_{db.name}", f"role_{db.name}", TableName(SRC, "t")
    db.run("CREATE TABLE t (id int PRIMARY KEY)", f"CREATE ROLE {role}")
    db.run(f"CREATE USER {user} IDENTIFIED BY 'verysecret' DEFAULT ROLE {role}")
    db.run(f"GRANT SELECT ON `{db.name.replace('_', chr(92) + '_')}`.* TO {role}")
    source = MariadbSource(SourceSpec(SRC, mysql.url(db.name, user, "verysecret")))
    with pytest.raises(SourceRefused) as refused:
        source.plan_install([t])
    assert "may not read shop.t" not in str(refused.value)
    for line in refused.value.fix.splitlines()[1:]:
        db.run(line.strip().removesuffix(";").replace(f"'{user}'@'%'", role))
    source.close()
    assert source.install([t])
    start = source.position()
    db.run("INSERT INTO t VALUES (1)")
    assert told(source.poll(start, {t: ["id"]}, 10), t) == [{(1,): 1}]
    source.remove()
    source.close()
    db.run(f"DROP USER {user}", f"DROP ROLE {role}")


@pytest.mark.mysql
def test_a_password_needs_encryption_and_has_it(mysql: MariadbServer, db: Database) -> None:
    ((plugin,),) = db.run("SELECT plugin FROM mysql.user WHERE user = 'headwater'")
    assert plugin == "caching_sha2_password"
    db.run("FLUSH PRIVILEGES")  # nobody's password is remembered
    assert db.adapter().describe() == {}
    db.run("FLUSH PRIVILEGES")
    with pytest.raises((pymysql.OperationalError, RuntimeError)):
        mysql.connect(ssl=None, ssl_disabled=True)
