"""The application over four PostgreSQL databases, in a process of its own: one transaction after the other at a steady
rate, each with a commit of its own.

python bench/postgres_writer.py N U FIRST PER_SECOND URL URL URL URL
"""

from __future__ import annotations

import sys
import time

import psycopg

from chain import DELETE, INSERT, Chain
from chain_postgres import table


def main() -> None:
    n, u, first = map(int, sys.argv[1:4])
    per_second, urls = float(sys.argv[4]), sys.argv[5:]
    rows = zip(*(column.tolist() for column in Chain(n, u).transactions[first:]._columns()), strict=True)
    connections = [psycopg.connect(url, autocommit=True) for url in urls]
    begun = time.monotonic()
    for i, (relation, op, old_a, old_b, new_a, new_b) in enumerate(rows):
        time.sleep(max(0.0, begun + i / per_second - time.monotonic()))
        name, connection = table(relation), connections[relation]
        if op == INSERT:
            connection.execute(f"INSERT INTO {name} VALUES (%s, %s)", [new_a, new_b])
        elif op == DELETE:
            connection.execute(f"DELETE FROM {name} WHERE a = %s AND b = %s", [old_a, old_b])
        else:
            connection.execute(
                f"UPDATE {name} SET a = %s, b = %s WHERE a = %s AND b = %s", [new_a, new_b, old_a, old_b]
            )
    for connection in connections:
        connection.close()


if __name__ == "__main__":
    main()
