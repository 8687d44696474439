"""How files are written: whole numbers of many values as differences, and every value comes back."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import QueryBuilder

from headwater.model.changelog import COUNT, SEQ
from headwater.storage import Storage
from headwater.warehouse.encoding import encodings
from headwater.warehouse.table import ChangelogTable, write_file

ROWS = 30_000
FIRST = dt.datetime(1500, 1, 1, tzinfo=dt.UTC)


def _rows() -> pa.Table:
    return pa.table(
        {
            "some": pa.array([None if i % 7 == 0 else i * 37 % 100_003 for i in range(ROWS)], pa.int32()),
            "ends": pa.array([i - 2**63 if i % 2 else 2**63 - 1 - i for i in range(ROWS)], pa.int64()),
            "short": pa.array([i - ROWS // 2 for i in range(ROWS)], pa.int16()),
            "few": pa.array([i % 10 for i in range(ROWS)], pa.int64()),
            "time": pa.array([FIRST + dt.timedelta(hours=i) for i in range(ROWS)], pa.timestamp("us", "UTC")),
            "day": pa.array([FIRST.date() + dt.timedelta(days=i) for i in range(ROWS)], pa.date32()),
            "text": [f"t{i % 100}" for i in range(ROWS)],
            "list": pa.array([[f"l{i % 5}"] for i in range(ROWS)]),
            "struct": pa.array([{"a": f"l{i % 5}", "m": [("k", i % 3)]} for i in range(ROWS)],
                               pa.struct([("a", pa.string()), ("m", pa.map_(pa.string(), pa.int64()))])),
            COUNT: pa.array([1] * ROWS),
            SEQ: pa.array([0] * ROWS),
        }
    )  # fmt: skip


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Storage, Path, pa.Table]:
    storage, rows = Storage(str(tmp_path_factory.mktemp("files"))), _rows()
    table = ChangelogTable(storage, "t")
    table.create(rows.schema)
    file = write_file(storage, "t", rows, "load")
    table.commit([file])
    return storage, Path(storage.path(f"t/{file.name}")), rows


def _encoded(path: Path) -> dict[str, Any]:
    metadata = pq.ParquetFile(path).metadata.row_group(0)
    columns = [metadata.column(n) for n in range(metadata.num_columns)]
    return {c.path_in_schema: "differences" if "DELTA_BINARY_PACKED" in c.encodings else
            "dictionary" if "RLE_DICTIONARY" in c.encodings else "plain" for c in columns}  # fmt: skip


def test_many_whole_numbers_are_differences_and_all_else_has_its_dictionary(
    written: tuple[Storage, Path, pa.Table],
) -> None:
    differences = {"some", "ends", "short", "time", "day"}
    found = _encoded(written[1])
    assert {name for name, how in found.items() if how == "differences"} == differences
    assert {how for name, how in found.items() if name not in differences} == {"dictionary"}


def test_every_engine_reads_what_was_written(written: tuple[Storage, Path, pa.Table]) -> None:
    _, path, rows = written
    assert pq.read_table(path).equals(rows)
    embedded = duckdb.sql(f"FROM '{path}'").to_arrow_table()
    whole = ["some", "ends", "short", "day"]
    assert embedded.select(whole).cast(rows.select(whole).schema).equals(rows.select(whole))
    assert duckdb.sql(f"SELECT min(epoch_us(time)) FROM '{path}'").fetchall() == [(-14_831_769_600_000_000,)]


def test_delta_reads_what_was_written(written: tuple[Storage, Path, pa.Table]) -> None:
    storage, _, rows = written
    delta = ChangelogTable(storage, "t").delta
    sums = "SELECT sum(some) AS a, min(ends) AS b, max(ends) AS c, sum(short) AS d, max(day) AS e FROM t"
    found = pa.table(QueryBuilder().register("t", delta).execute(sums).read_all()).to_pylist()[0]
    values = {name: rows.column(name).to_pylist() for name in ("some", "ends", "short", "day")}
    assert found == {
        "a": sum(v for v in values["some"] if v is not None),
        "b": min(values["ends"]),
        "c": max(values["ends"]),
        "d": sum(values["short"]),
        "e": max(values["day"]),
    }


def test_few_values_keep_pyarrows_own_way() -> None:
    assert encodings(pa.table({"a": [1] * 100, "t": [str(i) for i in range(100)]})) == {}
    assert encodings(pa.schema([("a", pa.int64())]).empty_table()) == {}
