"""What captures the changes of one table: its change table, its trigger function, its triggers.

    changes_<oid>     id, xid, at, count, layout, row, seen

**A change row is the row's own text**: `row` is the composite value as PostgreSQL writes it, `(1,"a b",,t)`. A type's
output and input functions invert each other, so a change decodes to exactly what the base table holds: NaN, JSON text
verbatim, JSON null apart from NULL. And no column is named anywhere, so ALTER TABLE never breaks the writers. `layout`
lists the attribute numbers the text was made of: they are never reused and survive a rename, so a row written before
ADD or DROP COLUMN is laid out anew when read.

`seen` is the snapshot that the statement ended with, at least in the last row that it wrote (see `order.py`):
each READ COMMITTED statement has its own, other transactions have one.

**Tables** have statement triggers, with transition tables. **Partitioned tables** have a row trigger, which PostgreSQL
gives to every partition, present and future, so that it sees what is written to a partition directly; it lays rows out
by the parent's attribute numbers. The first row a partition ever gets notes it in `leaves`: from then on it cannot be
dropped, detached or truncated unnoticed. TRUNCATE triggers are on the tables that hold the rows.

A transaction that is not READ COMMITTED reads the catalog as it was when it began, which a later ALTER TABLE has
overtaken. It asks `has_column_privilege` instead, which knows the table as it is: null where there is no such column.

The functions are SECURITY DEFINER with a pinned search_path: writers need no rights on schema headwater. They pin the
settings that decide how values read as text. Anyone may create a partition, and PostgreSQL then asks for EXECUTE on the
row trigger's function; on a foreign table it does nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import sql

from headwater.sources.postgres.connection import PINNED

_CHANGES = """
CREATE TABLE headwater.{changes} (
    id bigint PRIMARY KEY DEFAULT nextval('headwater.ids'), xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    at timestamptz NOT NULL DEFAULT clock_timestamp(), count smallint NOT NULL,
    layout text NOT NULL, "row" text NOT NULL, seen pg_snapshot
);
CREATE INDEX ON headwater.{changes} (xid, id)
"""

_HEAD = """
CREATE FUNCTION headwater.{function}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp {pinned} AS $capture$
#variable_conflict use_variable
DECLARE
    headwater_seen pg_snapshot := pg_current_snapshot();
    headwater_old_snapshot boolean :=
        current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted');
    headwater_layout text := (
        SELECT string_agg(attnum::text, ' ' ORDER BY attnum) FROM pg_attribute
        WHERE attrelid = TG_RELID AND attnum > 0 AND NOT attisdropped);
    headwater_now text;
BEGIN
    IF headwater_old_snapshot THEN
        headwater_now := (SELECT string_agg(n::text, ' ' ORDER BY n) FROM generate_series(1,
                least(1600, {spare} + coalesce((SELECT max(attnum) FROM pg_attribute WHERE attrelid = TG_RELID), 0))
            ) AS n WHERE has_column_privilege(TG_RELID, n::int2, 'SELECT') IS NOT NULL);
    END IF;
