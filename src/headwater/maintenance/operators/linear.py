"""Operators that look at one row at a time: their changes are those of their children, row by row."""

from __future__ import annotations

from dataclasses import replace

from headwater.algebra.dialect import spark_sql
from headwater.algebra.relations import (
    Filter,
    Generate,
    Join,
    Name,
    Project,
    Relation,
    Table,
    Union,
    Values,
    is_empty,
    mentioned,
)
from headwater.algebra.select.scope import is_null
from headwater.maintenance.operators.local_sql import local_sql, may_fail
from headwater.maintenance.operators.local_types import duck_type
from headwater.maintenance.operators.maintain import Maintenance
from headwater.maintenance.operators.program import COUNT, INPUT, SEQ, Keys, listed
from headwater.maintenance.operators.top import first_changes


class TableOperator:
    """A leaf: it is told its changes, and asked."""

    def changes(self, node: Table, m: Maintenance) -> str:
        return m.draft.changes(node)

    def ask(self, node: Table, columns: tuple[Name, ...], keys: Keys, m: Maintenance) -> str:
        return m.draft.asked(node, columns, keys)


class ValuesOperator:
    """Never changes."""

    def changes(self, node: Values, m: Maintenance) -> str:
        rows = self._rows(node, m)
        return m.draft.local(f"SELECT *, CAST(0 AS BIGINT) AS {SEQ} FROM {rows} WHERE FALSE", rows)

    def ask(self, node: Values, columns: tuple[Name, ...], keys: Keys, m: Maintenance) -> str:
        return self._rows(node, m)

    def _rows(self, node: Values, m: Maintenance) -> str:
        one = m.draft.local(f"SELECT CAST(1 AS BIGINT) AS {COUNT}")
        if not node.columns:
            return one
        here = [[local_sql(e, m.types) for e in row] for row in node.rows]
        if all(text is not None for row in here for text in row):
            typed = [
                listed(
                    f"CAST({text} AS {duck_type(m.types[c])}) AS {c}" for c, text in zip(node.columns, row, strict=True)
                )
                for row in here
            ]
            return m.draft.local(" UNION ALL ".join(f"SELECT {row}, CAST(1 AS BIGINT) AS {COUNT}" for row in typed))
        rows = [listed((f"{spark_sql(e)} AS {c}" for c, e in zip(node.columns, row, strict=True))) for row in node.rows]
        text = " UNION ALL ".join(f"SELECT {row}, {COUNT} FROM {INPUT}" for row in rows)
        return m.draft.evaluated(text, one, (*node.columns, COUNT))


class FilterOperator:
    def changes(self, node: Filter, m: Maintenance) -> str:
        changes = first_changes(node, m) or m.changes(node.child)
        return self._kept(node, changes, (COUNT, SEQ), m)

    def ask(self, node: Filter, columns: tuple[Name, ...], keys: Keys, m: Maintenance) -> str:
        return self._kept(node, m.ask(node.child, columns, keys), (COUNT,), m)

    def _kept(self, node: Filter, step: str, more: tuple[str, ...], m: Maintenance) -> str:
        here, rest = m.split(node.condition, real=True)
        if rest or may_fail(node.condition, m.types):
            step = _real(node.child, step, more, m)
        if here != "TRUE":
            step = m.draft.local(f"SELECT * FROM {step} WHERE {here}", step)
        return m.kept(step, rest, (*node.columns, *more))


class ProjectOperator:
    """Asked by columns that stand below as they are; other columns say nothing of what is below, and more rows do no
    harm."""

    def changes(self, node: Project, m: Maintenance) -> str:
        return self._made(node, m.changes(node.child), (COUNT, SEQ), m)

    def ask(self, node: Project, columns: tuple[Name, ...], keys: Keys, m: Maintenance) -> str:
        below = [i for i, c in enumerate(columns) if c in node.plain]
        where = "" if keys.between else self._possible(node, columns, m)
        asked = _first_below(node, m.draft.some_keys(keys, below, where))
        rows = m.ask(node.child, tuple(node.plain[columns[i]] for i in below), asked)
        return self._made(node, rows, (COUNT,), m)

    def _possible(self, node: Project, columns: tuple[Name, ...], m: Maintenance) -> str:
        """What a key must be where a column is the same in all rows; nothing is asked for other keys."""
        made, parts = dict(node.outputs), []
        for i, c in enumerate(columns):
            if c not in node.plain and (is_null(made[c]) or not mentioned(made[c])):
                text = "NULL" if is_null(made[c]) else local_sql(made[c], m.types)
                parts += [f"k{i} IS NOT DISTINCT FROM {text}"] if text is not None else []
        return " AND ".join(parts)

    def _made(self, node: Project, step: str, more: tuple[str, ...], m: Maintenance) -> str:
        """Columns here, expressions in Spark."""
        here = {name: local_sql(e, m.types) for name, e in node.outputs}
        fails = any(may_fail(e, m.types) for _, e in node.outputs)
        if all(text is not None for text in here.values()) and (m.alone or not fails):
            if fails:
                step = _real(node.child, step, more, m)
            chosen = [f"CAST({text} AS {duck_type(m.types[name])}) AS {name}" for name, text in here.items()]
            return m.draft.local(f"SELECT {listed(chosen, more)} FROM {step}", step)
        chosen = [f"{spark_sql(e)} AS {name}" for name, e in node.outputs]
        real = _real(node.child, step, more, m)
        return m.draft.evaluated(f"SELECT {listed(chosen, more)} FROM {INPUT}", real, (*node.columns, *more))


