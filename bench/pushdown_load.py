"""First loads of a join that its source makes, or Spark from copies of its tables: seconds, in one run.

    python bench/pushdown_load.py                      5,000 returns of 1M items of 250,000 orders
    python bench/pushdown_load.py --items 100000       fewer

Three tables in PostgreSQL: returns refer to items by their key, items to orders. A load with `join_at_sources` reads
the returns and asks for what they refer to; one without copies all three tables. Each is a project of its own over the
same database, in turn; the clock runs from the first question to the visible cut, with the session up before, and the
best counts. Both must show the same rows.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
from typing import Any

import psycopg

import headwater
from postgres_peer import running_postgres
from scenarios import OUT, running

VIEW = (
    "SELECT r.id, r.why, i.price, o.customer FROM shop.returns r JOIN shop.items i ON i.id = r.item"
    " JOIN shop.orders o ON o.id = i.ord"
)


def fill(connection: psycopg.Connection[Any], returns: int, items: int) -> None:
    for statement in (
        "CREATE TABLE orders (id int PRIMARY KEY, customer int, note text)",
        f"INSERT INTO orders SELECT n, n % 1000, 'note ' || n FROM generate_series(0, {items // 4}) AS n",
        "CREATE TABLE items (id int PRIMARY KEY, ord int, price int, note text)",
        f"INSERT INTO items SELECT n, n / 4, n % 500, 'note ' || n FROM generate_series(0, {items - 1}) AS n",
        "CREATE TABLE returns (id int PRIMARY KEY, item int, why text)",
        f"INSERT INTO returns SELECT n, n * 101 % {items}, 'why' FROM generate_series(0, {returns - 1}) AS n",
        "ANALYZE",
    ):
        connection.execute(statement)


def loaded(url: str, on: bool) -> tuple[float, list[Any]]:
    folder = OUT / "projects" / f"pushdown-load-{os.getpid()}"
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "views").mkdir(parents=True)
    said = f'[sources.shop]\nurl = "{url}"\n[run]\njoin_at_sources = {str(on).lower()}\n'
    (folder / "headwater.toml").write_text(said)
    (folder / "views" / "v.sql").write_text(f"CREATE MATERIALIZED VIEW v AS {VIEW};\n")
    warehouse = headwater.open(folder)
    warehouse.setup()
    try:
        with running(warehouse) as (_, seconds):
            pass
        return seconds, warehouse.rows("v").to_pylist()
    finally:
        warehouse.teardown()
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--returns", type=int, default=5_000)
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--loads", type=int, default=2)
    options = parser.parse_args()
    times: dict[bool, list[float]] = {True: [], False: []}
    shown: list[list[Any]] = []
    with running_postgres() as (connection, url):
        fill(connection, options.returns, options.items)
        for _ in range(options.loads):
            for on in times:
                seconds, rows = loaded(url, on)
                times[on].append(seconds)
                shown.append(rows)
    assert all(rows == shown[0] for rows in shown), "they do not show the same"
    at_source, by_spark = min(times[True]), min(times[False])
    print(
        json.dumps(
            {"rows": len(shown[0]), "at_source_s": at_source, "by_spark_s": by_spark, "ratio": by_spark / at_source,
             "times": {"at_source": times[True], "by_spark": times[False]},
             "machine_load": round(os.getloadavg()[0], 1)}
        )
    )  # fmt: skip


if __name__ == "__main__":
    main()
