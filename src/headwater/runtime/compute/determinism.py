"""Is the view a function of its sources? Spark's own plan of it is asked, after every implicit cast is written out.

`algebra` refuses clocks and dice on sight, where it can name the line. What it cannot see is what Spark makes of text:
`day < 'today'`, `year('now')`, a text column read as a timestamp, where `10:00` would mean today at ten.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from py4j.java_gateway import is_instance_of
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from headwater.algebra.clocks import means_the_present
from headwater.algebra.view import ViewDefinition
from headwater.model.errors import ViewSqlError

_OUTSIDE = re.compile(
    r"Current\w+|Now|LocalTime\w*|Rand\w*|Uniform|Uuid|Shuffle|InputFile\w+|SparkPartitionID|SparkVersion"
    r"|MonotonicallyIncreasingID|CallMethodViaReflection|TryReflect|AesEncrypt|Sample|SessionWindow|TimeWindow"
)
"""Catalyst's names for what asks the clock, the dice, the session or the file."""
_READS = re.compile("Cast|Parse|ToDate|ToTime")
"""What may read text as a moment: only then is the plan walked through, which costs a call to the JVM per step."""
_REPLACED = "org.apache.spark.sql.catalyst.expressions.RuntimeReplaceable"
_MOMENTS = ("date", "timestamp", "timestamp_ntz")
_NOT_ALONE = "a view must be a function of its sources alone"


def check_determinism(view: ViewDefinition, query: DataFrame) -> None:
    """Raises ViewSqlError if the analyzed query depends on anything but its tables."""
    plan = query._jdf.queryExecution().analyzed()
    nodes = json.loads(plan.toJSON())
    named = {node["class"].rpartition(".")[2] for node in _nodes(nodes)}
    outside = sorted(name for name in named if _OUTSIDE.fullmatch(name))
    if outside:
        raise _refused(view, f"Spark evaluates {', '.join(outside)}: {_NOT_ALONE}", "use it when you read the view")
    if any(_READS.search(name) for name in named):
        for cast in _casts(plan):
            _check_cast(view, cast)


def _check_cast(view: ViewDefinition, cast: Any) -> None:
    wanted, child = str(cast.dataType().typeName()), cast.child()
    if wanted not in _MOMENTS or not str(child.dataType().typeName()).startswith("string"):
        return
    words = re.sub(r"`", "", str(child.sql()))
    if child.foldable():
        text = _constant(child)
        if text is None or means_the_present(text):
            raise _refused(
                view,
                f"{words} is read as a {wanted.upper()}, which is a clock: {_NOT_ALONE}",
                "write the moment itself, such as DATE '2024-01-31', or compare when you read the view",
            )
    elif wanted == "timestamp":
        raise _refused(
            view,
            f"the text {words} is read as a TIMESTAMP, where '10:00' means today at ten: {_NOT_ALONE}",
            f"write CAST({words} AS TIMESTAMP_NTZ), or to_timestamp({words}, 'yyyy-MM-dd HH:mm:ss') with its format",
        )


def _constant(expression: Any) -> str | None:
    """What an expression without columns is; None if it cannot be told."""
    try:
        value = expression.eval(None)
    except PySparkException:
        return None
    return "" if value is None else str(value)


def _refused(view: ViewDefinition, what: str, fix: str) -> ViewSqlError:
    return ViewSqlError(f"{view.file}:{view.line}: view {view.name}: {what}", fix)


def _nodes(json_of_plan: Any) -> Iterator[dict[str, Any]]:
    """Every node of a plan or an expression, as Catalyst writes them: lists of objects, and lists in their fields."""
    if isinstance(json_of_plan, dict):
        if "class" in json_of_plan:
            yield json_of_plan
        for value in json_of_plan.values():
            yield from _nodes(value)
    elif isinstance(json_of_plan, list):
        for value in json_of_plan:
            yield from _nodes(value)


def _casts(plan: Any) -> Iterator[Any]:
    for expression in _elements(plan.expressions()):
        yield from _casts_within(expression)
    for child in _elements(plan.children()):
        yield from _casts(child)


def _casts_within(expression: Any) -> Iterator[Any]:
    if expression.getClass().getSimpleName() == "Cast":
        yield expression
    elif is_instance_of(SparkContext._gateway, expression, _REPLACED):  # to_date(x) is a cast in the end
        yield from _casts_within(expression.replacement())
        return
    for child in _elements(expression.children()):
        yield from _casts_within(child)


def _elements(seq: Any) -> Iterator[Any]:
    for n in range(seq.size()):
        yield seq.apply(n)
