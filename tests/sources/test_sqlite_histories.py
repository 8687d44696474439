"""Whatever the schema, the application's triggers and its statements: the log says what the table says.

Checked after every transaction, in the application's own connection, so that hundreds of histories take seconds; some
of them also through the adapter. `python -m sources.test_sqlite_histories 0 5000` (in tests/) runs more of them.
"""

from __future__ import annotations

import sqlite3
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest

from headwater.model.names import TableName
from headwater.sources.sqlite import capture
from headwater.sources.sqlite.capture import captured_tables, present, what_broke
from headwater.sources.sqlite.connection import Connection
from headwater.sources.sqlite.owners import Owner

from .rigs import SqliteRig, application
from .sqlite_histories import History, history, rows, run
from .world import added, fold

STEPS = 20_000
"""Of SQLite's machine, that one statement may take: triggers of triggers may go on for ever."""


class Plain:
    """The application's connection, for the installer."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return self.connection.execute(sql).fetchall()

    def execute(self, sql: str) -> None:
        self.connection.execute(sql)


def folded(connection: sqlite3.Connection, number: int, columns: int) -> Counter[tuple[Any, ...]]:
    slots = ", ".join(f"c{n}" for n in range(columns))
    found = connection.execute(f"SELECT {slots}, count FROM _headwater_changes WHERE tbl = {number}")
    bag: Counter[tuple[Any, ...]] = Counter()
    for *row, count in found:
        bag[tuple(row)] += count
    return bag


def play(one: History, spoil: Callable[[sqlite3.Connection], None] = lambda connection: None) -> str:
    """Run a history; what kind of capture it met, or what went wrong after which transaction."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.set_progress_handler(lambda: 1, STEPS)
        connection.execute(f"PRAGMA recursive_triggers = {int(one.recursive)}")
        connection.execute(f"PRAGMA foreign_keys = {int(one.foreign_keys)}")
        for sql in (*one.schema, *one.triggers_before):
            connection.execute(sql)
        before = len(one.transactions) // 3
        for transaction in one.transactions[:before]:
            run(connection, transaction)
        plain = cast(Connection, Plain(connection))
        capture.install(plain, ["t"], "src", Owner("", ""))
        spoil(connection)
        for sql in one.triggers_after:
            connection.execute(sql)
        table = captured_tables(plain)["t"]
        if what_broke(table, present(plain)):
            return "broken"
        columns = [c.name for c in table.columns]
        begun = rows(connection, columns)
        for transaction in one.transactions[before:]:
            run(connection, transaction)
            told = added(begun, folded(connection, table.number, len(columns)))
            if told != rows(connection, columns):
                return f"wrong after {transaction}"
        return "entangled" if table.entangled else "plain"


def test_the_log_says_what_the_table_says() -> None:
    kinds = Counter[str]()
    for seed in range(300):
        kind = play(history(seed))
        assert not kind.startswith("wrong"), f"seed {seed}: {kind}"
        kinds[kind] += 1
    assert min(kinds["plain"], kinds["entangled"], kinds["broken"]) >= 30, f"the histories have become dull: {kinds}"


@pytest.mark.parametrize("verb", ["stash", "moving", "insert", "update", "delete"])
def test_the_histories_bite(verb: str) -> None:
    """Without any one of our triggers some history goes wrong."""

    def spoil(connection: sqlite3.Connection) -> None:
        connection.execute(f"DROP TRIGGER _headwater_1_{verb}")
        (known,) = connection.execute("SELECT triggers FROM _headwater_tables").fetchone()
        connection.execute(
            "UPDATE _headwater_tables SET triggers = json_remove(?, ?)", (known, f'$."_headwater_1_{verb}"')
        )

    assert any(play(history(seed), spoil).startswith("wrong") for seed in range(60))


def test_an_entangled_table_is_not_caught_by_the_plain_triggers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture.Entanglement, "ways_back", lambda self, table: "")
    assert any(play(history(seed)).startswith("wrong") for seed in range(60))


def write(path: str, one: History, transactions: Sequence[Sequence[str]]) -> list[tuple[Any, ...]]:
    """In the application's process."""
    with closing(sqlite3.connect(path, timeout=60, isolation_level=None)) as connection:
        connection.set_progress_handler(lambda: 1, STEPS)
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute(f"PRAGMA recursive_triggers = {int(one.recursive)}")
        connection.execute(f"PRAGMA foreign_keys = {int(one.foreign_keys)}")
        for transaction in transactions:
            run(connection, tuple(transaction))
        return list(connection.execute("SELECT n FROM t").fetchall())


@pytest.mark.parametrize("journal", ["wal", "delete"])
def test_the_adapter_tells_and_answers_it(tmp_path: Path, journal: str) -> None:
    """Column n alone, which every value fits by its affinity or is told as unfit."""
    for seed in range(24):
        one = history(seed)
        rig = SqliteRig(tmp_path / f"{seed}.db", journal)
        rig.run(*one.schema, *one.triggers_before)
        source: Any = rig.source()
        table = TableName(source.name, "t")
        source.install([table])
        position = source.position()
        seen = [(position, Counter[Any]())]
        state: Counter[Any] = Counter()
        for transaction in one.transactions:
            found = application().submit(write, str(rig.path), one, [transaction]).result()
            poll = source.poll(position, {table: ["n"]}, 10**6)
            told = [rows for rows in poll.changes.values() if "__unfit" not in rows.column_names]
            if len(told) < len(poll.changes):
                break
            state = added(state, fold(told, ["n"]))
            assert state == Counter(found), f"seed {seed}"
            position = poll.end
            seen.append((position, state))
        for at, then in seen:
            parts = [fold(source.scan(chunk, ["n"], at), ["n"]) for chunk in source.chunks(table, 3)]
            assert added(*parts) == then, f"seed {seed}"
        source.close()


if __name__ == "__main__":
    first, last = map(int, sys.argv[1:])
    wrong = {seed: said for seed in range(first, last) if (said := play(history(seed))).startswith("wrong")}
    print(f"{last - first} histories, {len(wrong)} wrong: {wrong}")
