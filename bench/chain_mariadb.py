"""The chain in MariaDB: tables r1..r4, loaded from files, changed by real transactions.

The functions take a pymysql connection in autocommit mode that may read local files, and the relations behind it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pymysql

from chain import DELETE, INSERT, UPDATE, Chain, Transactions


def load(connection: pymysql.Connection, chain: Chain, relations: Sequence[int]) -> None:
    """Create and fill the base tables, with one index on `a` and one on `b`."""
    with connection.cursor() as cursor:
        for index in relations:
            name, rows = f"r{index + 1}", chain.base[index]
            cursor.execute(f"CREATE TABLE {name} (a int NOT NULL, b int NOT NULL, KEY (a), KEY (b))")
            _loaded(cursor, name, pa.table({"a": rows.a, "b": rows.b}))


def apply(connection: pymysql.Connection, transactions: Transactions, relations: Sequence[int]) -> None:
    """Run the transactions of these relations, each with a COMMIT of its own, in a loop inside the server."""
    with connection.cursor() as cursor:
        cursor.execute("SET SESSION sql_log_bin = 0")  # of what is only the bench's
        cursor.execute(
            "CREATE TABLE work (tx int PRIMARY KEY, relation int, op int, old_a int, old_b int, new_a int, new_b int)"
        )
        _loaded(cursor, "work", transactions.to_arrow())
        cursor.execute(_loop(relations))
        cursor.execute("SET SESSION sql_log_bin = 1")
        cursor.execute("CALL run_work()")
        cursor.execute("SET SESSION sql_log_bin = 0")
        cursor.execute("DROP PROCEDURE run_work")
        cursor.execute("DROP TABLE work")
        cursor.execute("SET SESSION sql_log_bin = 1")


def _loaded(cursor: pymysql.cursors.Cursor, table: str, rows: pa.Table) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.csv"
        texts = [pc.fill_null(column.cast(pa.string()), r"\N") for column in rows.columns]
        pa.csv.write_csv(
            pa.table(texts, names=rows.column_names),
            file,
            pa.csv.WriteOptions(include_header=False, quoting_style="none"),
        )
        cursor.execute(f"LOAD DATA LOCAL INFILE '{file}' INTO TABLE {table} FIELDS TERMINATED BY ','")


def _loop(relations: Sequence[int]) -> str:
    cases = []
    for index in relations:
        name, condition = f"r{index + 1}", f"this_relation = {index} AND this_op"
        cases += [
            f"WHEN {condition} = {INSERT} THEN INSERT INTO {name} VALUES (born_a, born_b);",
            f"WHEN {condition} = {DELETE} THEN DELETE FROM {name} WHERE a = gone_a AND b = gone_b;",
            f"WHEN {condition} = {UPDATE} THEN"
            f" UPDATE {name} SET a = born_a, b = born_b WHERE a = gone_a AND b = gone_b;",
        ]
    branches = "\n".join(cases)
    return f"""
        CREATE PROCEDURE run_work() BEGIN
          DECLARE k, last, this_relation, this_op, gone_a, gone_b, born_a, born_b int;
          SET k = 0, last = (SELECT max(tx) FROM work);
          WHILE k <= last DO
            SELECT relation, op, old_a, old_b, new_a, new_b
              INTO this_relation, this_op, gone_a, gone_b, born_a, born_b FROM work WHERE tx = k;
            CASE {branches} ELSE BEGIN END; END CASE;
            SET k = k + 1;
          END WHILE;
        END"""