"""

# TRUNCATE takes away rows that an old snapshot does not show us: we cannot know whether there were any, so we say that
# there may be a gap.
_TRUNCATE = """
    IF TG_OP = 'TRUNCATE' THEN
        IF headwater_old_snapshot THEN
            INSERT INTO headwater.gaps VALUES ({oid}, clock_timestamp(),
                'was truncated by a ' || current_setting('transaction_isolation') || ' transaction');
        END IF;
        EXECUTE format('INSERT INTO headwater.{changes} (count, layout, "row", seen)
            SELECT -1, $1, (headwater_rows.*)::text, CASE WHEN lead(1) OVER () IS NULL THEN $2 END
            FROM ONLY %s AS headwater_rows', TG_RELID::regclass) USING headwater_layout, headwater_seen;
        RETURN NULL;
    END IF;
"""

_STATEMENTS = """
    headwater_layout := coalesce(headwater_now, headwater_layout);
    IF TG_OP = 'INSERT' THEN
        {new}
    ELSIF TG_OP = 'UPDATE' THEN
        {old}
        {new}
    ELSE
        {old}
    END IF;
    RETURN NULL;
END $capture$;
REVOKE ALL ON FUNCTION headwater.{function}() FROM PUBLIC
"""

# A small snapshot is in every row; a large one (of many transactions in progress) in the last only, which takes longer.
_MANY = """IF pg_column_size(headwater_seen) <= 56 THEN
            INSERT INTO headwater.{changes} (count, layout, "row", seen)
            SELECT {count}, headwater_layout, (headwater_rows.*)::text, headwater_seen FROM {rows} AS headwater_rows;
        ELSE
            INSERT INTO headwater.{changes} (count, layout, "row", seen)
            SELECT {count}, headwater_layout, (headwater_rows.*)::text,
                CASE WHEN lead(1) OVER () IS NULL THEN headwater_seen END
            FROM {rows} AS headwater_rows;
        END IF;"""

_PARTITION = """
    IF NOT EXISTS (SELECT FROM headwater.leaves AS l WHERE l.oid = TG_RELID AND l.root = {oid}) THEN
        IF pg_partition_root(TG_RELID) IS DISTINCT FROM {oid}::regclass THEN
            RETURN NULL;
        END IF;
        INSERT INTO headwater.leaves VALUES ({oid}, TG_RELID,
            (SELECT relfilenode FROM pg_class WHERE oid = TG_RELID), headwater.signature(TG_RELID, {oid}));
    END IF;
"""

_LAID_OUT = """
    IF headwater_layout IS DISTINCT FROM coalesce(headwater_now, headwater_layout) THEN
        INSERT INTO headwater.gaps VALUES ({oid}, clock_timestamp(), 'was written by a '
            || current_setting('transaction_isolation') || ' transaction that began before it was altered');
        RETURN NULL;
    END IF;
    headwater_layout := (
        SELECT string_agg(coalesce(r.attnum, 0)::text, ' ' ORDER BY a.attnum) FROM pg_attribute AS a
        LEFT JOIN pg_attribute AS r ON r.attrelid = {oid} AND r.attname = a.attname AND r.attnum > 0
        WHERE a.attrelid = TG_RELID AND a.attnum > 0 AND NOT a.attisdropped);
"""

_EACH_ROW = """
    IF TG_OP <> 'INSERT' THEN
        INSERT INTO headwater.{changes} (count, layout, "row", seen)
            VALUES (-1, headwater_layout, OLD::text, headwater_seen);
    END IF;
    IF TG_OP <> 'DELETE' THEN
        INSERT INTO headwater.{changes} (count, layout, "row", seen)
            VALUES (1, headwater_layout, NEW::text, headwater_seen);
    END IF;
    RETURN NULL;
END $capture$;
GRANT EXECUTE ON FUNCTION headwater.{function}() TO PUBLIC
"""

_STATEMENT_TRIGGERS = {
    "headwater_insert": "AFTER INSERT ON {table} REFERENCING NEW TABLE AS headwater_new FOR EACH STATEMENT",
    "headwater_update": "AFTER UPDATE ON {table} REFERENCING OLD TABLE AS headwater_old NEW TABLE AS headwater_new"
    " FOR EACH STATEMENT",
    "headwater_delete": "AFTER DELETE ON {table} REFERENCING OLD TABLE AS headwater_old FOR EACH STATEMENT",
}
_ROW_TRIGGERS = {"headwater_rows": "AFTER INSERT OR UPDATE OR DELETE ON {table} FOR EACH ROW"}
_TRUNCATE_TRIGGERS = {"headwater_truncate": "BEFORE TRUNCATE ON {table} FOR EACH STATEMENT"}

TRIGGERS = (*_STATEMENT_TRIGGERS, *_TRUNCATE_TRIGGERS)
PARTITION_TRIGGERS = (*_ROW_TRIGGERS, *_TRUNCATE_TRIGGERS)


def function_of(oid: int) -> sql.Identifier:
    return sql.Identifier("headwater", f"headwater_capture_{oid}")


def changes_table(oid: int) -> sql.Identifier:
    return sql.Identifier("headwater", f"changes_{oid}")


def capture_statements(
    oid: int, table: sql.Composable, leaves: Sequence[sql.Composable] | None, logged: bool = False
) -> list[sql.Composed]:
    """What installs capture of one table; `leaves` are the partitions that hold rows, None for an ordinary table.
    `logged`: the log tells all but TRUNCATE (`log.py`)."""
    changes, function = sql.Identifier(f"changes_{oid}"), sql.Identifier(f"headwater_capture_{oid}")
    pinned = [sql.SQL("SET {} = {}").format(sql.Identifier(k), sql.Literal(v)) for k, v in PINNED]

    def many(count: int, rows: str) -> sql.Composed:
        return sql.SQL(_MANY).format(changes=changes, count=sql.Literal(count), rows=sql.Identifier(rows))

    words: tuple[str, ...] = (_HEAD, _TRUNCATE, _STATEMENTS)
    if leaves is not None:
        words = (_HEAD, _PARTITION, _LAID_OUT, _TRUNCATE, _EACH_ROW)
    body = sql.SQL("".join(words)).format(
        function=function,
        changes=changes,
        oid=sql.Literal(oid),
        pinned=sql.SQL(" ").join(pinned),
        spare=sql.Literal(64),
        new=many(1, "headwater_new"),
        old=many(-1, "headwater_old"),
    )
    made = [sql.SQL(_CHANGES).format(changes=changes), body]
    if logged and leaves is None:
        return [*made, *_triggers(oid, table, _TRUNCATE_TRIGGERS)]
    if logged:
        return [*made, *(t for leaf in leaves or () for t in truncate_trigger(oid, leaf))]
    if leaves is None:
        return [*made, *_triggers(oid, table, _STATEMENT_TRIGGERS | _TRUNCATE_TRIGGERS)]
    return [*made, *_triggers(oid, table, _ROW_TRIGGERS), *(t for leaf in leaves for t in truncate_trigger(oid, leaf))]


def row_triggers(oid: int, table: sql.Composable, parted: bool) -> list[sql.Composed]:
    """What tells the rows that statements write, of a table with partitions or without."""
    return _triggers(oid, table, _ROW_TRIGGERS if parted else _STATEMENT_TRIGGERS)


def drop_row_triggers(table: sql.Composable) -> list[sql.Composed]:
    names = (*_STATEMENT_TRIGGERS, *_ROW_TRIGGERS)
    return [sql.SQL("DROP TRIGGER IF EXISTS {} ON {}").format(sql.Identifier(name), table) for name in names]


def truncate_trigger(oid: int, leaf: sql.Composable) -> list[sql.Composed]:
    return _triggers(oid, leaf, _TRUNCATE_TRIGGERS)


def _triggers(oid: int, table: sql.Composable, triggers: dict[str, str]) -> list[sql.Composed]:
    return [
        sql.SQL("CREATE TRIGGER {} " + clause + " EXECUTE FUNCTION {}()").format(
            sql.Identifier(name), function_of(oid), table=table
        )
        for name, clause in triggers.items()
    ]
