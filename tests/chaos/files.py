"""A SQLite file as its application sees it, the only one that writes: its commits are their own order.

The label of a commit is the number of the last change that capture logged for it. Python's own SQLite is used, in a
process that loads nothing of Headwater's: two copies of the library in one process lose each other's locks.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections import Counter
from pathlib import Path

from .business import COLUMNS, SQLITE_DDL, SQLITE_MODES, State, stored
from .history import History
from .sqlite_grammar import MARK


class File:
    def __init__(self, name: str, path: Path, recursive: bool) -> None:
        self.name, self.path, self._recursive = name, path, recursive
        self.tables = tuple(t.partition(".")[2] for t in COLUMNS if t.startswith(name + "."))
        self._connection: sqlite3.Connection | None = None
        self.connection.execute(f"PRAGMA journal_mode = {SQLITE_MODES[name]}")
        for statement in SQLITE_DDL[name]:
            self.connection.execute(statement)
        self.history = History(name, self.read())

    @property
    def connection(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = sqlite3.connect(self.path, isolation_level=None, timeout=20)
            self._connection.execute(f"PRAGMA recursive_triggers = {int(self._recursive)}")
        return self._connection

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def transaction(self, text: str) -> bool:
        """Statements, one per line; False if it was rolled back."""
        lines = text.split("\n")
        connection = self.connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            for line in lines:
                if line == MARK and not self._captured():
                    continue
                if line == "ROLLBACK":
                    break
                connection.execute(line)
            connection.execute("ROLLBACK" if "ROLLBACK" in lines else "COMMIT")
        except sqlite3.Error:
            with contextlib.suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            return False
        if "ROLLBACK" not in lines:
            self.committed(text)
        return "ROLLBACK" not in lines

    def committed(self, what: str) -> None:
        self.history.commit(self.label(), self.read(), what.replace("\n", " ; "))

    def label(self) -> str:
        if not self._captured():
            return ""
        row = self.connection.execute("SELECT max(id) FROM _headwater_changes").fetchone()
        return "" if row[0] is None else str(row[0])

    def _captured(self) -> bool:
        found = self.connection.execute("SELECT 1 FROM sqlite_master WHERE name = '_headwater_changes'").fetchone()
        return found is not None

    def read(self) -> State:
        state = {}
        for table in self.tables:
            name = f"{self.name}.{table}"
            rows = self.connection.execute(f"SELECT {', '.join(COLUMNS[name])} FROM {table}").fetchall()
            state[table] = Counter(stored(name, row) for row in rows)
        return state
