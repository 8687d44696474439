"""A view made ready to run: its definition, and the types Spark gives its expressions. A value; Spark is not needed to
hold one (`compute.planning` makes it)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import pyarrow as pa

from headwater.algebra.relations import Relation
from headwater.algebra.view import ViewDefinition
from headwater.maintenance.groups import auxiliary_schema
from headwater.maintenance.operators.program import Program
from headwater.model.changelog import COUNT, SEQ
from headwater.model.consistency import Level
from headwater.model.names import SourceName, TableName, ViewName
from headwater.model.schema import TableSchema


@dataclass(frozen=True)
class PlannedTree:
    """`root` is the view's tree with sums that do not depend on the order of rows. `program` computes a batch of it,
    `shapes` are what flows into its Evaluated steps, `core` are the columns and their types."""

    root: Relation
    program: Program
    shapes: Mapping[str, pa.Schema]
    core: pa.Schema


@dataclass(frozen=True)
class ViewPlan:
    """`schemas` are the columns the view needs of each table, `core` those of its core, `log` those of its changelog,
    `types` the aggregation's keys, arguments and calls."""

    view: ViewDefinition
    schemas: Mapping[TableName, pa.Schema]
    core: pa.Schema
    log: pa.Schema
    types: Mapping[str, pa.DataType]
    fingerprint: str
    parents: Mapping[ViewName, ViewPlan] = field(default_factory=dict)
    surprises: tuple[str, ...] = ()
    """What its SQL means here and would not mean at a source, for the person who plans it."""
    tree: PlannedTree | None = None
    """How a view that is more than joins and one grouping is computed."""

    @property
    def columns(self) -> pa.Schema:
        """The view's own columns."""
        return pa.schema([f for f in self.log if f.name not in (COUNT, SEQ)])

    @cached_property
    def auxiliary(self) -> pa.Schema | None:
        """The columns of its auxiliary view; a view that is recomputed needs none."""
        if self.view.aggregation is None or self.view.level is Level.PERIODIC:
            return None
        return auxiliary_schema(self.view.aggregation, self.types)

    @cached_property
    def base(self) -> frozenset[TableName]:
        """Every table of a source that can change it, by itself or through the views it reads."""
        return frozenset(self.view.base_tables).union(*(parent.base for parent in self.parents.values()))

    @cached_property
    def sources(self) -> tuple[SourceName, ...]:
        return tuple(sorted({table.source for table in self.base}))


class PlanView(Protocol):
    """Checks a view's expressions and says which types they have."""

    def __call__(
        self, view: ViewDefinition, tables: Mapping[TableName, TableSchema], parents: Mapping[ViewName, ViewPlan]
    ) -> ViewPlan: ...
