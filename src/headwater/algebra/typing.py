"""The type of every column of a tree: asked of whoever evaluates expressions, operator by operator, over no rows.

Spark is asked when a view is planned, so what it refuses is refused there; tests ask an engine without a JVM.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

from headwater.algebra.dialect import spark_sql
from headwater.algebra.relations import (
    Aggregate,
    Expression,
    Filter,
    Generate,
    Join,
    Name,
    Project,
    Recursion,
    Reference,
    Relation,
    SetOperation,
    Table,
    Union,
    Values,
    Window,
    children,
)
from headwater.algebra.render import over
from headwater.model.errors import ViewSqlError
from headwater.model.names import TableName

INPUT = "input_"
Analyze = Callable[[str, pa.Schema], pa.Schema]
"""The columns of a query over INPUT, a relation with this schema."""


def types_of(root: Relation, tables: Mapping[TableName, pa.Schema], analyze: Analyze) -> dict[Name, pa.DataType]:
    typing = _Typing(tables, analyze)
    typing.visit(root)
    return typing.types


class _Typing:
    def __init__(self, tables: Mapping[TableName, pa.Schema], analyze: Analyze) -> None:
        self._tables, self._analyze = tables, analyze
        self.types: dict[Name, pa.DataType] = {}
        self._seen: set[int] = set()

    def visit(self, node: Relation) -> None:
        if id(node) in self._seen:
            return
        self._seen.add(id(node))
        if isinstance(node, Recursion):
            self._recursion(node)
            return
        for child in children(node):
            self.visit(child)
        match node:
            case Table():
                schema = self._tables[node.table]
                pairs = zip(node.columns, node.names, strict=True)
                self.types.update({column: schema.field(name).type for column, name in pairs})
            case Values():
                rows = [self._chosen(zip(node.columns, row, strict=True)) for row in node.rows]
                if node.columns:
                    self._ask(" UNION ALL ".join(f"SELECT {row}" for row in rows), (), node.columns)
            case Reference() | Recursion():
                pass  # known by now
            case Filter():
                self._ask(f"SELECT 1 AS one_ FROM {INPUT} WHERE {spark_sql(node.condition)}", node.columns, ())
            case Project():
                self._ask(f"SELECT {self._chosen(node.outputs)} FROM {INPUT}", node.child.columns, node.columns)
            case Generate():
                view = f"LATERAL VIEW {spark_sql(node.generator)} g_ AS {', '.join(node.made)}"
                self._ask(f"SELECT {', '.join(node.made)} FROM {INPUT} {view}", node.child.columns, node.made)
            case Join():
                if node.on is not None:
                    both = (*node.left.columns, *node.right.columns)
                    self._ask(f"SELECT 1 AS one_ FROM {INPUT} WHERE {spark_sql(node.on)}", both, ())
            case Union():
                self._side_by_side(node.children, node.columns)
            case SetOperation():
                self._side_by_side((node.left, node.right), node.columns)
            case Aggregate():
                group = f" GROUP BY {', '.join(node.keys)}" if node.keys else ""
                if node.calls:
                    names = [name for name, _ in node.calls]
                    self._ask(f"SELECT {self._chosen(node.calls)} FROM {INPUT}{group}", node.child.columns, names)
            case Window():
                calls = [f"{spark_sql(c.function)} OVER ({over(c, node)}) AS {c.name}" for c in node.calls]
                names = [c.name for c in node.calls]
                self._ask(f"SELECT {', '.join(calls)} FROM {INPUT}", node.child.columns, names)

    def _recursion(self, node: Recursion) -> None:
        """Every level has the types of the base."""
        self.visit(node.base)
        for names in (node.inside, node.columns):
            pairs = zip(names, node.base.columns, strict=True)
            self.types.update({name: self.types[like] for name, like in pairs})
        self.visit(node.step)
        for place, (base, step) in enumerate(zip(node.base.columns, node.step.columns, strict=True)):
            if self.types[base] != self.types[step]:
                raise ViewSqlError(
                    f"column {place + 1} of WITH RECURSIVE is {self.types[base]} at first and {self.types[step]} in the"
                    " recursive part",
                    "cast it to the same type in both",
                )

    def _side_by_side(self, parts: Sequence[Relation], columns: Sequence[Name]) -> None:
        texts = []
        for part in parts:
            texts.append("SELECT " + ", ".join(f"{a} AS {b}" for a, b in zip(part.columns, columns, strict=True)))
        text = " UNION ALL ".join(f"{one} FROM {INPUT}" for one in texts)
        self._ask(text, [c for part in parts for c in part.columns], columns)

    def _chosen(self, named: object) -> str:
        pairs: list[tuple[Name, Expression]] = list(named)  # type: ignore[call-overload]
        return ", ".join(f"{spark_sql(e)} AS {name}" for name, e in pairs)

    def _ask(self, sql: str, given: Sequence[Name], made: Sequence[Name]) -> None:
        known = dict.fromkeys(given)
        schema = pa.schema([pa.field(c, self.types[c]) for c in known] or [pa.field("one_", pa.int32())])
        found = self._analyze(sql, schema)
        self.types.update({c: found.field(c).type for c in made})
