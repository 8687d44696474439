"""A bank over four databases, whose views must agree in every state anybody sees.

East (PostgreSQL) and west (SQLite) hold accounts. Money moves inside the east, and between both as global transactions:
the sums of all of the east's views are equal in every state, those of the west's too, and nothing is ever lost between
the sides.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

import headwater
from runtime.world import Sqlite

BANK = """
CREATE MATERIALIZED VIEW accounts AS SELECT a.id, a.owner, a.amount FROM east.accounts a;
CREATE MATERIALIZED VIEW total WITH (consistency = 'strong') AS SELECT SUM(amount) AS total, COUNT(*) AS n
  FROM east.accounts;
CREATE MATERIALIZED VIEW joined WITH (consistency = 'strong') AS
  SELECT a.id, o.name, a.amount FROM east.accounts a JOIN people.owners o ON o.id = a.owner;
CREATE MATERIALIZED VIEW by_owner AS SELECT name, SUM(amount) AS total, COUNT(*) AS n FROM joined_c GROUP BY name;
CREATE MATERIALIZED VIEW joined_c AS
  SELECT a.id, o.name, a.amount FROM east.accounts a JOIN people.owners o ON o.id = a.owner;
CREATE MATERIALIZED VIEW some WITH (consistency = 'complete', every = 5) AS SELECT id, amount FROM east.accounts;
CREATE MATERIALIZED VIEW late WITH (consistency = 'convergent') AS SELECT id, amount FROM east.accounts;
CREATE MATERIALIZED VIEW nightly WITH (consistency = 'periodic', schedule = '1 second') AS
  SELECT SUM(amount) AS total FROM east.accounts;
CREATE MATERIALIZED VIEW west_accounts AS SELECT id, amount FROM west.accounts;
CREATE MATERIALIZED VIEW west_total WITH (consistency = 'strong') AS SELECT SUM(amount) AS total FROM west.accounts;
CREATE MATERIALIZED VIEW everywhere AS SELECT e.id, e.amount AS east, w.amount AS west
  FROM east.accounts e JOIN west.accounts w ON w.id = e.id;
CREATE MATERIALIZED VIEW notes AS SELECT id, text FROM apart.notes;
"""
ACCOUNTS, MONEY = 8, 1000


class Bank:
    """East (PostgreSQL) and west (SQLite) hold accounts: money moves inside east, and between east and west as global
    transactions. Every state has the same sum in the east's views, and over both sides."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder, self.url, self.number = folder, url, 0
        (folder / "views").mkdir(parents=True)
        (folder / "views" / "bank.sql").write_text(BANK)
        (folder / "headwater.toml").write_text(
            f'[sources.east]\nurl = "{url}"\n'
            + "".join(f'[sources.{n}]\nurl = "sqlite:///{n}.db"\n' for n in ("west", "people", "apart"))
            + "[run]\npoll_seconds = 0.05\n"
        )
        with psycopg.connect(url) as east:
            east.execute("CREATE TABLE accounts (id int PRIMARY KEY, owner int, amount int)")
            for n in range(ACCOUNTS):
                east.execute("INSERT INTO accounts VALUES (%s, %s, %s)", (n, n % 3, MONEY))
        for name, ddl, rows in [
            ("west", "CREATE TABLE accounts (id INTEGER PRIMARY KEY, amount INTEGER)", [(n, MONEY) for n in range(8)]),
            ("people", "CREATE TABLE owners (id INTEGER PRIMARY KEY, name TEXT)", [(n, f"p{n}") for n in range(3)]),
            ("apart", "CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT)", [(0, "zero")]),
        ]:
            with Sqlite(folder / f"{name}.db") as db:
                db.execute("PRAGMA journal_mode = WAL")
                db.execute(ddl)
                for row in rows:
                    db.execute(f"INSERT INTO {ddl.split()[2]} VALUES (?, ?)", row)

    def write(self, seed: int, stop: threading.Event) -> None:
        """Move money until told to stop."""
        r = random.Random(seed)
        with psycopg.connect(self.url, autocommit=True) as east:
            while not stop.is_set():
                one, other, amount = r.randrange(ACCOUNTS), r.randrange(ACCOUNTS), r.randint(1, 9)
                self.number += 1
                deed = r.random()
                if deed < 0.5:
                    with east.transaction():
                        self._move(east, one, -amount)
                        self._move(east, other, amount)
                elif deed < 0.8:
                    self._transfer(east, one, amount)
                else:
                    self._chatter(r)
                time.sleep(0.03)

    def _transfer(self, east: psycopg.Connection[Any], account: int, amount: int) -> None:
        tag = f"transfer-{self.number}"
        with east.transaction():
            east.execute("SELECT headwater.part_of(%s, 2)", (tag,))
            self._move(east, account, -amount)
        with Sqlite(self.folder / "west.db") as west:
            west.execute("BEGIN IMMEDIATE")
            west.execute("INSERT INTO _headwater_transaction(tag, parts) VALUES (?, 2)", (tag,))
            west.execute("UPDATE accounts SET amount = amount + ? WHERE id = ?", (amount, account))
            west.execute("COMMIT")

    def _chatter(self, r: random.Random) -> None:
        with Sqlite(self.folder / "people.db") as people:
            people.execute("UPDATE owners SET name = ? WHERE id = ?", (f"p{r.randint(0, 99)}", r.randrange(3)))
        with Sqlite(self.folder / "apart.db") as apart:
            apart.execute("INSERT OR REPLACE INTO notes VALUES (?, ?)", (r.randrange(5), f"n{r.randint(0, 99)}"))

    @staticmethod
    def _move(east: psycopg.Connection[Any], account: int, amount: int) -> None:
        east.execute("UPDATE accounts SET amount = amount + %s WHERE id = %s", (amount, account))


