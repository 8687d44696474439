"""What makes a view another view: if its fingerprint changes, it must be loaded anew.

A view is its query, what it promises, the types of the columns it reads, and the views it reads. Computed without
Spark, so that `headwater apply` can say at once what would be built.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

import pyarrow as pa

from headwater.algebra.view import ViewDefinition
from headwater.model.names import TableName, ViewName
from headwater.model.schema import TableSchema


def needed_schema(view: ViewDefinition, table: TableSchema) -> pa.Schema:
    """The columns of a table that any occurrence in the view needs, in table order."""
    wanted = {c for o in view.occurrences if o.table == table.name for c in o.columns}
    return pa.schema([pa.field(c.name, c.type) for c in table.columns if c.name in wanted])


def fingerprint(view: ViewDefinition, tables: Mapping[TableName, TableSchema], parents: Iterable[str]) -> str:
    """`parents` are the fingerprints of the views it reads, in the order of its FROM."""
    read = {str(name): str(needed_schema(view, tables[name])) for name in view.base_tables}
    said = (view.recompute, view.level.value, view.every, view.schedule, sorted(read.items()), *parents)
    if view.chain is not None:
        said = (*said, view.chain.query)
    said = (*said, *map(str, view.relies))
    return hashlib.sha256(repr(said).encode()).hexdigest()[:16]


def fingerprints(
    views: Mapping[ViewName, ViewDefinition], tables: Mapping[ViewName, Mapping[TableName, TableSchema]]
) -> dict[ViewName, str]:
    """Of several views, parents before their children."""
    found: dict[ViewName, str] = {}
    for name, view in views.items():
        found[name] = fingerprint(view, tables[name], [found[p] for p in view.parents])
    return found
