"""Parts of global transactions at a PostgreSQL source: how an application tags them, and how a poll finds the tags.

    SELECT headwater.part_of('transfer-17', 2)        anywhere in the transaction: the id, and the number of parts

A tag is a row of `headwater.parts`, written by the transaction itself: it is there if and when the transaction is
committed. It has an id, xid and time as a change has, so to a poll it is one more change table: it takes part in the
order of transactions (see `postgres.py`), and a transaction that only tagged itself is told, too.

`part_of` is SECURITY DEFINER, as the triggers are: whoever writes may call it and needs no right on the table. To be
called by name it needs USAGE on the schema, which PUBLIC gets; that alone lets nobody read anything in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from psycopg import sql

from headwater.model.names import Position
from headwater.sources.postgres.connection import Connection
from headwater.sources.postgres.poll import Told
from headwater.sources.postgres.snapshot import Snapshot, life_of

PARTS = sql.Identifier("headwater", "parts")

CREATE = """
CREATE TABLE headwater.parts (
    id bigint NOT NULL DEFAULT nextval('headwater.ids'), xid xid8 PRIMARY KEY DEFAULT pg_current_xact_id(),
    at timestamptz NOT NULL DEFAULT clock_timestamp(), global_id text NOT NULL, parts integer NOT NULL,
    seen pg_snapshot DEFAULT pg_current_snapshot()
);
CREATE INDEX ON headwater.parts (id);
CREATE FUNCTION headwater.part_of(global_id text, parts integer) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE said record;
BEGIN
    IF coalesce(part_of.global_id, '') = '' THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
            MESSAGE = 'headwater.part_of: the id of a global transaction must not be empty';
    ELSIF coalesce(part_of.parts, 0) < 2 THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
            MESSAGE = 'headwater.part_of: a global transaction has 2 parts or more, not '
                || coalesce(part_of.parts::text, 'NULL'),
            HINT = 'The second argument is the number of databases it has a part in, this one included.';
    END IF;
    SELECT p.global_id, p.parts INTO said FROM headwater.parts AS p WHERE p.xid = pg_current_xact_id();
    IF NOT FOUND THEN
        INSERT INTO headwater.parts (global_id, parts) VALUES (part_of.global_id, part_of.parts);
    ELSIF said.global_id <> part_of.global_id OR said.parts <> part_of.parts THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
            MESSAGE = 'headwater.part_of: this transaction is a part of ' || quote_literal(said.global_id)
                || ' (' || said.parts || ' parts) already',
            HINT = 'A transaction is part of one global transaction; commit between two.';
    END IF;
END $$;
GRANT USAGE ON SCHEMA headwater TO PUBLIC;
GRANT EXECUTE ON FUNCTION headwater.part_of(text, integer) TO PUBLIC;
"""


@dataclass(frozen=True)
class Tags:
    """The global id and number of parts of told transactions, null where untagged; `tagged` are those that are."""

    global_id: pa.Array
    parts: pa.Array
    tagged: Sequence[int]


def tagged(connection: Connection, fresh: sql.Composable) -> bool:
    """Whether any `fresh` transaction has a tag."""
    row = connection.execute(sql.SQL("SELECT EXISTS (SELECT FROM {} AS c WHERE {})").format(PARTS, fresh)).fetchone()
    return bool(row and row[0])


def tags(connection: Connection, told: Told, fresh: sql.Composable) -> Tags:
    """The tags of these transactions, all of which are `fresh` (in the words of a change `c`). Where several of a told
    transaction have one, their order is unknown and it can carry but the first: the others' global transactions are
    reported as torn, by whoever waits for their parts."""
    found: dict[int, tuple[str, int]] = {}
    if told.groups:
        statement = sql.SQL("SELECT xid::text::bigint, global_id, parts FROM {} AS c WHERE {}").format(PARTS, fresh)
        found = {xid: (global_id, parts) for xid, global_id, parts in connection.execute(statement)}
    each: dict[int, tuple[str, int]] = {}
    if found:
        of = dict(zip(told.xids.tolist(), told.group.tolist(), strict=True))
        for xid in sorted((x for x in found if x in of), key=lambda x: of[x]):
            each.setdefault(of[xid], found[xid])
    global_ids: list[Any] = [None] * told.groups
    parts: list[Any] = [None] * told.groups
    for group, tag in each.items():
        global_ids[group], parts[group] = tag
    return Tags(pa.array(global_ids, pa.string()), pa.array(parts, pa.int32()), sorted(each))


@dataclass(frozen=True, eq=False)
class Before(Mapping[str, Position]):
    """A tagged transaction → the position just before it: the end, less it and all told after it. Worked out when it is
    asked for, for a position may name many transactions, and most parts come when the others do."""

    after: Position
    told: Told
    tagged: Mapping[str, int]
    """Its label → its ordinal."""

    def __getitem__(self, transaction: str) -> Position:
        n = int(self.told.starts[self.tagged[transaction]])
        after, xids = Snapshot.parse(self.after), self.told.xids.tolist()
        here = self.told.end.without(xids[n:], max([after.xmax - 1, *xids[:n]]))
        return here.position(life_of(self.after))  # of the same past as what it comes after

    def __iter__(self) -> Iterator[str]:
        return iter(self.tagged)

    def __len__(self) -> int:
        return len(self.tagged)
