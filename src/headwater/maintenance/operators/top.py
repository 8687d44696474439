"""The first N: a ranking, and a filter that lets the first through (LIMIT, top-N per group, DISTINCT ON).

Of a partition only its head matters. A row is *settled* if the batch does not touch it: then it is there at every
moment of the batch. Let b(x) be the number of settled rows that come before x.

    b(x) ≥ N   ⇒   x is among the first N at no moment                      those N come before it at every moment
    b(x) < N   ⇒   so is everything before x, and its rank can be told      from these rows alone

So ranks are computed of rows with b(x) < N, at the moments that touch one of those. To find them, the first
N + (rows touched) of a partition are enough: who keeps rows in order (`kept`) need not look at the others.
"""

from __future__ import annotations

from sqlglot import exp

from headwater.algebra.functions import function_name
from headwater.algebra.relations import Filter, Window, WindowCall
from headwater.algebra.select.correlation import conjuncts
from headwater.maintenance.operators.maintain import Maintenance
from headwater.maintenance.operators.program import COUNT, NUMBER, SEQ, First, Keys, alike, listed
from headwater.maintenance.operators.timelines import VERSION, at_moments, differences, versions_of
from headwater.maintenance.operators.windows import called, ranking_order

_COUNTING = ("row_number", "rank")
"""Rankings that count the rows before; DENSE_RANK counts values."""


def first_changes(node: Filter, m: Maintenance) -> str | None:
    """The changes of a ranking that a filter can let through; None if it is no such ranking."""
    window = node.child
    if not isinstance(window, Window):
        return None
    found = _bound(node, window)
    if found is None:
        return None
    call, most = found
    orders = [ranking_order(one, window, m) for one in window.calls]
    order = orders[window.calls.index(call)]
    plainly = [[text for text in one or () if text in order] for one in orders] if order else []
    if not order or any(one is None or one != same for one, same in zip(orders, plainly, strict=True)):
        return None
    return _changes(window, call, order, most, m)


def _bound(node: Filter, window: Window) -> tuple[WindowCall, int] | None:
    """The ranking that the filter bounds, and by what."""
    calls = {call.name: call for call in window.calls if function_name(call.function) in _COUNTING}
    for part in conjuncts(node.condition):
        if not isinstance(part, exp.LTE | exp.LT | exp.EQ) or not isinstance(part.this, exp.Column):
            continue
        value = part.expression.unnest()
        if part.this.name in calls and isinstance(value, exp.Literal) and not value.is_string and value.name.isdigit():
            return calls[part.this.name], int(value.name) - isinstance(part, exp.LT)
    return None


def _changes(window: Window, call: WindowCall, order: list[str], most: int, m: Maintenance) -> str:
    child, by = window.child, window.partition
    changes = m.changes(child)
    rows = [(c, c) for c in child.columns]
    touched = m.draft.local(f"SELECT DISTINCT {listed(child.columns)} FROM {changes}", changes)
    asked = m.ask(child, by, _heads(window, call, touched, most, m))
    settled = m.draft.local(
        f"SELECT {listed(child.columns)}, MIN(u_) AS u_ FROM (SELECT {listed(child.columns)}, 1 AS u_ FROM {asked}"
        f" UNION ALL SELECT {listed(child.columns)}, 0 FROM {touched}) AS a_ GROUP BY {listed(child.columns)}",
        asked,
        touched,
    )
    over = " ".join([f"PARTITION BY {listed(by)}" if by else "", f"ORDER BY {listed(order)}"])
    before = f"SUM(u_) OVER ({over} RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW EXCLUDE GROUP)"
    near = m.draft.local(
        f"SELECT {listed(child.columns)} FROM (SELECT *, COALESCE({before}, 0) AS b_ FROM {settled}) AS s_"
        f" WHERE b_ < {most}",
        settled,
    )

    def of_the_first(step: str) -> str:
        text = f"SELECT r_.* FROM {step} AS r_ SEMI JOIN {near} AS f_ ON {alike('r_', 'f_', rows)}"
        return m.draft.local(text, step, near)

    known = of_the_first(asked), of_the_first(changes)
    moments = versions_of([(known[1], by)], m)
    results = called(window, at_moments((child, by), moments, known, m), (VERSION,), m)
    return differences(results, by, window.columns, moments, m)


def _heads(window: Window, call: WindowCall, touched: str, most: int, m: Maintenance) -> Keys:
    """The partitions that are touched, and how many of their first rows are enough."""
    by = window.partition
    keys = [f"{c} AS k{i}" for i, c in enumerate(by)] or ["1 AS k_"]
    number = f"CAST({most} + COUNT(*) AS BIGINT) AS {NUMBER}"
    grouped = f" GROUP BY {listed(by)}" if by else " HAVING COUNT(*) > 0"
    step = m.draft.local(f"SELECT {listed(keys, [number])} FROM {touched}{grouped}", touched)
    first = None
    if call.order and isinstance(call.order[0].this, exp.Column):
        one = call.order[0]
        first = First(one.this.name, bool(one.args.get("desc")), bool(one.args.get("nulls_first")))
    return Keys(step, len(by), frozenset(range(len(by))), first=first)


__all__ = ["COUNT", "SEQ", "first_changes"]
