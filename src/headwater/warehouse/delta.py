"""Delta tables of a warehouse, opened the same way wherever it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headwater.storage import Storage

if TYPE_CHECKING:  # it takes longer to load than a lookup takes, and who only reads may do without (`delta_log`)
    from deltalake import CommitProperties, DeltaTable

FENCE = "headwater.fence"
"""The name under which a table remembers the highest lease that committed to it."""


def open_table(storage: Storage, folder: str, version: int | None = None) -> DeltaTable:
    from deltalake import DeltaTable

    return DeltaTable(storage.uri(folder), version=version, storage_options=storage.delta_options)


def is_table(storage: Storage, folder: str) -> bool:
    from deltalake import DeltaTable

    return bool(DeltaTable.is_deltatable(storage.uri(folder), storage_options=storage.delta_options))


def table_bytes(storage: Storage, folder: str) -> int:
    """What the files of a table take, by its own log."""
    actions = pa.table(open_table(storage, folder).get_add_actions())
    return int(sum(actions.column("size_bytes").to_pylist()))


def only_next(fence: int, **metadata: Any) -> CommitProperties:
    """Commit as the version after the one that was read, under this lease, or not at all: deltalake would otherwise put
    an append after whatever came between. A conflict is a CommitFailedError."""
    from deltalake import CommitProperties, Transaction

    transactions = [Transaction(FENCE, fence)] if fence else []
    return CommitProperties(custom_metadata=metadata or None, max_commit_retries=0, app_transactions=transactions)


def fence_of(table: DeltaTable) -> int:
    """The highest lease that committed to the table as we have it; 0 for tables from before there were numbers."""
    return int(table.transaction_version(FENCE) or 0)


def committed(table: DeltaTable, commit: Callable[[], object]) -> bool:
    """Try a commit that is `only_next`; False if another came between, which the table shows from then on."""
    from deltalake.exceptions import CommitFailedError

    before = table.version()
    try:
        commit()
    except CommitFailedError:
        table.update_incremental()
        if table.version() == before:
            raise  # for another reason
        return False
    table.update_incremental()
    return True


def mark(table: DeltaTable, fence: int) -> bool:
    """A commit that changes nothing but the version, so a writer that read an earlier one can no longer commit."""
    options = only_next(fence)
    return committed(
        table, lambda: table.create_write_transaction([], "append", table.schema(), commit_properties=options)
    )
