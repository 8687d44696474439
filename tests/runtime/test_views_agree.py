"""Readers never see two views disagree: while sources change, views come and go, and runs are killed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
import pytest
from pyspark.sql import SparkSession

import headwater
from headwater.model.errors import HeadwaterError, ViewSqlError
from headwater.runtime.engine import Engine
from headwater.runtime.reading.status import ViewStatus
from postgres_server import PostgresServer
from runtime.bank import Bank, busy, check_bank
from runtime.world import Sqlite

pytestmark = [pytest.mark.spark, pytest.mark.postgres]


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory, postgres: PostgresServer, spark: SparkSession) -> Bank:
    """One loaded bank for all tests here; each leaves views/ as it found it or as the next ones can use it."""
    bank = Bank(tmp_path_factory.mktemp("agree") / "bank", postgres.create_database("views_agree"))
    warehouse = headwater.open(bank.folder)
    warehouse.setup()
    warehouse.run(until_caught_up=True)
    return bank


def until(engine: Engine, holds: Callable[[], bool], seconds: float = 150) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"it did not come to pass: {engine.look().managers}"
        engine.step()


def edit(bank: Bank, old: str, new: str) -> headwater.Warehouse:
    """Change the project's views; returns it opened anew, as another process would."""
    file = bank.folder / "views" / "bank.sql"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))
    return headwater.open(bank.folder)


def apply_while_running(engine: Engine, warehouse: headwater.Warehouse) -> list[tuple[str, str]]:
    """What `headwater apply --yes` does, while the engine goes on."""
    plan = warehouse.plan_apply()
    failed: list[BaseException] = []

    def apply() -> None:
        try:
            warehouse.apply(plan)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=apply, daemon=True)
    thread.start()
    until(engine, lambda: not thread.is_alive())
    if failed:
        raise failed[0]
    return [(change.view, change.action) for change in plan.changes]


def amount(warehouse: headwater.Warehouse, account: int) -> int:
    (row,) = warehouse.query(f"SELECT amount FROM accounts WHERE id = {account}").to_pylist()
    return int(row["amount"])


def move(bank: Bank, one: int, other: int, money: int) -> None:
    """One transaction inside the east."""
    with psycopg.connect(bank.url) as east:
        bank._move(east, one, -money)
        bank._move(east, other, money)


def test_what_cannot_be_applied_is_refused_and_nothing_changes(bank: Bank) -> None:
    warehouse, file = headwater.open(bank.folder), bank.folder / "views" / "bank.sql"
    before, text = warehouse.cut(), file.read_text()
    with pytest.raises(ViewSqlError, match=r"circle: by_owner .* → joined_c .* → by_owner"):
        edit(
            bank,
            "FROM east.accounts a JOIN people.owners o ON o.id = a.owner;\nCREATE MATERIALIZED VIEW some",
            "FROM by_owner a, people.owners o, east.accounts e;\nCREATE MATERIALIZED VIEW some",
        ).plan_apply()
    edit(bank, "FROM by_owner a, people.owners o, east.accounts e", "FROM east.accounts a, people.owners o")
    with pytest.raises(HeadwaterError, match="amount"):  # by_owner reads a column that joined_c would lose
        edit(bank, "SELECT a.id, o.name, a.amount FROM east.accounts a, people.owners o", "SELECT a.id, o.name"
             " FROM east.accounts a, people.owners o").plan_apply()  # fmt: skip
    edit(bank, "SELECT a.id, o.name FROM east.accounts a, people.owners o;", "")
    file.write_text(file.read_text().replace("CREATE MATERIALIZED VIEW joined_c AS", ""))
    with pytest.raises(HeadwaterError, match="joined_c"):
        headwater.open(bank.folder).plan_apply()
    file.write_text(text)
    assert warehouse.cut() == before
    assert not headwater.open(bank.folder).plan_apply()


@contextmanager
def taken_away(bank: Bank, source: str) -> Iterator[None]:
    """A SQLite source's file is gone for a while."""
    moved = list(bank.folder.glob(f"{source}.db*"))
    for file in moved:
        file.rename(file.with_name("away-" + file.name))
    try:
        yield
    finally:
        for file in reversed(moved):
            file.with_name("away-" + file.name).rename(file)


def test_a_source_that_is_gone_holds_back_only_what_shares_with_it(bank: Bank) -> None:
    warehouse = headwater.open(bank.folder)
    before = amount(warehouse, 1)

    def status(view: str) -> ViewStatus:
        return next(v for v in warehouse.status().views if v.name == view)

    with warehouse.engine() as engine:
        engine.start(warehouse.plans())
        engine.catch_up()
        with taken_away(bank, "people"):
            move(bank, 1, 2, 5)
            until(engine, lambda: "people" in status("joined").waits)  # it is told about once a second
            with Sqlite(bank.folder / "apart.db") as apart:
                apart.execute("INSERT INTO notes VALUES (77, 'while it is away')")
            until(engine, lambda: bool(warehouse.query("SELECT 1 FROM notes WHERE id = 77").num_rows))
            with warehouse.session() as session:
                check_bank(session)
            until(engine, lambda: "joined" in status("accounts").waits)
            assert status("accounts").since is not None
            assert status("notes").seq > status("accounts").seq
        engine.catch_up()
    assert amount(warehouse, 1) == before - 5
    assert all(v.ok for v in warehouse.verify())


