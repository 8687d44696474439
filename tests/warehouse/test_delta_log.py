"""A table's version read from its log is what deltalake says it is."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from headwater.storage import Storage
from headwater.warehouse import delta_log
from headwater.warehouse.delta import open_table
from headwater.warehouse.delta_log import version_of
from headwater.warehouse.table import ChangelogTable, write_file

PLAIN = pa.schema(
    [
        ("a", pa.int64()), ("b", pa.int32()), ("c", pa.int16()), ("d", pa.int8()), ("e", pa.float64()),
        ("f", pa.float32()), ("g", pa.bool_()), ("h", pa.binary()), ("i", pa.date32()), ("j", pa.string()),
        ("k", pa.timestamp("us", "UTC")), ("l", pa.timestamp("us")), ("m", pa.decimal128(12, 3)),
        pa.field("n", pa.int64(), nullable=False),
        ("__seq", pa.int64()),
    ]
)  # fmt: skip


def _same(storage: Storage, version: int, own: bool = True) -> None:
    table = open_table(storage, "t", version)
    found = version_of(storage, "t", version)
    assert set(found.files) == {uri.rsplit("/", 1)[1] for uri in table.file_uris()}
    assert found.schema.equals(pa.schema(table.schema().to_arrow()))
    assert (delta_log._read(storage, "t", version) is not None) == own


def _written(storage: Storage, schema: pa.Schema, versions: int) -> ChangelogTable:
    table = ChangelogTable(storage, "t")
    table.create(schema)
    row = {f.name: None for f in schema} | {"__seq": 1} | ({"n": 1} if "n" in schema.names else {})
    rows = pa.Table.from_pylist([row], schema=schema)
    for number in range(versions):
        gone = table.files()[:1] if number % 3 == 2 else []
        table.commit([write_file(storage, "t", rows, f"f={number} ü")], gone)
    return table


def test_every_plain_type_and_files_that_come_and_go(tmp_path: Path) -> None:
    storage = Storage(str(tmp_path))
    table = _written(storage, PLAIN, 5)
    for version in range(table.version + 1):
        _same(storage, version)


def test_from_the_checkpoint_on_and_before_it(tmp_path: Path) -> None:
    storage = Storage(str(tmp_path))
    table = _written(storage, PLAIN, 4)
    table.delta.create_checkpoint()
    _same(storage, 4)
    table.commit([write_file(storage, "t", pa.Table.from_pylist([{"__seq": 1, "n": 2}], schema=PLAIN), "g")])
    Path(storage.path(delta_log.commit_name("t", 1))).unlink()  # cleaned up: what comes before it is not asked for
    _same(storage, 5)
    assert delta_log._read(storage, "t", 3) is None


def test_what_is_not_plain_is_left_to_deltalake(tmp_path: Path) -> None:
    storage = Storage(str(tmp_path))
    _written(storage, pa.schema([("l", pa.list_(pa.int64())), ("__seq", pa.int64())]), 1)
    _same(storage, 1, own=False)


def test_a_version_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    storage = Storage(str(tmp_path))
    _written(storage, PLAIN, 1)
    with pytest.raises(Exception, match="ersion"):
        version_of(storage, "t", 9)
