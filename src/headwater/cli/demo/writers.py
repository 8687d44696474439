"""The demo's applications: concurrent writers that know nothing of Headwater, in a process of their own.

The SQLite ones mark their transactions, so that each is seen as one: SQLite itself does not say where one ends. The
process is their own because no other may write a SQLite source (see `sources.sqlite_files`).

    python -m headwater.cli.demo.writers FOLDER SHOP_URL SECONDS PER_SECOND

writes for so long, or until its standard input ends, and then says as JSON how many transactions it committed.
"""

from __future__ import annotations

import json
import random
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import psycopg

from headwater.cli.demo.world import CITIES, CUSTOMERS, PRODUCTS, order, person, product, sqlite
from headwater.model.errors import HeadwaterError

MARK = "INSERT INTO _headwater_transaction (tag) VALUES (NULL)"


class WriterProcess:
    """The writers as the demo sees them."""

    def __init__(self, folder: Path, shop_url: str, seconds: float, per_second: float) -> None:
        arguments = (str(folder), shop_url, str(seconds), str(per_second))
        self._command = (sys.executable, "-m", "headwater.cli.demo.writers", *arguments)
        self._process: subprocess.Popen[str] | None = None
        self.committed: dict[str, int] = {}

    def start(self) -> None:
        pipe = subprocess.PIPE  # a session of its own: Ctrl-C at the terminal is for us alone
        self._process = subprocess.Popen(
            self._command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, start_new_session=True
        )

    @property
    def busy(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def stop(self) -> None:
        """Wait for their last transactions."""
        if self._process is None:
            return
        said, complaints = self._process.communicate(timeout=30)  # ends their input
        if self._process.returncode:
            last = complaints.strip().splitlines()[-1:] or [f"exit code {self._process.returncode}"]
            raise HeadwaterError(f"the demo's writers failed: {last[0]}", "try again")
        self.committed = json.loads(said)


class Writers:
    """Two tills at the shop, one clerk at the customer register, one at the stock; each at its own pace."""

    def __init__(self, folder: Path, shop_url: str, seconds: float, per_second: float) -> None:
        self._stop = threading.Event()
        self._seconds = seconds
        self._counting = threading.Lock()
        self._committed = {"shop": 0, "crm": 0, "stock": 0}
        self._errors: list[BaseException] = []
        self._jobs = [
            WriterJob("shop", lambda: psycopg.connect(shop_url), serve_customer, per_second * 0.35, 1),
            WriterJob("shop", lambda: psycopg.connect(shop_url), serve_customer, per_second * 0.35, 2),
            WriterJob("crm", lambda: sqlite(folder / "crm.db"), edit_register, per_second * 0.1, 3),
            WriterJob("stock", lambda: sqlite(folder / "stock.db"), reprice, per_second * 0.2, 4),
        ]

    def run(self, until: IO[str]) -> dict[str, int]:
        """Write until the time is over or `until` ends; returns the transactions committed per source."""
        threads = [threading.Thread(target=self._write, args=(job,)) for job in self._jobs]
        threading.Thread(target=self._listen, args=(until,), daemon=True).start()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self._errors:
            raise self._errors[0]
        return self._committed

    def _listen(self, until: IO[str]) -> None:
        until.read()
        self._stop.set()

    def _write(self, job: WriterJob) -> None:
        try:
            with closing(job.connect()) as connection:
                self._write_to(connection, job)
        except BaseException as error:
            self._errors.append(error)
            self._stop.set()

    def _write_to(self, connection: Any, job: WriterJob) -> None:
        chance, started, done = random.Random(job.seed), time.monotonic(), 0
        while not self._stop.is_set() and time.monotonic() - started < self._seconds:
            done += 1
            if job.transact(connection, chance):
                with self._counting:
                    self._committed[job.source] += 1
            self._stop.wait(max(0.0, started + done / job.per_second - time.monotonic()))


@dataclass(frozen=True)
class WriterJob:
    """What one writer does: transactions that say whether they changed anything, so many a second."""

    source: str
    connect: Callable[[], Any]
    transact: Callable[[Any, random.Random], bool]
    per_second: float
    seed: int


_SOME_ORDER = "(SELECT id FROM orders WHERE status = 'open' AND id >= %s ORDER BY id LIMIT 1)"
"""An open order around a random place: cheap, and good enough for a demo."""


def serve_customer(connection: psycopg.Connection[tuple[Any, ...]], chance: random.Random) -> bool:
    """Orders are placed, shipped, changed and cancelled."""
    kind = chance.random()
    with connection.transaction():
        (newest,) = connection.execute("SELECT max(id) FROM orders").fetchone() or (None,)
        around = (chance.randint(1, newest or 1),)
        if kind < 0.45:
            placing = "INSERT INTO orders (customer_id, sku, qty, status) VALUES (%s, %s, %s, 'open')"
            for _ in range(chance.randint(1, 3)):
                connection.execute(placing, order(chance))
            return True
        if kind < 0.8:
            done = connection.execute(f"UPDATE orders SET status = 'shipped' WHERE id = {_SOME_ORDER}", around)
        elif kind < 0.92:
            done = connection.execute(f"UPDATE orders SET qty = qty + 1 WHERE id = {_SOME_ORDER}", around)
        else:
            done = connection.execute(f"DELETE FROM orders WHERE id = {_SOME_ORDER}", around)
        return done.rowcount > 0


def edit_register(connection: sqlite3.Connection, chance: random.Random) -> bool:
    """Customers change their name, move, come and, rarely, go."""
    customer, kind = chance.randint(1, CUSTOMERS), chance.random()
    with marked(connection):
        if kind < 0.5:
            done = connection.execute("UPDATE customers SET name = ? WHERE id = ?", (person(chance), customer))
        elif kind < 0.9:
            done = connection.execute("UPDATE customers SET city = ? WHERE id = ?", (chance.choice(CITIES), customer))
        elif kind < 0.95:
            done = connection.execute("DELETE FROM customers WHERE id = ?", (customer,))
        else:
            row = (customer, person(chance), chance.choice(CITIES))
            done = connection.execute("INSERT OR REPLACE INTO customers VALUES (?, ?, ?)", row)
        return done.rowcount > 0


def reprice(connection: sqlite3.Connection, chance: random.Random) -> bool:
    """Prices change, one at a time or a handful in one transaction; products are relisted."""
    kind, changed = chance.random(), 0
    with marked(connection):
        for _ in range(chance.randint(2, 4) if kind < 0.1 else 1):
            row = product(chance.randint(1, PRODUCTS), chance)
            if kind < 0.9:
                done = connection.execute("UPDATE products SET price = ? WHERE sku = ?", (row[3], row[0]))
            else:
                done = connection.execute("INSERT OR REPLACE INTO products VALUES (?, ?, ?, ?)", row)
            changed += done.rowcount
    return changed > 0


class marked:  # noqa: N801 # reads as what it does
    """A SQLite transaction that tells Headwater where it ends."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __enter__(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is None:
            self._connection.execute(MARK)
            self._connection.commit()
        else:
            self._connection.rollback()


def main() -> None:
    folder, shop_url, seconds, per_second = sys.argv[1:]
    committed = Writers(Path(folder), shop_url, float(seconds), float(per_second)).run(until=sys.stdin)
    print(json.dumps(committed))


if __name__ == "__main__":
    main()
