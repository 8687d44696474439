"""Published tables: a view at one cut as a plain Delta table, without bookkeeping columns, for other engines."""

from __future__ import annotations

import pyarrow as pa
from deltalake import CommitProperties, QueryBuilder, write_deltalake

from headwater.model.changelog import COUNT, SEQ
from headwater.model.names import ViewName
from headwater.storage import Storage, folder_name
from headwater.storage.files import explained
from headwater.warehouse.cuts import Cut
from headwater.warehouse.delta import is_table, open_table
from headwater.warehouse.reading import Pinned, bag_sql

FOLDER = "published"


def published_folder(name: ViewName) -> str:
    return f"{FOLDER}/{folder_name(name)}"


def published_cut(storage: Storage, name: ViewName) -> int:
    """The number of the cut the published table shows, 0 if there is none."""
    folder = published_folder(name)
    if not is_table(storage, folder):
        return 0
    return int(open_table(storage, folder).history(1)[0].get("headwater.cut", 0))


def publish_view(storage: Storage, name: ViewName, view: Pinned, cut: Cut) -> bool:
    """Refresh the published table in one commit, streaming; False if it shows this cut already."""
    if published_cut(storage, name) == cut.number:
        return False
    log = open_table(storage, view.folder, view.version)
    schema = pa.schema([f for f in pa.schema(log.schema().to_arrow()) if f.name not in (COUNT, SEQ)])
    rows = QueryBuilder().register("log", log).execute(bag_sql("log", schema.names, view.seq))
    batches = (pa.record_batch(batch).cast(schema) for batch in rows)
    storage.fence()
    with explained(storage.url):
        write_deltalake(
            storage.uri(published_folder(name)),
            pa.RecordBatchReader.from_batches(schema, batches),
            mode="overwrite",
            schema_mode="overwrite",
            storage_options=storage.delta_options,
            commit_properties=CommitProperties(
                custom_metadata={"headwater.cut": str(cut.number), "headwater.seq": str(view.seq)}
            ),
        )
    return True
