"""A view, taken apart: what the maintenance algorithms need to know of its SQL.

    V = π σ (T1 ⋈ … ⋈ Tn)            outputs, residual, occurrences, equalities
    V = γ π σ (T1 ⋈ … ⋈ Tn)          … and an aggregation on top (DISTINCT is one without aggregate calls)
    V = γ π σ (tree)                 … over a tree of relations, where the query is more than that (`trees`)

`T1 … Tn` are *occurrences*: a table named twice occurs twice. The join of the occurrences is the view's *core*; its
columns are called `alias.column`, and every expression below is Spark SQL over those names. A view may stand where a
table does; then it is a table of VIEWS whose columns are UNTYPED.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cached_property

import pyarrow as pa

from headwater.algebra.aggregates import AGGREGATES, Aggregate, AggregateFunction, Quantile, percentile
from headwater.algebra.relations import Relation
from headwater.model.chain import Chain
from headwater.model.conditions import Condition
from headwater.model.consistency import Level
from headwater.model.names import TableName, ViewName, view_table
from headwater.model.schema import Column, TableSchema

UNTYPED = pa.null()
"""The type of a view's columns where another view reads it: they have one, but only Spark knows it."""


def quoted(name: str) -> str:
    """An identifier as Spark SQL writes it."""
    return "`" + name.replace("`", "``") + "`"


@dataclass(frozen=True)
class Occurrence:
    """One mention of a table. `columns` are those the view needs, `conditions` those on this occurrence alone that can
    be pushed to its source."""

    alias: str
    table: TableName
    columns: tuple[str, ...]
    conditions: tuple[Condition, ...] = ()

    def core(self, column: str) -> str:
        """The column's name in the core."""
        return f"{self.alias}.{column}"


@dataclass(frozen=True)
class Equality:
    """A join condition `left = right` between plain columns; each side is (index of the occurrence, column)."""

    left: tuple[int, str]
    right: tuple[int, str]


class Reliance(Enum):
    """What a view counts on, of the changes of an occurrence, so that less must be asked for."""

    NEVER = "never"
    """It does not change."""
    PARENT = "parent"
    """Rows only come to it, and every row that joins it by its key finds one there, whenever it comes."""
    DELETES = "deletes"
    """Rows only go from it, and the view shows its key."""


@dataclass(frozen=True)
class Relied:
    """The occurrence with this number is relied on. `table` is what the project's settings call it. `shown`: the places
    of the view's columns that are its key, where rows are taken out by it."""

    occurrence: int
    on: Reliance
    table: str
    shown: tuple[int, ...] = ()

    def __str__(self) -> str:
        """As a stored statement has it."""
        on = ":".join([self.on.value, *map(str, self.shown)])
        return f"{self.occurrence} {on} {self.table.replace(chr(39), '').replace(';', '')}"

    @staticmethod
    def read(text: str) -> Relied:
        number, on, table = text.strip().split(" ", 2)
        word, *shown = on.split(":")
        return Relied(int(number), Reliance(word), table, tuple(map(int, shown)))


@dataclass(frozen=True)
class KeyShown:
    """The key of a table, and the columns of the view that show it."""

    table: TableName
    columns: tuple[str, ...]
    shown: tuple[str, ...]


@dataclass(frozen=True)
class Output:
    """A named Spark SQL expression."""

    name: str
    expression: str


@dataclass(frozen=True)
class AggregateCall:
    """`function([DISTINCT] argument)`; `argument` names one of the aggregation's arguments, None for COUNT(*).
    `quantile`: which of the ordered values a percentile is."""

    name: str
    function: AggregateFunction
    argument: str | None = None
    distinct: bool = False
    quantile: Quantile | None = None

    @property
    def aggregate(self) -> Aggregate:
        return AGGREGATES[self.function] if self.quantile is None else percentile(self.quantile)

    @property
    def sql(self) -> str:
        """In Spark SQL, over its argument's name."""
        argument = "*" if self.argument is None else quoted(self.argument)
        if self.quantile is None:
            return f"{self.function}({'DISTINCT ' if self.distinct else ''}{argument})"
        name, down = "disc" if self.quantile.discrete else "cont", " DESC" if self.quantile.descending else ""
        return f"percentile_{name}({self.quantile.at!r}D) WITHIN GROUP (ORDER BY {argument}{down})"


@dataclass(frozen=True)
class Aggregation:
    """`keys` (key0, key1, …) and `arguments` (arg0, …) are expressions over the core; `outputs` and `having` over the
    names of keys and calls (agg0, …)."""

    keys: tuple[Output, ...]
    arguments: tuple[Output, ...]
    calls: tuple[AggregateCall, ...]
    outputs: tuple[Output, ...]
    having: str = ""


