"""Tables read in copies: what views need of them is kept in the warehouse, and nobody is asked.

    CREATE MATERIALIZED VIEW shop__orders AS SELECT id, customer, qty FROM shop.orders WHERE status = 'open'

A copy needs nothing but the changes of its table to be maintained, so a view that reads copies in place of tables asks
nothing of their sources. One copy serves every view: it has the columns that any of them uses, and the rows that any
of them may look at (only conditions that all of them make are applied).

*The smallest set.* A question reaches a table when something that it is joined, grouped or compared with changes. So a
table must be kept if a view asks for it at all, and a copy of it is enough: a join of several would need those tables
themselves to be maintained. Tables of which a view needs nothing but their changes (a view of one table, the arms of
UNION ALL) are not asked, and not kept; neither is what others are joined with that do not change (`relying`).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from sqlglot import exp

from headwater.algebra.conditions import take_apart
from headwater.algebra.names import Catalog, Names
from headwater.algebra.relations import (
    Filter,
    Generate,
    Join,
    JoinKind,
    Project,
    Relation,
    Table,
    Union,
    children,
    tables,
)
from headwater.algebra.trees import table_mentions
from headwater.algebra.view import Reliance, ViewDefinition
from headwater.maintenance.keeping.partition import Block, Stand, block_of, needed_columns, over, written_table
from headwater.model.conditions import Condition, Scalar
from headwater.model.names import CLOCK, TableName
from headwater.model.schema import TableSchema

_LINEAR = (Filter, Project, Generate, Union)
_COMPARED: dict[str, type[exp.Expr]] = {
    "=": exp.EQ, "<>": exp.NEQ, "<": exp.LT, "<=": exp.LTE, ">": exp.GT, ">=": exp.GTE,
}  # fmt: skip


def asked_tables(view: ViewDefinition) -> frozenset[TableName]:
    """The tables of sources that maintaining the view asks for rows."""
    asked: Iterable[TableName]
    if view.tree is None:
        relied = {r.occurrence for r in view.relies}
        begin = [i for i in range(len(view.occurrences)) if i not in relied]
        asked = [o.table for j, o in enumerate(view.occurrences) if any(i != j for i in begin)]
    else:
        still = frozenset(view.occurrences[r.occurrence].table for r in view.relies if r.on is Reliance.NEVER)
        asked = _asked(view.tree, False, still)
    return frozenset(t for t in asked if not t.is_view and t.source != CLOCK)


def _asked(node: Relation, below: bool, still: frozenset[TableName]) -> Iterable[TableName]:
    """The tables below a node that something asks for: the node itself, or what stands above it (`below`)."""
    if isinstance(node, Table):
        return [node.table] if below else []
    if isinstance(node, Join):
        sides = _met_sides(node, still)
        parts = zip((node.left, node.right), sides, strict=True)
        return [table for child, met in parts for table in _asked(child, below or met, still)]
    inner = below or not (isinstance(node, _LINEAR) or _is_still(node, still))
    return [table for child in children(node) for table in _asked(child, inner, still)]


def _met_sides(node: Join, still: frozenset[TableName]) -> tuple[bool, bool]:
    """Whether a join asks for its left side, and for its right side: for what the other's changes meet. Whether a row
    has a match is asked of the right side also when that side changed; of a full join, of both."""
    left, right = not _is_still(node.left, still), not _is_still(node.right, still)
    if node.kind is JoinKind.INNER:
        return right, left
    return (right, left or right) if node.kind is not JoinKind.FULL else (left or right, left or right)


def _is_still(node: Relation, still: frozenset[TableName]) -> bool:
    found = tables(node)
    return bool(found) and all(table.table in still for table in found)


@dataclass(frozen=True)
class Use:
    """What a view needs of a table: these columns of the rows that meet the conditions."""

    table: TableName
    columns: frozenset[str]
    conditions: frozenset[Condition]


def uses(view: ViewDefinition, written: exp.Expr, wanted: Iterable[TableName], catalog: Catalog) -> list[Use]:
    """What a view needs of these tables. Where it says `*`, what that means must stay what it is; and a tree is built
    from its text, which may mention columns that it then has no use for."""
    everything = any(isinstance(star.parent, exp.Select | exp.Column) for star in written.find_all(exp.Star))
    mentioned = {name.name.lower() for name in written.find_all(exp.Identifier)} if view.tree is not None else set()
    found = []
    for table in sorted(wanted):
        mentions = [o for o in view.occurrences if o.table == table]
        columns = {c for o in mentions for c in (*o.columns, *(k.column for k in o.conditions))}
        schema = catalog.resolve(table.source, table.schema, table.table)
        columns |= {c.name for c in schema.supported() if everything or c.name.lower() in mentioned}
        conditions = frozenset.intersection(*(frozenset(o.conditions) for o in mentions))
        found.append(Use(table, frozenset(columns), frozenset(c for c in conditions if _sayable(c))))
    return found


@dataclass(frozen=True)
class Copy:
    """A view that holds what is needed of a table."""

    view: str
    table: TableName
    columns: tuple[str, ...]
    conditions: frozenset[Condition]

    def serves(self, use: Use) -> bool:
        return self.table == use.table and use.columns <= set(self.columns) and self.conditions <= use.conditions

    def query(self) -> exp.Select:
        made = exp.select(*(exp.column(c, quoted=True) for c in self.columns)).from_(written_table(self.table))
        for condition in sorted(self.conditions, key=str):
            made = made.where(said(condition))
        return made


def smallest_copy(view: str, schema: TableSchema, found: Sequence[Use]) -> Copy:
    """One copy that serves them all. `*` takes columns in the order of the table."""
    columns = frozenset[str]().union(*(use.columns for use in found))
    shared = frozenset.intersection(*(use.conditions for use in found))
    return Copy(view, schema.name, tuple(c.name for c in schema.columns if c.name in columns), shared)


def copy_in(view: ViewDefinition) -> Copy | None:
    """A view that is a copy of a table, as it was defined earlier."""
    if view.kept_for is None or view.tree is not None or view.aggregation or view.residual:
        return None
    if len(view.occurrences) != 1 or view.occurrences[0].table.is_view:
        return None
    (only,) = view.occurrences
    if any(o.expression != f"`{only.core(o.name)}`" for o in view.outputs):
        return None
    return Copy(str(view.name), only.table, view.columns, frozenset(only.conditions))


def over_copies(names: Names, copies: Mapping[TableName, Copy]) -> exp.Expr | str:
    """The view's query, with copies in place of these tables."""
    block = block_of(names)
    if block is None:
        return _retold(names, copies)
    needed = needed_columns(block)
    stands = [
        Stand(
            copies[bound.schema.name].view,
            bound.alias,
            (bound.index,),
            {(alias, column): column for alias, column in needed if alias == bound.alias},
            _applied(block, bound.index, copies[bound.schema.name]),
        )
        for bound in block.bounds
        if bound.schema.name in copies
    ]
    return over(block, stands)


