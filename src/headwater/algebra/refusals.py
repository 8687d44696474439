"""What Headwater does not maintain: each construct, why, and what to do instead.

A view is `γ π σ (T1 ⋈ … ⋈ Tn)` over tables of the sources and other views, and a function of them alone. Everything
outside that is refused here, before anything is looked up, with the line it stands in.
"""

from __future__ import annotations

from typing import NamedTuple

from sqlglot import exp

from headwater.algebra.clocks import clock_in
from headwater.algebra.dialect import said
from headwater.algebra.functions import GENERATORS, INSTEAD, MAINTAINED, NONDETERMINISTIC, function_name, is_aggregate
from headwater.algebra.statements import ParsedView
from headwater.model.errors import ViewSqlError


class Refusal(NamedTuple):
    """`keyword` is a word of the construct, to find its line by where sqlglot gives none."""

    construct: str
    why: str
    instead: str
    keyword: str = ""


_UNORDERED = "a view is a bag of rows, without order"
_WHOLE = "a view is the whole result; which rows come first depends on an order that the sources do not keep"

_CLAUSES = {
    "with_": Refusal("WITH", "a view is one SELECT over tables", "make it a view and name that in FROM", "WITH"),
    "order": Refusal("ORDER BY", _UNORDERED, "order the rows when you read the view", "ORDER"),
    "sort": Refusal("SORT BY", _UNORDERED, "order the rows when you read the view", "SORT"),
    "cluster": Refusal("CLUSTER BY", _UNORDERED, "remove it", "CLUSTER"),
    "distribute": Refusal("DISTRIBUTE BY", _UNORDERED, "remove it", "DISTRIBUTE"),
    "limit": Refusal("LIMIT", _WHOLE, "limit the rows when you read the view", "LIMIT"),
    "offset": Refusal("OFFSET", _WHOLE, "skip rows when you read the view", "OFFSET"),
    "qualify": Refusal("QUALIFY", "window functions are not maintained", "filter when you read the view", "QUALIFY"),
    "windows": Refusal("WINDOW", "window functions are not maintained", "use them when you read the view", "WINDOW"),
    "pivots": Refusal("PIVOT", "its columns would depend on data", "write SUM(CASE WHEN … THEN x END) AS …", "PIVOT"),
    "sample": Refusal("TABLESAMPLE", "a view must be a function of its sources", "remove it", "TABLESAMPLE"),
    "laterals": Refusal(
        "LATERAL VIEW", "it makes rows of values in a row", "apply it when you read the view", "LATERAL"
    ),
    "locks": Refusal("FOR UPDATE", "a view never locks its sources", "remove it", "FOR"),
    "into": Refusal("INTO", "a view has its own table", "remove it", "INTO"),
    "hint": Refusal("a planner hint", "Headwater decides how to join", "remove the /*+ … */"),
}
_PLAIN = {"expressions", "from_", "joins", "where", "group", "having", "distinct"}

_SUBQUERY = Refusal(
    "a subquery", "only joins of tables are maintained", "join the tables, or make it a view and join that"
)
_ROLLUP = Refusal("GROUPING SETS, ROLLUP or CUBE", "one view has one set of groups", "make one view per grouping")
_PARAMETER = Refusal("a parameter", "a view has no one to give it a value", "write the value itself")

_NODES: dict[type[exp.Expr], Refusal] = {
    exp.Select: _SUBQUERY,
    exp.SetOperation: _SUBQUERY,
    exp.Values: Refusal("VALUES", "a view joins tables of sources", "put the rows in a table of a source", "VALUES"),
    exp.Lateral: Refusal("LATERAL", "it makes rows from values inside a row", "join a table instead", "LATERAL"),
    exp.Unnest: Refusal("UNNEST", "it makes rows from values inside a row", "join a table instead", "UNNEST"),
    exp.Pivot: _CLAUSES["pivots"],
    exp.TableSample: _CLAUSES["sample"],
    exp.Window: Refusal(
        "a window function", "one change can move every row of its window", "use it when you read the view", "OVER"
    ),
    exp.GroupingSets: _ROLLUP,
    exp.Rollup: _ROLLUP,
    exp.Cube: _ROLLUP,
    exp.Placeholder: _PARAMETER,
    exp.Parameter: _PARAMETER,
    exp.SessionParameter: _PARAMETER,
    exp.Dot: Refusal(
        "a field of a field, or a function of another schema",
        "columns hold plain values and functions are Spark's own",
        "name a column as alias.column",
    ),
    exp.Any: Refusal("ANY", "only joins of tables are maintained", "write IN (…), or MAX(condition)", "ANY"),
    exp.IgnoreNulls: Refusal("IGNORE NULLS", "aggregates ignore NULLs already", "remove it", "IGNORE"),
    exp.RespectNulls: Refusal("RESPECT NULLS", "it depends on the order of rows", "remove it", "RESPECT"),
    exp.WithinGroup: Refusal(
        "WITHIN GROUP", "it depends on the order of rows", "use COUNT, SUM, AVG, MIN, MAX", "WITHIN"
    ),
}


