"""The chain's view and its checksum as SQL that every engine of the bench understands."""

from __future__ import annotations

from collections.abc import Sequence

P, K = 2**31 - 1, 1_000_003
"""Modulus and multiplier of the row hash: every step stays below 2^63, and so does the sum over 2^32 rows."""


def view_sql(tables: Sequence[str]) -> str:
    """The view of PVM's fig. 20 over these tables, named as the engine at hand names them; output columns a1..a4."""
    columns = ", ".join(f"t{i}.a AS a{i}" for i in range(1, len(tables) + 1))
    joins = "".join(f" JOIN {table} t{i} ON t{i - 1}.a = t{i}.b" for i, table in enumerate(tables[1:], 2))
    return f"SELECT {columns} FROM {tables[0]} t1{joins}"


def hash_sql() -> str:
    """`chain.row_hash` of the columns a1..a4."""
    # Both arguments of MOD are cast: Flink gives the result the type of the second, PostgreSQL multiplies in the first.
    p = f"CAST({P} AS BIGINT)"
    first = f"MOD(CAST(a1 AS BIGINT) * {K} + a2, {p})"
    x = f"MOD(MOD({first} * {K} + a3, {p}) * {K} + a4, {p})"
    return f"MOD({x} * {x}, {p})"


def answer_sql(view: str) -> str:
    """(count, checksum) of a table or of a parenthesised query with the columns a1..a4."""
    return f"SELECT COUNT(*) AS n, CAST(SUM({hash_sql()}) AS BIGINT) AS checksum FROM {view}"
