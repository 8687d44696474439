"""The warehouse's own version: an older Headwater must not touch what a newer one wrote."""

from __future__ import annotations

import json

from headwater.model.errors import WarehouseError
from headwater.storage import Storage

FORMAT = 1
NAME = "headwater.json"


def check_format(storage: Storage, create: bool) -> bool:
    """True if there is a warehouse this version can use; makes one where there is none, if asked to."""
    text = storage.get(NAME)
    if text is None:
        if create:
            storage.make_folder()
            storage.put(NAME, json.dumps({"format": FORMAT}).encode())
        return create
    try:
        found = int(json.loads(text)["format"])
    except (ValueError, KeyError, TypeError) as error:
        raise WarehouseError(
            f"{storage.uri(NAME)} is not a warehouse's description", "is [warehouse] path the right folder?"
        ) from error
    if found > FORMAT:
        raise WarehouseError(
            f"this warehouse has format {found}, written by a newer Headwater; this one knows up to {FORMAT}",
            "upgrade headwater",
        )
    return True
