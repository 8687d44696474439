"""Every type × every path through the engine: works, equal to recomputation, or is refused by `plan` in words.

The columns of one table per source are of all types at once; a view uses many of them, each join and each condition is
of one.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import SparkSession

import headwater
from headwater.algebra import define, parse_views
from headwater.cli.planning import type_name
from headwater.model.errors import ValueUnfit, ViewSqlError
from headwater.model.names import SourceName
from postgres_server import PostgresServer
from runtime import type_cases
from runtime.type_cases import EXPRESSIONS, POSTGRES, POSTGRES_REFUSED, ROWS, SQLITE, SQLITE_REFUSED, Unfit
from runtime.world import Sqlite

pytestmark = [pytest.mark.spark, pytest.mark.postgres]

SOURCES = {"pg": (POSTGRES, POSTGRES_REFUSED), "lite": (SQLITE, SQLITE_REFUSED)}
EXTRA = """
CREATE TYPE mood AS ENUM ('sad', 'happy');
CREATE DOMAIN percent AS numeric(5,2);
CREATE TYPE pair AS (x int, y int);
"""


def table_of(source: str) -> str:
    """One table with a column of every type: those that views hold, and those that none does."""
    held, refused = SOURCES[source]
    columns = [f"c{n} {case.declared}" for n, case in enumerate(held)]
    columns += [f"x{n} {case.declared}" for n, case in enumerate(refused)]
    return f"CREATE TABLE t (id INTEGER PRIMARY KEY, {', '.join(columns)})"


def values_of(source: str, turn: int) -> list[tuple[str, str]]:
    """Column and value of a row, in SQL."""
    held, refused = SOURCES[source]
    values = [(f"c{n}", case.values[turn % len(case.values)]) for n, case in enumerate(held)]
    return values + [(f"x{n}", case.value) for n, case in enumerate(refused)]


def insert(source: str, row: int, turn: int) -> str:
    return f"INSERT INTO t VALUES ({row}, {', '.join(value for _, value in values_of(source, turn))})"


def changes(source: str) -> list[str]:
    """Rows come, go, and take each other's values; what was NULL is not, and the other way round."""
    found = [f"DELETE FROM t WHERE id IN ({', '.join(str(n) for n in range(ROWS) if n % 4 == 1)})"]
    for row in range(2, ROWS, 4):
        said = ", ".join(f"{column} = {value}" for column, value in values_of(source, row + 1))
        found.append(f"UPDATE t SET {said} WHERE id = {row}")
    return [*found, *(insert(source, 100 + turn, turn) for turn in (ROWS - 1, ROWS))]


def views_of(source: str) -> dict[str, str]:
    """The paths, each over many columns."""
    held = list(enumerate(SOURCES[source][0]))
    every = ", ".join(f"c{n}" for n, _ in held)
    theirs = ", ".join(f"b.c{n}" for n, _ in held)
    calls = [
        f"COUNT(c{n}) AS n{n}, COUNT(DISTINCT c{n}) AS d{n}, MIN(c{n}) AS a{n}, MAX(c{n}) AS z{n}" for n, _ in held
    ]
    sums = [f"SUM(c{n}) AS s{n}, AVG(c{n}) AS m{n}" for n, case in held if case.sums]
    some = " OR ".join(f"MAX(c{n}) {case.where}" for n, case in held)
    found = {
        "selected": f"SELECT id, {every} FROM {source}.t",
        "grouped": f"SELECT {every}, COUNT(*) AS n FROM {source}.t GROUP BY {every}",
        "aggregated": f"SELECT {', '.join([*calls, *sums])} FROM {source}.t",
        "having": f"SELECT id % 2 AS k, COUNT(*) AS n FROM {source}.t GROUP BY id % 2 HAVING {some}",
        "padded": f"SELECT a.id, {theirs} FROM {source}.t a LEFT JOIN {source}.t b ON b.id = a.id AND b.id % 2 = 0",
        "united": f"SELECT {every} FROM {source}.t WHERE id < 5 UNION SELECT {every} FROM {source}.t WHERE id > 2",
        "ranked": f"SELECT id, {every}, ROW_NUMBER() OVER (PARTITION BY id % 2 ORDER BY {every}) AS p FROM {source}.t",
    }
    for part in (held[at : at + 9] for at in range(0, len(held), 9)):
        there = (f"SELECT 1 FROM {source}.t j WHERE j.c{n} = a.c{n} AND j.id <> a.id" for n, _ in part)
        flags = ", ".join(f"EXISTS ({query}) AS e{n}" for query, (n, _) in zip(there, part, strict=True))
        found[f"exists_c{part[0][0]}_to_c{part[-1][0]}"] = f"SELECT a.id, {flags} FROM {source}.t a"
    for part in (held[at : at + 4] for at in range(0, len(held), 4)):
        joins = " ".join(f"JOIN {source}.t j{n} ON j{n}.c{n} = a.c{n} AND j{n}.c{n} {case.where}" for n, case in part)
        ids = ", ".join(f"j{n}.id AS i{n}" for n, _ in part)
        found[f"joined_c{part[0][0]}_to_c{part[-1][0]}"] = f"SELECT a.id, {ids} FROM {source}.t a {joins}"
    return {f"{source}_{name}": select for name, select in found.items()}


