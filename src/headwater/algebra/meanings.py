"""Where PostgreSQL's syntax has Spark's meaning: said when a view is planned, because nothing fails.

`7 / 2` is 3.5 in Spark and 3 in PostgreSQL and SQLite. Other differences: docs/limits.md.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from sqlglot import exp

from headwater.algebra.dialect import read_back
from headwater.algebra.view import ViewDefinition
from headwater.model.names import TableName


def surprises(view: ViewDefinition, schemas: Mapping[TableName, pa.Schema]) -> tuple[str, ...]:
    """One sentence for every division of integers in the view's query."""
    kinds = {o.alias: schemas[o.table] for o in view.occurrences}
    query = read_back(view.recompute)
    found = [d for d in query.find_all(exp.Div) if _whole(d.this, kinds) and _whole(d.expression, kinds)]
    said = (d.sql("spark").replace("`", "") for d in found)
    return tuple(
        f"view {view.name}: {text} divides whole numbers; in Spark the result is a fraction (7 / 2 is 3.5), in"
        f" PostgreSQL and SQLite it is not; write {text.replace(' / ', ' DIV ', 1)} for a whole one"
        for text in dict.fromkeys(said)
    )


def _whole(node: exp.Expr, kinds: Mapping[str, pa.Schema]) -> bool:
    node = node.unnest()
    if isinstance(node, exp.Column):
        return node.table in kinds and pa.types.is_integer(kinds[node.table].field(node.name).type)
    if isinstance(node, exp.Literal):
        return not node.is_string and node.name.isdigit()
    if isinstance(node, exp.Add | exp.Sub | exp.Mul | exp.Mod):
        return _whole(node.this, kinds) and _whole(node.expression, kinds)
    if isinstance(node, exp.Neg | exp.Sum | exp.Min | exp.Max):
        return _whole(node.this, kinds)
    return isinstance(node, exp.Count)
