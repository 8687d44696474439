"""The views over PostgreSQL's protocol, as its own clients see them."""

from __future__ import annotations

import datetime as dt
import threading
import time
import uuid
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from psycopg import sql
from psycopg.rows import dict_row

from cli.small import ANNE, BOB, halt_people, small_project
from headwater.model.changelog import COUNT, SEQ
from headwater.model.names import Seq, ViewName
from headwater.serve.answers import Limits
from headwater.storage import Storage
from headwater.warehouse.cuts import CutLog, ViewState
from headwater.warehouse.sessions import pins
from headwater.warehouse.table import ChangelogTable, write_file
from serve.conftest import PASSWORD, Restricted, Served, serving

Client = psycopg.Connection[Any]


def ask(client: Client, query: str, *values: Any) -> list[Any]:
    return client.execute(sql.SQL(query), values or None).fetchall()


def refused(client: Client, query: str, *values: Any) -> psycopg.Error:
    with pytest.raises(psycopg.Error) as raised:
        ask(client, query, *values)
    return raised.value


def write(folder: Path, view: str, rows: pa.Table, seq: int) -> None:
    """As a run shows more of a view, or a new one: the next cut has these rows too."""
    storage = Storage(str(folder / "warehouse"))
    cuts = CutLog(storage)
    cut = cuts.newest()
    log = ChangelogTable(storage, f"views/{view}/1/log")
    if ViewName(view) not in cut.views:
        log.create(rows.schema)
    version = log.commit([write_file(storage, log.folder, rows, f"x{seq}")])
    known = cut.views.get(ViewName(view)) or ViewState(f"views/{view}/1", 0, -1, Seq(0), Seq(0), "complete", "f")
    state = replace(known, version=version, seq=Seq(seq), through=Seq(seq))
    views = {n: replace(s, seq=Seq(seq), through=Seq(seq)) for n, s in cut.views.items()} | {ViewName(view): state}
    cuts.append(replace(cut, number=cut.number + 1, seq=Seq(seq), views=views))


def test_rows_are_those_of_the_view(client: Client) -> None:
    found = ask(client, "SELECT * FROM people ORDER BY id, name")
    assert [row[:6] for row in found] == [ANNE[:6], ANNE[:6], BOB[:6]]
    assert found[0][6] != found[0][6]  # NaN
    assert found[2][6] == 0.1
    assert ask(client, 'SELECT p.name FROM public.people p, headwater.public."late" l WHERE l.n = 7 AND p.id = 2') == [
        (BOB[1],)
    ]


def test_parameters_of_all_kinds(client: Client) -> None:
    values = {
        "small": 7, "large": 2**40, "word": "it's ½ \\ \n ok", "none": None, "real": 0.1, "yes": True,
        "exact": Decimal("-12345678901234567890.000000001"), "day": dt.date(1, 2, 3),
        "at": dt.datetime(2024, 5, 31, 12, 0, 0, 5), "instant": dt.datetime(2024, 5, 31, 12, tzinfo=dt.UTC),
        "raw": b"\x00'\\\xff", "id": uuid.UUID(int=7), "many": [1, 2, 3], "words": ["a b", 'q"\\', None, ""],
    }  # fmt: skip
    for binary in (False, True):
        for name, value in values.items():
            if binary and isinstance(value, list):
                continue  # arrays are read as text only
            holder = "%b" if binary and value is not None else "%s"
            cast = "::text" if isinstance(value, str) or value is None else "::text[]" if name == "words" else ""
            (found,) = ask(client, f"SELECT {holder}{cast} AS v", value)
            assert found == (value,), name
    assert ask(client, "SELECT name FROM people WHERE id = ANY(%s) AND at = %s", [2, 1, 1], ANNE[4]) == [("Anne",)] * 2
    assert ask(client, "SELECT count(*) FROM people WHERE name = ANY(%s)", ["Anne", "x"]) == [(2,)]
    assert ask(client, "SELECT count(*) FROM people WHERE id = %s", "1") == [(2,)]
    with client.cursor(row_factory=dict_row) as cursor:
        cursor.execute(
            "SELECT name AS who FROM people WHERE id = %(id)s AND name LIKE %(like)s", {"id": 2, "like": "t%"}
        )
        assert cursor.fetchall() == [{"who": BOB[1]}]


