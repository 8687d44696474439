"""Where the files of a batch go, and what its aggregation builds on."""

from __future__ import annotations

from headwater.maintenance.groups import looked_up
from headwater.model.names import Seq
from headwater.runtime.commit.tables import ViewTables
from headwater.runtime.compute.aggregating import AggregateWork
from headwater.runtime.compute.writing import Target
from headwater.runtime.view import ManagedView
from headwater.warehouse.layout import auxiliary_folder, log_folder


def log_target(tables: ViewTables, view: ManagedView, label: str) -> Target:
    return Target(tables.storage, log_folder(view.folder), label, view.plan.log)


def aggregation(tables: ViewTables, view: ManagedView, hi: Seq, first: bool = False) -> AggregateWork | None:
    """The aggregation of a batch that ends at `hi`, on top of everything computed so far."""
    plan = view.plan
    if plan.auxiliary is None or plan.view.aggregation is None:
        return None
    indexes = looked_up(plan.view.aggregation) if first else ()
    target = Target(tables.storage, auxiliary_folder(view.folder), str(hi), plan.auxiliary, "auxiliary", indexes)
    files = () if first else tuple(tables.auxiliary_paths(view))
    return AggregateWork(plan.view.aggregation, plan.types, files, target, hi, first)
