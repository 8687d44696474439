"""WITH (auxiliary = 'auto'): parts of a query that would be read whole with every batch become views of their own,
which are kept and looked up.

    SELECT … GROUP BY … ORDER BY … LIMIT 10            the grouping, and the first ten of it
    … HAVING SUM(x) > (SELECT …)                       the grouping, and those of it that the condition lets through
    … x > (SELECT AVG(y) FROM …)                       the aggregate, and the rest over its one row
    WITH r AS (SELECT … GROUP BY …) …                  the grouping, and the rest over it

A part can be kept if it means something by itself (no column of it belongs to a query around it) and its groups can be
continued from what they keep. The query over the parts is equal to the query as written, by substitution. Parts are
called NAME__1, NAME__2, … and promise what the view promises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from sqlglot import exp

from headwater.algebra.functions import has_aggregate, is_aggregate
from headwater.algebra.names import Catalog
from headwater.algebra.parse import define
from headwater.algebra.promise import KEPT_FOR
from headwater.algebra.select.correlation import conjunction, conjuncts
from headwater.algebra.shown_order import Order, apart, output_names
from headwater.algebra.statements import ParsedView, parse_views
from headwater.algebra.trees import with_of
from headwater.algebra.view import ViewDefinition
from headwater.model.consistency import Level
from headwater.model.errors import HeadwaterError
from headwater.model.names import ViewName

OPTION = "auxiliary"
KEEPING = (OPTION, "groups")
"""The options that say what is kept beside a view: they are no part of what it is."""


def defined(
    parsed: ParsedView,
    catalog: Catalog,
    views: Mapping[ViewName, ViewDefinition] = MappingProxyType({}),
    names: Iterable[str] = (),
) -> list[ViewDefinition]:
    """The view, after the views that are kept for it, if it wants any. What is wrong with it is said of what was
    written."""
    if parsed.options.get(OPTION, "none").lower() != "auto":
        return [define(parsed, catalog, views, names)]
    return [view for _, view in taken_apart(parsed, catalog, views, names)]


def taken_apart(
    parsed: ParsedView, catalog: Catalog, views: Mapping[ViewName, ViewDefinition], names: Iterable[str]
) -> list[tuple[ParsedView, ViewDefinition]]:
    """The view after its parts, each as if it had been written so; the view alone if it has none."""
    whole = define(parsed, catalog, views, names)
    if whole.level is Level.PERIODIC:
        return [(parsed, whole)]
    known, found = dict(views), list[tuple[ParsedView, ViewDefinition]]()

    def kept(part: ParsedView) -> bool:
        try:
            view = define(part, catalog, known, [*names, *known])
        except HeadwaterError:
            return False  # of no meaning by itself
        if view.aggregation is None:
            return False
        check_free(parsed, view.name, (*names, *known))
        known[view.name] = view
        found.append((part, view))
        return True

    rest = _Parts(parsed, kept).rest()
    try:
        over = define(rest, catalog, known, [*names, *known])
    except HeadwaterError:
        return [(parsed, whole)]  # it says something that only the whole query knows
    return [*found, (rest, over)] if found and over.columns == whole.columns else [(parsed, whole)]


def check_free(parsed: ParsedView, name: str, names: Iterable[str]) -> None:
    """That no other view is called what a view kept for this one would be called."""
    if any(other.lower() == name.lower() for other in names):
        raise parsed.option_error(
            OPTION, f"what is kept for it would be called {name}, and so is another view", "rename that one"
        )


class _Parts:
    """Takes a query apart; `kept` says whether a part can be kept, and keeps it."""

    def __init__(self, parsed: ParsedView, kept: Callable[[ParsedView], bool]) -> None:
        self._parsed, self._kept, self._number = parsed, kept, 0

    def rest(self) -> ParsedView:
        """The view over its parts."""
        query = self._parsed.select.copy()
        self._queries_of_with(query)
        for node in list(query.find_all(exp.Subquery)):
            if node.root() is query.root():  # not inside of one that is kept
                self._aggregate(node)
        if isinstance(query, exp.Select) and _grouped(query):
            query = self._first_groups(query) or self._chosen_groups(query) or query
        return self._view(self._parsed.name, query)

    def _queries_of_with(self, query: exp.Expr) -> None:
        clause = query.args.get("with_")
        if clause is None or clause.args.get("recursive"):
            return
        for one in list(clause.expressions):
            name = self._keep(_called(one)) if _grouped(one.this) else ""
            if name:
                for table in _mentions(query, one):
                    if not table.alias:
                        table.set("alias", exp.TableAlias(this=exp.to_identifier(one.alias, quoted=True)))
                    table.set("this", exp.to_identifier(name))
                one.pop()
        if not clause.expressions:
            query.set("with_", None)

    def _aggregate(self, node: exp.Subquery) -> None:
        """(SELECT AVG(x) FROM t): one row, of which every row around it may depend."""
        query = node.this
        if not isinstance(query, exp.Select) or not _grouped(query) or query.args.get("group"):
            return
        if any(query.args.get(word) for word in ("limit", "offset", "order", "with_")):
            return
        inner = query.copy()
        if not isinstance(node.parent, exp.From | exp.Join) and not output_names(inner):  # nobody asks for its name
            inner.set("expressions", [exp.alias_(item.unalias(), f"value{i}") for i, item in enumerate(inner.selects)])
        name = self._keep(inner)
        if name:
            query.replace(_over(name, output_names(inner)))

    def _first_groups(self, query: exp.Select) -> exp.Select | None:
        """GROUP BY … ORDER BY … LIMIT."""
        bounds = {word: query.args.get(word) for word in ("limit", "offset")}
        if not any(bounds.values()):
            return None
        inner = query.copy()
        for word in bounds:
            inner.set(word, None)
        rows, order = apart(inner)
        if rows.args.get("order") is not None:
            return None
        name = self._keep(rows)
        if not name:
            return None
        made = _over(name, output_names(rows), order)
        for word, clause in bounds.items():
            made.set(word, clause.copy() if clause is not None else None)
        return made

    def _chosen_groups(self, query: exp.Select) -> exp.Select | None:
        """GROUP BY … HAVING a comparison with a query."""
        having = query.args.get("having")
        parts = conjuncts(having.this) if having is not None else []
        above = [part for part in parts if part.find(exp.Select) is not None]
        if not above:
            return None
        inner = query.copy()
        staying = conjunction(part.copy() for part in parts if part.find(exp.Select) is None)
        inner.set("having", exp.Having(this=staying) if staying is not None else None)
        rows, order = apart(inner)
        if rows.args.get("order") is not None or not isinstance(rows, exp.Select):
            return None
        outputs = output_names(rows)
        condition = conjunction(_over_outputs(part.copy(), rows) for part in above)
        name = self._keep(rows) if condition is not None and not _more_than(condition, rows) else ""
        if not name or condition is None:
            return None
        return _over(name, outputs, order).where(condition)

    def _keep(self, query: exp.Expr) -> str:
        """The name of the view that keeps a query; empty if none can."""
        if not output_names(query):
            return ""
        name = f"{self._parsed.name}__{self._number + 1}"
        if not self._kept(self._view(name, query, {KEPT_FOR: self._parsed.name})):
            return ""
        self._number += 1
        return name

    def _view(self, name: str, query: exp.Expr, more: Mapping[str, str] = MappingProxyType({})) -> ParsedView:
        return restated(self._parsed, name, query, more)


def restated(
    written: ParsedView, name: str, query: exp.Expr | str, more: Mapping[str, str] = MappingProxyType({})
) -> ParsedView:
    """Another query in place of the one that was written, as if it had been: its statement is stored, and read again by
    the next run."""
    options = {key: value for key, value in written.options.items() if key not in KEEPING} | dict(more)
    text = query if isinstance(query, str) else query.sql(dialect="spark", pretty=True)
    (made,) = parse_views(f"CREATE MATERIALIZED VIEW {name} AS\n{text}", written.file)
    return replace(made, options=options, line=written.line, option_lines=written.option_lines)


def _over_outputs(condition: exp.Expr, groups: exp.Select) -> exp.Expr:
    """A condition over groups as one over a view of them; what it needs and they do not show, they show."""
    keys = [key.sql() for key in (groups.args["group"].expressions if groups.args.get("group") else [])]

    def shown(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Select | exp.Subquery | exp.Literal):
            return node
        if isinstance(node, exp.Filter) or is_aggregate(node) or node.sql() in keys:
            text = node.sql()
            for item in groups.expressions:
                if item.unalias().sql() == text:
                    return exp.column(item.alias_or_name, quoted=True)
            name = f"having{len(groups.expressions) + 1}"
            groups.append("expressions", exp.alias_(node.copy(), name))
            return exp.column(name, quoted=True)
        for key, value in list(node.args.items()):
            if isinstance(value, exp.Expr):
                node.set(key, shown(value))
            elif isinstance(value, list):
                node.set(key, [shown(v) if isinstance(v, exp.Expr) else v for v in value])
        return node

    return shown(condition)


def _more_than(condition: exp.Expr, groups: exp.Select) -> bool:
    """Whether a condition still speaks of anything but outputs of the groups, by the names that it was given."""
    inside = {id(c) for query in condition.find_all(exp.Select) for c in query.find_all(exp.Column)}
    mine = [c for c in condition.find_all(exp.Column) if id(c) not in inside]
    return any(c.table or not c.this.quoted or c.name not in output_names(groups) for c in mine)


def _mentions(query: exp.Expr, one: exp.CTE) -> list[exp.Table]:
    """Where a query of WITH is read, and no other of the same name."""
    named = (table for table in query.find_all(exp.Table) if table.name.lower() == one.alias.lower())
    return [table for table in named if with_of(table) is one.parent]


def _over(name: str, outputs: Sequence[str], order: Order = ()) -> exp.Select:
    """A query of a view's columns, in an order."""
    return in_shown_order(exp.select(*(exp.column(o, quoted=True) for o in outputs)).from_(exp.to_table(name)), order)


def in_shown_order(query: exp.Select, order: Order) -> exp.Select:
    """The query, with the ORDER BY that was taken off it."""
    for column, down, first in order:
        query = query.order_by(exp.Ordered(this=exp.column(column, quoted=True), desc=down, nulls_first=first))
    return query


def _called(one: exp.CTE) -> exp.Expr:
    """A query of WITH, its outputs under the names that stand behind its own."""
    query: exp.Expr = one.this.copy()
    columns = [c.name for c in one.args["alias"].args.get("columns") or ()]
    if len(columns) == len(query.expressions):
        items = zip(query.expressions, columns, strict=True)
        query.set("expressions", [exp.alias_(item.unalias(), name, quoted=True) for item, name in items])
    return query


def _grouped(query: exp.Expr) -> bool:
    """Whether it is one grouping, of rows that it names itself."""
    if not isinstance(query, exp.Select) or query.args.get("distinct") or not query.args.get("from_"):
        return False
    return bool(query.args.get("group")) or any(has_aggregate(item) for item in query.expressions)
