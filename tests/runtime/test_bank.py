"""The bank: accounts in two databases, transfers inside each. Money is neither made nor lost, so the total over both
must be right in every state anyone can read."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path

import psycopg
import pytest
from pyspark.sql import SparkSession

import headwater
from postgres_server import PostgresServer
from runtime.world import Sqlite

pytestmark = [pytest.mark.spark, pytest.mark.postgres]

ACCOUNTS, MONEY = 20, 100
VIEWS = """
CREATE MATERIALIZED VIEW here AS SELECT SUM(balance) AS total FROM bank.accounts;
CREATE MATERIALIZED VIEW there AS SELECT SUM(balance) AS total FROM branch.accounts;
CREATE MATERIALIZED VIEW wealth AS
SELECT a.owner, a.balance AS here, b.balance AS there FROM bank.accounts a JOIN branch.accounts b ON a.owner = b.owner;
CREATE MATERIALIZED VIEW customers WITH (consistency = 'strong') AS
SELECT COUNT(*) AS n, SUM(a.balance + b.balance) AS total
FROM bank.accounts a JOIN branch.accounts b ON a.owner = b.owner;
"""
TOTAL = 2 * ACCOUNTS * MONEY


def test_the_total_is_right_in_every_readable_state(
    tmp_path: Path, postgres: PostgresServer, spark: SparkSession
) -> None:
    url = postgres.create_database("bank")
    branch = tmp_path / "branch.db"
    (tmp_path / "views").mkdir()
    (tmp_path / "views" / "bank.sql").write_text(VIEWS)
    (tmp_path / "headwater.toml").write_text(
        f'[sources.bank]\nurl = "{url}"\n[sources.branch]\nurl = "sqlite:///branch.db"\n[run]\npoll_seconds = 0.05\n'
    )
    with psycopg.connect(url) as db:
        db.execute("CREATE TABLE accounts (owner int PRIMARY KEY, balance int)")
        db.execute("INSERT INTO accounts SELECT i, %s FROM generate_series(1, %s) i", (MONEY, ACCOUNTS))
    with Sqlite(branch) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("CREATE TABLE accounts (owner INTEGER PRIMARY KEY, balance INTEGER)")
        for owner in range(1, ACCOUNTS + 1):
            db.execute("INSERT INTO accounts VALUES (?, ?)", (owner, MONEY))
    warehouse = headwater.open(tmp_path)
    warehouse.setup()
    enough = threading.Event()

    def at_the_bank(seed: int) -> None:
        r = random.Random(seed)
        with psycopg.connect(url) as db:
            while not enough.is_set():
                # ids in one order, so that transfers do not deadlock; two statements, one transaction
                one, other = sorted(r.sample(range(1, ACCOUNTS + 1), 2))
                amount = r.randint(-9, 9)
                db.execute("UPDATE accounts SET balance = balance - %s WHERE owner = %s", (amount, one))
                db.execute("UPDATE accounts SET balance = balance + %s WHERE owner = %s", (amount, other))
                db.commit()
                time.sleep(0.1)

    def at_the_branch(seed: int) -> None:
        r = random.Random(seed)
        with Sqlite(branch) as db:
            while not enough.is_set():
                one, other = r.sample(range(1, ACCOUNTS + 1), 2)
                amount = r.randint(-9, 9)
                db.execute("BEGIN IMMEDIATE")
                db.execute("INSERT INTO _headwater_transaction(tag) VALUES (NULL)")
                db.execute("UPDATE accounts SET balance = balance - ? WHERE owner = ?", (amount, one))
                db.execute("UPDATE accounts SET balance = balance + ? WHERE owner = ?", (amount, other))
                db.execute("COMMIT")
                time.sleep(0.1)

    cuts_seen = set()
    with warehouse.engine() as engine:
        engine.start(warehouse.plans())
        engine.catch_up()
        first = engine.cut.seq
        writers = [threading.Thread(target=at_the_bank, args=(s,)) for s in (1, 2)]
        writers += [threading.Thread(target=at_the_branch, args=(s,)) for s in (3, 4)]
        for writer in writers:
            writer.start()
        try:
            while len(cuts_seen) < 6:
                engine.step()
                with warehouse.session() as session:
                    cuts_seen.add(session.cut.seq)
                    assert _totals(session) == (TOTAL, TOTAL, ACCOUNTS, TOTAL)
        finally:
            enough.set()
            for writer in writers:
                writer.join()
        engine.catch_up()
        last = engine.cut.seq
    for seq in range(first, last + 1):
        with warehouse.session(at=seq) as session:
            assert _totals(session) == (TOTAL, TOTAL, ACCOUNTS, TOTAL), f"state {seq}"
    assert last - first > len(cuts_seen), "there are more states than cuts: every transfer is one"


def _totals(session: headwater.Session) -> tuple[int, int, int, int]:
    (row,) = session.query(
        "SELECT h.total + t.total AS apart, w.joined, c.n, c.total FROM here h, there t, customers c,"
        " (SELECT sum(here + there) AS joined FROM wealth) w"
    ).to_pylist()
    return row["apart"], row["joined"], row["n"], row["total"]
