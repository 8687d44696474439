"""Auxiliary tables of an earlier version: grouped rows become accumulators and values."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq

from headwater.algebra.view import AggregateCall, Aggregation, Output
from headwater.kept.memory import nothing
from headwater.maintenance.aggregate import GroupedDelta, aggregate
from headwater.maintenance.groups import auxiliary_schema
from headwater.model.changelog import COUNT, SEQ, fold
from headwater.model.names import Seq
from headwater.runtime.commit.conversion import converted
from headwater.storage import Storage
from headwater.warehouse.table import ChangelogTable, write_file

SHAPE = Aggregation(
    (Output("key0", "k"),),
    (Output("arg0", "x"), Output("arg1", "y")),
    (
        AggregateCall("agg0", "min", "arg0"),
        AggregateCall("agg1", "sum", "arg1", distinct=True),
        AggregateCall("agg2", "sum", "arg1"),
    ),
    (),
)
TYPES = {name: pa.int64() for name in ("key0", "arg0", "arg1", "agg0", "agg1", "agg2")}
OLD = pa.schema([pa.field(n, pa.int64()) for n in ("key0", "arg0", "arg1", COUNT, SEQ)])


def test_grouped_rows_become_what_a_load_would_keep(tmp_path: Path) -> None:
    storage = Storage(str(tmp_path))
    table = ChangelogTable(storage, "views/v/auxiliary")
    table.create(OLD)
    rows = pa.table(
        {
            "key0": [1, 1, 1, 2, None, 1],
            "arg0": [5, 6, None, 7, 8, 5],
            "arg1": [1, 1, 2, 3, None, 1],
            COUNT: [1, 2, 1, 1, 1, -1],
            SEQ: [1, 1, 2, 2, 3, 3],
        },
        schema=OLD,
    )
    table.commit([write_file(storage, table.folder, part, "x") for part in (rows.slice(0, 3), rows.slice(3))])
    named = table.version
    plan = SimpleNamespace(
        view=SimpleNamespace(aggregation=SHAPE), types=TYPES, auxiliary=auxiliary_schema(SHAPE, TYPES)
    )
    view = cast(Any, SimpleNamespace(plan=plan, folder="views/v"))
    assert converted(storage, view, Seq(3))
    assert not converted(storage, view, Seq(3)), "once is enough"

    again = ChangelogTable(storage, table.folder)
    found = pa.concat_tables([pq.read_table(storage.path(f"{table.folder}/{name}")) for name in again.files()])
    state = fold(rows).append_column(SEQ, pa.array([3] * fold(rows).num_rows))
    _, wanted = aggregate(SHAPE, TYPES, GroupedDelta(state, nothing(plan.auxiliary), 3, first=True))
    assert sorted(map(repr, fold(found).to_pylist())) == sorted(map(repr, fold(wanted).to_pylist()))
    assert {(file.low, file.high) for file in again.log_files()} == {(3, 3)}

    again.rewind(named)  # a run that died before a cut named it
    assert converted(storage, view, Seq(3))
