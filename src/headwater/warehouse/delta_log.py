"""What a version of a Delta table is, read from its own log: for who reads a table once, and need not change it.

Where a warehouse is a folder, the log is a handful of small files: the newest checkpoint, and a JSON file for each
commit since. To read those takes a millisecond, and no library that takes forty to load. Whatever here is not plain
(a state before the checkpoint, nested columns, features of tables that are not ours) is None: deltalake says it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from headwater.storage import Storage
from headwater.warehouse.delta import open_table

_FEATURES = {"timestampNtz"}
"""Features of a table that change nothing for who reads it here."""
_TYPES = {
    "string": pa.string(),
    "long": pa.int64(),
    "integer": pa.int32(),
    "short": pa.int16(),
    "byte": pa.int8(),
    "double": pa.float64(),
    "float": pa.float32(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
_DECIMAL = re.compile(r"decimal\((\d+), *(\d+)\)")


@dataclass(frozen=True)
class Version:
    """The names of its data files, and its columns."""

    files: tuple[str, ...]
    schema: pa.Schema


def version_of(storage: Storage, folder: str, version: int) -> Version:
    """What a table is at a version."""
    found = _read(storage, folder, version) if storage.local else None
    if found is not None:
        return found
    table = open_table(storage, folder, version)
    files = tuple(uri.rsplit("/", 1)[1] for uri in table.file_uris())
    return Version(files, pa.schema(table.schema().to_arrow()))


def commit_name(folder: str, version: int) -> str:
    """The file that makes a version."""
    return f"{folder}/_delta_log/{version:020}.json"


def checkpoint_of(storage: Storage, folder: str) -> int:
    """The version up to which the log need not be read; −1 where there is none."""
    text = storage.get(f"{folder}/_delta_log/_last_checkpoint")
    return -1 if text is None else int(json.loads(text)["version"])


class _Odd(Exception):
    """Not for us to read."""


@dataclass
class _State:
    files: dict[str, None]
    schema: pa.Schema | None = None

    def take(self, action: dict[str, Any]) -> None:
        if added := action.get("add"):
            if added.get("deletionVector"):
                raise _Odd
            self.files[unquote(added["path"])] = None
        elif removed := action.get("remove"):
            self.files.pop(unquote(removed["path"]), None)
        elif metadata := action.get("metaData"):
            self.schema = _schema(metadata["schemaString"])
        elif action.get("sidecar"):  # the rest of the checkpoint lies elsewhere
            raise _Odd
        elif (protocol := action.get("protocol")) and protocol["minReaderVersion"] > 1:
            features = protocol.get("readerFeatures")
            if features is None or not set(features) <= _FEATURES:
                raise _Odd


def _read(storage: Storage, folder: str, version: int) -> Version | None:
    state = _State({})
    try:
        begin = checkpoint_of(storage, folder)
        if begin > version:
            return None
        if begin >= 0:
            _take_checkpoint(state, storage, folder, begin)
        for number in range(begin + 1, version + 1):
            text = storage.get(commit_name(folder, number))
            if text is None:
                return None
            for line in text.splitlines():
                state.take(json.loads(line))
    except (_Odd, OSError, KeyError):
        return None
    return None if state.schema is None else Version(tuple(state.files), state.schema)


def _take_checkpoint(state: _State, storage: Storage, folder: str, version: int) -> None:
    import pyarrow.parquet as pq  # a log of few commits has none

    path = storage.path(f"{folder}/_delta_log/{version:020}.checkpoint.parquet")
    file = pq.ParquetFile(path, filesystem=storage.filesystem)
    wanted = ["add.path", "add.deletionVector", "metaData.schemaString", "protocol", "sidecar.path"]
    for action in file.read(columns=wanted).to_pylist():
        state.take(action)


def _schema(text: str) -> pa.Schema:
    return pa.schema([pa.field(f["name"], _kind(f["type"]), f["nullable"]) for f in json.loads(text)["fields"]])


def _kind(name: Any) -> pa.DataType:
    if not isinstance(name, str):
        raise _Odd  # nested
    if name in _TYPES:
        return _TYPES[name]
    number = _DECIMAL.fullmatch(name)
    if number is None:
        raise _Odd
    return pa.decimal128(int(number[1]), int(number[2]))
