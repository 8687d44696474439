"""Parameters of Flight clients: Arrow values as texts and PostgreSQL's types, which is how statements take them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import sqlglot
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import TokenType

from headwater.serve import types
from headwater.serve.catalog import column_type
from headwater.serve.errors import Refused


def numbered(sql: str) -> str:
    """`?` as $1, `?` as $2, …: what clients of Arrow write."""
    try:
        tokens = sqlglot.tokenize(sql, dialect="postgres")
    except SqlglotError:
        return sql  # who parses it says what is wrong
    marks = [token.start for token in tokens if token.token_type == TokenType.PLACEHOLDER and token.text == "?"]
    parts, before = [], 0
    for number, at in enumerate(marks, 1):
        parts.append(f"{sql[before:at]}${number}")
        before = at + 1
    return "".join([*parts, sql[before:]])


def given(rows: pa.Table) -> tuple[list[str | None], tuple[int, ...]]:
    """The values of $1, $2, … and their types."""
    if rows.num_rows != 1:
        raise Refused("0A000", f"a query takes one row of values, {rows.num_rows:,} were given", "ask once for each")
    kinds = [column_type(field.type)[0] for field in rows.schema]
    values = [column[0].as_py() for column in rows.columns]
    for field in rows.schema:
        if pa.types.is_nested(field.type):
            raise Refused("0A000", f"a value of type {field.type} cannot be given", "give a number, a text or a time")
    return [_text(v, k) for v, k in zip(values, kinds, strict=True)], tuple(_oid(k) for k in kinds)


def _oid(kind: types.PgType) -> int:
    return 0 if kind is types.TEXT else kind.oid


def _text(value: Any, kind: types.PgType) -> str | None:
    if value is None:
        return None
    said = kind.text(value).decode()
    if "\0" in said:
        raise Refused("22021", "a text holds the character 0", "leave it out: PostgreSQL has none either")
    return said if kind is not types.BOOL else {"t": "true", "f": "false"}[said]


def parameter_schema(number: int) -> pa.Schema:
    """Of any type: a value takes the type of what it is compared with."""
    return pa.schema([(f"${n}", pa.utf8()) for n in range(1, number + 1)])


def sized(batch: pa.RecordBatch, most: int) -> Sequence[pa.RecordBatch]:
    """A batch in pieces of about so many bytes: clients take messages up to a size only."""
    if batch.nbytes <= most or batch.num_rows <= 1:
        return [batch]
    step = max(1, batch.num_rows * most // batch.nbytes)
    return [batch.slice(at, step) for at in range(0, batch.num_rows, step)]


def one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()
