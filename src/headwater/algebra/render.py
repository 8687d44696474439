"""A tree as one Spark SQL query: what it is by definition, for loads, refreshes and checks.

`tables` says what a table is called there. The result has the tree's own column names.
"""

from __future__ import annotations

from collections.abc import Callable

from headwater.algebra.dialect import spark_sql
from headwater.algebra.relations import (
    Aggregate,
    Expression,
    Filter,
    Generate,
    Join,
    JoinKind,
    Name,
    Project,
    Recursion,
    Reference,
    Relation,
    SetKind,
    SetOperation,
    Table,
    Union,
    Values,
    Window,
    WindowCall,
)
from headwater.algebra.view import quoted
from headwater.model.names import TableName

NO_COLUMN = "one_"

_JOINS = {
    JoinKind.INNER: "JOIN",
    JoinKind.LEFT: "LEFT JOIN",
    JoinKind.FULL: "FULL JOIN",
    JoinKind.SEMI: "LEFT SEMI JOIN",
    JoinKind.ANTI: "LEFT ANTI JOIN",
}
_SETS = {
    SetKind.UNION: "UNION",
    SetKind.INTERSECT: "INTERSECT",
    SetKind.INTERSECT_ALL: "INTERSECT ALL",
    SetKind.EXCEPT: "EXCEPT",
    SetKind.EXCEPT_ALL: "EXCEPT ALL",
}


def rendered(root: Relation, called: Callable[[TableName], str] = lambda name: quoted(str(name))) -> str:
    return _Renderer(called).query(root)


class _Renderer:
    def __init__(self, called: Callable[[TableName], str]) -> None:
        self._called, self._aliases = called, 0
        self._recursions: dict[str, tuple[Name, ...]] = {}

    def query(self, node: Relation) -> str:
        match node:
            case Table():
                chosen = (f"{quoted(name)} AS {c}" for name, c in zip(node.names, node.columns, strict=True))
                return f"SELECT {', '.join(chosen)} FROM {self._called(node.table)}"
            case Values():
                rows = [self._row(node.columns, row) for row in node.rows]
                return " UNION ALL ".join(f"SELECT {row}" for row in rows)
            case Filter():
                return f"SELECT * FROM {self._inner(node.child)} WHERE {spark_sql(node.condition)}"
            case Project():
                chosen = (f"{spark_sql(e)} AS {name}" for name, e in node.outputs)
                return f"SELECT {', '.join(chosen)} FROM {self._inner(node.child)}"
            case Generate():
                outer = "OUTER " if node.outer else ""
                made = f"LATERAL VIEW {outer}{spark_sql(node.generator)} g_ AS {', '.join(node.made)}"
                return f"SELECT * FROM {self._inner(node.child)} {made}"
            case Join():
                on = f" ON {spark_sql(node.on)}" if node.on is not None else " ON TRUE"
                left, right = self._inner(node.left), self._inner(node.right)
                return f"SELECT {', '.join(node.columns) or '*'} FROM {left} {_JOINS[node.kind]} {right}{on}"
            case Recursion():
                self._recursions[node.name] = node.columns
                head = f"{node.name} ({', '.join(node.columns)}) MAX RECURSION LEVEL {node.limit}"
                parts = f"{self._as(node.base, node.columns)} UNION ALL {self._as(node.step, node.columns)}"
                return f"WITH RECURSIVE {head} AS ({parts}) SELECT * FROM {node.name}"
            case Reference():
                pairs = zip(self._recursions[node.name], node.columns, strict=True)
                return f"SELECT {', '.join(f'{a} AS {b}' for a, b in pairs)} FROM {node.name}"
            case Union():
                return " UNION ALL ".join(self._as(child, node.columns) for child in node.children)
            case SetOperation():
                left, right = self._as(node.left, node.columns), self._as(node.right, node.columns)
                return f"({left}) {_SETS[node.kind]} ({right})"
            case Aggregate():
                return self._aggregate(node)
            case Window():
                calls = [f"{spark_sql(c.function)} OVER ({over(c, node)}) AS {c.name}" for c in node.calls]
                return f"SELECT {', '.join([*node.child.columns, *calls])} FROM {self._inner(node.child)}"

    def _row(self, columns: tuple[Name, ...], row: tuple[Expression, ...]) -> str:
        if not columns:
            return f"1 AS {NO_COLUMN}"
        return ", ".join(f"{spark_sql(e)} AS {c}" for c, e in zip(columns, row, strict=True))

    def _as(self, child: Relation, columns: tuple[Name, ...]) -> str:
        chosen = (f"{theirs} AS {c}" for theirs, c in zip(child.columns, columns, strict=True))
        return f"SELECT {', '.join(chosen)} FROM {self._inner(child)}"

    def _aggregate(self, node: Aggregate) -> str:
        if not node.calls:
            return f"SELECT DISTINCT {', '.join(node.keys)} FROM {self._inner(node.child)}"
        calls = [f"{spark_sql(e)} AS {name}" for name, e in node.calls]
        group = f" GROUP BY {', '.join(node.keys)}" if node.keys else ""
        return f"SELECT {', '.join([*node.keys, *calls])} FROM {self._inner(node.child)}{group}"

    def _inner(self, node: Relation) -> str:
        self._aliases += 1
        alias = f"t{self._aliases}_"
        return f"({self.query(node)}) AS {alias}"


def over(call: WindowCall, node: Window, beside: tuple[Name, ...] = ()) -> str:
    """What stands in the parentheses after OVER."""
    by = (*beside, *node.partition)
    order = [spark_sql(e) for e in call.order]
    if call.ties:
        said = {e.this.name for e in call.order if e.this.name in node.child.columns}
        order += [c for c in node.child.columns if c not in said and c not in by]
        order = order or ["1"]
    parts = [f"PARTITION BY {', '.join(by)}" if by else "", f"ORDER BY {', '.join(order)}" if order else "", call.frame]
    return " ".join(part for part in parts if part)
