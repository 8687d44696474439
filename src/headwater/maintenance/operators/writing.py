"""Which operator maintains which node; a whole tree's program."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from headwater.algebra.relations import (
    Aggregate,
    Filter,
    Generate,
    Join,
    Project,
    Recursion,
    Relation,
    SetOperation,
    Table,
    Union,
    Values,
    Window,
)
from headwater.maintenance.operators.aggregates import AggregateOperator
from headwater.maintenance.operators.joins import JoinOperator
from headwater.maintenance.operators.linear import (
    FilterOperator,
    GenerateOperator,
    ProjectOperator,
    TableOperator,
    UnionOperator,
    ValuesOperator,
)
from headwater.maintenance.operators.local_sql import Types
from headwater.maintenance.operators.maintain import Maintenance, Operator
from headwater.maintenance.operators.program import Draft, Program
from headwater.maintenance.operators.recursion import RecursionOperator
from headwater.maintenance.operators.sets import SetOperator
from headwater.maintenance.operators.sizes import Sizes
from headwater.maintenance.operators.windows import WindowOperator

OPERATORS: Mapping[type, Operator[Any]] = {
    Table: TableOperator(),
    Values: ValuesOperator(),
    Filter: FilterOperator(),
    Project: ProjectOperator(),
    Generate: GenerateOperator(),
    Union: UnionOperator(),
    Join: JoinOperator(),
    SetOperation: SetOperator(),
    Aggregate: AggregateOperator(),
    Window: WindowOperator(),
    Recursion: RecursionOperator(),
}


def changes_of(
    root: Relation,
    types: Types,
    sizes: Sizes = MappingProxyType({}),
    operators: Mapping[type, Operator[Any]] = OPERATORS,
) -> Program:
    """The program of a batch: its last step is the tree's changelog; rows of it may cancel each other. `sizes` are
    those of the tables."""
    maintenance = Maintenance(operators, Draft(types), sizes)
    return maintenance.draft.finished(maintenance.changes(root))
