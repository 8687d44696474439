"""Which types a view may have: those that Arrow, Delta, Spark and the readers all hold exactly, and group alike.

Checked when a view is planned: its columns, and the keys and arguments of its aggregation, which its auxiliary view
keeps. What is refused can be cast, and the message says how.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql import types as spark
from pyspark.sql.types import DataType, StructType

from headwater.algebra.view import ViewDefinition
from headwater.model.errors import ViewSqlError

_HELD = (
    spark.BooleanType, spark.ByteType, spark.ShortType, spark.IntegerType, spark.LongType, spark.FloatType,
    spark.DoubleType, spark.DecimalType, spark.BinaryType, spark.DateType, spark.TimestampType, spark.TimestampNTZType,
)  # fmt: skip


def check_types(view: ViewDefinition, *schemas: StructType) -> None:
    """Raises ViewSqlError for the first expression of a type that a view cannot have."""
    expressions = _expressions(view)
    for schema in schemas:
        for field in schema:
            cast = _instead(field.dataType, said := expressions.get(field.name, field.name))
            if cast:
                raise ViewSqlError(
                    f"{view.file}:{view.line}: view {view.name}: {said} is {_words(field.dataType)},"
                    " which a view cannot hold",
                    f"write {cast} AS name" if field.name in view.columns else f"write {cast}",
                )


_OF_NUMBERS = ("sum", "avg", "percentile", "percentile_disc")


def check_numbers(view: ViewDefinition, arguments: pa.Schema) -> None:
    """SUM and AVG add numbers, and percentiles lie between them. Of text Spark would make doubles first, silently."""
    for call in view.aggregation.calls if view.aggregation else ():
        if call.function not in _OF_NUMBERS or call.argument is None:
            continue
        kind = arguments.field(call.argument).type
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
            said, name = _expressions(view)[call.argument], call.function.upper()
            raise ViewSqlError(
                f"{view.file}:{view.line}: view {view.name}: {name} of {said}, which is {kind}, not a number",
                _number(kind, said, name),
            )


def _number(kind: pa.DataType, said: str, name: str) -> str:
    """How to add up what is not a number, if it can be one."""
    if pa.types.is_string(kind):
        return f"write {name}(CAST({said} AS DECIMAL(38, 6))), or DOUBLE"
    if pa.types.is_boolean(kind):
        return f"write {name}(CAST({said} AS INT))"
    return f"use COUNT, MIN or MAX, or {name} of a number made of it"


def _expressions(view: ViewDefinition) -> dict[str, str]:
    """What the columns of a plan stand for, as its author would say it."""
    found = {o.name: o.expression for o in view.outputs}
    if view.aggregation:
        names = {o.name: o.expression for o in (*view.aggregation.keys, *view.aggregation.arguments)}
        for call in view.aggregation.calls:
            names[call.name] = f"{call.function.upper()}({names[call.argument] if call.argument else '*'})"
        found = names | {o.name: _over(o.expression, names) for o in view.aggregation.outputs}
    return {name: text.replace("`", "") for name, text in found.items()}


def _over(expression: str, names: Mapping[str, str]) -> str:
    for name, meant in names.items():
        expression = expression.replace(f"`{name}`", meant)
    return expression


def _instead(kind: DataType, said: str) -> str:
    """What to write in place of an expression of this type; empty if the type is held."""
    if isinstance(kind, spark.StringType):
        return "" if kind.collation == "UTF8_BINARY" else f"{said} COLLATE UTF8_BINARY"
    if isinstance(kind, _HELD):
        return ""
    if isinstance(kind, spark.NullType):
        return "CAST(NULL AS STRING)"
    if isinstance(kind, spark.ArrayType | spark.MapType | spark.StructType | spark.VariantType):
        return f"to_json({said})"
    return f"CAST({said} AS STRING)"


def _words(kind: DataType) -> str:
    return f"of type {kind.simpleString().upper()}"
