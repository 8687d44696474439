"""The chain in four SQLite files `r1.db` .. `r4.db`, each with one table of the same name.

Base files are built once per (n, seed) and kept; every run works on its own copy. They are in WAL mode, with one index
on `a` and one on `b`, as a database that serves both applications and maintenance questions would have.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from types import TracebackType

from chain import DELETE, INSERT, RELATIONS, Chain, Relation, Transactions

MARKER = "_headwater_transaction"
"""Where an application announces a new transaction to Headwater's capture; absent while no capture is installed."""

_CHUNK = 100_000


def database(folder: Path, index: int) -> Path:
    """The file of relation `index` (0..3)."""
    return folder / f"r{index + 1}.db"


def table(index: int) -> str:
    return f"r{index + 1}"


def base_files(chain: Chain, cache: Path) -> Path:
    """The folder with the four base files of this data set, built if the cache has none yet."""
    folder = cache / f"chain-n{chain.n}-seed{chain.seed}" / "base"
    if folder.exists():
        return folder
    # Built beside and renamed, so that an interrupted build is never taken for a finished one.
    draft = folder.with_name(f"base-{os.getpid()}")
    draft.mkdir(parents=True)
    with ProcessPoolExecutor(max_workers=2) as pool:
        for _ in pool.map(_build, [draft] * RELATIONS, range(RELATIONS), chain.base):
            pass
    draft.rename(folder)
    return folder


def working_copy(base: Path, target: Path) -> Path:
    """A fresh copy of the base files, for one run to change."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for index in range(RELATIONS):
        shutil.copyfile(database(base, index), database(target, index))
    return target


def _build(folder: Path, index: int, rows: Relation) -> None:
    name = table(index)
    with closing(sqlite3.connect(database(folder, index), isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = OFF")
        db.execute("PRAGMA synchronous = OFF")
        db.execute("PRAGMA cache_size = -1000000")
        db.execute(f"CREATE TABLE {name} (a INTEGER NOT NULL, b INTEGER NOT NULL)")
        db.execute("BEGIN")
        for start in range(0, len(rows), _CHUNK):
            part = slice(start, start + _CHUNK)
            pairs = zip(rows.a[part].tolist(), rows.b[part].tolist(), strict=True)
            db.executemany(f"INSERT INTO {name} VALUES (?, ?)", pairs)
        for column in ("a", "b"):
            db.execute(f"CREATE INDEX {name}_{column} ON {name} ({column})")
        db.execute("COMMIT")
        db.execute("ANALYZE")
        db.execute("PRAGMA journal_mode = WAL")


class Writer:
    """The application at the four sources: commits the chain's transactions, in order.

    Where capture is installed, each transaction announces itself in the marker table, so `commit_every` transactions
    can share one COMMIT and still count as themselves.
    """

    def __init__(self, folder: Path) -> None:
        self._connections = [_open(database(folder, index)) for index in range(RELATIONS)]
        self._marked = [_has_marker(db) for db in self._connections]

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for db in self._connections:
            db.close()

    def apply(self, transactions: Transactions, commit_every: int = 1000) -> None:
        """Commit these transactions; on return all of them are durable and visible to readers."""
        pending = [0] * RELATIONS
        for index, statement, values in _statements(transactions):
            db = self._connections[index]
            if pending[index] == 0:
                db.execute("BEGIN IMMEDIATE")
            if self._marked[index]:
                db.execute(f"INSERT INTO {MARKER}(tag) VALUES (NULL)")
            if db.execute(statement, values).rowcount != 1:
                raise AssertionError(f"not effective: {statement} with {values}; was the base file changed before?")
            pending[index] += 1
            if pending[index] == commit_every:
                db.execute("COMMIT")
                pending[index] = 0
        for index, open_transactions in enumerate(pending):
            if open_transactions:
                self._connections[index].execute("COMMIT")


def apply(folder: Path, transactions: Transactions, commit_every: int = 1000) -> None:
    """Commit the transactions to the files of a folder, and leave nothing waiting in the write-ahead logs."""
    with Writer(folder) as writer:
        writer.apply(transactions, commit_every)
    for index in range(RELATIONS):
        with closing(_open(database(folder, index))) as db, suppress(sqlite3.OperationalError):
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _statements(transactions: Transactions) -> Iterator[tuple[int, str, tuple[int, ...]]]:
    inserts = [f"INSERT INTO {table(i)} VALUES (?, ?)" for i in range(RELATIONS)]
    deletes = [f"DELETE FROM {table(i)} WHERE a = ? AND b = ?" for i in range(RELATIONS)]
    updates = [f"UPDATE {table(i)} SET a = ?, b = ? WHERE a = ? AND b = ?" for i in range(RELATIONS)]
    t = transactions
    columns = (t.relation, t.op, t.old_a, t.old_b, t.new_a, t.new_b)
    for index, op, old_a, old_b, new_a, new_b in zip(*(column.tolist() for column in columns), strict=True):
        if op == INSERT:
            yield index, inserts[index], (new_a, new_b)
        elif op == DELETE:
            yield index, deletes[index], (old_a, old_b)
        else:
            yield index, updates[index], (new_a, new_b, old_a, old_b)


def _open(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, isolation_level=None, timeout=60)
    db.execute("PRAGMA synchronous = NORMAL")
    # The changes hit random pages; with SQLite's 2 MB of cache and small logs, applying them would take minutes.
    db.execute("PRAGMA cache_size = -200000")
    db.execute("PRAGMA wal_autocheckpoint = 20000")
    return db


def _has_marker(db: sqlite3.Connection) -> bool:
    found = db.execute("SELECT 1 FROM sqlite_master WHERE type IN ('table', 'view') AND name = ?", (MARKER,)).fetchone()
    return found is not None