def test_prepared_statements_are_used_again(client: Client) -> None:
    for n in (1, 2, 3):
        found = client.execute("SELECT count(*), max(name) FROM people WHERE id <= %s", (n,), prepare=True).fetchone()
        assert found == ((2, "Anne") if n == 1 else (3, BOB[1]))
    client.prepare_threshold = 0
    assert client.execute("SELECT %s::int8 + 1", (41,)).fetchone() == (42,)


def test_every_type_of_a_view_in_text_and_in_binary(tmp_path: Path) -> None:
    folder = small_project(tmp_path / "small")
    when = dt.datetime(1, 1, 1, 0, 0, 0, 1)
    rows: dict[str, tuple[pa.DataType, list[Any]]] = {
        "int2": (pa.int16(), [-(2**15), 0, None]), "int4": (pa.int32(), [2**31 - 1, -1, None]),
        "int8": (pa.int64(), [-(2**63), 2**63 - 1, None]), "real": (pa.float32(), [0.5, float("inf"), None]),
        "float8": (pa.float64(), [1e300, -0.1, None]),
        "dec": (pa.decimal128(10, 2), [Decimal("-0.05"), Decimal(7), None]),
        "big": (pa.decimal128(38, 0), [Decimal(10**37), Decimal(-10000), None]),
        "tiny": (pa.decimal128(38, 37), [Decimal("1e-37"), Decimal("-9.5"), None]),
        "yes": (pa.bool_(), [True, False, None]), "day": (pa.date32(), [dt.date(1, 1, 1), dt.date(9999, 12, 31), None]),
        "ts": (pa.timestamp("us"), [when, dt.datetime(9999, 12, 31, 23, 59, 59, 999999), None]),
        "tz": (pa.timestamp("us", "UTC"), [when.replace(tzinfo=dt.UTC), dt.datetime(2000, 1, 1, tzinfo=dt.UTC), None]),
        "txt": (pa.string(), ["Größe 𝔘 \u202e'\"\\", "", None]), "bin": (pa.binary(), [b"", bytes(range(256)), None]),
    }  # fmt: skip
    columns = {name: pa.array(values, kind) for name, (kind, values) in rows.items()}
    write(folder, "kinds", pa.table({"n": [0, 1, 2], **columns, COUNT: [1, 1, 1], SEQ: [4, 4, 4]}), 4)
    with serving(folder) as served, served.connect() as client:
        listed = ", ".join(rows)
        for binary in (False, True):
            with client.cursor(binary=binary) as cursor:
                found = cursor.execute(sql.SQL(f"SELECT {listed} FROM kinds ORDER BY n")).fetchall()
            assert found == [tuple(values[n] for _, values in rows.values()) for n in range(3)]
        kinds = {"int2": "smallint", "tz": "timestamp with time zone", "dec": "numeric", "txt": "text", "bin": "bytea"}
        said = dict(
            ask(client, "SELECT column_name, data_type FROM information_schema.columns WHERE table_name='kinds'")
        )
        assert kinds.items() <= said.items()


def test_sql_means_what_it_means_to_postgresql(client: Client) -> None:
    assert ask(client, "SELECT 7 / 2, 7 / 2.0, 'abc' ~ 'b', 'abc' !~ 'B', 'x' || 1") == [(3, 3.5, True, True, "x1")]
    assert ask(client, "SELECT day FROM people ORDER BY day DESC LIMIT 1") == [(None,)]
    assert ask(client, "WITH people AS (SELECT 1 AS n) SELECT n FROM people") == [(1,)]
    assert ask(client, "WITH people AS (SELECT * FROM people) SELECT count(*) FROM people") == [(3,)]
    assert ask(client, "VALUES (1, 'a'), (2, 'b')") == [(1, "a"), (2, "b")]
    assert ask(client, "SELECT sum(id), current_user, current_schema FROM people") == [(4, "headwater", "public")]
    names = client.execute("SELECT count(*), id::text, now(), 1 + 1 FROM people GROUP BY id").description
    assert names is not None
    assert [column.name for column in names] == ["count", "id", "now", "?column?"]


