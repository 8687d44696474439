"""The values of the source port as frames: what is asked of an agent, and what it answers.

Only the classes named here can be made from what another machine sent, and only from their own fields. Tables travel
as Arrow beside the JSON that mentions them.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec
import pyarrow as pa

from headwater.model import errors
from headwater.model.chain import Chain, ChainEpoch, ChainMember
from headwater.model.conditions import Condition
from headwater.model.errors import HeadwaterError
from headwater.model.names import TableName
from headwater.model.schema import Column, ForeignKey, Identity, TableSchema
from headwater.model.source import Capture, Chunk, Held, Joined, JoinQuestion, Poll, Question
from headwater.sources.agent.frames import Frame, Kind, Malformed, frame

_CLASSES: dict[str, type[Any]] = {
    kind.__name__: kind
    for kind in (
        TableName, TableSchema, Column, ForeignKey, Identity, Capture, Held, Question, Joined, JoinQuestion, Poll,
        Chunk, Condition, Chain, ChainMember, ChainEpoch,
    )
}  # fmt: skip
_ERRORS: dict[str, type[HeadwaterError]] = {
    name: kind for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, HeadwaterError)
}
_TAG = "$"
_DEEPEST = 40


# ── to frames ────────────────────────────────────────────────────────────────────────────────────────────────────────


def told(value: object) -> Iterator[bytes]:
    """A value, and after it the tables that it mentions."""
    tables: list[pa.Table] = []
    structure = _plain(value, tables)
    yield frame(Kind.VALUE, msgspec.json.encode({"value": structure, "tables": len(tables)}))
    for table in tables:
        yield frame(Kind.ROWS, as_arrow(table))


def told_error(error: HeadwaterError) -> bytes:
    known = next(kind.__name__ for kind in type(error).__mro__ if kind.__name__ in _ERRORS)
    return frame(Kind.ERROR, msgspec.json.encode({"kind": known, "what": error.what, "fix": error.fix}))


def as_arrow(rows: pa.Table | pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write(rows)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def _plain(value: object, tables: list[pa.Table]) -> Any:
    if value is None or isinstance(value, bool | int | str | float):
        return value
    if isinstance(value, pa.Table):
        tables.append(value)
        return {_TAG: "table", "v": len(tables) - 1}
    if isinstance(value, tuple | list | frozenset):
        kind = "tuple" if isinstance(value, tuple) else "list" if isinstance(value, list) else "set"
        return {_TAG: kind, "v": [_plain(v, tables) for v in (sorted(value) if kind == "set" else value)]}
    if isinstance(value, Mapping):
        return {_TAG: "map", "v": [[_plain(k, tables), _plain(v, tables)] for k, v in value.items()]}
    if isinstance(value, pa.DataType):
        return {_TAG: "type", "v": base64.b64encode(pa.schema([pa.field("", value)]).serialize()).decode()}
    if isinstance(value, Decimal):
        return {_TAG: "decimal", "v": str(value)}
    if isinstance(value, dt.datetime | dt.date):  # a moment is a date too: it comes first
        return {_TAG: "moment" if isinstance(value, dt.datetime) else "date", "v": value.isoformat()}
    name = type(value).__name__
    if _CLASSES.get(name) is not type(value):
        raise TypeError(f"{name} does not travel")
    return {_TAG: name, "v": {f.name: _plain(getattr(value, f.name), tables) for f in fields(value)}}  # type: ignore[arg-type]


# ── from frames ──────────────────────────────────────────────────────────────────────────────────────────────────────


def heard(message: Iterator[Frame]) -> Any:
    """The value at the beginning of a message; the frames after it and its tables are left. An error is raised."""
    kind, body = next(message)
    if kind is Kind.ERROR:
        _to_the_end(message)
        raise _error(body)
    if kind is not Kind.VALUE:
        raise Malformed("a message does not begin with a value", "is that an agent of Headwater?")
    try:
        said = msgspec.json.decode(body)
        structure, count = said["value"], int(said["tables"])
    except (msgspec.DecodeError, KeyError, TypeError, ValueError):
        raise Malformed("a value that cannot be read", "is that an agent of Headwater?") from None
    tables = [_rows(message) for _ in range(count)]
    try:
        return _value(structure, tables, 0)
    except (KeyError, TypeError, ValueError, IndexError, InvalidOperation, binascii.Error, pa.ArrowException):
        raise Malformed("a value that is none of the source port's", "are hub and agent of one version?") from None


def heard_rows(message: Iterator[Frame]) -> Iterator[pa.RecordBatch]:
    """The rows that follow, until the end; an error among them is raised."""
    for kind, body in message:
        if kind is Kind.END:
            _to_the_end(message)
            return
        if kind is Kind.ERROR:
            _to_the_end(message)
            raise _error(body)
        if kind is not Kind.ROWS:
            raise Malformed("rows were expected", "are hub and agent of one version?")
        yield from from_arrow(body).to_batches()


def from_arrow(body: bytes) -> pa.Table:
    """Rows that another machine sent: looked at before anybody relies on them."""
    try:
        table = pa.ipc.open_stream(pa.BufferReader(body)).read_all()
        table.validate(full=True)
    except (pa.ArrowException, OSError, MemoryError) as error:
        raise Malformed(f"rows that cannot be read: {type(error).__name__}", "is that an agent of Headwater?") from None
    return table


def _to_the_end(message: Iterator[Frame]) -> None:
    """Nothing follows; but who gives the frames learns that they were all taken."""
    for _ in message:
        pass


def _rows(message: Iterator[Frame]) -> pa.Table:
    kind, body = next(message)
    if kind is not Kind.ROWS:
        raise Malformed("rows were expected", "are hub and agent of one version?")
    return from_arrow(body)


def _error(body: bytes) -> HeadwaterError:
    """The error that was raised there, as what it was."""
    try:
        said = msgspec.json.decode(body)
        kind, what, fix = _ERRORS.get(said["kind"], HeadwaterError), str(said["what"]), str(said["fix"])
    except (msgspec.DecodeError, KeyError, TypeError):
        return Malformed("an error that cannot be read", "is that an agent of Headwater?")
    error = kind.__new__(kind)
    HeadwaterError.__init__(error, what, fix)
    return error


def _value(said: Any, tables: list[pa.Table], depth: int) -> Any:
    if depth > _DEEPEST:
        raise ValueError("too deep")
    if not isinstance(said, dict):
        if isinstance(said, list):
            raise TypeError("a list without its kind")
        return said
    kind, held = said[_TAG], said["v"]
    if kind in _SCALARS:
        return _SCALARS[kind](held)
    if kind == "table":
        return tables[held]
    inner: Callable[[Any], Any] = lambda v: _value(v, tables, depth + 1)  # noqa: E731
    if kind in _SEQUENCES:
        return _SEQUENCES[kind](inner(v) for v in held)
    if kind == "map":
        return {inner(k): inner(v) for k, v in held}
    return _CLASSES[kind](**{str(k): inner(v) for k, v in held.items()})


def _type(text: str) -> pa.DataType:
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text, validate=True))).field(0).type


_SCALARS: dict[str, Callable[[Any], Any]] = {
    "type": _type,
    "decimal": Decimal,
    "moment": dt.datetime.fromisoformat,
    "date": dt.date.fromisoformat,
}
_SEQUENCES: dict[str, Callable[[Any], Any]] = {"tuple": tuple, "list": list, "set": frozenset}
