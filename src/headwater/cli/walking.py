"""Where a change of each relation of a view travels, and what it asks on its way: the wave's walk, for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from headwater.model.names import TableName
from headwater.model.schema import TableSchema

if TYPE_CHECKING:
    from headwater.algebra.view import ViewDefinition
    from headwater.runtime.project.plan import ViewPlan


MANY = 10**9
"""A view is looked up by whatever is asked for, however much it is."""


@dataclass(frozen=True)
class Lookup:
    """A way in which questions reach a table: by these columns (none: the whole table is read), with the conditions
    pushed along. Up to `asks` keys are asked for, more make a scan cheaper; `index` says whether one serves the key."""

    table: TableName
    columns: tuple[str, ...]
    conditions: tuple[str, ...]
    index: bool
    asks: int
    indexable: bool = True
    """Whether there could be an index at all."""
    quote: str = '"'


@dataclass(frozen=True)
class Together:
    """Tables of one source that are asked in one question, by these columns."""

    tables: tuple[TableName, ...]
    columns: tuple[str, ...]

    def __str__(self) -> str:
        return " ⋈ ".join(map(str, self.tables))


@dataclass(frozen=True)
class Meeting:
    """One step of a partial result: the occurrence it meets next, and on what."""

    alias: str
    on: tuple[str, ...]


@dataclass(frozen=True)
class Walk:
    """Where the changes of a view's relations travel, and what they ask."""

    orders: Mapping[str, Sequence[Meeting]]
    lookups: Sequence[Lookup]
    questions: int
    to_sources: int
    """Those of the questions that no view answers."""
    together: Sequence[Together] = ()
    for_themselves: int = 0


def walk_of(view: ViewDefinition, plan: ViewPlan, schemas: Mapping[TableName, TableSchema], join: bool) -> Walk:
    """A change of a block's table meets the others of the block first, then what the block meets."""
    from headwater.maintenance.blocks import contracted

    leading = {t: frozenset(i[0] for i in (s.key, *s.indexes) if i) for t, s in schemas.items() if not t.is_view}
    made = contracted(view, plan.schemas, leading) if join else None
    if made is None:
        return _walked(view, schemas)
    blocks = {table: tuple(o.alias for o in block.view.occurrences) for table, block in made.blocks.items()}
    called = {o.alias: " ⋈ ".join(blocks[o.table]) for o in made.view.occurrences if o.table in blocks}
    outer = _walked(made.view, schemas, called)
    inner = {table: _walked(block.view, schemas) for table, block in made.blocks.items()}
    orders: dict[str, Sequence[Meeting]] = {}
    for o in made.view.occurrences:
        if o.table not in blocks:
            orders[o.alias] = outer.orders[o.alias]
        for alias in blocks.get(o.table, ()):
            orders[alias] = [*inner[o.table].orders[alias], *outer.orders[o.alias]]
    return Walk(
        {o.alias: orders[o.alias] for o in view.occurrences},
        list({(k.table, k.columns, k.conditions): k for w in (outer, *inner.values()) for k in w.lookups}.values()),
        outer.questions,
        outer.to_sources,
        [
            Together(tuple(o.table for o in made.blocks[joined.tables[0]].view.occurrences), joined.columns)
            for joined in outer.together
        ],
        sum(walk.questions for walk in inner.values()),
    )


def _walked(
    view: ViewDefinition, schemas: Mapping[TableName, TableSchema], called: Mapping[str, str] = MappingProxyType({})
) -> Walk:
    """`called` are the aliases of blocks, and what a person calls them; their columns have their core names."""
    from headwater.maintenance.graph import steps

    orders: dict[str, list[Meeting]] = {o.alias: [] for o in view.occurrences}
    lookups: dict[tuple[TableName, tuple[str, ...], tuple[str, ...]], Lookup] = {}
    together: dict[Together, None] = {}

    def core(name: str) -> str:
        return next((name.removeprefix(f"{alias}.") for alias in called if name.startswith(f"{alias}.")), name)

    walk = steps(view)
    for step in walk:
        target = view.occurrences[step.target]
        on = tuple(f"{core(target.core(far))} = {core(near)}" for near, far in zip(step.near, step.far, strict=True))
        for origin in sorted(step.origins):
            orders[view.occurrences[origin].alias].append(Meeting(called.get(target.alias, target.alias), on))
        if target.alias in called:
            together[Together((target.table,), step.far)] = None
        else:
            conditions = tuple(map(str, target.conditions))
            lookups[target.table, step.far, conditions] = lookup_of(schemas[target.table], step.far, conditions)
    asked = sum(not view.occurrences[step.target].table.is_view for step in walk)
    return Walk(orders, list(lookups.values()), len(walk), asked, list(together))


def lookup_of(table: TableSchema, key: tuple[str, ...], conditions: tuple[str, ...]) -> Lookup:
    from headwater.runtime.compute.asking import ASK_COST

    if table.name.is_view:
        return Lookup(table.name, key, conditions, bool(key), MANY if key else 0)
    index = any(leading[0] in key for leading in (table.key, *table.indexes) if leading)
    asks = (table.rows or 0) // ASK_COST if key else 0
    return Lookup(table.name, key, conditions, index, asks, table.indexable, table.quote)