def check(parsed: ParsedView) -> exp.Select:
    """The view's SELECT, if it has nothing that is refused on sight."""
    query = parsed.select
    if isinstance(query, exp.SetOperation):
        word = type(query).__name__.upper()
        raise _refuse(
            parsed,
            Refusal(word, "a view is one SELECT", "make one view per SELECT and combine them when you read", word),
        )
    if isinstance(query, exp.Subquery):
        raise _refuse(parsed, Refusal("parentheses around the query", "they say nothing", "remove them"), query)
    if not isinstance(query, exp.Select):
        raise parsed.error("there is no SELECT after AS", "write AS SELECT … FROM …", query)
    for clause, value in query.args.items():
        if value and clause not in _PLAIN:
            node = value if isinstance(value, exp.Expr) and clause != "hint" else None
            unknown = Refusal(clause.strip("_").upper(), "views do not have it", "remove it")
            raise _refuse(parsed, _CLAUSES.get(clause, unknown), node)
    if not query.args.get("from_"):
        raise _refuse(
            parsed, Refusal("SELECT without FROM", "a view is made from tables of sources", "add FROM source.table")
        )
    if not query.expressions:
        raise parsed.error("SELECT lists nothing", "name the columns that the view has, or write *", query)
    for node in query.walk():
        if node is not query:
            _check_node(parsed, node)
    return query


def _check_node(parsed: ParsedView, node: exp.Expr) -> None:
    for kind, refusal in _NODES.items():
        if isinstance(node, kind):
            raise _refuse(parsed, refusal, node)
    if isinstance(node, exp.Subquery) and not isinstance(node.this, exp.Table):
        raise _refuse(parsed, _SUBQUERY, node)
    if isinstance(node, exp.Join):
        _check_join(parsed, node)
    elif isinstance(node, exp.Table):
        _check_table(parsed, node)
    elif isinstance(node, exp.Distinct):
        if node.args.get("on"):
            why = "which row it keeps depends on their order"
            raise _refuse(parsed, Refusal("DISTINCT ON", why, "use GROUP BY with MIN or MAX"), node)
    elif isinstance(node, exp.Group):
        if node.args.get("totals"):
            raise _refuse(parsed, _ROLLUP, node)
        if node.args.get("all") and not node.expressions:
            why = "the groups should be readable in the view"
            raise _refuse(parsed, Refusal("GROUP BY ALL", why, "list the columns", "ALL"), node)
        if any(isinstance(item, exp.Tuple) for item in node.expressions):
            why = "each group is one value per column"
            instead = "write GROUP BY a, b; without GROUP BY everything is one group"
            raise _refuse(parsed, Refusal("parentheses in GROUP BY", why, instead, "GROUP BY"), node)
    elif isinstance(node, exp.Func):
        _check_function(parsed, node)


def _check_join(parsed: ParsedView, join: exp.Join) -> None:
    words = " ".join(w.upper() for w in (join.method, join.side, join.kind) if w)
    keyword = words.split()[0] if words else ""
    if join.method == "NATURAL":
        why = "its condition changes with any column added at a source"
        raise _refuse(parsed, Refusal("NATURAL JOIN", why, "write JOIN … USING (column)", keyword), join)
    if join.side or join.kind in ("SEMI", "ANTI", "OUTER", "FULL"):
        why = "only inner joins are maintained"
        raise _refuse(parsed, Refusal(f"{words} JOIN", why, "write an inner JOIN, or make two views", keyword), join)
    odd = [k for k, v in join.args.items() if v and k not in ("this", "on", "using", "kind")]
    if join.kind not in ("", "INNER", "CROSS") or odd:
        why = "only inner joins are maintained"
        raise _refuse(parsed, Refusal(f"{words or odd[0].upper()} JOIN", why, "write JOIN … ON", keyword), join)


def _check_table(parsed: ParsedView, table: exp.Table) -> None:
    if isinstance(table.this, exp.Dot):
        raise parsed.error(
            f"{said(table)} has too many parts", "name a table as source.table or source.schema.table", table
        )
    if isinstance(table.this, exp.Func):
        why = "a view joins tables of sources"
        raise _refuse(parsed, Refusal("a table function", why, "name a table as source.table"), table)
    alias = table.args.get("alias")
    if alias is not None and alias.args.get("columns"):
        why = "columns are called by their own names"
        raise _refuse(parsed, Refusal("renaming columns in FROM", why, "rename them in SELECT with AS"), table)
    for key, value in table.args.items():
        if value and key not in ("this", "db", "catalog", "alias", "joins"):
            unknown = Refusal(key.strip("_").upper(), "a view reads whole tables as they are", "remove it")
            raise _refuse(parsed, _CLAUSES.get(key, unknown), table)


def _check_function(parsed: ParsedView, node: exp.Expr) -> None:
    name, clock = function_name(node), clock_in(node)
    if clock:
        why = "it is a clock, and a view must be a function of its sources alone"
        raise _refuse(parsed, Refusal(clock, why, "write the moment itself, or compare when you read the view"), node)
    asks_the_clock = name in ("unix_timestamp", "to_unix_timestamp") and not node.expressions
    if name in NONDETERMINISTIC or asks_the_clock:
        why = "a view must be a function of its sources alone"
        raise _refuse(parsed, Refusal(f"{name}()", why, "use it when you read the view", name), node)
    if name in GENERATORS:
        why = "it makes several rows of one"
        raise _refuse(parsed, Refusal(f"{name}()", why, "apply it when you read the view", name), node)
    if is_aggregate(node) and type(node) not in MAINTAINED:
        instead = INSTEAD.get(name, "use COUNT, SUM, AVG, MIN or MAX")
        why = "views maintain COUNT, SUM, AVG, MIN and MAX"
        raise _refuse(parsed, Refusal(f"the aggregate {name}()", why, instead, name), node)


def _refuse(parsed: ParsedView, refusal: Refusal, node: exp.Expr | None = None) -> ViewSqlError:
    has_own = node is not None and any("line" in part.meta for part in node.walk())
    keyword = refusal.keyword if not has_own or refusal.keyword.isupper() else ""
    return parsed.error(f"cannot maintain {refusal.construct}: {refusal.why}", refusal.instead, node, keyword)