ALIKE = {
    "numeric(10,2)": "DECIMAL(10,2)", "double precision": "REAL", "boolean": "BOOLEAN", "date": "DATE",
    "timestamp": "TIMESTAMP", "timestamptz": "TIMESTAMPTZ", "text": "TEXT", "bytea": "BLOB",
    "smallint": "INT", "bigint": "INTEGER", "real": "REAL", "numeric(3,-2)": "NUMERIC",
}  # fmt: skip
"""Types that join across sources; the last pair has a view of its own."""


def views_of_both() -> dict[str, str]:
    """Joins between the sources: types of one kind and another width, scale or spelling. And a view over a view."""
    pairs = [
        (f"c{[c.declared for c in POSTGRES].index(one)}", f"c{[c.declared for c in SQLITE].index(other)}")
        for one, other in ALIKE.items()
    ]
    found = {}
    for at in (0, 4, 8, 11):
        part = list(enumerate(pairs[at : 11 if at == 8 else at + 4]))
        joins = " ".join(f"JOIN lite.t j{n} ON j{n}.{theirs} = a.{mine}" for n, (mine, theirs) in part)
        ids = ", ".join(f"j{n}.id AS i{n}" for n, _ in part)
        found[f"both_{at}"] = f"SELECT a.id, {ids} FROM pg.t a {joins}"
    double = f"c{[c.declared for c in POSTGRES].index('double precision')}"
    found["negated"] = f"SELECT id, -{double} AS v FROM pg.t"  # −0 of 0: loaded by Spark, changed by rows of files
    found["over_negated"] = "SELECT id, v FROM negated"
    return found


class Project:
    def __init__(self, folder: Path, url: str, views: dict[str, str]) -> None:
        self.folder, self.url = folder, url
        (folder / "views").mkdir(parents=True)
        text = "\n".join(f"CREATE MATERIALIZED VIEW {name} AS {select};" for name, select in views.items())
        (folder / "views" / "all.sql").write_text(text)
        (folder / "headwater.toml").write_text(
            f'[sources.pg]\nurl = "{url}"\n[sources.lite]\nurl = "sqlite:///lite.db"\n[run]\npoll_seconds = 0.05\n'
        )
        self.write("lite", ["PRAGMA journal_mode = WAL"])

    def write(self, source: str, statements: Sequence[str]) -> None:
        if source == "pg":
            with psycopg.connect(self.url) as db:
                for statement in statements:
                    db.execute(statement.encode())
            return
        with Sqlite(self.folder / "lite.db") as db:
            for statement in statements:
                db.execute(statement)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, postgres: PostgresServer) -> Project:
    views = {name: select for source in SOURCES for name, select in views_of(source).items()}
    views |= views_of_both()
    made = Project(tmp_path_factory.mktemp("types") / "project", postgres.create_database("types"), views)
    made.write("pg", [EXTRA])
    for source in SOURCES:
        made.write(source, [table_of(source), *(insert(source, turn, turn) for turn in range(ROWS))])
    return made


def differing(warehouse: headwater.Warehouse) -> list[str]:
    """Which views are not what recomputation gives, and where."""
    wrong = []
    for found in warehouse.verify():
        if not found.rows:
            wrong.append(f"{found.view} shows nothing: it proves nothing")
        for missing, extra in zip(found.missing, found.extra, strict=False):
            columns = {c: (extra[c], missing[c]) for c in missing if str(missing[c]) != str(extra[c])}
            wrong.append(f"{found.view}: {str(columns)[:500]}")
        if not found.ok and not (found.missing and found.extra):
            wrong.append(f"{found.view}: {found.differing} rows differ")
    return wrong


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_every_type_on_every_path(project: Project, spark: SparkSession) -> None:
    """Verified at the end: what the load wrote otherwise than a change takes it away would be left over."""
    warehouse = headwater.open(project.folder)
    warehouse.setup()
    warehouse.run(until_caught_up=True)
    assert not [f"{v.name}: {v.reason}" for v in warehouse.status().views if v.state != "live"]
    for source, (held, _) in SOURCES.items():
        rows = warehouse.rows(f"{source}_selected").sort_by("id")
        for n, case in enumerate(held):
            column = rows.column(f"c{n}")
            assert type_name(column.type).replace(" ", "") == case.shown.replace(" ", ""), case.declared
            for value, wanted in zip(column.to_pylist(), case.reads, strict=False):
                if wanted is not None:
                    assert (value, str(value)) == (wanted, str(wanted)), case.declared
        project.write(source, changes(source))
    warehouse = headwater.open(project.folder)
    warehouse.run(until_caught_up=True)
    assert not [f"{v.name}: {v.reason}" for v in warehouse.status().views if v.state != "live"]
    assert not differing(warehouse)