def _retold(names: Names, copies: Mapping[TableName, Copy]) -> str:
    """The text of a query, with nothing changed but the names of tables: a tree may say what Spark's own SQL has no
    words for, so it is not written anew. Columns that are called by a table's full name are called by its own."""
    parsed = names.parsed
    changed: list[tuple[int, int, str]] = []
    whole: set[tuple[str, ...]] = set()
    for table in table_mentions(parsed.select):
        copy = copies.get(names.table(table).name)
        if copy is None:
            continue
        parts = [part.name for part in table.parts]
        alias = "" if table.alias else f" AS {_quoted(parts[-1])}"
        changed.append((*_span(table.parts), f"{_quoted(copy.view)}{alias}"))
        if not table.alias:
            whole.add(tuple(part.lower() for part in parts))
    for column in parsed.select.find_all(exp.Column):
        around = column.parts[:-1]
        if len(around) > 1 and tuple(part.name.lower() for part in around) in whole:
            changed.append((*_span(around), _quoted(around[-1].name)))
    text, start = parsed.text, parsed.tokens[0].start
    for begin, end, word in sorted(changed, reverse=True):
        text = text[: begin - start] + word + text[end - start + 1 :]
    return text


def _span(parts: Sequence[exp.Expr]) -> tuple[int, int]:
    """Where a name of several parts begins and ends in the text; quotes around its parts belong to them."""
    return int(parts[0].meta["start"]), int(parts[-1].meta["end"])


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _applied(block: Block, table: int, copy: Copy) -> frozenset[int]:
    """The clauses of a block that a copy has applied to this table."""
    found = []
    for i, clause in enumerate(block.clauses):
        pieces = take_apart([clause], block.query.scope)
        mine = pieces.conditions[table]
        others = any(c for n, c in enumerate(pieces.conditions) if n != table)
        if mine and not pieces.residual and not pieces.equalities and not others and set(mine) <= copy.conditions:
            found.append(i)
    return frozenset(found)


def said(condition: Condition) -> exp.Expr:
    """A condition as a view says it."""
    column = exp.column(condition.column, quoted=True)
    if condition.operator == "is null":
        return exp.Is(this=column, expression=exp.Null())
    if condition.operator == "is not null":
        return exp.Not(this=exp.Is(this=column, expression=exp.Null()))
    if condition.operator == "in":
        assert isinstance(condition.value, tuple)
        return exp.In(this=column, expressions=[_literal(value) for value in condition.value])
    assert condition.value is not None
    assert not isinstance(condition.value, tuple)
    return _COMPARED[condition.operator](this=column, expression=_literal(condition.value))


def _sayable(condition: Condition) -> bool:
    return not isinstance(condition.value, dt.datetime)


def _literal(value: Scalar) -> exp.Expr:
    if isinstance(value, bool):
        return exp.Boolean(this=value)
    if isinstance(value, str):
        return exp.Literal.string(value)
    if isinstance(value, dt.date):
        return exp.cast(exp.Literal.string(value.isoformat()), "date")
    number = exp.Literal.number(format(abs(value), "f") if isinstance(value, Decimal) else str(abs(value)))
    return exp.Neg(this=number) if value < 0 else number
