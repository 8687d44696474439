"""What Headwater does not maintain: each construct, why, and what to do instead.

A view is a deterministic SELECT over tables of the sources and other views: a function of them alone. What is not is
refused here, before anything is looked up, with the line it stands in. `is_block` tells the queries that are nothing
but joins and one grouping: those have a faster way.
"""

from __future__ import annotations

from typing import NamedTuple

from sqlglot import exp

from headwater.algebra.clocks import clock_in
from headwater.algebra.dialect import said
from headwater.algebra.functions import (
    GENERATORS,
    MAINTAINED,
    NONDETERMINISTIC,
    UNNESTING,
    function_name,
    is_aggregate,
)
from headwater.algebra.percentiles import percentile_call
from headwater.algebra.statements import ParsedView
from headwater.algebra.temporal import in_place, is_present, says_present
from headwater.model.errors import ViewSqlError


class Refusal(NamedTuple):
    """`keyword` is a word of the construct, to find its line by where sqlglot gives none."""

    construct: str
    why: str
    instead: str
    keyword: str = ""


_UNORDERED = "a view is a bag of rows, without order"
_FUNCTION = "a view must be a function of its sources alone"

_CLAUSES = {
    "sort": Refusal("SORT BY", _UNORDERED, "write ORDER BY", "SORT"),
    "cluster": Refusal("CLUSTER BY", _UNORDERED, "remove it", "CLUSTER"),
    "distribute": Refusal("DISTRIBUTE BY", _UNORDERED, "remove it", "DISTRIBUTE"),
    "pivots": Refusal("PIVOT", "its columns would depend on data", "write SUM(CASE WHEN … THEN x END) AS …", "PIVOT"),
    "sample": Refusal("TABLESAMPLE", _FUNCTION, "remove it", "TABLESAMPLE"),
    "locks": Refusal("FOR UPDATE", "a view never locks its sources", "remove it", "FOR"),
    "into": Refusal("INTO", "a view has its own table", "remove it", "INTO"),
    "hint": Refusal("a planner hint", "Headwater decides how to join", "remove the /*+ … */"),
    "connect": Refusal("CONNECT BY", "Spark SQL has none", "write the joins", "CONNECT"),
}
_PARAMETER = Refusal("a parameter", "a view has no one to give it a value", "write the value itself")

_NODES: dict[type[exp.Expr], Refusal] = {
    exp.Pivot: _CLAUSES["pivots"],
    exp.TableSample: _CLAUSES["sample"],
    exp.Placeholder: _PARAMETER,
    exp.Parameter: _PARAMETER,
    exp.SessionParameter: _PARAMETER,
}

_ARRAY = Refusal("ARRAY of a query", "Spark SQL has none", "write (SELECT COLLECT_LIST(x) FROM …)", "ARRAY")
_ANY = Refusal("ANY", "it compares with a query", "write BOOL_OR(condition), or x IN (…)", "ANY")
_ALL = Refusal("ALL", "it compares with a query", "write BOOL_AND(condition)", "ALL")
_NATURAL = Refusal(
    "NATURAL JOIN", "its condition changes with any column added at a source", "write JOIN … USING (column)", "NATURAL"
)

REFUSED = (*_CLAUSES.values(), _PARAMETER, _ARRAY, _ANY, _ALL, _NATURAL)
"""What is refused by its name; functions that are refused are told by `functions`."""

_BLOCK = {"expressions", "from_", "joins", "where", "group", "having", "distinct"}
_MORE: tuple[type[exp.Expr], ...] = (
    exp.Select, exp.SetOperation, exp.Values, exp.Lateral, exp.Unnest, exp.Window, exp.GroupingSets, exp.Rollup,
    exp.Cube, exp.Dot, exp.Any, exp.All, exp.IgnoreNulls, exp.RespectNulls, exp.Lambda,
)  # fmt: skip
"""What a block does not have."""


def check(parsed: ParsedView) -> None:
    """Raises ViewSqlError for what is refused on sight."""
    query = parsed.select
    if not isinstance(query, exp.Query) or isinstance(query, exp.Table):
        raise parsed.error("there is no SELECT after AS", "write AS SELECT … FROM …", query)
    for node in query.walk():
        if isinstance(node, exp.Select):
            for clause, refusal in _CLAUSES.items():
                if node.args.get(clause):
                    value = node.args[clause]
                    raise _refuse(parsed, refusal, value if isinstance(value, exp.Expr) and clause != "hint" else None)
        for kind, refusal in _NODES.items():
            if isinstance(node, kind):
                raise _refuse(parsed, refusal, node)
        if isinstance(node, exp.Array) and any(isinstance(e, exp.Query) for e in node.expressions):
            raise _refuse(parsed, _ARRAY, node)
        if isinstance(node, exp.Any | exp.All) and not isinstance(node.this.unnest(), exp.Query | exp.Values):
            raise _refuse(parsed, _ANY if isinstance(node, exp.Any) else _ALL, node)
        if isinstance(node, exp.Join) and node.method == "NATURAL":
            raise _refuse(parsed, _NATURAL, node)
        if isinstance(node, exp.Table):
            _check_table(parsed, node)
        elif isinstance(node, exp.Func):
            _check_function(parsed, node)