def test_large_answers_come_as_they_are_read(served: Served, client: Client) -> None:
    assert sum(n for (n,) in client.cursor().stream("SELECT range FROM range(200000)")) == 199_999 * 100_000
    with served.connect(autocommit=False) as other, other.cursor("slow") as cursor:
        cursor.itersize = 1_000
        cursor.execute("SELECT range FROM range(100000000)")  # it would not fit
        assert [cursor.fetchone() for _ in range(3)] == [(0,), (1,), (2,)]
        assert len(cursor.fetchmany(2_500)) == 2_500


def test_nothing_is_written(client: Client) -> None:
    for query in ("INSERT INTO people VALUES (1)", "UPDATE people SET id = 1", "DELETE FROM people",
                  "DROP TABLE people",
                  "CREATE TABLE t (n int)", "TRUNCATE people", "ALTER TABLE people ADD n int", "COPY people TO STDOUT",
                  "WITH x AS (DELETE FROM people RETURNING *) SELECT * FROM x", "SELECT * INTO t FROM people",
                  "SELECT * FROM people FOR UPDATE", "VACUUM", "GRANT ALL ON people TO x"):  # fmt: skip
        error = refused(client, query)
        assert error.sqlstate == "25006", query
        assert "read-only" in str(error)


@pytest.mark.parametrize(
    "query",
    ["SELECT * FROM read_text('/etc/hostname')", "SELECT * FROM '/etc/passwd'", "SELECT * FROM glob('/*')",
     "FROM query('SELECT * FROM read_text(''/etc/hostname'')')", "SELECT * FROM duckdb_secrets()",
     "SELECT * FROM read_parquet('http://127.0.0.1/x')", "SELECT * FROM query_table('people')",
     "SELECT * FROM main.__log0", "SELECT * FROM hw_pg.pg_class", "ATTACH 'x.db'", "PRAGMA version", "INSTALL httpfs"],
)  # fmt: skip
def test_nothing_else_is_read(client: Client, query: str) -> None:
    refused(client, query)


def test_errors_say_what_to_do_and_have_a_state(client: Client) -> None:
    unknown = refused(client, "SELECT * FROM poeple")
    assert (unknown.sqlstate, unknown.diag.message_hint) == ("42P01", "did you mean 'people'?")
    assert refused(client, "SELECT nope FROM people").sqlstate == "42703"
    assert refused(client, "SELEC 1").sqlstate == "42601"
    assert refused(client, "SELECT (1").sqlstate == "42601"
    assert refused(client, "SELECT 'x'::int").sqlstate == "22P02"
    assert refused(client, "SELECT CAST(name AS int) FROM people").sqlstate == "22P02"
    assert refused(client, "SELECT nothing(1)").sqlstate == "42883"
    assert refused(client, "SELECT * FROM other.people").sqlstate == "3F000"
    assert ask(client, "SELECT 1") == [(1,)]


def test_statements_end_in_time(restricted: Restricted, served: Served) -> None:
    endless = "SELECT count(*) FROM range(1000000) a, range(1000000) b WHERE a.range * b.range = 7"
    with restricted(Limits(seconds=0.3, rows=10)) as strict, strict.connect() as client:
        assert refused(client, endless).sqlstate == "57014"
        assert refused(client, "SELECT * FROM range(11)").sqlstate == "54000"
        assert len(ask(client, "SELECT * FROM range(10)")) == 10
    with served.connect() as client:
        ask_for = threading.Timer(
            0.3, client.cancel_safe
        )  # the other one holds the interpreter, and this server is in it
        ask_for.start()
        assert refused(client, endless).sqlstate == "57014"
        ask_for.join()
        client.execute("SET statement_timeout = '200ms'")
        assert refused(client, endless).sqlstate == "57014"