SHARES = """
CREATE MATERIALIZED VIEW shares AS SELECT id, 1000 / amount AS share FROM east.accounts;
CREATE MATERIALIZED VIEW all_shares AS SELECT SUM(share) AS s FROM shares;
"""


@pytest.mark.soak
def test_a_manager_that_fails_halts_its_view_and_those_that_read_it(bank: Bank) -> None:
    extra = bank.folder / "views" / "shares.sql"
    extra.write_text(SHARES)
    warehouse = headwater.open(bank.folder)
    warehouse.apply(warehouse.plan_apply())  # nothing runs: it is done here
    money = amount(warehouse, 3)
    move(bank, 3, 4, money)
    warehouse.run(until_caught_up=True)
    status = {str(v.name): v for v in warehouse.status().views}
    assert status["shares"].state == "halted"
    assert "DIVIDE_BY_ZERO" in status["shares"].reason
    assert status["all_shares"].state == "halted"
    assert "view shares, which it reads, is halted" in status["all_shares"].reason
    with warehouse.session() as session:
        check_bank(session)
    assert amount(warehouse, 3) == 0
    move(bank, 4, 3, money)
    plan = headwater.open(bank.folder).plan_apply()
    assert [(c.view, c.action) for c in plan.changes] == [("shares", "rebuild"), ("all_shares", "rebuild")]
    warehouse.apply(plan)
    assert all(v.ok for v in warehouse.verify())
    extra.unlink()
    warehouse = headwater.open(bank.folder)
    plan = warehouse.plan_apply()
    assert [(c.view, c.action) for c in plan.changes] == [("shares", "drop"), ("all_shares", "drop")]
    warehouse.apply(plan)
    assert "shares" not in warehouse.cut().views


def test_readers_never_see_views_disagree(bank: Bank) -> None:
    warehouse = headwater.open(bank.folder)
    with warehouse.engine() as engine:
        engine.start(warehouse.plans())
        assert sorted(len(g.views) for g in engine.look().groups) == [1, 10]  # notes go their own way
        with busy(bank) as found:
            end = time.monotonic() + 14
            while time.monotonic() < end and "wrong" not in found:
                engine.step()
        engine.catch_up()
    assert len(found["cuts"]) > 3
    with warehouse.session() as session:
        check_bank(session)
    assert all(v.ok for v in warehouse.verify())


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_views_come_change_and_go_while_it_runs(bank: Bank) -> None:
    warehouse = headwater.open(bank.folder)
    with warehouse.engine() as engine:
        engine.start(warehouse.plans())
        with busy(bank) as found:
            until(engine, lambda: len(found.get("cuts", ())) > 1)
            added = edit(
                bank,
                "CREATE MATERIALIZED VIEW notes",
                "CREATE MATERIALIZED VIEW rich AS SELECT name, total FROM by_owner WHERE total > 0;"
                "CREATE MATERIALIZED VIEW copies WITH (consistency = 'strong') AS"
                " SELECT a.id, a.amount, n.text FROM east.accounts a JOIN apart.notes n ON n.id = a.id;"
                "CREATE MATERIALIZED VIEW notes",
            )
            assert apply_while_running(engine, added) == [("rich", "create"), ("copies", "create")]
            assert len(engine.look().groups) == 1  # a view over both ties them together
            changed = edit(bank, "SELECT SUM(amount) AS total, COUNT(*) AS n", "SELECT SUM(amount) AS total, 1 AS one")
            assert apply_while_running(engine, changed) == [("total", "replace")]
            changed = edit(bank, "CREATE MATERIALIZED VIEW joined_c AS", "CREATE MATERIALIZED VIEW joined_c AS SELECT"
                " id, name, amount FROM joined_d; CREATE MATERIALIZED VIEW joined_d AS")  # fmt: skip
            assert apply_while_running(engine, changed) == [
                ("joined_d", "create"), ("joined_c", "replace"), ("by_owner", "rebuild"), ("rich", "rebuild"),
            ]  # fmt: skip
            fewer = edit(bank, "CREATE MATERIALIZED VIEW rich AS SELECT name, total FROM by_owner WHERE total > 0;", "")
            assert apply_while_running(engine, fewer) == [("rich", "drop")]
            assert not headwater.open(bank.folder).plan_apply()
        engine.catch_up()
    last = headwater.open(bank.folder)
    assert "rich" not in last.status().cut.views
    assert last.rows("total").column_names == ["total", "one"]
    assert all(v.ok for v in last.verify())
