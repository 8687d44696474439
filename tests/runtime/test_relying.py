"""Views that count on what headwater.toml promises of their tables: exact state by state without a copy of what changes
most, and halted, with a way out, where a promise is broken."""

from __future__ import annotations

import random
import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

import headwater
from headwater.cli.main import app
from runtime.small_project import Project

pytestmark = pytest.mark.spark

TABLES = """
CREATE TABLE region (id INTEGER PRIMARY KEY, name TEXT);
CREATE TABLE customer (id INTEGER PRIMARY KEY, region INTEGER REFERENCES region (id), name TEXT, note TEXT);
CREATE TABLE kind (id INTEGER PRIMARY KEY, name TEXT);
CREATE TABLE sale (id INTEGER PRIMARY KEY, customer INTEGER REFERENCES customer, kind INTEGER, n INTEGER);
INSERT INTO region VALUES (1, 'north');
INSERT INTO customer VALUES (1, 1, 'ann', ''), (2, NULL, 'bob', '');
INSERT INTO kind VALUES (1, 'book'), (2, 'pen');
INSERT INTO sale VALUES (1, 1, 1, 10), (2, 2, 2, 20), (3, NULL, 1, 30), (4, 1, 9, 40)
"""
JOINED = (
    "SELECT s.id, s.n, c.name AS customer, r.name AS region, k.name AS kind FROM shop.kind AS k, shop.region AS r,"
    " shop.sale AS s, shop.customer AS c WHERE s.customer = c.id AND c.region = r.id AND s.kind = k.id"
)
SUMS = "SELECT c.name, SUM(s.n) AS n FROM shop.customer AS c JOIN shop.sale AS s ON s.customer = c.id GROUP BY c.name"
OUTER = "SELECT s.id, k.name FROM shop.sale AS s LEFT JOIN shop.kind AS k ON s.kind = k.id"
QUERIES = {"joined": JOINED, "sums": SUMS, "outer_kind": OUTER}
VIEWS = {name: f"CREATE MATERIALIZED VIEW {name} AS {query};" for name, query in QUERIES.items()}
PROMISES = {"kind": "never", "customer": "inserts", "region": "inserts"}


def promising(folder: Path, promises: Mapping[str, str] = PROMISES, views: Iterable[str] = VIEWS) -> Project:
    project = Project(folder, "\n".join(VIEWS[name] for name in views), {"shop": TABLES})
    say(project, promises)
    return project


def say(project: Project, promises: Mapping[str, str]) -> None:
    project.configure()
    toml = project.folder / "headwater.toml"
    said = "".join(f'[sources.shop.tables.{table}]\nchanges = "{how}"\n' for table, how in promises.items())
    toml.write_text(toml.read_text().replace("[run]", f"ask = false\n{said}[run]"))


def recomputed(project: Project, query: str) -> Counter[tuple[Any, ...]]:
    with sqlite3.connect(":memory:") as db:
        db.execute(f"ATTACH '{project.folder / 'shop.db'}' AS shop")
        return Counter(db.execute(query).fetchall())


def shown(warehouse: headwater.Warehouse, view: str, at: int | None = None) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for row in warehouse.rows(view, at).to_pylist())


def transaction(chance: random.Random, new: int, known: list[str]) -> list[str]:
    """As an application would do it that keeps its promises: parents come before or with their children, in any order
    within a transaction, and what nobody looks at may change. `known` are the customers that there are."""
    number, kind, n = chance.randint(1, 6), chance.randint(1, 3), chance.randint(1, 9)
    sale = f"INSERT OR REPLACE INTO sale VALUES ({number}, {{}}, {kind}, {n})"
    customer = (
        f"INSERT INTO customer VALUES ({new}, {chance.choice(['1', 'NULL', str(new)])}, '{chance.choice('ab')}', '')"
    )
    region = f"INSERT INTO region VALUES ({new}, 'r{new}')"
    what = chance.choice(["sale", "sale", "family", "orphans", "delete", "note"])
    if what in ("family", "orphans"):
        known.append(str(new))
    if what == "family":
        return chance.sample([sale.format(new), customer, region], 3)
    return {
        "sale": [sale.format(chance.choice(known))],
        "orphans": [region, customer],
        "delete": [f"DELETE FROM sale WHERE id = {chance.randint(1, 6)}", sale.format(chance.choice(known))],
        "note": [f"UPDATE customer SET note = 'n{new}' WHERE id = 1", sale.format("1")],
    }[what]