def test_a_transaction_reads_one_cut(tmp_path: Path) -> None:
    folder = small_project(tmp_path / "small")
    names = pa.table({"n": [1], COUNT: [1], SEQ: [4]})
    write(folder, "moving", names, 4)
    storage = Storage(str(folder / "warehouse"))
    count = "SELECT count(*) FROM moving"
    with serving(folder) as served, served.connect() as client, served.connect() as other:
        client.execute("BEGIN")
        assert ask(client, "SHOW headwater.cut") == [("2",)]
        assert [pin.cut.number for pin in pins(storage)] == [2]
        for seq in (5, 6):
            write(folder, "moving", pa.table({"n": [seq], COUNT: [1], SEQ: [seq]}), seq)
        time.sleep(0.05)
        assert ask(client, count) == [(1,)]
        assert ask(other, count) == [(3,)]
        assert refused(client, "SELECT * FROM nothing").sqlstate == "42P01"
        assert refused(client, count).sqlstate == "25P02"
        client.execute("ROLLBACK")
        assert ask(client, count) == [(3,)]
        assert ask(client, "SHOW headwater.seq") == [("6",)]
        client.execute("SET headwater.at = 5")
        assert ask(client, count) == [(2,)]
        assert ask(client, "SHOW headwater.at") == [("5",)]
        with client.transaction():
            client.execute("SET LOCAL headwater.at = '4'")
            assert ask(client, count) == [(1,)]
        assert ask(client, count) == [(2,)]
        client.execute("SET headwater.at = 99")
        assert refused(client, count).diag.message_hint == "the newest one is 6"
        client.execute("RESET headwater.at")
        assert ask(client, count) == [(3,)]
        client.execute(sql.SQL("SET headwater.at = {}").format(dt.datetime.now(dt.UTC).isoformat()))
        assert ask(client, count) == [(3,)]
        assert refused(client, "SET headwater.at = 'long ago'").sqlstate == "22023"
        assert refused(client, "SET headwater.cut = 1").sqlstate == "55P02"
    assert pins(storage) == []


def test_readers_of_a_halted_view_are_told(tmp_path: Path) -> None:
    folder = small_project(tmp_path / "small")
    halt_people(folder)
    with serving(folder) as served, served.connect() as client:
        told: list[str] = []
        client.add_notice_handler(lambda notice: told.append(notice.message_primary or ""))
        assert len(ask(client, "SELECT * FROM people")) == 3
        assert len(ask(client, "SELECT * FROM people WHERE id > %s", 0)) == 3
        assert len(told) == 2
        assert all("people is halted" in message and "column name was dropped" in message for message in told)


def test_opening_views_reads_no_file(tmp_path: Path) -> None:
    folder = small_project(tmp_path / "small")
    for file in (folder / "warehouse").rglob("views/people/**/*.parquet"):
        file.unlink()
    with serving(folder) as served, served.connect() as client:
        assert ask(client, "SELECT table_name FROM information_schema.tables") == [("people",)]
        client.execute("SELECT 1")
        assert refused(client, "SELECT * FROM people").sqlstate


def test_who_may_connect(served: Served) -> None:
    for changes, said in (
        ({"password": "wrong"}, 'password authentication failed for user "headwater"'),
        ({"user": "other"}, 'password authentication failed for user "other"'),
        ({"dbname": "other"}, 'database "other" does not exist'),
    ):
        with pytest.raises(psycopg.OperationalError, match=said) as raised:
            served.connect(**changes)
        assert PASSWORD not in str(raised.value)
    with pytest.raises(psycopg.OperationalError, match="server does not support SSL"):
        served.connect(sslmode="require")


def test_a_project_that_maintains_nothing_yet(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    folder.mkdir()
    (folder / "headwater.toml").write_text('[sources.crm]\nurl = "sqlite:///crm.db"\n')
    with serving(folder) as served, served.connect() as client:
        assert ask(client, "SELECT count(*) FROM pg_class") == [(0,)]
        assert "nothing is maintained yet" in str(refused(client, "SELECT * FROM people"))
