"""Views that mean nothing at present are left as they are, unless what they read is about to change under them."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from headwater.model.errors import HeadwaterError
from headwater.model.names import ViewName
from headwater.runtime.project.about import read_about
from headwater.storage import Storage
from headwater.warehouse.cuts import Cut


def check_left_alone(
    storage: Storage, cut: Cut, unresolved: Mapping[ViewName, HeadwaterError], changed: Collection[ViewName]
) -> None:
    """Raise the error of a maintained view that would be left reading a view which is replaced or dropped. Its text
    decides: that a name occurs in it is enough."""
    for name, error in unresolved.items():
        about = read_about(storage, cut.views[name].folder) if name in cut.views else None
        words = set(re.findall(r"\w+", about.sql.lower())) if about is not None else set()
        if any(view.lower() in words for view in changed):
            raise error