@pytest.mark.soak
def test_every_state_is_exact_without_a_copy_of_what_changes_most(tmp_path: Path, spark: SparkSession) -> None:
    project, chance = promising(tmp_path / "p"), random.Random(5)
    warehouse = project.loaded()
    kept = {view.name for view in warehouse.status().views if view.kept_for}
    assert kept == {"shop__customer", "shop__region", "shop__kind"}
    wanted = {name: [recomputed(project, query)] for name, query in QUERIES.items()}
    known = ["NULL", "1", "2"]
    for new in range(3, 40):
        transact(project, transaction(chance, new, known))
        for name, query in QUERIES.items():
            wanted[name].append(recomputed(project, query))
        if new == 4:  # batches of few transactions, and of many
            project.open().run(until_caught_up=True)
    project.open().run(until_caught_up=True)
    assert not warehouse.halted()
    for name in QUERIES:
        state = warehouse.cut().views[name]
        states = [shown(warehouse, name, at) for at in range(state.horizon, state.seq + 1)]
        # SQLite may tell several transactions as one: every state is one that was, in order, and the last is there
        left = iter(wanted[name])
        assert all(any(state == was for was in left) for state in without_repeats(states)), name
        assert states[-1] == wanted[name][-1], name
    assert all(checked.ok for checked in warehouse.verify())


def transact(project: Project, statements: list[str]) -> None:
    with closing(sqlite3.connect(project.folder / "shop.db")) as db, db:  # foreign keys are not enforced, as ever
        db.execute("BEGIN")
        for statement in statements:
            db.execute(statement)


def without_repeats(states: list[Counter[tuple[Any, ...]]]) -> list[Counter[tuple[Any, ...]]]:
    return [state for i, state in enumerate(states) if not i or state != states[i - 1]]


def test_a_broken_promise_halts_and_the_remedy_helps(tmp_path: Path, spark: SparkSession) -> None:
    """A view that counts on what never changes, in a tree, and one that counts on parents: each halts of its own."""
    project = promising(tmp_path / "p", {"kind": "never", "customer": "inserts"}, ["sums", "outer_kind"])
    warehouse = project.loaded()
    assert {view.name for view in warehouse.status().views if view.kept_for} == {"shop__customer", "shop__kind"}
    transact(project, ["INSERT INTO sale VALUES (5, 3, 1, 50)", "INSERT INTO customer VALUES (3, 1, 'ann', '')"])
    project.open().run(until_caught_up=True)
    before = {name: shown(warehouse, name) for name in ("sums", "outer_kind")}
    assert before == {name: recomputed(project, QUERIES[name]) for name in before}
    project.execute("shop", "UPDATE kind SET name = 'novel' WHERE id = 1", "INSERT INTO sale VALUES (7, 77, 1, 1)")
    project.open().run(until_caught_up=True)
    states = {name: state for name, state in warehouse.cut().views.items() if state.state != "live"}
    assert set(states) == {"sums", "outer_kind"}, "the copies go on"
    assert "shop.kind changed in transaction" in states["outer_kind"].reason
    assert "s.customer = 77 refers to no row of shop.customer" in states["sums"].reason
    assert before == {name: shown(warehouse, name) for name in before}, "late, and never wrong"
    for state in states.values():
        assert "from headwater.toml" in state.fix
        assert "run 'headwater apply'" in state.fix
    say(project, {})
    done = CliRunner().invoke(app, ["apply", "--yes", "--project", str(project.folder)])
    assert done.exit_code == 0, done.output
    project.open().run(until_caught_up=True)
    assert not warehouse.halted()
    assert "shop__sale" in {view.name for view in warehouse.status().views}
    for name in before:
        assert shown(warehouse, name) == recomputed(project, QUERIES[name]), name


