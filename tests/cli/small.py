"""A small warehouse written by hand, without Spark or a source: three transactions, one view with a duplicate row."""

from __future__ import annotations

import datetime as dt
import sqlite3
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pyarrow as pa

from headwater.integrator.journal import Journal
from headwater.integrator.numbering import number
from headwater.model.changelog import COUNT, SEQ
from headwater.model.names import Position, Seq, SourceName, TableName, ViewName
from headwater.model.source import ORDINAL, TRANSACTIONS, Poll
from headwater.storage import Storage
from headwater.warehouse.cuts import Cut, CutLog, ViewState
from headwater.warehouse.format import check_format
from headwater.warehouse.table import ChangelogTable, write_file

CRM = SourceName("crm")
DAY = dt.datetime(2024, 2, 29, 12, 30, 0, 123456, tzinfo=dt.UTC)
COLUMNS = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("amount", pa.decimal128(20, 4)),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("raw", pa.binary()),
        ("ratio", pa.float64()),
    ]
)
ANN = (1, "Ann", Decimal("12345678901234.5000"), DAY.date(), DAY, b"\x00\xff", float("nan"))
BOB = (2, "tab\tand\nline", None, None, None, None, 0.1)
ANNE = (1, "Anne", *ANN[2:])
LOG = [(*ANN, 2, 1), (*BOB, 1, 2), (*ANN, -2, 3), (*ANNE, 2, 3)]
"""At 1 Ann twice, at 2 also Bob, at 3 she is Anne."""
SEVEN = pa.table({"n": [7]})


def small_project(folder: Path) -> Path:
    """A project whose warehouse holds the view `people` at transaction 3."""
    (folder / "views").mkdir(parents=True)
    (folder / "headwater.toml").write_text('[sources.crm]\nurl = "sqlite:///crm.db"\n')
    (folder / "views" / "people.sql").write_text("CREATE MATERIALIZED VIEW people AS SELECT id, name FROM crm.people;")
    database = sqlite3.connect(folder / "crm.db")
    database.execute("CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT)")
    database.close()
    storage = Storage(str(folder / "warehouse"))
    check_format(storage, create=True)
    _journal(storage)
    schema = pa.schema([*COLUMNS, (COUNT, pa.int64()), (SEQ, pa.int64())])
    rows = pa.table(
        [pa.array(column, f.type) for column, f in zip(zip(*LOG, strict=True), schema, strict=True)], schema
    )
    log = ChangelogTable(storage, "views/people/1/log")
    log.create(schema)
    version = log.commit([write_file(storage, log.folder, rows, "x")])
    state = ViewState("views/people/1", version, -1, Seq(3), Seq(1), "complete", "f")
    CutLog(storage).append(Cut(1, Seq(3), {CRM: Position("3")}, {CRM: "g"}, {ViewName("people"): state}))
    return folder


def _journal(storage: Storage) -> None:
    table = TableName(CRM, "people")
    names = pa.table({"id": [1, 2, 1, 1], "name": ["Ann", "Bob", "Ann", "Anne"], COUNT: [1, 1, -1, 1]})
    changes = names.append_column(ORDINAL, pa.array([0, 1, 2, 2]))
    when = pa.array([DAY] * 3, TRANSACTIONS.field(1).type)
    untagged = [pa.nulls(3, pa.string()), pa.nulls(3, pa.int32())]
    transactions = pa.table([pa.array(["a", "b", "c"]), when, *untagged], TRANSACTIONS)
    poll = Poll(Position("3"), transactions, {table: changes})
    Journal(storage).append(number(Seq(0), {CRM: Position("0")}, {CRM: poll}))


def halt_people(folder: Path, reason: str = "column name was dropped") -> None:
    """As a run halts a view: the next cut says so, and transaction 4 is one that it lacks."""
    cuts = CutLog(Storage(str(folder / "warehouse")))
    cut = cuts.newest()
    views = {name: replace(state, state="halted", reason=reason) for name, state in cut.views.items()}
    cuts.append(replace(cut, number=cut.number + 1, seq=Seq(4), views=views))


def view_folder(name: str) -> str:
    return f"views/{name.encode().hex()}"  # the engine's own cannot hold every character


def add_view(folder: Path, name: str, seq: int = 3, horizon: int = 3, rows: pa.Table = SEVEN) -> None:
    """A view that was loaded later, of one row and column unless told: states before `horizon` are not its own."""
    storage = Storage(str(folder / "warehouse"))
    ones = pa.array([1] * rows.num_rows)
    rows = rows.append_column(COUNT, ones).append_column(SEQ, pa.array([horizon] * rows.num_rows))
    log = ChangelogTable(storage, f"{view_folder(name)}/1/log")
    log.create(rows.schema)
    version = log.commit([write_file(storage, log.folder, rows, "x")])
    cuts = CutLog(storage)
    cut = cuts.newest()
    state = ViewState(f"{view_folder(name)}/1", version, -1, Seq(seq), Seq(horizon), "complete", "f")
    cuts.append(replace(cut, number=cut.number + 1, views={**cut.views, ViewName(name): state}))
