"""Which transactions can touch a view: those that change one of its tables in a row that meets the view's own
conditions on that table."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from headwater.algebra.view import ViewDefinition
from headwater.model.changelog import SEQ
from headwater.model.conditions import meets
from headwater.model.names import TableName


def relevant(view: ViewDefinition, changes: Mapping[TableName, pa.Table]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The numbers of the transactions that are relevant to the view, ascending."""
    touched = [
        meets(changes[o.table], o.conditions).column(SEQ).to_numpy() for o in view.occurrences if o.table in changes
    ]
    return np.unique(np.concatenate(touched)) if touched else np.empty(0, np.int64)