def is_block(query: exp.Expr) -> bool:
    """Whether a query is γ π σ (T1 ⋈ … ⋈ Tn), with aggregates that a group can continue."""
    if not isinstance(query, exp.Select) or not query.args.get("from_") or not query.expressions:
        return False
    if any(value and clause not in _BLOCK for clause, value in query.args.items()):
        return False
    if says_present(query):
        return False
    return all(_is_plain(node) for node in query.walk() if node is not query) and not _distinct_groups(query)


def _is_plain(node: exp.Expr) -> bool:
    if isinstance(node, _MORE) or (isinstance(node, exp.Subquery) and not isinstance(node.this, exp.Table)):
        return False
    if isinstance(node, exp.Subquery) and node.alias:
        return False
    if isinstance(node, exp.Join):
        odd = [k for k, v in node.args.items() if v and k not in ("this", "on", "using", "kind")]
        return not node.side and node.kind in ("", "INNER", "CROSS") and not odd
    if isinstance(node, exp.Table):
        alias = node.args.get("alias")
        renamed = alias is not None and alias.args.get("columns")
        return not isinstance(node.this, exp.Func) and not renamed
    if isinstance(node, exp.Distinct):
        return not node.args.get("on")
    if isinstance(node, exp.Star):
        return not any(node.args.values())
    if isinstance(node, exp.Group):
        tuples = any(isinstance(item, exp.Tuple) for item in node.expressions)
        return not node.args.get("totals") and not node.args.get("all") and not tuples
    within = node if isinstance(node, exp.WithinGroup) else node.parent
    if isinstance(within, exp.WithinGroup):
        return percentile_call(within) is not None
    if is_aggregate(node):
        if percentile_call(node) is not None:
            return True
        several = node.expressions or (isinstance(node.this, exp.Distinct) and len(node.this.expressions) != 1)
        return type(node) in MAINTAINED and not several
    return not (isinstance(node, exp.Func) and function_name(node) in (*GENERATORS, "grouping", "grouping_id"))


def _distinct_groups(query: exp.Select) -> bool:
    """SELECT DISTINCT of groups that may look alike: a grouping over a grouping."""
    group = query.args.get("group")
    if not query.args.get("distinct") or (group is None and not any(is_aggregate(n) for n in query.walk())):
        return False
    shown = {said(e.unalias()) for e in query.expressions} | {e.alias for e in query.expressions if e.alias}
    shown |= {str(i + 1) for i in range(len(query.expressions))}
    return any(said(item) not in shown for item in (group.expressions if group else []))


def _check_table(parsed: ParsedView, table: exp.Table) -> None:
    if isinstance(table.this, exp.Dot):
        raise parsed.error(
            f"{said(table)} has too many parts", "name a table as source.table or source.schema.table", table
        )
    for key, value in table.args.items():
        if value and key not in ("this", "db", "catalog", "alias", "joins", "laterals"):
            unknown = Refusal(key.strip("_").upper(), "a view reads whole tables as they are", "remove it")
            raise _refuse(parsed, _CLAUSES.get(key, unknown), table)


def _check_function(parsed: ParsedView, node: exp.Expr) -> None:
    name, clock = function_name(node), clock_in(node)
    if is_present(node):
        if in_place(node):
            return
        why = "outside of a comparison with a column in WHERE or HAVING it would change every row without end"
        called = said(node).lower()
        instead = f"write WHERE column > {called} - INTERVAL 1 DAY, or use it when you read the view"
        raise _refuse(parsed, Refusal(called, why, instead), node)
    if clock:
        why = "it is a clock, and a view must be a function of its sources alone"
        raise _refuse(parsed, Refusal(clock, why, "write the moment itself, or compare when you read the view"), node)
    asks_the_clock = name in ("unix_timestamp", "to_unix_timestamp") and not node.expressions
    if name in NONDETERMINISTIC or asks_the_clock:
        raise _refuse(parsed, Refusal(f"{name}()", _FUNCTION, "use it when you read the view", name), node)
    unnests = name.removesuffix("_outer") in UNNESTING
    if name in GENERATORS and not (unnests and (_in_from(node) or _listed(node, name))):
        instead = f"write FROM … LATERAL VIEW {name}(x) t AS y" if unnests else "remove it"
        raise _refuse(parsed, Refusal(f"{name}()", "it makes several rows of one", instead, name), node)


def _listed(node: exp.Expr, name: str) -> bool:
    """Whether it is an output of SELECT."""
    item = node.parent if isinstance(node.parent, exp.Alias) else node
    return (
        name.removesuffix("_outer") == "explode"
        and isinstance(item.parent, exp.Select)
        and item.arg_key == "expressions"
    )


def _in_from(node: exp.Expr) -> bool:
    """Whether it stands where a table does."""
    return isinstance(node, exp.Unnest) or isinstance(node.parent, exp.Lateral | exp.Table | exp.Unnest)


def _refuse(parsed: ParsedView, refusal: Refusal, node: exp.Expr | None = None) -> ViewSqlError:
    has_own = node is not None and any("line" in part.meta for part in node.walk())
    keyword = refusal.keyword if not has_own or refusal.keyword.isupper() else ""
    return parsed.error(f"cannot maintain {refusal.construct}: {refusal.why}", refusal.instead, node, keyword)