def test_a_row_without_its_parent_is_found_when_the_view_is_loaded(tmp_path: Path, spark: SparkSession) -> None:
    """One of a region that does not exist, two tables away."""
    project = promising(tmp_path / "p", views=["joined"])
    project.execute("shop", "INSERT INTO customer VALUES (3, 8, 'cal', '')", "INSERT INTO sale VALUES (8, 3, 1, 1)")
    warehouse = project.open()
    warehouse.setup()
    with pytest.raises(headwater.HeadwaterError, match=r"c.region = 8 refers to no row of shop.region"):
        warehouse.run(until_caught_up=True)


def test_plan_says_what_a_promise_spares(tmp_path: Path, spark: SparkSession) -> None:
    project = promising(tmp_path / "p")
    done = CliRunner().invoke(app, ["plan", "--project", str(project.folder)], env={"COLUMNS": "300"})
    assert done.exit_code == 0, done.output
    assert (
        "no copy of shop.sale: shop.kind never changes; rows only come to shop.customer, shop.region, by foreign keys;"
        " the view halts where that is not so"
    ) in " ".join(done.output.split())


# ── tables that only lose rows ───────────────────────────────────────────────────────────────────────────────────

TILL = """
CREATE TABLE item (id INTEGER PRIMARY KEY, offer INTEGER, n INTEGER);
INSERT INTO item VALUES (1, 1, 10), (2, 1, 20), (3, 2, 30), (4, NULL, 40), (5, 9, 50)
"""
SHOP = """
CREATE TABLE offer (id INTEGER PRIMARY KEY, name TEXT, note TEXT);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40)
INSERT INTO offer SELECT i, char(97 + i % 26), '' FROM n
"""
OFFERED = {
    "plainly": "SELECT i.id, o.id AS offer, o.name, i.n FROM till.item AS i JOIN shop.offer AS o ON i.offer = o.id",
    "computed": "SELECT o.id, i.n * 2 AS m FROM till.item i JOIN shop.offer o ON i.offer = o.id WHERE i.n + 1 > 0",
    "strongly": "SELECT i.id, o.id AS offer, o.name FROM till.item AS i JOIN shop.offer AS o ON i.offer = o.id",
}


def shrinking(folder: Path, who: str = "till") -> Project:
    """Items come and go at the till; offers are only withdrawn. The till is not to be asked."""
    options = {"strongly": " WITH (consistency = 'strong')"}
    views = [f"CREATE MATERIALIZED VIEW {n}{options.get(n, '')} AS {query};" for n, query in OFFERED.items()]
    project = Project(folder, "\n".join(views), {"till": TILL, "shop": SHOP})
    project.configure()
    toml = project.folder / "headwater.toml"
    said = toml.read_text().replace("[run]", '[sources.shop.tables.offer]\nchanges = "deletes"\n[run]')
    toml.write_text(said.replace(f'url = "sqlite:///{who}.db"\n', f'url = "sqlite:///{who}.db"\nask = false\n'))
    return project


def offered(project: Project, query: str) -> Counter[tuple[Any, ...]]:
    with sqlite3.connect(":memory:") as db:
        for name in ("till", "shop"):
            db.execute(f"ATTACH '{project.folder / name}.db' AS {name}")
        return Counter(db.execute(query).fetchall())


