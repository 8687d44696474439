"""The readers of other people's scripts, on small scripts of our own."""

from __future__ import annotations

from pathlib import Path

import pytest

from .definitions import Head, read_head
from .psql import split
from .slt import all_included, read_slt
from .written import Role

SLT = """\
# tables
include tables.slt.part

statement ok
CREATE MATERIALIZED VIEW v AS
SELECT a FROM t

statement error no such table
CREATE MATERIALIZED VIEW w AS SELECT a FROM nothing

onlyif elsewhere
statement ok
DROP TABLE t

skipif elsewhere
query I rowsort
SELECT a FROM v
----
1
2

statement ok
DELETE FROM t

halt

statement ok
DROP TABLE t
"""


def test_a_file_of_records(tmp_path: Path) -> None:
    (tmp_path / "a.slt").write_text(SLT)
    (tmp_path / "tables.slt.part").write_text("statement ok\nCREATE TABLE t (a INT)\n")
    found = list(read_slt(tmp_path / "a.slt", tmp_path))
    assert [(w.text, w.file, w.line, w.role) for w in found] == [
        ("CREATE TABLE t (a INT)", "tables.slt.part", 2, Role.STATEMENT),
        ("CREATE MATERIALIZED VIEW v AS\nSELECT a FROM t", "a.slt", 5, Role.STATEMENT),
        ("SELECT a FROM v", "a.slt", 17, Role.QUERY),
        ("DELETE FROM t", "a.slt", 23, Role.STATEMENT),
    ]
    assert all_included([tmp_path / "a.slt"]) == {(tmp_path / "tables.slt.part").resolve()}


def test_a_script_for_psql() -> None:
    text = """-- a comment; not two
CREATE TABLE t (a text DEFAULT ';');
\\d t
INSERT INTO t VALUES ('it''s; one');
DO $body$ BEGIN; END $body$;
SELECT 1"""
    assert list(split(text)) == [
        ("CREATE TABLE t (a text DEFAULT ';')", 2),
        ("INSERT INTO t VALUES ('it''s; one')", 4),
        ("DO $body$ BEGIN; END $body$", 5),
        ("SELECT 1", 6),
    ]


@pytest.mark.parametrize(
    ("text", "dialect", "head"),
    [
        (
            "CREATE MATERIALIZED VIEW IF NOT EXISTS s.V (a, b) WITH (x = 'AS') AS SELECT 1, 2;",
            "risingwave",
            Head("s.v", ("a", "b"), "SELECT 1, 2", True),
        ),
        (
            "create materialized view v in cluster c as select a as x from t options (limit input group size = 1)",
            "materialize",
            Head("v", (), "select a as x from t", True),
        ),
        (
            "CREATE INCREMENTAL MATERIALIZED VIEW v AS SELECT a FROM t WITH NO DATA",
            "postgres",
            Head("v", (), "SELECT a FROM t", True),
        ),
        (
            "SELECT pgivm.create_immv('v(x)', 'SELECT ''a'' FROM t;')",
            "postgres",
            Head("v", ("x",), "SELECT 'a' FROM t", True),
        ),
        ("CREATE TEMP VIEW v AS (SELECT a FROM t)", "duckdb", Head("v", (), "(SELECT a FROM t)", False)),
    ],
)
def test_a_definition(text: str, dialect: str, head: Head) -> None:
    found = read_head(text, dialect)
    assert found is not None
    assert found == Head(head.name, head.columns, found.query, head.kept)
    assert found.query.strip() == head.query


def test_what_defines_nothing() -> None:
    assert read_head("CREATE TABLE v AS SELECT 1", "postgres") is None
    assert read_head("SELECT a FROM create_immv", "postgres") is None
