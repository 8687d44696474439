"""γ and DISTINCT: the group that a transaction touches, before and after it. Any aggregate that Spark knows, by
evaluating it; what a view groups at its root is continued from what its groups keep (`maintenance.aggregate`).

Without keys there is a group even of nothing: beside the rows of every version stands one that counts for nothing, and
the aggregates look only at those that are `present_`.
"""

from __future__ import annotations

from headwater.algebra.dialect import spark_sql
from headwater.algebra.relations import Aggregate, Name, mentioned
from headwater.algebra.select.correlation import only
from headwater.algebra.select.scope import column
from headwater.maintenance.operators.local_calls import local_call
from headwater.maintenance.operators.local_sql import null_of
from headwater.maintenance.operators.maintain import Maintenance
from headwater.maintenance.operators.program import COUNT, INPUT, Keys, listed
from headwater.maintenance.operators.timelines import VERSION, at_versions, differences, repeated, through, versions

PRESENT = "present_"
_ONE = f"CAST(1 AS BIGINT) AS {COUNT}"


class AggregateOperator:
    def changes(self, node: Aggregate, m: Maintenance) -> str:
        part = (node.child, node.keys)
        moments = versions([part], m)
        rows = at_versions(part, moments, m)
        results = _grouped(node, rows, (VERSION,), moments, m)
        return differences(results, node.keys, node.columns, moments, m)

    def ask(self, node: Aggregate, columns: tuple[Name, ...], keys: Keys, m: Maintenance) -> str:
        """By keys of groups; by results alone, every group is asked for."""
        own, asked = through(keys, columns, node.keys, m)
        return _grouped(node, m.ask(node.child, own, asked), (), "", m)


def _grouped(node: Aggregate, rows: str, beside: tuple[Name, ...], moments: str, m: Maintenance) -> str:
    """The groups of rows with counts; without keys, one at each of the moments."""
    by = (*beside, *node.keys)
    if not node.calls:
        return m.draft.local(f"SELECT DISTINCT {listed(by, [_ONE])} FROM {rows}", rows)
    used = mentioned(*(e for _, e in node.calls))
    seen = [c for c in node.child.columns if c in used and c not in node.keys]
    here = {name: local_call(call, m.types, m.types[name]) for name, call in node.calls}
    if all(text is not None for text in here.values()):
        weighed = rows if node.keys or not beside else _with_nothing(rows, seen, moments, m, counted=True)
        chosen = [f"{text} AS {name}" for name, text in here.items()]
        group = f" GROUP BY {listed(by)}" if by else ""
        return m.draft.local(f"SELECT {listed(by, chosen, [_ONE])} FROM {weighed}{group}", weighed)
    source = repeated(rows, [*by, *seen], m)
    calls = [(name, call) for name, call in node.calls]
    if not node.keys and beside:
        source = _with_nothing(source, seen, moments, m, counted=False)
        calls = [(name, only(call, column(PRESENT))) for name, call in calls]
    chosen = [f"{spark_sql(call)} AS {name}" for name, call in calls]
    group = f" GROUP BY {listed(by)}" if by else ""
    text = f"SELECT {listed(by, chosen, [_ONE])} FROM {INPUT}{group}"
    return m.draft.evaluated(text, source, (*by, *(name for name, _ in calls), COUNT))


def _with_nothing(step: str, seen: list[Name], moments: str, m: Maintenance, counted: bool) -> str:
    """The rows, and one at every moment that counts for nothing."""
    nulls = [f"{null_of(m.types[c])} AS {c}" for c in seen]
    mine, nothing = ([COUNT], [f"CAST(0 AS BIGINT) AS {COUNT}"]) if counted else ([], [])
    text = (
        f"SELECT {listed([VERSION], seen, mine)}, TRUE AS {PRESENT} FROM {step}"
        f" UNION ALL SELECT DISTINCT {listed([VERSION], nulls, nothing)}, FALSE AS {PRESENT} FROM {moments}"
    )
    return m.draft.local(text, step, moments)