@pytest.mark.soak
def test_what_goes_is_taken_out_by_its_key_and_nobody_is_asked(tmp_path: Path, spark: SparkSession) -> None:
    project, chance = shrinking(tmp_path / "p"), random.Random(4)
    warehouse = project.loaded()
    assert not [view for view in warehouse.status().views if view.kept_for], "items need not be kept"
    wanted = {name: [offered(project, query)] for name, query in OFFERED.items()}
    with warehouse.engine() as engine:
        engine.start(warehouse.plans(), replace=False)
        for turn in range(24):
            number, offer = chance.randint(1, 6), chance.randint(1, 5)
            said = {
                "come": f"INSERT OR REPLACE INTO item VALUES ({number}, {offer}, {chance.randint(1, 9)})",
                "leave": f"DELETE FROM item WHERE id = {number}",
            }
            if turn % 8 >= 6:  # nobody can say which of two databases was first, but by asking in between
                project.execute("shop", f"DELETE FROM offer WHERE id = {offer}", "UPDATE offer SET note = 'seen'")
            else:
                project.execute("till", said[chance.choice(["come", "come", "leave"])])
            for name, query in OFFERED.items():
                wanted[name].append(offered(project, query))
            if turn % 8 in (5, 7):
                engine.catch_up()
        assert not warehouse.halted()
    for name in OFFERED:
        state = warehouse.cut().views[name]
        states = [shown(warehouse, name, at) for at in range(state.horizon, state.seq + 1)]
        left = iter(wanted[name])
        assert all(any(state == was for was in left) for state in without_repeats(states)), name
        assert states[-1] == wanted[name][-1], name
    assert len(without_repeats([shown(warehouse, "plainly", at) for at in range(1, state.seq + 1)])) > 3
    assert all(checked.ok for checked in warehouse.verify())


def test_offers_are_withdrawn_while_the_till_is_gone(tmp_path: Path, spark: SparkSession) -> None:
    """Its file is moved away once views are loaded: nothing that goes needs it. An offer that comes halts them."""
    project = shrinking(tmp_path / "p")
    warehouse = project.loaded()
    with warehouse.engine() as engine:
        engine.start(warehouse.plans(), replace=False)
        engine.catch_up()
        (project.folder / "till.db").rename(project.folder / "till.away")
        project.execute("shop", "DELETE FROM offer WHERE id = 1")
        for _ in range(200):
            engine.step()
            if not [row for row in shown(warehouse, "plainly") if row[1] == 1]:
                break
        assert shown(warehouse, "plainly") == Counter({(3, 2, "c", 30): 1, (5, 9, "j", 50): 1})
        (project.folder / "till.away").rename(project.folder / "till.db")
        project.execute("shop", "INSERT INTO offer VALUES (99, 'late', '')")
        engine.catch_up()
    reasons = {name: state.reason for name, state in warehouse.cut().views.items() if state.state != "live"}
    assert set(reasons) == set(OFFERED)
    assert "shop.offer had a row changed or added in transaction" in reasons["plainly"]
    assert "(id = 99, name = 'late')" in reasons["plainly"]
    assert 'changes = "deletes"' in reasons["plainly"]


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ('[sources.shop.tables.kidn]\nchanges = "never"', "tables.kidn]: unknown table 'kidn'"),
        ('[sources.shop.tables.kind]\nchanges = "seldom"', "unknown value of changes 'seldom'"),
        ("[sources.shop.tables.kind]\nwatched = false", "unknown setting 'watched'"),
        ("[sources.shop]\ntables = 3", "tables in [sources.shop]"),
    ],
)
def test_a_promise_that_cannot_be_meant_is_refused(
    section: str, said: str, tmp_path: Path, spark: SparkSession
) -> None:
    project = Project(tmp_path / "p", VIEWS["sums"], {"shop": TABLES})
    toml = project.folder / "headwater.toml"
    if section.startswith("[sources.shop]"):
        toml.write_text(toml.read_text().replace("[run]", section.partition("\n")[2] + "\n[run]"))
    else:
        toml.write_text(toml.read_text() + section + "\n")
    done = CliRunner().invoke(app, ["plan", "--project", str(project.folder)], env={"COLUMNS": "300"})
    assert done.exit_code == 2, done.output
    assert said in " ".join(done.output.split())
