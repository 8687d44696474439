"""Window functions: the partition that a transaction touches, before and after it."""

from __future__ import annotations

from sqlglot import exp

from headwater.algebra.conditions import kind_of
from headwater.algebra.dialect import spark_sql
from headwater.algebra.functions import function_name
from headwater.algebra.relations import Name, Window, WindowCall
from headwater.algebra.render import over
from headwater.maintenance.operators.maintain import Maintenance
from headwater.maintenance.operators.program import COUNT, INPUT, Keys, listed
from headwater.maintenance.operators.timelines import VERSION, at_versions, differences, repeated, through, versions

_RANKS = ("row_number", "rank", "dense_rank")
_ORDERED = ("integer", "decimal", "text", "date", "timestamp", "bool")


class WindowOperator:
    def changes(self, node: Window, m: Maintenance) -> str:
        part = (node.child, node.partition)
        moments = versions([part], m)
        results = called(node, at_versions(part, moments, m), (VERSION,), m)
        return differences(results, node.partition, node.columns, moments, m)

    def ask(self, node: Window, columns: tuple[Name, ...], keys: Keys, m: Maintenance) -> str:
        """By columns that do not make up a partition's key: first which partitions, then all of their rows."""
        own, asked = through(keys, columns, node.child.columns, m)
        if not set(own) <= set(node.partition):
            rows, width = m.ask(node.child, own, asked), range(len(node.partition))
            own, asked = node.partition, m.draft.keys([(rows, node.partition)], width)
        return called(node, m.ask(node.child, own, asked), (), m)


def called(node: Window, rows: str, beside: tuple[Name, ...], m: Maintenance) -> str:
    """The rows, each as often as it counts, with what the calls make of them; `beside` are more keys of it."""
    columns = (*beside, *node.child.columns)
    source = repeated(rows, columns, m)
    names = [call.name for call in node.calls]
    one = f"CAST(1 AS BIGINT) AS {COUNT}"
    here = [_local(call, node, beside, m) for call in node.calls]
    if all(text is not None for text in here):
        calls = [f"{text} AS {name}" for text, name in zip(here, names, strict=True)]
        step = m.draft.local(f"SELECT {listed(columns, calls)} FROM {source}", source)
    else:
        calls = [f"{spark_sql(call.function)} OVER ({over(call, node, beside)}) AS {call.name}" for call in node.calls]
        step = m.draft.evaluated(f"SELECT {listed(columns, calls)} FROM {INPUT}", source, (*columns, *names))
    every = (*columns, *names)
    return m.draft.local(f"SELECT {listed(every, [one])} FROM {step}", step)


def _local(call: WindowCall, node: Window, beside: tuple[Name, ...], m: Maintenance) -> str | None:
    """A ranking by plain columns, in the embedded engine's words."""
    word, order = function_name(call.function), ranking_order(call, node, m)
    if order is None:
        return None
    by = (*beside, *node.partition)
    parts = [f"PARTITION BY {listed(by)}" if by else "", f"ORDER BY {listed(order)}" if order else ""]
    return f"CAST({word.upper()}() OVER ({' '.join(p for p in parts if p)}) AS INTEGER)"


def ranking_order(call: WindowCall, node: Window, m: Maintenance) -> list[str] | None:
    """The order of a ranking in the embedded engine's words; None where only Spark can tell."""
    if function_name(call.function) not in _RANKS or call.frame:
        return None
    order = []
    for one in call.order:
        if not isinstance(one.this, exp.Column) or kind_of(m.types[one.this.name]) not in _ORDERED:
            return None
        down = bool(one.args.get("desc"))
        nulls = "FIRST" if one.args.get("nulls_first") else "LAST"
        order.append(f"{one.this.name} {'DESC' if down else 'ASC'} NULLS {nulls}")
    if call.ties:
        said = {one.this.name for one in call.order}
        rest = [c for c in node.child.columns if c not in said and c not in node.partition]
        if any(kind_of(m.types[c]) not in _ORDERED for c in rest):
            return None
        order += [f"{c} ASC NULLS FIRST" for c in rest]
    return order