def _first_below(node: Project, keys: Keys) -> Keys:
    """The first rows by a column are the first by what it is below, if it is that as it is."""
    if keys.first is None:
        return keys
    below = node.plain.get(keys.first.column)
    return replace(keys, first=None if below is None else replace(keys.first, column=below))


class GenerateOperator:
    def changes(self, node: Generate, m: Maintenance) -> str:
        return self._made(node, m.changes(node.child), (COUNT, SEQ), m)

    def ask(self, node: Generate, columns: tuple[Name, ...], keys: Keys, m: Maintenance) -> str:
        below = [i for i, c in enumerate(columns) if c in node.child.columns]
        rows = m.ask(node.child, tuple(columns[i] for i in below), m.draft.some_keys(keys, below))
        return self._made(node, rows, (COUNT,), m)

    def _made(self, node: Generate, step: str, more: tuple[str, ...], m: Maintenance) -> str:
        outer = "OUTER " if node.outer else ""
        view = f"LATERAL VIEW {outer}{spark_sql(node.generator)} g_ AS {listed(node.made)}"
        text = f"SELECT {listed(node.columns, more)} FROM {INPUT} {view}"
        return m.draft.evaluated(text, _real(node.child, step, more, m), (*node.columns, *more))


def _real(child: Relation, step: str, more: tuple[str, ...], m: Maintenance) -> str:
    """The changes of a child, for Spark to evaluate; rows that are asked for are there anyway."""
    return m.summed(step, child.columns) if SEQ in more and _cancels(child) else step


def _cancels(node: Relation) -> bool:
    """Whether changes of it may cancel each other: those of a join do."""
    match node:
        case Filter() | Project() | Generate():
            return _cancels(node.child)
        case Union():
            return any(_cancels(child) for child in node.children)
        case _:
            return isinstance(node, Join)


class UnionOperator:
    def changes(self, node: Union, m: Maintenance) -> str:
        node = _possible(node)
        return self._all(node, [m.changes(child) for child in node.children], (COUNT, SEQ), m)

    def ask(self, node: Union, columns: tuple[Name, ...], keys: Keys, m: Maintenance) -> str:
        node = _possible(node)
        return self._all(node, [m.ask(c, _below(node, c, columns), keys) for c in node.children], (COUNT,), m)

    def _all(self, node: Union, steps: list[str], more: tuple[str, ...], m: Maintenance) -> str:
        parts = []
        for child, step in zip(node.children, steps, strict=True):
            parts.append(f"SELECT {listed(renamed(child.columns, node.columns, m), more)} FROM {step}")
        return m.draft.local(" UNION ALL ".join(parts), *steps)


def _possible(node: Union) -> Union:
    """The union of those children that may have rows."""
    some = tuple(child for child in node.children if not is_empty(child))
    return replace(node, children=some or node.children[:1])


def renamed(columns: tuple[Name, ...], new: tuple[Name, ...], m: Maintenance) -> list[str]:
    """Columns under other names, of the types that those have."""
    pairs = zip(columns, new, strict=True)
    return [
        f"{a} AS {b}" if m.types[a] == m.types[b] else f"CAST({a} AS {duck_type(m.types[b])}) AS {b}" for a, b in pairs
    ]


def _below(node: Union, child: Relation, columns: tuple[Name, ...]) -> tuple[Name, ...]:
    return tuple(child.columns[node.columns.index(c)] for c in columns)
