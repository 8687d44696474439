"""What does the row work of a run: Spark on real tables, or a stand-in without a JVM."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass

from headwater.runtime.change.ports import Loader
from headwater.runtime.change.serving import Planner
from headwater.runtime.clock import SYSTEM, Clock
from headwater.runtime.commit.chores import Compactor
from headwater.runtime.commit.ledger import Ledger
from headwater.runtime.commit.tables import Tables
from headwater.runtime.project.plan import PlanView
from headwater.runtime.scheduling.work import Compute
from headwater.runtime.threads import pool
from headwater.storage import Storage
from headwater.warehouse.cuts import CutLog


@dataclass(frozen=True)
class Machinery:
    """`storage` is the warehouse's: one object for all writers, because the lock's holder guards it. `cancel`
    makes what is being computed end, it does not matter how."""

    storage: Storage
    compute: Compute
    loader: Loader
    compactor: Compactor
    plan: PlanView
    tables: Tables
    cuts: CutLog
    cancel: Callable[[], None]
    close: Callable[[], None] = lambda: None
    """When nothing is computed any more: connections that it holds are closed."""
    planner: Callable[[Ledger], Planner] | None = None
    """Plans what requests ask for; None: from the project's files."""
    pool: Callable[[str, int], Executor] = pool
    clock: Clock = SYSTEM
