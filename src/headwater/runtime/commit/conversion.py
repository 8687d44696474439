"""What the groups of a view keep, as an earlier version wrote it, becomes what this version reads.

Earlier, a view with MIN, MAX or DISTINCT kept its grouped rows (key…, arg…) and nothing else. They are a core's state:
what they amount to now is what a load of them would keep. The table is rewritten in one commit, as of the same
transaction; until a cut names it, a run that dies finds the old one and begins again.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from headwater.kept.memory import nothing
from headwater.maintenance.aggregate import GroupedDelta, aggregate
from headwater.model.changelog import COUNT, SEQ, fold
from headwater.model.names import Seq
from headwater.runtime.view import ManagedView
from headwater.storage import Storage
from headwater.warehouse.layout import auxiliary_folder
from headwater.warehouse.table import ChangelogTable


def converted(storage: Storage, view: ManagedView, seq: Seq) -> bool:
    """Whether the view's auxiliary table had to be rewritten; `seq` is the transaction that its state is of."""
    plan = view.plan
    if plan.auxiliary is None or plan.view.aggregation is None:
        return False
    table = ChangelogTable(storage, auxiliary_folder(view.folder))
    old = table.schema
    if set(old.names) == set(plan.auxiliary.names):
        return False
    paths = [storage.path(f"{table.folder}/{name}") for name in table.files()]
    parts = [pq.read_table(path, filesystem=storage.filesystem, partitioning=None) for path in paths]
    rows = fold(pa.concat_tables([part.select(old.names).cast(old) for part in parts]) if parts else old.empty_table())
    rows = rows.append_column(SEQ, pa.array(np.full(rows.num_rows, int(seq))))
    keys = [o.name for o in (*plan.view.aggregation.keys, *plan.view.aggregation.arguments)]
    delta = rows.select([*keys, COUNT, SEQ])
    first = GroupedDelta(delta, nothing(plan.auxiliary), int(seq), first=True)
    table.replace(aggregate(plan.view.aggregation, plan.types, first)[1])
    return True
