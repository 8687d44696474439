"""Random tables, random application triggers, random statements: histories for `test_sqlite_histories.py`.

Everything is drawn from one `random.Random`, so a seed is a history. Names are short on purpose: t is the captured
table, u, v, w, n columns in unique keys or not, side another table that triggers write and that writes back.
"""

from __future__ import annotations

import random
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

DEFAULTS = ["", "", " NOT NULL DEFAULT 1", " NOT NULL DEFAULT 2", " NOT NULL DEFAULT (1 + 1)", " DEFAULT 3"]
TYPES = ["INTEGER", "TEXT", "TEXT COLLATE NOCASE", "NUMERIC", "BLOB"]
OR = ["", "", " OR REPLACE", " OR REPLACE", " OR IGNORE", " OR FAIL", " OR ABORT", " OR ROLLBACK"]


@dataclass(frozen=True)
class History:
    schema: tuple[str, ...]
    triggers_before: tuple[str, ...]
    triggers_after: tuple[str, ...]
    """Made after capture: whether capture still counts as whole is for capture to say."""
    transactions: tuple[tuple[str, ...], ...]
    recursive: bool
    foreign_keys: bool


def history(seed: int) -> History:
    rng = random.Random(seed)
    schema, foreign = _schema(rng)
    before = tuple(_trigger(rng, f"b{n}") for n in range(rng.choice([0, 0, 1, 1, 2, 3])))
    after = tuple(_trigger(rng, f"a{n}") for n in range(rng.choice([0, 0, 0, 1])))
    transactions = tuple(tuple(_statements(rng, rng.randint(1, 5))) for _ in range(rng.randint(2, 7)))
    return History(schema, before, after, transactions, rng.random() < 0.3, foreign and rng.random() < 0.8)


def _schema(rng: random.Random) -> tuple[tuple[str, ...], bool]:
    kind = rng.choice(["rowid", "integer", "integer", "text", "without", "without composite"])
    conflict = rng.choice(["", "", "", " ON CONFLICT REPLACE"])
    columns = {
        "rowid": "id INTEGER",
        "integer": "id INTEGER PRIMARY KEY",
        "text": f"id {rng.choice(TYPES)} PRIMARY KEY{conflict}",
        "without": f"id {rng.choice(TYPES)}{rng.choice(DEFAULTS)} PRIMARY KEY{conflict}",
        "without composite": f"id INTEGER{rng.choice(DEFAULTS)}",
    }[kind]
    lines = [columns]
    for name in "uvw":
        unique = rng.choice(["", "", " UNIQUE", f" UNIQUE{conflict}"])
        lines.append(f"{name} {rng.choice(TYPES)}{rng.choice(DEFAULTS)}{unique}")
    lines.append("n INTEGER")
    foreign = rng.random() < 0.3 and kind in ("integer", "text")
    if foreign:
        on_delete = rng.choice(["", " ON DELETE CASCADE", " ON DELETE SET NULL"])
        on_update = rng.choice(["", " ON UPDATE CASCADE", " ON UPDATE SET NULL"])
        lines[-1] += f" REFERENCES t(id){on_delete}{on_update}"
    if rng.random() < 0.25:
        lines.append(f"g AS (coalesce(u, 0) || 'x') {rng.choice(['STORED UNIQUE', 'VIRTUAL', 'STORED'])}")
    if kind == "without composite":
        lines.append("PRIMARY KEY (id, u)")
    if rng.random() < 0.3:
        lines.append(f"UNIQUE (v, w){conflict}")
    schema = [f"CREATE TABLE t ({', '.join(lines)}){' WITHOUT ROWID' if kind.startswith('without') else ''}"]
    if rng.random() < 0.3:
        schema.append("CREATE UNIQUE INDEX partial ON t (w) WHERE n > 1")
    if rng.random() < 0.2:
        schema.append("CREATE UNIQUE INDEX nocase ON t (v COLLATE NOCASE)")
    schema.append("CREATE TABLE side (x, y)")
    if rng.random() < 0.3:
        schema.append(f"CREATE TRIGGER back AFTER INSERT ON side BEGIN {_write(rng, 'NEW.x')}; END")
    return tuple(schema), foreign


