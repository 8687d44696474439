"""What decides about keeping: what the project says, and what was measured when it was last decided.

A choice is made anew by `plan` and `apply` only. Views that are maintained are stored with the views kept for them, so
a run goes on with what was chosen, whatever has been measured since.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from headwater.maintenance.keeping.costs import Measured
from headwater.model.names import SourceName, TableName

AUXILIARY, GROUPS = "auxiliary", "groups"
"""The options of a view."""


class Changing(Enum):
    """How a table changes, where the project promises that it does not change in every way."""

    NEVER = "never"
    INSERTS = "inserts"
    DELETES = "deletes"


@dataclass(frozen=True)
class Keeping:
    """`auxiliary` and `groups` are the project's defaults (0: as many groups as there are cores). `unasked` are the
    sources that are not to be asked once they were loaded. `changes` counts the changed rows of each table in the
    journal. `promised` is what the project says of tables that do not change in every way."""

    auxiliary: str = "none"
    groups: int = 0
    unasked: frozenset[SourceName] = frozenset()
    changes: Mapping[TableName, int] = field(default_factory=dict)
    measured: Measured = field(default_factory=Measured)
    """What 'auto' weighs."""
    chained: frozenset[SourceName] | None = None
    """The sources whose agents join their rows between themselves (questions = "chain"); None: nobody said."""
    promised: Mapping[TableName, Changing] = field(default_factory=dict)

    @property
    def cores(self) -> int:
        return os.cpu_count() or 1


NOTHING_KNOWN = Keeping()
