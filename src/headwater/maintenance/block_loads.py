"""Blocks that a source joins for a first load.

A block (`blocks`) is loaded as one relation where that is cheaper than to copy its tables: its *first* table is read
chunk by chunk, and the source is asked for the join of the block with the keys of each chunk.

    B(P) = Σ over chunks  ask({keys of the first table's rows in the chunk})  as of P

Invariant: a row of the first table falls into exactly one chunk, decided by its primary key alone (decision 7), and a
joined row has exactly one row of the first table; so the answers, each exact as of P, make up the block at P.

*When.* A walk from the first table finds, of each further one, a row where it is met by its primary key, else as many
as it has for each row of the table it is met from. To find a row costs as much as to read several; a table that is
copied costs its rows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from headwater.algebra.methods import WAVE
from headwater.algebra.view import ViewDefinition
from headwater.maintenance.blocks import Block, Contracted, Leading, Schemas, components, over_blocks
from headwater.model.names import TableName
from headwater.model.schema import TableSchema

FOUND = 7
"""To find a row by its key costs about as much as reading this many rows (`runtime.compute.asking.ASK_COST`)."""
WORTH = 20_000
"""So many rows at least must be saved."""

Tables = Mapping[TableName, TableSchema]


@dataclass(frozen=True)
class BlockLoad:
    """How a block is loaded: by the `key` (core columns) of its occurrence `first`. `block` knows those columns, and
    tells them only where the view needs them."""

    block: Block
    first: int
    key: tuple[str, ...]
    key_schema: pa.Schema
    """The key as its table calls it."""


@dataclass(frozen=True)
class Pushed:
    """A view over the blocks that their sources join for its load."""

    over: Contracted
    loads: tuple[BlockLoad, ...]


def pushed(
    view: ViewDefinition, tables: Tables, schemas: Schemas, leading: Leading, shared: Collection[TableName] = ()
) -> Pushed | None:
    """What sources should join when the view is loaded, if anything. `shared` are tables that are copied anyway."""
    if view.tree is not None or view.maintenance != WAVE or view.parents_relied_on:
        return None
    chosen = [
        members
        for members in components(view, schemas)
        if not any(view.occurrences[i].table in shared for i in members)
        and _load(over_blocks(view, [members], schemas, leading), tables) is not None
    ]
    if not chosen:
        return None
    made = over_blocks(view, chosen, schemas, leading)
    loads = [_of_block(block, tables) for block in made.blocks.values()]
    return Pushed(made, tuple(load for load in loads if load is not None))


def _load(made: Contracted, tables: Tables) -> BlockLoad | None:
    (block,) = made.blocks.values()
    return _of_block(block, tables)


def _of_block(block: Block, tables: Tables) -> BlockLoad | None:
    """The cheapest way to load a block, if it is cheaper than to copy its tables."""
    occurrences = block.view.occurrences
    sizes = [tables[o.table].rows for o in occurrences]
    if any(size is None for size in sizes):
        return None
    best: tuple[float, BlockLoad] | None = None
    for first in range(len(occurrences)):
        load = _by(block, first, tables[occurrences[first].table])
        order = load.block.order(load.key) if load is not None else None
        if load is None or order is None:
            continue
        cost = _cost(block, order, tables)
        if best is None or cost < best[0]:
            best = cost, load
    plain = sum(size or 0 for size in sizes)
    return best[1] if best is not None and best[0] + WORTH < plain else None


def _by(block: Block, first: int, table: TableSchema) -> BlockLoad | None:
    occurrence = block.view.occurrences[first]
    fields = [pa.field(c.name, c.type) for name in table.key if (c := table.column(name)) is not None]
    if not fields or any(field.type is None for field in fields):
        return None
    more = tuple(name for name in table.key if name not in occurrence.columns)
    known = replace(occurrence, columns=(*occurrence.columns, *more))
    all_of_them = (*block.view.occurrences[:first], known, *block.view.occurrences[first + 1 :])
    wider = replace(block, view=replace(block.view, occurrences=all_of_them))
    return BlockLoad(wider, first, tuple(known.core(name) for name in table.key), pa.schema(fields))


def _cost(block: Block, order: Sequence[int], tables: Tables) -> float:
    """The rows of the first table, and every row that is found from them."""
    schemas = [tables[o.table] for o in block.view.occurrences]
    rows = found = float(schemas[order[0]].rows or 0)
    for place, number in enumerate(order[1:], 1):
        met = [(mine, i) for mine, i, _ in block.ends(number) if i in order[:place]]
        key = schemas[number].key
        if not key or not set(key) <= {mine for mine, _ in met}:
            before = max(schemas[met[0][1]].rows or 0, 1) if met else 1
            found *= max((schemas[number].rows or 0) / before, 1.0)
        rows += found * FOUND
    return rows
