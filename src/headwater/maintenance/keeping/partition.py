"""A block of joins over auxiliary views (Liang, Yu: Parallel Maintenance on PC Clusters, equations 2 to 5).

    AVk = π_X(k) σ_P(k) (the tables of group k)           a view of its own, kept and looked up
    V   = π_X σ_P (AV0 ⋈ AV1 ⋈ … ⋈ AV(K−1))               the view, over those

P(k) are the clauses that speak of group k alone, of whatever form; they are not said again above. X(k) are the columns
that the rest needs: outputs, groups, HAVING and the clauses between groups. A table that is in no group stays as it is.

Invariant: bags of rows, so counts multiply as in the query as written, and V over the AVs is V, state by state.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from headwater.algebra.auxiliary import in_shown_order
from headwater.algebra.names import Bound, Names
from headwater.algebra.query import Query, resolve_query
from headwater.algebra.refusals import is_block
from headwater.algebra.select.correlation import conjunction, conjuncts
from headwater.algebra.shown_order import Order, apart
from headwater.maintenance.keeping.groups import Clause, JoinGraph
from headwater.model.names import TableName, view_table

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_]*")

Column = tuple[str, str]
"""(alias, column) of a block."""


@dataclass(frozen=True)
class Block:
    """A view's query, resolved: its tables (`query.scope.bounds`), and the conjuncts of all it says of them."""

    query: Query
    clauses: tuple[exp.Expr, ...]
    order: Order

    @property
    def bounds(self) -> tuple[Bound, ...]:
        return self.query.scope.bounds

    def graph(self, changes: Mapping[TableName, int]) -> JoinGraph:
        rows = [bound.schema.rows for bound in self.bounds]
        changed = [changes.get(bound.schema.name, 0) for bound in self.bounds]
        return JoinGraph(rows, changed, [self._clause(clause) for clause in self.clauses])

    def _clause(self, clause: exp.Expr) -> Clause:
        place = {bound.alias: bound for bound in self.bounds}
        over = frozenset(place[alias].index for alias in _aliases(clause))
        ends = [clause.this, clause.expression] if isinstance(clause, exp.EQ) else []
        equality = len(over) == 2 and len(ends) == 2 and all(isinstance(end, exp.Column) for end in ends)
        unique = [place[end.table] for end in ends if equality and place[end.table].schema.key == (end.name,)]
        return Clause(over, equality, frozenset(bound.index for bound in unique))


def block_of(names: Names) -> Block | None:
    """The view's query as a block of joins; None if it is more than that."""
    select, order = apart(names.parsed.select)
    if not isinstance(select, exp.Select) or not is_block(select):
        return None
    query = resolve_query(select, names)
    return Block(query, tuple(c for tree in query.conditions for c in conjuncts(tree)), order)


@dataclass(frozen=True)
class Stand:
    """A view that stands in place of tables: called `alias` in FROM. `columns` are what it calls theirs, `said` the
    clauses that it has applied (by their place)."""

    view: str
    alias: str
    tables: tuple[int, ...]
    columns: Mapping[Column, str]
    said: frozenset[int]
    table: TableName | None = None
    """What it is called, if it is no view."""


def auxiliary_view(
    block: Block, group: Sequence[int], view: str, only: Collection[int] | None = None
) -> tuple[exp.Select, Stand]:
    """AVk of a group, and how it stands in the view. It applies all that is said of the group, or `only` some of it."""
    members = [block.bounds[i] for i in group]
    aliases = {bound.alias for bound in members}
    inside = [i for i, clause in enumerate(block.clauses) if _aliases(clause) and _aliases(clause) <= aliases]
    inside = [i for i in inside if only is None or i in only]
    needed = [column for column in needed_columns(block, frozenset(inside)) if column[0] in aliases]
    if not needed:
        needed = [(members[0].alias, members[0].schema.supported()[0].name)]
    columns: dict[Column, str] = {}
    for alias, name in needed:
        columns[alias, name] = _called(alias, name, columns)
    outputs = [exp.alias_(_column(a, c), called, quoted=True) for (a, c), called in columns.items()]
    made = exp.select(*outputs)
    _set_from(made, [written_table(bound.schema.name, bound.alias) for bound in members])
    _set_where(made, [block.clauses[i] for i in inside])
    return made, Stand(view, view, tuple(group), columns, frozenset(inside))


def over(block: Block, stands: Sequence[Stand]) -> exp.Select:
    """The view over what stands in place of its tables."""
    stood = {i: stand for stand in stands for i in stand.tables}
    columns = {column: (stand.alias, called) for stand in stands for column, called in stand.columns.items()}
    said = frozenset[int]().union(*(stand.said for stand in stands))
    made = block.query.select.copy()
    tables: list[exp.Expr] = []
    for bound in block.bounds:
        stand = stood.get(bound.index)
        if stand is None:
            tables.append(written_table(bound.schema.name, bound.alias))
        elif bound.index == stand.tables[0]:
            tables.append(written_table(stand.table or view_table(stand.view), stand.alias))
    _set_from(made, tables)
    _set_where(made, [clause for i, clause in enumerate(block.clauses) if i not in said])
    for node in list(made.find_all(exp.Column)):
        if (node.table, node.name) in columns:
            node.replace(_column(*columns[node.table, node.name]))
    return in_shown_order(made, block.order)


def needed_columns(block: Block, said: frozenset[int] = frozenset()) -> list[Column]:
    """What the select list, GROUP BY, HAVING and the clauses that are not said elsewhere need, as tables list it."""
    select = block.query.select
    trees = [*select.expressions, *(t for t in (select.args.get("group"), select.args.get("having")) if t is not None)]
    trees += [clause for i, clause in enumerate(block.clauses) if i not in said]
    used = {(c.table, c.name) for tree in trees for c in tree.find_all(exp.Column)}
    return [(b.alias, c.name) for b in block.bounds for c in b.schema.columns if (b.alias, c.name) in used]


def _aliases(clause: exp.Expr) -> set[str]:
    return {column.table for column in clause.find_all(exp.Column)}


def _called(alias: str, column: str, taken: Mapping[Column, str]) -> str:
    """A name for a column of an auxiliary view: its own with its alias, where that is a name and no other's."""
    name = f"{alias}_{column}"
    known = {other.lower() for other in taken.values()}
    if _PLAIN.fullmatch(name) and name.lower() not in known:
        return name
    return next(n for n in (f"c{i}" for i in range(len(known) + 1)) if n not in known)


def _column(alias: str, name: str) -> exp.Column:
    return exp.column(name, table=alias, quoted=True)


def written_table(name: TableName, alias: str = "") -> exp.Expr:
    """A table, as somebody would write it."""
    if name.is_view:
        table = exp.table_(name.table, quoted=True)
    elif name.schema:
        table = exp.table_(name.table, name.schema, name.source, quoted=True)
    else:
        table = exp.table_(name.table, name.source, quoted=True)
    return exp.alias_(table, alias, quoted=True, table=True) if alias else table


def _set_from(select: exp.Select, tables: Sequence[exp.Expr]) -> None:
    select.set("from_", exp.From(this=tables[0]))
    select.set("joins", [exp.Join(this=table, kind="CROSS") for table in tables[1:]])


def _set_where(select: exp.Select, clauses: Sequence[exp.Expr]) -> None:
    condition = conjunction(clauses)
    select.set("where", exp.Where(this=condition) if condition is not None else None)
