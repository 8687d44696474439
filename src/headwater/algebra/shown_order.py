"""ORDER BY without LIMIT decides nothing but the order in which rows are shown. Where it speaks of outputs alone, it
can be taken off the query, which then may be a plain block of joins.

>>> from headwater.algebra.dialect import ViewSql
>>> query = ViewSql().parse("SELECT k, SUM(x) AS s FROM t GROUP BY k ORDER BY s DESC, 1")[0]
>>> rest, order = apart(query)
>>> rest.sql(), order
('SELECT k, SUM(x) AS s FROM t GROUP BY k', (('s', True, False), ('k', False, True)))
"""

from __future__ import annotations

from sqlglot import exp

Order = tuple[tuple[str, bool, bool], ...]
"""(column, descending, NULLs first) each."""


def apart(query: exp.Expr) -> tuple[exp.Expr, Order]:
    """A copy of the query without its ORDER BY, and that; all of the query and nothing, where it must stay."""
    rest = query.copy()
    clause = rest.args.get("order")
    if not isinstance(rest, exp.Select) or clause is None or rest.args.get("limit") or rest.args.get("offset"):
        return rest, ()
    names = output_names(rest)
    order = [(_meant(item.this.unnest(), rest, names), item) for item in clause.expressions]
    if any(name is None for name, _ in order):
        return rest, ()
    rest.set("order", None)
    return rest, tuple(
        (name, bool(item.args.get("desc")), bool(item.args.get("nulls_first"))) for name, item in order if name
    )


def output_names(query: exp.Expr) -> list[str]:
    """What the outputs are called; nothing if that depends on tables, if one has no name, or two the same."""
    items = query.expressions if isinstance(query, exp.Select) else []
    names = [item.alias or (item.name if isinstance(item, exp.Column) else "") for item in items]
    if any(item.is_star for item in items) or not all(names) or len({n.lower() for n in names}) < len(names):
        return []
    return names


def _meant(node: exp.Expr, select: exp.Select, names: list[str]) -> str | None:
    """The output that an item is: by its place, by its name, or because it is the same expression."""
    if not names:
        return None
    if isinstance(node, exp.Literal):
        place = int(node.name) if not node.is_string and node.name.isdigit() else 0
        return names[place - 1] if 1 <= place <= len(names) else None
    if isinstance(node, exp.Column) and not node.table:
        return next((name for name in names if name.lower() == node.name.lower()), None)
    text = node.sql()
    return next((n for n, e in zip(names, select.expressions, strict=True) if e.unalias().unnest().sql() == text), None)