def _trigger(rng: random.Random, name: str) -> str:
    event = rng.choice(["INSERT", "UPDATE", "DELETE"])
    row = "OLD" if event == "DELETE" else rng.choice(["NEW"] if event == "INSERT" else ["OLD", "NEW"])
    when = rng.choice(["", "", f" WHEN {row}.n > 1", f" WHEN {row}.u IS NOT NULL"])
    steps = [_write(rng, f"{row}.{rng.choice(['id', 'u', 'n'])}") for _ in range(rng.choice([1, 1, 2]))]
    if rng.random() < 0.1:
        raised = rng.choice(["IGNORE", "IGNORE", "ABORT, 'x'", "FAIL, 'x'"])
        steps.append(f"SELECT RAISE({raised}) WHERE {row}.u = 3")
    return f"CREATE TRIGGER {name} {rng.choice(['BEFORE', 'AFTER'])} {event} ON t{when} BEGIN {'; '.join(steps)}; END"


def _write(rng: random.Random, value: str) -> str:
    column, other = rng.choice("uvwn"), rng.choice(["id", "u", "v", "w", "n"])
    conflict = rng.choice(OR[:5])
    return rng.choice(
        [
            f"UPDATE{conflict} t SET {column} = {value} WHERE {other} = {rng.choice([value, '1', '2'])}",
            f"UPDATE{conflict} t SET {column} = coalesce({column}, 0) + 1 WHERE id = {value}",
            f"UPDATE{conflict} t SET id = {rng.choice([value, '2', 'NULL', 'id + 1'])} WHERE {other} = {value}",
            f"INSERT{conflict} INTO t (id, u, v) VALUES ({value}, {rng.choice(['1', 'NULL', value])}, 2)",
            f"INSERT{conflict} INTO t (u, w, n) VALUES ({value}, 1, {rng.choice(['1', '2', 'NULL'])})",
            f"DELETE FROM t WHERE {other} = {value}",
            f"DELETE FROM t WHERE id <> {value}" if rng.random() < 0.1 else f"INSERT INTO side VALUES ({value}, 1)",
            f"INSERT INTO side VALUES ({value}, 2)",
        ]
    )


def _statements(rng: random.Random, count: int) -> Iterator[str]:
    def value() -> str:
        return rng.choice(["NULL", "0", "1", "2", "3", "'a'", "'A'", "-1"])

    if rng.random() < 0.3:
        yield "SAVEPOINT s"
    for _ in range(count):
        conflict, column, other = rng.choice(OR), rng.choice("uvwn"), rng.choice(["id", "u", "v", "w", "n"])
        rows = ", ".join(f"({', '.join(value() for _ in range(5))})" for _ in range(rng.choice([1, 1, 1, 2, 4])))
        upsert = rng.choice(
            ["DO NOTHING", f"DO UPDATE SET {column} = {value()}", "DO UPDATE SET n = n + 1, u = excluded.w"]
        )
        yield rng.choice(
            [
                f"INSERT{conflict} INTO t (id, u, v, w, n) VALUES {rows}",
                f"INSERT{conflict} INTO t (id, u, v, w, n) VALUES {rows}",
                f"INSERT INTO t (id, u, v, w, n) VALUES {rows} ON CONFLICT {upsert}",
                f"INSERT{conflict} INTO t (u, n) VALUES ({value()}, {value()})",
                f"INSERT{conflict} INTO t (id, u, v, w, n) SELECT {rng.choice(['id', 'id + 1'])}, v, u, w, n FROM t",
                f"UPDATE{conflict} t SET {column} = {value()} WHERE {other} = {value()}",
                f"UPDATE{conflict} t SET {column} = {value()}, w = {value()}",
                f"UPDATE{conflict} t SET id = {rng.choice([value(), 'id + 1', 'id - 1'])} WHERE {other} IS {value()}",
                f"UPDATE{conflict} t SET id = id + 1, u = u + 1",
                f"UPDATE{conflict} t SET u = NULL, v = NULL WHERE {other} = {value()}",
                f"DELETE FROM t WHERE {other} = {value()}",
                "ROLLBACK TO s",
            ]
        )


def run(connection: sqlite3.Connection, transaction: tuple[str, ...], commit: bool = True) -> None:
    """A statement that fails is what it is; OR ROLLBACK ends the transaction, and the next statement has its own."""
    connection.execute("BEGIN")
    for sql in transaction:
        with suppress(sqlite3.Error):
            connection.execute(sql)
    with suppress(sqlite3.Error):
        connection.execute("COMMIT" if commit else "ROLLBACK")


def rows(connection: sqlite3.Connection, columns: list[str]) -> Counter[tuple[Any, ...]]:
    return Counter(connection.execute(f"SELECT {', '.join(columns)} FROM t"))
