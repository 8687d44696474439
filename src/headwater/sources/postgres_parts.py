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
from headwater.sources.postgres_connection import Connection
from headwater.sources.postgres_snapshot import Snapshot

PARTS = sql.Identifier("headwater", "parts")
EXISTS = sql.SQL("to_regclass('headwater.parts') IS NOT NULL")
"""False where capture was installed before there were global transactions; installing again adds what is missing."""

CREATE = """
CREATE TABLE headwater.parts (
    id bigint NOT NULL DEFAULT nextval('headwater.ids'), xid xid8 PRIMARY KEY DEFAULT pg_current_xact_id(),
    at timestamptz NOT NULL DEFAULT clock_timestamp(), global_id text NOT NULL, parts integer NOT NULL
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


def exist(connection: Connection) -> bool:
    row = connection.execute(sql.SQL("SELECT {}").format(EXISTS)).fetchone()
    return bool(row and row[0])


@dataclass(frozen=True)
class Tags:
    """The global id and number of parts of transactions, null where untagged; `ordinals` are of those that are."""

    global_id: pa.Array
    parts: pa.Array
    ordinals: Mapping[int, int]
    """xid → ordinal."""


def tags(connection: Connection, xids: Sequence[int], fresh: sql.Composable | None) -> Tags:
    """The tags of these transactions, all of which are `fresh` (in the words of a change `c`); None: there are none."""
    found: dict[int, tuple[str, int]] = {}
    if xids and fresh is not None:
        statement = sql.SQL("SELECT xid::text::bigint, global_id, parts FROM {} AS c WHERE {}").format(PARTS, fresh)
        found = {xid: (global_id, parts) for xid, global_id, parts in connection.execute(statement)}
    if not found:
        return Tags(pa.nulls(len(xids), pa.string()), pa.nulls(len(xids), pa.int32()), {})
    each: list[tuple[Any, Any]] = [found.get(xid, (None, None)) for xid in xids]
    return Tags(
        pa.array([global_id for global_id, _ in each], pa.string()),
        pa.array([parts for _, parts in each], pa.int32()),
        {xid: n for n, xid in enumerate(xids) if xid in found},
    )


@dataclass(frozen=True, eq=False)
class Before(Mapping[str, Position]):
    """A tagged transaction → the position just before it: the end, less it and all told after it. Worked out when it is
    asked for, for a position may name many transactions, and most parts come when the others do."""

    after: Snapshot
    end: Snapshot
    xids: Sequence[int]
    ordinals: Mapping[int, int]

    def __getitem__(self, transaction: str) -> Position:
        n = self.ordinals[int(transaction)]
        return self.end.without(self.xids[n:], max([self.after.xmax - 1, *self.xids[:n]])).position()

    def __iter__(self) -> Iterator[str]:
        return map(str, self.ordinals)

    def __len__(self) -> int:
        return len(self.ordinals)
