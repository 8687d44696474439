"""Views for DuckDB: the fold of a changelog as SQL, over files that are opened when a query reads them.

    SELECT columns FROM (SELECT columns, sum(count) AS n FROM log WHERE seq <= s GROUP BY columns) as often as n says

`LOCKED` takes from an engine everything but what it was given: no files, no network, no settings.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from headwater.model.changelog import COUNT, SEQ
from headwater.storage import Storage
from headwater.warehouse.delta import open_table
from headwater.warehouse.reading import Pinned, identifier

LOCKED = (
    "SET python_enable_replacements = false",
    "SET autoinstall_known_extensions = false",
    "SET autoload_known_extensions = false",
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)


class LazyLog(ds.Dataset):  # type: ignore[misc] # pyarrow has no types
    """A changelog whose columns are known and whose files are looked for when it is read."""

    def __new__(cls, schema: pa.Schema, opened: Callable[[], ds.Dataset]) -> LazyLog:
        found: LazyLog = ds.Dataset.__new__(cls)
        return found

    def __init__(self, schema: pa.Schema, opened: Callable[[], ds.Dataset]) -> None:
        self._schema, self._opened = schema, opened

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    def scanner(self, **wanted: Any) -> ds.Scanner:
        return self._opened().scanner(**wanted)


def log_files(storage: Storage, view: Pinned) -> ds.Dataset:
    """A view's changelog, read as far as a query wants it."""
    table = open_table(storage, view.folder, view.version)
    schema = pa.schema(table.schema().to_arrow())
    paths = [storage.path(f"{view.folder}/{uri.rsplit('/', 1)[1]}") for uri in table.file_uris()]
    return ds.dataset(paths, schema=schema, format="parquet", filesystem=storage.filesystem)


def fold_sql(log: str, schema: pa.Schema, seq: int) -> str:
    """The rows of the state `seq`, duplicates repeated; a view without columns has one that says that it is there."""
    names = [identifier(field.name) for field in schema if field.name not in (COUNT, SEQ)]
    total = f"CAST(sum({identifier(COUNT)}) AS BIGINT)"
    where = f"WHERE {identifier(SEQ)} <= {int(seq)}"
    if not names:
        return f'SELECT 1 AS "exists" FROM (SELECT unnest(range({total})) FROM {log} {where} HAVING {total} > 0)'
    listed = ", ".join(names)
    grouped = f'SELECT {listed}, {total} AS "__n" FROM {log} {where} GROUP BY {listed} HAVING {total} > 0'
    return f'SELECT {listed} FROM (SELECT {listed}, unnest(range("__n")) FROM ({grouped}))'
