"""The chain in PostgreSQL: tables r1..r4, loaded with COPY, changed by real transactions.

The functions take a psycopg connection in autocommit mode and the relations that live behind it, so the four tables can
share one database or sit in four.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import psycopg
import pyarrow as pa
import pyarrow.csv

from chain import DELETE, INSERT, RELATIONS, UPDATE, Chain, Transactions

ALL = tuple(range(RELATIONS))


def table(index: int, schema: str = "public") -> str:
    return f"{schema}.r{index + 1}"


def load(connection: psycopg.Connection, chain: Chain, relations: Sequence[int] = ALL) -> None:
    """Create and fill the base tables, with one index on `a` and one on `b`."""
    for index in relations:
        name, rows = table(index), chain.base[index]
        connection.execute(f"DROP TABLE IF EXISTS {name} CASCADE")
        connection.execute(f"CREATE TABLE {name} (a integer NOT NULL, b integer NOT NULL)")
        _copy(connection, f"{name} (a, b)", pa.table({"a": rows.a, "b": rows.b}))
        for column in ("a", "b"):
            connection.execute(f"CREATE INDEX ON {name} ({column})")
        connection.execute(f"VACUUM ANALYZE {name}")


def apply(connection: psycopg.Connection, transactions: Transactions, relations: Sequence[int] = ALL) -> None:
    """Run the transactions of these relations, each with a COMMIT of its own.

    A loop inside the server, because the client's round trips would dominate: a DO block may commit as it goes.
    """
    connection.execute("DROP TABLE IF EXISTS bench_transactions")
    connection.execute(
        "CREATE UNLOGGED TABLE bench_transactions"
        " (tx integer, relation integer, op integer, old_a integer, old_b integer, new_a integer, new_b integer)"
    )
    _copy(connection, "bench_transactions", transactions.to_arrow())
    connection.execute("CREATE INDEX ON bench_transactions (tx)")
    connection.execute("SET synchronous_commit = off")
    connection.execute(_loop(relations))
    connection.execute("DROP TABLE bench_transactions")


def _copy(connection: psycopg.Connection, target: str, rows: pa.Table) -> None:
    options = pa.csv.WriteOptions(include_header=False)
    with connection.cursor() as cursor, cursor.copy(f"COPY {target} FROM STDIN (FORMAT csv)") as copy:
        for batch in rows.to_batches(max_chunksize=200_000):
            sink = pa.BufferOutputStream()
            pa.csv.write_csv(batch, sink, options)
            copy.write(sink.getvalue().to_pybytes())


def _loop(relations: Iterable[int]) -> str:
    cases = []
    for index in relations:
        name = table(index)
        condition = f"t.relation = {index} AND t.op"
        cases += [
            f"WHEN {condition} = {INSERT} THEN INSERT INTO {name} VALUES (t.new_a, t.new_b);",
            f"WHEN {condition} = {DELETE} THEN DELETE FROM {name} WHERE a = t.old_a AND b = t.old_b;",
            f"WHEN {condition} = {UPDATE} THEN"
            f" UPDATE {name} SET a = t.new_a, b = t.new_b WHERE a = t.old_a AND b = t.old_b;",
        ]
    branches = "\n".join(cases)
    # A cursor over the whole table would be materialised at the first COMMIT; asking by number costs one index probe.
    return f"""
        DO $$
        DECLARE t bench_transactions; last integer := (SELECT max(tx) FROM bench_transactions);
        BEGIN
          FOR k IN 0 .. coalesce(last, -1) LOOP
            SELECT * INTO t FROM bench_transactions WHERE tx = k;
            CASE {branches} ELSE NULL; END CASE;
            COMMIT;
          END LOOP;
        END $$"""
