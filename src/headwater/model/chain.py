"""A chain: tables of sources that have agents, joined with their neighbours, as Pure-Push and Pull-Push see them
(Adly, Taha, Nagi, Samaan 2002, section 2).

    R1 ⋈ R2 ⋈ … ⋈ Rn        one table at each of n sources; what they join by is between neighbours

To everybody else the join is a table of a source of its own, `chain_VIEW`, whose transactions are windows: what agents
bring about between themselves is told as the changes of that table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa

from headwater.model.conditions import Condition
from headwater.model.names import SourceName, TableName, ViewName
from headwater.model.schema import Column, TableSchema

ROWS = "rows"
"""The only table of a chain."""
PURE_PUSH = "pure-push"
"""The algorithm whose members begin windows by themselves; any other is asked for them."""


@dataclass(frozen=True)
class ChainMember:
    """Ri: the columns that the view needs of a table, of rows that meet the conditions."""

    table: TableName
    columns: tuple[str, ...]
    conditions: tuple[Condition, ...] = ()
    types: tuple[pa.DataType, ...] = ()
    """Those of the columns, as the source tells them now."""

    @property
    def source(self) -> SourceName:
        return self.table.source

    @property
    def schema(self) -> pa.Schema:
        return pa.schema(list(zip(self.columns, self.types, strict=True)))


@dataclass(frozen=True)
class Chain:
    """`how` is the algorithm, `window` its Update_Window in seconds. `equalities` are between (member, column) and
    (member, column). `columns` are those of the join: name, member, column. `query` says it as SQL."""

    view: ViewName
    how: str
    window: float
    members: tuple[ChainMember, ...]
    equalities: tuple[tuple[int, str, int, str], ...]
    columns: tuple[tuple[str, int, str], ...]
    query: str = ""

    @property
    def source(self) -> SourceName:
        return SourceName(f"chain_{self.view}")

    @cached_property
    def table(self) -> TableName:
        return TableName(self.source, ROWS)

    def typed(self, tables: Mapping[TableName, TableSchema]) -> Chain:
        """The same with the types that the sources tell now."""

        def member(one: ChainMember) -> ChainMember:
            kinds = {column.name: column.type for column in tables[one.table].columns}
            return replace(one, types=tuple(kinds[name] for name in one.columns))

        return replace(self, members=tuple(member(one) for one in self.members))

    def described(self, tables: Mapping[TableName, TableSchema]) -> TableSchema:
        """The join as a table."""
        found = []
        for name, place, column in self.columns:
            own = tables[self.members[place].table].column(column)
            assert own is not None, f"{self.members[place].table} has no column {column}"
            found.append(Column(name, own.type, own.declared, own.nullable))
        return TableSchema(self.table, tuple(found))


@dataclass(frozen=True)
class ChainEpoch:
    """A chain at work: what everybody who takes part is told. Whoever begins it counts epochs; messages of an earlier
    one mean nothing any more, so that one who has forgotten what was under way begins a new one and is safe.

    `since` is the window up to which the view has everything, `first` the number of the next one: later than any that a
    member has pinned, because whoever asked for that one may be gone. `agents` are those beside the members, `options`
    what their adapters are called with."""

    number: int
    since: int
    first: int
    chain: Chain
    agents: tuple[str, ...]
    options: tuple[tuple[tuple[str, str], ...], ...]
