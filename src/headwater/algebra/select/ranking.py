"""Window functions, and what is made of them: QUALIFY, DISTINCT ON, ORDER BY … LIMIT.

Where the order leaves rows together, ROW_NUMBER and its kin take them in the order of all their columns, so that the
same rows always give the same result. Where peers count as one (RANK, a RANGE frame) nothing is added. Rows that are
the same in every column are told apart by what was numbered before: two orders are two windows, one over the other,
because an engine that sorts twice may take such rows the other way round the second time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from sqlglot import exp

from headwater.algebra.dialect import each
from headwater.algebra.functions import function_name
from headwater.algebra.relations import Expression, Filter, Name, Project, Relation, Window, WindowCall
from headwater.algebra.select.context import Context
from headwater.algebra.select.correlation import conjunction
from headwater.algebra.select.scope import column

_ROW_BY_ROW = ("row_number", "ntile", "lag", "lead")
_PEERS = ("rank", "dense_rank", "percent_rank", "cume_dist")
_EDGES = ("last_value", "nth_value", "last")


def spelled_out(c: Context, select: exp.Select) -> exp.Select:
    """The SELECT, with every window that WINDOW names written out where it is used."""
    named = {w.name.lower(): w for w in select.args.get("windows") or []}

    def spell(node: exp.Expr) -> None:
        if isinstance(node, exp.Query):
            return
        if isinstance(node, exp.Window) and node.args.get("alias") is not None:
            _spell(c, node, named)
        for part in node.iter_expressions():
            spell(part)

    select = select.copy()
    for part in select.iter_expressions():
        if part.arg_key != "windows":
            spell(part)
    return select


def _spell(c: Context, node: exp.Window, named: dict[str, exp.Expr]) -> None:
    name = node.args["alias"]
    node.set("alias", None)
    while name is not None:
        base = named.get(name.name.lower())
        if base is None:
            raise c.parsed.error(f"there is no window {name.name!r}", "define it: WINDOW name AS (…)", node)
        for key in ("partition_by", "order", "spec"):
            theirs = base.args.get(key)
            if theirs and not node.args.get(key):
                node.set(key, [e.copy() for e in theirs] if isinstance(theirs, list) else theirs.copy())
        name = base.args.get("alias")


def windows(c: Context, relation: Relation, found: list[Expression]) -> tuple[Relation, list[Expression]]:
    """The expressions, with a column in place of every window function, over a relation that has it."""
    calls: dict[str, tuple[tuple[Expression, ...], WindowCall]] = {}

    def replaced(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Query) and not isinstance(node, exp.Table):
            return node
        if not isinstance(node, exp.Window):
            return each(node, replaced)
        text = node.sql("spark")
        if text not in calls:
            calls[text] = _call(c, node)
        return column(calls[text][1].name)

    new = [replaced(e.copy()) for e in found]
    if not calls:
        return relation, new
    relation, partitions = _partitioned(c, relation, [by for by, _ in calls.values()])
    for partition, mine in _together(partitions, [call for _, call in calls.values()]):
        relation = Window(relation, partition, mine)
    return relation, new


def _together(
    partitions: Sequence[tuple[Name, ...]], calls: Sequence[WindowCall]
) -> Iterator[tuple[tuple[Name, ...], tuple[WindowCall, ...]]]:
    """Which calls are one window: those of one partition that take its rows in one order, or do not mind."""
    for partition in dict.fromkeys(partitions):
        mine = [call for by, call in zip(partitions, calls, strict=True) if by == partition]
        orders = dict.fromkeys(_order(call) for call in mine if call.ties) or {"": None}
        first = next(iter(orders))
        for order in orders:
            yield partition, tuple(c for c in mine if (_order(c) if c.ties else first) == order)


def _order(call: WindowCall) -> str:
    return ", ".join(e.sql("spark") for e in call.order)


def _partitioned(
    c: Context, relation: Relation, wanted: Sequence[tuple[Expression, ...]]
) -> tuple[Relation, list[tuple[Name, ...]]]:
    """The relation with a column for everything that is partitioned by."""
    more: dict[str, tuple[Name, Expression]] = {}
    result: list[tuple[Name, ...]] = []
    for by in wanted:
        names = []
        for e in by:
            if isinstance(e, exp.Column) and e.name in relation.columns:  # else of a query around: one value for all
                names.append(e.name)
            else:
                names.append(more.setdefault(e.sql("spark"), (c.fresh(), e))[0])
        result.append(tuple(dict.fromkeys(names)))
    if more:
        relation = Project(relation, (*((n, column(n)) for n in relation.columns), *more.values()))
    return relation, result


def _call(c: Context, node: exp.Window) -> tuple[tuple[Expression, ...], WindowCall]:
    by = list(node.args.get("partition_by") or [])
    order = list(node.args["order"].expressions) if node.args.get("order") else []
    spec = node.args.get("spec")
    function = node.this
    bare = function
    while isinstance(bare, exp.IgnoreNulls | exp.RespectNulls | exp.Filter):
        bare = bare.this
    word = function_name(bare)
    frame = _frame(spec)
    rows = spec is not None and str(spec.args.get("kind", "")).upper() == "ROWS"
    if word in ("first", "last") or (word in _EDGES and order and not rows):
        raise c.parsed.error(
            f"cannot maintain {word.upper()}() over peers: which of them comes last is not said",
            f"write {word.upper()}(x) OVER (… ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)",
            node,
        )
    ties = word in _ROW_BY_ROW or word == "first_value" or (rows and word not in _PEERS)
    if not order and word in (*_ROW_BY_ROW, "first_value", *_EDGES):
        ties = True
    c.exact = c.exact and not ties
    call = WindowCall(c.fresh(), function, tuple(order), frame, ties)
    return tuple(by), call


def _frame(spec: exp.Expr | None) -> str:
    if spec is None:
        return ""

    def end(which: str, default: str) -> str:
        value, side = spec.args.get(which), spec.args.get(f"{which}_side") or ""
        if value is None:
            return default
        text = value if isinstance(value, str) else value.sql("spark")
        return f"{text} {side}".strip()

    return f"{spec.args['kind']} BETWEEN {end('start', 'UNBOUNDED PRECEDING')} AND {end('end', 'CURRENT ROW')}"


def first_rows(c: Context, relation: Relation, order: Sequence[Expression], limit: int | None, offset: int) -> Relation:
    """ORDER BY … LIMIT … OFFSET: a ranking and a filter. Ties are decided by all columns."""
    if limit is None and not offset:
        return relation
    rank = c.fresh()
    c.exact = False
    return _ranked(relation, (), WindowCall(rank, _row_number(), tuple(order), "", True), limit, offset)


def first_of_each(c: Context, relation: Relation, by: tuple[Name, ...], order: Sequence[Expression]) -> Relation:
    """DISTINCT ON: of each combination the first row."""
    c.exact = False
    return _ranked(relation, by, WindowCall(c.fresh(), _row_number(), tuple(order), "", True), 1, 0)


def _row_number() -> Expression:
    return exp.Anonymous(this="row_number")


def _ranked(relation: Relation, by: tuple[Name, ...], call: WindowCall, limit: int | None, offset: int) -> Relation:
    place = column(call.name)
    parts: list[Expression] = []
    if limit is not None:
        parts.append(exp.LTE(this=place.copy(), expression=exp.Literal.number(limit + offset)))
    if offset:
        parts.append(exp.GT(this=place.copy(), expression=exp.Literal.number(offset)))
    condition = conjunction(parts)
    assert condition is not None
    ranked = Filter(Window(relation, by, (replace(call),)), condition)
    return Project(ranked, tuple((n, column(n)) for n in relation.columns))
