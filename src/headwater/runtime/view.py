"""A maintained view, as every part of a run knows it: a value. Its state is the ledger's, its files are the tables'."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from headwater.algebra.view import is_copy
from headwater.model.consistency import Level
from headwater.model.names import TableName, ViewName
from headwater.model.schema import Identities
from headwater.runtime.project.plan import ViewPlan

UPDATES = 200
"""A batch of a published algorithm crosses no multiple of this: it goes from update to update, and cuts should show
how far it is."""


@dataclass(frozen=True, eq=False)
class ManagedView:
    """`identities` say which columns it was loaded from."""

    plan: ViewPlan
    folder: str
    identities: Mapping[TableName, Identities] = field(default_factory=dict)

    @property
    def name(self) -> ViewName:
        return self.plan.view.name

    @property
    def key(self) -> str:
        """Tells a view from another one of the same name, built to replace it."""
        return self.folder

    @property
    def every(self) -> int:
        return self.plan.view.every

    @property
    def complete(self) -> bool:
        """Whether each of its transactions can be shown by itself."""
        return self.plan.view.level is Level.COMPLETE and self.every == 1

    @cached_property
    def copies(self) -> bool:
        """Whether it holds a table's rows as they are, state by state."""
        return self.complete and is_copy(self.plan.view)

    @property
    def merged(self) -> bool:
        """Whether it agrees with the other views: convergence promises nothing, so such a view goes its own way."""
        return self.plan.view.level is not Level.CONVERGENT

    @property
    def periodic(self) -> bool:
        return self.plan.view.level is Level.PERIODIC

    @property
    def by_updates(self) -> bool:
        """Whether a published algorithm maintains it, update by update."""
        return self.plan.view.maintenance != "wave"

    @property
    def in_order(self) -> bool:
        """Whether batches must be committed in order. Convergence does not ask for it, but an aggregation builds every
        batch on the one before, and so does a view over views. Batches of a published algorithm end where the wave's
        do not, so nobody could tell which of them are there."""
        return self.merged or self.by_updates or self.plan.auxiliary is not None or bool(self.plan.view.parents)


@dataclass(frozen=True)
class Halt:
    """Why a view is no longer maintained, and what to do. `resumable`: what happens at its sources is still journaled,
    so it can go on from where it stopped."""

    reason: str
    fix: str = "'headwater apply' loads it again"
    resumable: bool = False


def own_identities(plan: ViewPlan, known: Mapping[TableName, Identities]) -> dict[TableName, Identities]:
    """Of the columns that this view uses: what becomes of others is no concern of it."""
    return {
        table: {c: known[table][c] for c in plan.schemas[table].names}
        for table in plan.view.base_tables
        if table in known
    }