@dataclass(frozen=True)
class ViewDefinition:
    name: ViewName
    level: Level
    occurrences: tuple[Occurrence, ...]
    equalities: tuple[Equality, ...]
    residual: tuple[str, ...]
    """Conditions evaluated by Spark SQL on the joined rows, over core columns."""
    outputs: tuple[Output, ...]
    """The view's columns over the core; with an aggregation, look there instead."""
    aggregation: Aggregation | None
    recompute: str
    """The whole query as Spark SQL; each table is a relation called by its full name, `shop.public.orders`, and each
    view that it reads by its own, `open_orders`."""
    text: str
    """The query as its author wrote it."""
    file: str = ""
    line: int = 1
    every: int = 1
    """With level COMPLETE: every so many transactions are a state of the view (complete-N); 1 is plain completeness."""
    schedule: str = ""
    """With level PERIODIC: when it is recomputed, an interval or five cron fields."""
    tree: Relation | None = None
    """Where the core is more than a join of the occurrences: the tree that makes it. Its columns are the core's, its
    tables the occurrences, and there are no equalities and no residual."""
    order: tuple[tuple[str, bool, bool], ...] = ()
    """The order in which rows are shown: (column, descending, NULLs first) each."""
    kept_for: ViewName | None = None
    """The view for whose maintenance it is kept, if nobody wrote it (`auxiliary`)."""
    maintenance: str = "wave"
    """Which algorithm maintains it (`methods`)."""
    parallel: int = 1
    """How many updates that algorithm handles at a time."""
    chain: Chain | None = None
    """The chain of agents that brings about the only table it reads (Pure-Push, Pull-Push)."""
    relies: tuple[Relied, ...] = ()
    """What was promised of its tables, and used to keep less (`maintenance/keeping/relying`)."""

    @property
    def columns(self) -> tuple[str, ...]:
        outputs = self.aggregation.outputs if self.aggregation else self.outputs
        return tuple(o.name for o in outputs)

    @property
    def carried(self) -> frozenset[str]:
        """The core columns that some expression mentions; the others only join."""
        if self.tree is not None:
            return frozenset(self.tree.columns)
        said = [*self.residual, *(o.expression for o in self.outputs)]
        if self.aggregation:
            said += [o.expression for o in (*self.aggregation.keys, *self.aggregation.arguments)]
        core = (o.core(c) for o in self.occurrences for c in o.columns)
        return frozenset(c for c in core if any(quoted(c) in expression for expression in said))

    @cached_property
    def parents_relied_on(self) -> frozenset[int]:
        """The occurrences whose changes meet nothing, because whoever joins them comes later."""
        return frozenset(r.occurrence for r in self.relies if r.on is Reliance.PARENT)

    @cached_property
    def met_after(self) -> frozenset[int]:
        """The occurrences of which the wave has no term: whatever meets them does as they are after a transaction."""
        return frozenset(r.occurrence for r in self.relies if r.on is not Reliance.NEVER)

    @cached_property
    def taken_out_by(self) -> tuple[KeyShown, ...]:
        """The keys by which rows are taken out of the view, for the occurrences that only lose rows."""
        found = []
        for one in self.relies:
            if one.on is Reliance.DELETES:
                occurrence, shown = self.occurrences[one.occurrence], [self.outputs[place] for place in one.shown]
                columns = {quoted(occurrence.core(c)): c for c in occurrence.columns}
                names = tuple(o.name for o in shown)
                found.append(KeyShown(occurrence.table, tuple(columns[o.expression] for o in shown), names))
        return tuple(found)

    @cached_property
    def tables(self) -> tuple[TableName, ...]:
        return tuple(dict.fromkeys(o.table for o in self.occurrences))

    @cached_property
    def base_tables(self) -> tuple[TableName, ...]:
        """The tables of sources that it reads itself."""
        return tuple(t for t in self.tables if not t.is_view)

    @cached_property
    def captured_tables(self) -> tuple[TableName, ...]:
        """The tables whose changes must be seen at their sources."""
        return self.base_tables if self.chain is None else tuple(member.table for member in self.chain.members)

    @cached_property
    def parents(self) -> tuple[ViewName, ...]:
        """The views it reads."""
        return tuple(ViewName(t.table) for t in self.tables if t.is_view)


def plain(view: ViewDefinition) -> dict[str, str] | None:
    """Name → column of the core, where its expressions are nothing but columns: nobody has anything to evaluate."""
    wanted = (*view.aggregation.keys, *view.aggregation.arguments) if view.aggregation else view.outputs
    columns = view.tree.columns if view.tree is not None else [o.core(c) for o in view.occurrences for c in o.columns]
    core = {quoted(c): c for c in columns}
    if view.residual or any(o.expression not in core for o in wanted):
        return None
    return {o.name: core[o.expression] for o in wanted}


def is_copy(view: ViewDefinition) -> bool:
    """Whether it holds rows of one table of a source as they are: then its changes are the table's, and nothing else
    is needed to tell them."""
    alone = len(view.occurrences) == 1 and not view.parents and view.tree is None and view.aggregation is None
    return alone and view.maintenance == "wave" and plain(view) is not None


def is_total(view: ViewDefinition) -> bool:
    """Whether it groups everything into one row, which is always there."""
    grouped = view.aggregation
    return grouped is not None and not grouped.keys and bool(grouped.calls) and not grouped.having


def as_table(view: ViewDefinition) -> TableSchema:
    """The view as another view's FROM sees it."""
    return TableSchema(view_table(view.name), tuple(Column(c, UNTYPED, f"of view {view.name}") for c in view.columns))