@pytest.mark.parametrize(
    ("source", "column", "declared"),
    [(s, f"x{n}", r.declared) for s, (_, refused) in SOURCES.items() for n, r in enumerate(refused)],
)
@pytest.mark.parametrize("path", ["SELECT {c}", "SELECT COUNT({c}) AS n", "SELECT 1 AS one WHERE {c} IS NULL"])
def test_a_type_that_no_view_holds_is_refused_by_name(
    project: Project, source: str, column: str, declared: str, path: str
) -> None:
    select, _, where = path.format(c=f"t.{column}").partition(" WHERE ")
    text = f"CREATE MATERIALIZED VIEW v AS\n{select} FROM {source}.t" + (f" WHERE {where}" if where else "")
    with pytest.raises(ViewSqlError) as caught:
        define(parse_views(text, "v.sql")[0], headwater.open(project.folder).catalog)
    assert f"t.{column}" in caught.value.what
    assert "leave the column out" in caught.value.fix


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory, postgres: PostgresServer) -> Project:
    """Two tables for expressions that are refused."""
    made = Project(tmp_path_factory.mktemp("small") / "project", postgres.create_database("types_small"), {})
    made.write(
        "pg", ["CREATE TABLE o (id int, word text, made_at timestamp, stamp timestamp, n numeric, w numeric(38,0))"]
    )
    made.write("lite", ["CREATE TABLE o (id INTEGER, n NUMERIC, d DECIMAL(38,20))"])
    return made


def plan(project: Project, select: str) -> None:
    (project.folder / "views" / "all.sql").write_text(f"CREATE MATERIALIZED VIEW v AS {select};")
    headwater.open(project.folder).plans()


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_an_expression_that_no_view_holds_is_refused_with_a_cast(
    small: Project, spark: SparkSession, expression: str
) -> None:
    with pytest.raises(ViewSqlError) as caught:
        plan(small, f"SELECT {expression} AS it FROM pg.o AS o")
    says, advises = EXPRESSIONS[expression]
    assert says in caught.value.what
    assert advises in caught.value.fix
    if caught.value.fix.startswith("write ") and "MAX" not in expression:
        advice = caught.value.fix.removeprefix("write ").partition(", or ")[0].removesuffix(" AS name")
        plan(small, f"SELECT {advice} AS it FROM pg.o AS o")


def test_decimals_that_no_decimal_holds_together_are_not_joined(small: Project, spark: SparkSession) -> None:
    for select in (
        "SELECT a.id FROM pg.o a JOIN pg.o b ON a.n = b.w",
        "SELECT a.id FROM lite.o a JOIN pg.o b ON a.n = b.w",
        "SELECT a.id FROM lite.o a JOIN lite.o b ON a.id = b.d",
    ):
        with pytest.raises(ViewSqlError, match="no decimal of 38 digits holds") as caught:
            plan(small, select)
        assert "CAST(" in caught.value.fix
    plan(small, "SELECT a.id FROM lite.o a JOIN pg.o b ON a.id = b.n")


UNFIT = [("pg", n, u) for n, u in enumerate(type_cases.POSTGRES_UNFIT)]
UNFIT += [("lite", n, u) for n, u in enumerate(type_cases.SQLITE_UNFIT)]


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory, postgres: PostgresServer) -> Project:
    """A table per value that does not fit; `fine` is a column that does."""
    made = Project(tmp_path_factory.mktemp("odd") / "project", postgres.create_database("types_odd"), {})
    for source, n, case in UNFIT:
        made.write(source, [
            f"CREATE TABLE u{n} (id INTEGER PRIMARY KEY, fine INTEGER, v {case.declared})",
            f"INSERT INTO u{n} VALUES (17, 1, {case.value})",
        ])  # fmt: skip
    selects = {f"{s}_u{n}": f"SELECT id, fine FROM {s}.u{n}" for s, n, _ in UNFIT}
    text = "\n".join(f"CREATE MATERIALIZED VIEW {name} AS {select};" for name, select in selects.items())
    (made.folder / "views" / "all.sql").write_text(text)
    headwater.open(made.folder).setup()
    return made


@pytest.mark.parametrize(
    ("source", "number", "case"), UNFIT, ids=[f"{s}-{u.declared}-{u.value[:20]}" for s, _, u in UNFIT]
)
def test_a_value_that_does_not_fit_is_named(odd: Project, source: str, number: int, case: Unfit) -> None:
    """In a scan: whoever uses the column stops, whoever does not goes on. (In polls: see the sources' own tests.)"""
    port = headwater.open(odd.folder).catalog.source(SourceName(source))
    table = port.resolve("", f"u{number}")
    assert table is not None
    at = port.position()

    def read(*columns: str) -> list[dict[str, Any]]:
        return [row for c in port.chunks(table, 1000) for b in port.scan(c, columns, at) for row in b.to_pylist()]

    assert read("id", "fine") == [{"id": 17, "fine": 1, "__count": 1}]
    with pytest.raises(ValueUnfit) as caught:
        read("id", "v")
    assert ".v" in caught.value.what
    assert case.says in caught.value.what
    assert caught.value.fix


def test_the_documentation_is_made_from_these_cases() -> None:
    file = Path(__file__).parents[2] / "docs" / "types.md"
    assert file.read_text() == type_cases.document(), (
        "stale: PYTHONPATH=src:tests python -m runtime.type_cases > docs/types.md"
    )
