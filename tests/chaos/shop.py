"""The PostgreSQL shop as its applications see it, and the oracle beside them.

Statements of several connections are executed one at a time; one that would wait for a lock gives up soon, and its
transaction is rolled back. After every commit the tables are read plainly: that is the state this commit made. A table
that somebody holds exclusively cannot have changed since it was read last.
"""

from __future__ import annotations

import contextlib
from collections import Counter

import psycopg

from .business import COLUMNS, POSTGRES_DDL, Bag, State, stored
from .history import History
from .server import ChaosServer

TABLES = tuple(name.partition(".")[2] for name in COLUMNS if name.startswith("shop."))
_PATIENCE = "SET lock_timeout = '300ms'; SET statement_timeout = '20s'; SET DateStyle = 'ISO'"


class Shop:
    def __init__(self, server: ChaosServer) -> None:
        self.server = server
        self.url = server.create_database("shop")
        self._connections: dict[str, psycopg.Connection] = {}
        self._scripts: dict[str, list[str]] = {}
        self._prepared: dict[str, tuple[str, str]] = {}
        self.truncated: set[str] = set()
        """Tables that a transaction emptied whose snapshot may not have shown all of their rows."""
        self.connection("oracle").execute(POSTGRES_DDL)
        self.history = History("shop", self.read(None))

    def connection(self, who: str) -> psycopg.Connection:
        found = self._connections.get(who)
        if found is None or found.closed or found.broken:
            found = self._connections[who] = psycopg.connect(self.url, autocommit=True)
            found.execute(_PATIENCE)
        return found

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()
        self._scripts.clear()

    def end_open(self) -> None:
        """Whatever is open ends: transactions by rolling back, prepared ones by committing, if they are ours."""
        self.close()
        for (name,) in self.connection("oracle").execute("SELECT gid FROM pg_prepared_xacts").fetchall():
            label, what = self._prepared.pop(name, ("", ""))
            self.connection("oracle").execute(f"{'COMMIT' if label else 'ROLLBACK'} PREPARED '{name}'")
            if label:
                self.committed(label, what)

    def forget_prepared(self) -> None:
        """Those of another life."""
        self._prepared.clear()

    # ------------------------------------------------------------- statements

    def execute(self, who: str, text: str) -> None:
        """One statement of a script. What a script does after one of its statements failed is left out."""
        if text.startswith("BEGIN"):
            with contextlib.suppress(psycopg.Error):  # a script may have been cut off
                self.connection(who).execute("ROLLBACK")
            self._scripts[who] = []
        elif who not in self._scripts:
            return
        script = self._scripts[who]
        script.append(text)
        try:
            self._execute(who, text, " ; ".join(script))
        except psycopg.Error:
            self._scripts.pop(who, None)
            with contextlib.suppress(psycopg.Error):
                self.connection(who).execute("ROLLBACK")

    def _execute(self, who: str, text: str, script: str) -> None:
        connection = self.connection(who)
        if text.startswith("COPY"):
            head, *lines = text.split("\\n")
            with connection.cursor().copy(head) as copy:
                copy.write("".join(line.replace("\\t", "\t") + "\n" for line in lines))
        elif text == "COMMIT":
            label = self._label(connection)
            connection.execute(text)
            self.committed(label, script)
            self._scripts.pop(who, None)
        elif text.startswith("PREPARE"):
            label = self._label(connection)
            connection.execute(text)
            self._prepared[text.split("'")[1]] = (label, script)
        elif text.startswith("COMMIT PREPARED"):
            name = text.split("'")[1]
            label, what = self._prepared.pop(name, ("", ""))
            connection.execute(text)
            self.committed(label, what)
            self._scripts.pop(who, None)
        else:
            connection.execute(text)

    def at_once(self, *statements: str, who: str = "oracle", told: bool = True) -> bool:
        """A transaction that is over before anything else happens; False if it could not be. DDL is not told."""
        connection = self.connection(who)
        try:
            with connection.transaction():
                for statement in statements:
                    connection.execute(statement)
                label = self._label(connection)
        except psycopg.Error:
            return False
        self.committed(label if told else "", " ; ".join(statements))
        return True

    @staticmethod
    def _label(connection: psycopg.Connection) -> str:
        row = connection.execute("SELECT pg_current_xact_id_if_assigned()::text").fetchone()
        return row[0] or "" if row else ""

    def committed(self, label: str, what: str) -> None:
        if "TRUNCATE" in what and "LEVEL READ COMMITTED" not in what:
            self.truncated |= {t for t in TABLES if f" {t}" in what.partition("TRUNCATE")[2].partition(";")[0]}
        self.history.commit(label, self.read(self.history.newest.state), what)

    # ----------------------------------------------------------------- states

    def read(self, last: State | None) -> State:
        return {table: self._read(table, last) for table in TABLES}

    def _read(self, table: str, last: State | None) -> Bag:
        name = f"shop.{table}"
        try:
            rows = self.connection("oracle").execute(f"SELECT {', '.join(COLUMNS[name])} FROM {table}").fetchall()
        except (psycopg.errors.LockNotAvailable, psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn):
            assert last is not None  # locked, or in the middle of a change of several steps: not to be read now
            return last[table]
        return Counter(stored(name, row) for row in rows)
