"""The clients that people have: SQLAlchemy, JDBC, and what BI tools send."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import LiteralString

import pytest
import sqlalchemy as sa
from sqlalchemy import orm

from serve.conftest import PASSWORD, Served
from serve.test_serve import Client, ask
from serve.tool_queries import ASKED

JARS = [os.environ.get("POSTGRESQL_JDBC", ""), "/usr/share/java/postgresql.jar"]


@pytest.mark.parametrize(("query", "rows"), [pytest.param(q, n, id=name) for name, q, n in ASKED])
def test_what_tools_ask(client: Client, query: LiteralString, rows: int) -> None:
    found = client.execute(query)
    assert (len(found.fetchall()) if found.description else -1) == rows


@pytest.fixture(scope="module")
def engine(served: Served) -> Iterator[sa.Engine]:
    url = sa.URL.create("postgresql+psycopg", "headwater", PASSWORD, "127.0.0.1", served.port, "headwater")
    made = sa.create_engine(url)
    yield made
    made.dispose()


def test_names_are_taken_apart(client: Client) -> None:
    found = client.execute("""SELECT parse_ident('Public."Über ""x"".y"'), parse_ident('people', false)""").fetchone()
    assert found == (["public", 'Über "x".y'], ["people"])


def test_sqlalchemy_reflects(engine: sa.Engine) -> None:
    there = sa.inspect(engine)
    assert there.get_table_names() == ["late", "people"]
    assert there.get_view_names() == there.get_materialized_view_names() == there.get_sequence_names() == []
    assert "public" in there.get_schema_names()
    assert [there.has_table(name) for name in ("people", "nobody")] == [True, False]
    kinds = {column["name"]: str(column["type"]) for column in there.get_columns("people")}
    assert kinds == {"id": "BIGINT", "name": "TEXT", "amount": "NUMERIC(20, 4)", "day": "DATE", "at": "TIMESTAMP",
                     "raw": "BYTEA", "ratio": "DOUBLE PRECISION"}  # fmt: skip
    assert not there.get_pk_constraint("people")["constrained_columns"]
    for nothing in (
        there.get_foreign_keys,
        there.get_indexes,
        there.get_unique_constraints,
        there.get_check_constraints,
    ):
        assert nothing("people") == []
    assert there.get_table_comment("people") == {"text": None}
    known = sa.MetaData()
    known.reflect(engine)
    assert set(known.tables) == {"late", "people"}


def test_sqlalchemy_asks(engine: sa.Engine) -> None:
    people = sa.Table("people", sa.MetaData(), autoload_with=engine)
    with engine.connect() as client:
        found = client.execute(sa.select(people.c.name).where(people.c.id == 1).order_by(people.c.name)).all()
        assert [row[0] for row in found] == ["Anne", "Anne"]
        some = sa.select(people.c.id).where(people.c.id.in_([1, 2]), people.c.name.ilike("a%")).limit(5).offset(1)
        assert client.execute(some).all() == [(1,)]
        by_month = sa.select(sa.func.date_trunc("month", people.c.at), sa.func.count()).group_by(sa.text("1"))
        assert len(client.execute(by_month).all()) == 2
    with engine.connect().execution_options(stream_results=True, yield_per=2) as client:
        rows = client.execute(sa.select(people.c.id).where(people.c.id >= 1)).all()  # DECLARE, with a parameter
        assert len(rows) == 3

    class Base(orm.DeclarativeBase):
        pass

    class Person(Base):
        __tablename__ = "people"
        id = orm.mapped_column(sa.BigInteger, primary_key=True)
        name = orm.mapped_column(sa.Text)

    with orm.Session(engine) as session:
        bob = session.get(Person, 2)
        assert bob is not None
        bob.name = "Robert"
        with pytest.raises(sa.exc.DBAPIError, match="read-only"):
            session.flush()


def test_habits_of_drivers(served: Served, client: Client) -> None:
    for said in (
        "SET extra_float_digits = 3", "SET application_name = 'me'", "SET SESSION statement_timeout TO 10000",
        "SET client_encoding TO 'UTF8'", "SET DateStyle = 'ISO'", "SET search_path TO public", "SET TIME ZONE 'UTC'",
        "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY", "DISCARD ALL", "RESET ALL", "UNLISTEN *",
        "SET standard_conforming_strings = on",
    ):  # fmt: skip
        client.execute(said)
    assert ask(client, "SELECT version()")[0][0].startswith("PostgreSQL 14")
    assert ask(client, "SELECT pg_catalog.version(), pg_catalog.current_database(), user") == [
        (ask(client, "SELECT version()")[0][0], "headwater", "headwater")
    ]
    assert ask(client, "SELECT current_schema(), current_schemas(false)") == [("public", ["public"])]
    client.execute("SET application_name = 'mine'")
    assert client.info.parameter_status("application_name") == "mine"
    assert ask(client, "SELECT typname FROM pg_type WHERE oid = ANY('{20,25}'::oid[]) ORDER BY 1") == [
        ("int8",), ("text",),
    ]  # fmt: skip
    with served.connect(autocommit=False) as other, other.cursor("c") as cursor:
        cursor.execute("SELECT id FROM people WHERE id >= %s ORDER BY id", (1,))
        assert cursor.fetchmany(2) == [(1,), (1,)]
        assert cursor.fetchall() == [(2,)]


@pytest.mark.soak
def test_jdbc(served: Served) -> None:
    """The driver of Debian's libpostgresql-jdbc-java, or the jar that POSTGRESQL_JDBC names."""
    jar = next((jar for jar in JARS if jar and Path(jar).exists()), None)
    if jar is None or shutil.which("java") is None:
        pytest.skip(
            "needs java and PostgreSQL's JDBC driver: apt install libpostgresql-jdbc-java, or set POSTGRESQL_JDBC"
        )
    program = Path(__file__).with_name("Jdbc.java")
    where = f"jdbc:postgresql://127.0.0.1:{served.port}/headwater"
    done = subprocess.run(
        ["java", "-cp", jar, str(program), where],
        input=PASSWORD,
        text=True,
        capture_output=True,
        timeout=250,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = dict(line.split(": ", 1) for line in done.stdout.splitlines())
    assert said == {
        "product": "PostgreSQL 14.0", "schemas": "information_schema pg_catalog public", "tables": "late people",
        "columns": "id int8 -5, name text 12, amount numeric 2, day date 91, at timestamptz 93, raw bytea -2,"
        " ratio float8 8",
        "keys": "0 0 0 0", "types": "true", "keywords": "true", "privileges": "SELECT",
        "row": "1 Anne 12345678901234.5000 2024-02-29 2024-02-29T12:30:00.123456Z 2 NaN", "described": "7 numeric 1",
        "cursor": "499500", "read-only": "3", "array": "3", "values": "3", "insert": "25006", "timeout": "57014",
        "application": "mine", "savepoint": "1",
    }  # fmt: skip
