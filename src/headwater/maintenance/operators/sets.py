"""UNION, INTERSECT and EXCEPT, with and without ALL: of every row that a transaction touches, how often each side has
it before and after."""

from __future__ import annotations

from headwater.algebra.relations import Name, SetOperation
from headwater.maintenance.operators.linear import renamed
from headwater.maintenance.operators.maintain import Maintenance
from headwater.maintenance.operators.program import COUNT, Keys, listed
from headwater.maintenance.operators.timelines import VERSION, at_versions, differences, versions


class SetOperator:
    def changes(self, node: SetOperation, m: Maintenance) -> str:
        parts = [(node.left, node.left.columns), (node.right, node.right.columns)]
        moments = versions(parts, m)
        left, right = (at_versions(part, moments, m) for part in parts)
        results = _counted(node, left, right, (VERSION,), m)
        return differences(results, node.columns, node.columns, moments, m)

    def ask(self, node: SetOperation, columns: tuple[Name, ...], keys: Keys, m: Maintenance) -> str:
        places = [node.columns.index(c) for c in columns]
        left, right = (m.ask(side, tuple(side.columns[i] for i in places), keys) for side in (node.left, node.right))
        return _counted(node, left, right, (), m)


def _counted(node: SetOperation, left: str, right: str, beside: tuple[Name, ...], m: Maintenance) -> str:
    def side(step: str, theirs: tuple[Name, ...], counts: list[str]) -> str:
        return f"SELECT {listed(beside, renamed(theirs, node.columns, m), counts)} FROM {step}"

    both = (
        side(left, node.left.columns, [f"{COUNT} AS l_", "0 AS r_"])
        + " UNION ALL "
        + side(right, node.right.columns, ["0 AS l_", f"{COUNT} AS r_"])
    )
    by = listed(beside, node.columns)
    counts = f"SELECT {by}, SUM(l_) AS l_, SUM(r_) AS r_ FROM ({both}) AS b_ GROUP BY {by}"
    how = node.kind.value
    text = f"SELECT {by}, CAST({how} AS BIGINT) AS {COUNT} FROM ({counts}) AS c_ WHERE ({how}) > 0"
    return m.draft.local(text, left, right)