EAST = """
SELECT (SELECT sum(amount) FROM accounts) AS a, (SELECT total FROM total) AS b, (SELECT sum(amount) FROM joined) AS c,
       (SELECT sum(total) FROM by_owner) AS d, (SELECT sum(amount) FROM joined_c) AS e,
       (SELECT sum(amount) FROM some) AS f, (SELECT total FROM nightly) AS g, (SELECT sum(east) FROM everywhere) AS h
"""
WEST = """
SELECT (SELECT sum(amount) FROM west_accounts) AS a, (SELECT total FROM west_total) AS b,
       (SELECT sum(west) FROM everywhere) AS c
"""


def check_bank(session: headwater.Session) -> int:
    """What must hold in every state: all views of a side agree, and nothing is lost between the sides."""
    (east,) = session.query(EAST).to_pylist()
    (west,) = session.query(WEST).to_pylist()
    assert len(set(east.values())) == 1, f"east disagrees: {east} at {session.cut.seq}"
    assert len(set(west.values())) == 1, f"west disagrees: {west} at {session.cut.seq}"
    assert east["a"] + west["a"] == 2 * ACCOUNTS * MONEY, f"half a transfer: {east['a']} + {west['a']}"
    return session.cut.number


def read_always(folder: Path, stop: threading.Event, found: dict[str, Any]) -> None:
    """A reader that opens session after session, checks each twice, and keeps the first thing it finds wrong."""
    warehouse = headwater.open(folder)
    try:
        while not stop.is_set():
            with warehouse.session() as session:
                found.setdefault("cuts", set()).add(check_bank(session))
                rows = session.rows("accounts").to_pylist()
                time.sleep(0.05)
                assert session.rows("accounts").to_pylist() == rows, "a session's state changed"
    except Exception as error:
        found["wrong"] = error


@contextmanager
def busy(bank: Bank) -> Iterator[dict[str, Any]]:
    """Writers and readers at work; what the readers found wrong is raised at the end."""
    stop, found = threading.Event(), dict[str, Any]()
    threads = [threading.Thread(target=bank.write, args=(seed, stop)) for seed in (1,)]
    threads += [threading.Thread(target=read_always, args=(bank.folder, stop, found))]
    for thread in threads:
        thread.start()
    try:
        yield found
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    if "wrong" in found:
        raise found["wrong"]
