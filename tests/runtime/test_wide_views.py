"""However many columns a view has, its files say which transactions they hold: compaction and its children ask that."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from headwater.model.changelog import COUNT, SEQ
from headwater.storage import Storage
from headwater.warehouse.table import ChangelogTable, write_file


@pytest.mark.parametrize("columns", [1, 30, 31, 300])
def test_files_know_their_transactions(tmp_path: Path, columns: int) -> None:
    storage = Storage(str(tmp_path))
    schema = pa.schema([*((f"c{n}", pa.int64()) for n in range(columns)), (COUNT, pa.int64()), (SEQ, pa.int64())])
    table = ChangelogTable(storage, "log")
    table.create(schema)
    for low in (3, 7):
        rows = pa.table([pa.array([low, low + 1])] * len(schema), schema)
        table.commit([write_file(storage, "log", rows, "x")])
    wanted = [(3, 4), (7, 8)]
    assert sorted((f.low, f.high) for f in table.log_files()) == wanted
    table.delta.create_checkpoint()
    assert sorted((f.low, f.high) for f in ChangelogTable(storage, "log").log_files()) == wanted
