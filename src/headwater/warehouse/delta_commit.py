"""A commit to a Delta table in a folder, written by ourselves: the log's next file, all or nothing.

What a small batch commits is a few lines of JSON. deltalake needs five milliseconds of the processor for it, because it
takes up its whole picture of the table again; that is most of what it costs to keep another relation.

Invariant: version n + 1 comes to be in one step, when its file gets its name, and only if there is no other n + 1. So a
commit follows the version that its writer knows or is refused, as with deltalake's own (`delta.only_next`). The file is
flushed before it has a name.

Every so often deltalake is asked for a checkpoint, so that readers need not read the whole log: a copy of what the log
says, which may fail or be missing. Object stores are left to deltalake: there it is the network that takes time.
"""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headwater.model.logged import event
from headwater.storage import Storage
from headwater.warehouse.delta import FENCE
from headwater.warehouse.delta_log import commit_name

if TYPE_CHECKING:
    from deltalake import DeltaTable

log = logging.getLogger(__name__)

CHECKPOINT_EVERY = 50

Action = Mapping[str, Any]

_PLAIN = re.compile(r"[A-Za-z0-9._-]+")


def can_name(names: Iterable[str]) -> bool:
    """Whether there is one way only to write these names in a log. Of others, deltalake must find the same spelling
    when it takes a file back, or it stays in the table for ever."""
    return all(map(_PLAIN.fullmatch, names))


def add(name: str, size: int, rows: int, least: Mapping[str, int], most: Mapping[str, int]) -> Action:
    """A file that becomes part of the table; the least and the most value of some columns."""
    stats = {"numRecords": rows, "minValues": least, "maxValues": most, "nullCount": {}}
    return {
        "add": {
            "path": name, "partitionValues": {}, "size": size, "modificationTime": _now(), "dataChange": True,
            "stats": json.dumps(stats),
        }
    }  # fmt: skip


def remove(name: str) -> Action:
    """A file that is part of it no more."""
    return {"remove": {"path": name, "deletionTimestamp": _now(), "dataChange": True, "extendedFileMetadata": False}}


def commit_next(storage: Storage, folder: str, version: int, actions: Sequence[Action], **metadata: str) -> bool:
    """Make this version of the table; False, and nothing happened, if there is one already."""
    fence = storage.fence()
    told = {"timestamp": _now(), "operation": "WRITE", "operationParameters": {"mode": "Append"}, **metadata}
    lines: list[Action] = [{"commitInfo": told}, *actions]
    if fence:
        lines.append({"txn": {"appId": FENCE, "version": fence, "lastUpdated": _now()}})
    return storage.put_new(commit_name(folder, version), "\n".join(map(json.dumps, lines)).encode())


def checkpoint_due(version: int) -> bool:
    """Whether the log is to be summed up once this version is there."""
    return (version + 1) % CHECKPOINT_EVERY == 0


def checkpoint(storage: Storage, folder: str, table: DeltaTable) -> None:
    """Sum the log up, and let go what is older than it has to be kept."""
    storage.forget_unfinished(f"{folder}/_delta_log")
    try:
        table.update_incremental()
        table.create_checkpoint()
        table.cleanup_metadata()
    except Exception:  # the version is there; readers read a longer log
        log.warning("no checkpoint", exc_info=True, extra=event("checkpoint.failed"))


def _now() -> int:
    return int(time.time() * 1000)
