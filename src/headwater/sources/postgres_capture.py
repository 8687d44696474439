"""Capture at a PostgreSQL source: everything Headwater puts into somebody else's database, and how it goes again.

    schema headwater
      meta             one row: the generation, and the position up to which changes were trimmed
      tables           what is captured: the table's oid, its name then, the position `since` which
      gaps             moments at which capture knowingly missed something (see `_TRUNCATE` below)
      ids              one sequence for all changes of the database
      changes_<oid>    the changes of one table: id, xid, at, count, layout, row
      parts, part_of() transactions tagged as parts of a global one (see `postgres_parts.py`)
      headwater_capture_<oid>()            the trigger function of one table
      layout, relaid, contains, holds      functions that readers use
    on each captured table
      headwater_insert, _update, _delete   after each statement, with transition tables
      headwater_truncate                   before TRUNCATE: takes every row away

**A change row is the row's own text**: `row` is the composite value as PostgreSQL writes it, `(1,"a b",,t)`. A type's
output and input functions invert each other, so a change decodes (`row::schema.table`) to exactly what the base table
holds: NaN, JSON text verbatim, JSON null apart from NULL. (`row_to_json` loses the last two.) And no column is named
anywhere, so ALTER TABLE never breaks the writers. `layout` lists the attribute numbers the text was made of: they are
never reused and survive a rename, so a row written before ADD or DROP COLUMN is laid out anew (`relaid`) when read.

The trigger functions are SECURITY DEFINER with a pinned search_path: writers need no rights on schema headwater.
They pin the settings that decide how values read as text.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import psycopg
from psycopg import sql

from headwater.model.errors import SourceRefused, SourceUnavailable
from headwater.model.names import TableName
from headwater.sources import postgres_parts
from headwater.sources.postgres_connection import NOT_CAPTURED, PINNED, TRIMMED, Connection, Connections

_LOCK_TIMEOUT = "2s"
_LOCK_TRIES = 5
_ONE_AT_A_TIME = "SELECT pg_advisory_xact_lock(hashtextextended('headwater capture', 0))"

_SCHEMA = f"""
CREATE SCHEMA headwater;
COMMENT ON SCHEMA headwater IS 'Change capture of Headwater; `headwater remove` takes it away.';
CREATE TABLE headwater.meta (generation uuid NOT NULL, trimmed pg_snapshot);
INSERT INTO headwater.meta VALUES (gen_random_uuid(), NULL);
CREATE TABLE headwater.tables
    (oid oid PRIMARY KEY, schema_name text NOT NULL, table_name text NOT NULL, since pg_snapshot NOT NULL);
CREATE TABLE headwater.gaps (oid oid NOT NULL, at timestamptz NOT NULL, reason text NOT NULL);
CREATE SEQUENCE headwater.ids CACHE 1;

CREATE FUNCTION headwater.layout(relation oid) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT string_agg(attnum::text, ' ' ORDER BY attnum) FROM pg_catalog.pg_attribute
    WHERE attrelid = relation AND attnum > 0 AND NOT attisdropped $$;

-- A row's text, from the layout it was written in to another: fields keep their quoting, missing ones are NULL.
CREATE FUNCTION headwater.relaid("row" text, was text, wanted text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT '(' || string_agg(coalesce(field, ''), ',' ORDER BY place) || ')'
    FROM unnest(string_to_array(wanted, ' ')) WITH ORDINALITY AS w (attribute, place)
    LEFT JOIN unnest(string_to_array(was, ' ')) WITH ORDINALITY AS o (attribute, old_place) USING (attribute)
    LEFT JOIN (SELECT m[1] AS field, n FROM regexp_matches(
            substr("row", 2, length("row") - 2) || ',', '((?:[^",]|"(?:[^"]|"")*")*),', 'g'
        ) WITH ORDINALITY AS f (m, n)) AS fields ON n = old_place $$;

-- Whether every transaction that `part` shows is shown by `whole` too.
CREATE FUNCTION headwater.contains(whole pg_snapshot, part pg_snapshot) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT NOT EXISTS (SELECT FROM pg_snapshot_xip(whole) AS x WHERE pg_visible_in_snapshot(x, part))
       AND (SELECT count(*) FROM pg_snapshot_xip(part) AS x WHERE x >= pg_snapshot_xmax(whole))
           >= pg_snapshot_xmax(part)::text::numeric - pg_snapshot_xmax(whole)::text::numeric $$;

-- True, or an error: can the table's state as of this position still be told? STABLE: looks with its caller's snapshot.
CREATE FUNCTION headwater.holds("at" pg_snapshot, captured oid) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
DECLARE began pg_snapshot; gone pg_snapshot;
BEGIN
    SELECT since, trimmed INTO began, gone FROM headwater.tables, headwater.meta WHERE oid = captured;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = '{NOT_CAPTURED}', MESSAGE = captured::regclass::text || ' is not captured';
    ELSIF NOT headwater.contains("at", began) THEN
        RAISE EXCEPTION USING ERRCODE = '{TRIMMED}',
            MESSAGE = format('capture of %s began after position %s', captured::regclass, left("at"::text, 80));
    ELSIF NOT headwater.contains("at", gone) THEN  -- NULL: never trimmed
        RAISE EXCEPTION USING ERRCODE = '{TRIMMED}',
            MESSAGE = format('changes after position %s were trimmed', left("at"::text, 80));
    END IF;
    RETURN true;
END $$;
"""

_CHANGES = """
CREATE TABLE headwater.{changes} (
    id bigint NOT NULL DEFAULT nextval('headwater.ids'), xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    at timestamptz NOT NULL DEFAULT clock_timestamp(), count smallint NOT NULL,
    layout text NOT NULL, "row" text NOT NULL
);
CREATE INDEX ON headwater.{changes} (xid, id);
CREATE INDEX ON headwater.{changes} (id)
"""

_ROWS = """INSERT INTO headwater.{changes} (count, layout, "row")
        SELECT {count}, headwater_layout, (headwater_rows.*)::text FROM {rows} AS headwater_rows;"""

# TRUNCATE takes away rows that a REPEATABLE READ transaction's old snapshot does not show us: we cannot know whether
# there were any, so we say that there may be a gap.
_TRUNCATE = """IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
            INSERT INTO headwater.gaps VALUES (TG_RELID, clock_timestamp(),
                'was truncated by a ' || current_setting('transaction_isolation') || ' transaction');
        END IF;"""

_FUNCTION = """
CREATE FUNCTION headwater.{function}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp {pinned} AS $capture$
#variable_conflict use_variable
DECLARE headwater_layout text := (
    SELECT string_agg(attnum::text, ' ' ORDER BY attnum) FROM pg_attribute
    WHERE attrelid = TG_RELID AND attnum > 0 AND NOT attisdropped);
BEGIN
    IF TG_OP = 'INSERT' THEN
        {inserted}
    ELSIF TG_OP = 'UPDATE' THEN
        {old}
        {new}
    ELSIF TG_OP = 'DELETE' THEN
        {deleted}
    ELSE
        {truncate}
        {truncated}
    END IF;
    RETURN NULL;
END $capture$;
REVOKE ALL ON FUNCTION headwater.{function}() FROM PUBLIC
"""

TRIGGERS = {
    "headwater_insert": "AFTER INSERT ON {table} REFERENCING NEW TABLE AS headwater_new",
    "headwater_update": "AFTER UPDATE ON {table} REFERENCING OLD TABLE AS headwater_old NEW TABLE AS headwater_new",
    "headwater_delete": "AFTER DELETE ON {table} REFERENCING OLD TABLE AS headwater_old",
    "headwater_truncate": "BEFORE TRUNCATE ON {table}",
}

_INSPECT = """
SELECT t.oid::bigint, t.schema_name, t.table_name, n.nspname, c.relname,
       (SELECT max(reason) FROM headwater.gaps AS g WHERE g.oid = t.oid),
       to_regclass('headwater.changes_' || t.oid) IS NOT NULL,
       array(SELECT tg.tgname::text FROM pg_trigger AS tg JOIN pg_proc AS p ON p.oid = tg.tgfoid
             WHERE tg.tgrelid = t.oid AND p.proname = 'headwater_capture_' || t.oid
               AND p.pronamespace = 'headwater'::regnamespace),
       array(SELECT tg.tgname::text FROM pg_trigger AS tg
             WHERE tg.tgrelid = t.oid AND tg.tgenabled NOT IN ('O', 'A'))
FROM headwater.tables AS t
LEFT JOIN pg_class AS c ON c.oid = t.oid
LEFT JOIN pg_namespace AS n ON n.oid = c.relnamespace
ORDER BY 2, 3
"""

_PRIVILEGES = """
SELECT has_schema_privilege(c.relnamespace, 'USAGE'), has_table_privilege(c.oid, 'SELECT'),
       has_table_privilege(c.oid, 'TRIGGER'), row_security_active(c.oid),
       EXISTS (SELECT FROM pg_inherits i JOIN pg_class k ON k.oid = i.inhrelid
               WHERE c.oid IN (i.inhrelid, i.inhparent) AND c.relkind = 'r'),
       current_user::text
FROM pg_class AS c WHERE c.oid = %s
"""


@dataclass(frozen=True)
class Captured:
    """One row of headwater.tables as it stands now; `fault` says what is wrong with it, None if nothing is."""

    oid: int
    recorded: tuple[str, str]
    current: tuple[str, str] | None
    fault: str | None


def changes_table(oid: int) -> sql.Identifier:
    return sql.Identifier("headwater", f"changes_{oid}")


def generation(connection: Connection) -> str | None:
    """None when there is no capture here."""
    found = connection.execute("SELECT to_regclass('headwater.meta') IS NOT NULL").fetchone()
    if not found or not found[0]:
        return None
    row = connection.execute("SELECT generation::text FROM headwater.meta").fetchone()
    return str(row[0]) if row else None


def inspect(connection: Connection) -> list[Captured]:
    found = []
    for row in connection.execute(_INSPECT):
        oid, schema, table, now_schema, now_table, gap, has_changes, present, disabled = row
        missing = [t for t in TRIGGERS if t not in present]
        off = [t for t in TRIGGERS if t in disabled]
        fault = None
        if now_table is None:
            fault = "the table was dropped (or dropped and created anew)"
        elif missing:
            fault = f"the trigger {missing[0]} is gone"
        elif off:
            fault = f"the trigger {off[0]} is disabled"
        elif not has_changes:
            fault = f"the change table headwater.changes_{oid} is gone"
        elif gap:
            fault = f"the table {gap}: some of its rows may have gone unseen"
        current = None if now_table is None else (now_schema, now_table)
        found.append(Captured(oid, (schema, table), current, fault))
    return found


# ── install ──────────────────────────────────────────────────────────────────────────────────────────────────────


def plan(connection: Connection, wanted: Sequence[tuple[TableName, int]]) -> list[str]:
    """The lines of `install`, after checking that it will be allowed to."""
    lines = []
    if generation(connection) is None:
        _check_schema(connection)
        lines.append("create schema headwater: meta tables, a sequence, 5 functions")
        standing = {}
    else:
        if not postgres_parts.exist(connection):
            lines.append("let transactions be tagged as parts of a global one: headwater.parts, headwater.part_of()")
        standing = {c.oid: c for c in inspect(connection)}
    for table, oid in wanted:
        if oid in standing and standing[oid].fault is None:
            continue
        _check_table(connection, table, oid)
        again = f" anew, because {standing[oid].fault}" if oid in standing else ""
        lines.append(f"capture {table}{again}: change table headwater.changes_{oid}, triggers {', '.join(TRIGGERS)}")
    return lines


def install(connections: Connections, wanted: Sequence[tuple[TableName, int]]) -> list[str]:
    with connections.borrow() as connection:
        lines = plan(connection, wanted)
        if not lines:
            return []
        if generation(connection) is None:
            _patiently(connection, "schema headwater", _create_schema)
        elif not postgres_parts.exist(connection):
            _patiently(connection, "schema headwater", _create_parts)
        standing = {c.oid: c for c in inspect(connection)}
        for table, oid in wanted:
            if oid not in standing or standing[oid].fault is not None:
                _patiently(connection, str(table), lambda c, t=table, o=oid: _capture_table(c, t, o))  # type: ignore[misc]  # mypy cannot type defaults of lambdas
    return lines


def _create_schema(connection: Connection) -> None:
    if generation(connection) is None:  # another install may have been faster
        connection.execute(_SCHEMA)
        connection.execute(postgres_parts.CREATE)


def _create_parts(connection: Connection) -> None:
    """What a capture lacks that was installed before there were global transactions; it stays the same generation."""
    if not postgres_parts.exist(connection):
        connection.execute(postgres_parts.CREATE)


def _capture_table(connection: Connection, table: TableName, oid: int) -> None:
    standing = {c.oid: c for c in inspect(connection)}
    if oid in standing:
        if standing[oid].fault is None:
            return
        _forget(connection, oid)
    for gone in (c for c in standing.values() if c.recorded == (table.schema, table.table) and c.oid != oid):
        if gone.current is None:
            _forget(connection, gone.oid)
    changes, function = sql.Identifier(f"changes_{oid}"), sql.Identifier(f"headwater_capture_{oid}")
    name = sql.Identifier(table.schema, table.table)

    def rows(count: int, of: sql.Composable) -> sql.Composed:
        return sql.SQL(_ROWS).format(changes=changes, count=sql.Literal(count), rows=of)

    old, new = sql.Identifier("headwater_old"), sql.Identifier("headwater_new")
    pinned = [sql.SQL("SET {} = {}").format(sql.Identifier(k), sql.Literal(v)) for k, v in PINNED]
    function_text = sql.SQL(_FUNCTION).format(
        function=function,
        pinned=sql.SQL(" ").join(pinned),
        inserted=rows(1, new),
        old=rows(-1, old),
        new=rows(1, new),
        deleted=rows(-1, old),
        truncate=sql.SQL(_TRUNCATE),
        truncated=rows(-1, name),
    )
    connection.execute(sql.SQL(_CHANGES).format(changes=changes))
    connection.execute(function_text)
    for name_of_trigger, clause in TRIGGERS.items():
        trigger = sql.SQL("CREATE TRIGGER {} " + clause + " FOR EACH STATEMENT EXECUTE FUNCTION headwater.{}()").format(
            sql.Identifier(name_of_trigger), function, table=name
        )
        connection.execute(trigger)
    # CREATE TRIGGER waited for every writer of the table and keeps new ones out until we commit. So a snapshot taken
    # now shows all that was written without capture, and whatever it does not show will be captured.
    connection.execute(
        "INSERT INTO headwater.tables VALUES (%s, %s, %s, pg_current_snapshot())", [oid, table.schema, table.table]
    )


def _forget(connection: Connection, oid: int) -> None:
    """Cascading from our own function drops the triggers, too: dropping them by name would take the table's owner."""
    function = sql.Identifier("headwater", f"headwater_capture_{oid}")
    connection.execute(sql.SQL("DROP FUNCTION IF EXISTS {}() CASCADE").format(function))
    connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(changes_table(oid)))
    connection.execute("DELETE FROM headwater.tables WHERE oid = %s", [oid])
    connection.execute("DELETE FROM headwater.gaps WHERE oid = %s", [oid])


def _check_schema(connection: Connection) -> None:
    row = connection.execute(
        "SELECT to_regnamespace('headwater') IS NOT NULL, has_database_privilege(current_database(), 'CREATE'),"
        " current_database()::text, current_user::text"
    ).fetchone()
    assert row is not None
    exists, may_create, database, role = row
    if exists:
        raise SourceRefused(
            "there is a schema headwater already, and it is not Headwater's capture",
            "rename or drop that schema; capture needs the name",
        )
    if not may_create:
        grant = sql.SQL("GRANT CREATE ON DATABASE {} TO {};").format(sql.Identifier(database), sql.Identifier(role))
        raise SourceRefused(
            f"the role {role} may not create a schema in {database}", f"run {grant.as_string(connection)}"
        )


def _check_table(connection: Connection, table: TableName, oid: int) -> None:
    row = connection.execute(_PRIVILEGES, [oid]).fetchone()
    if row is None:
        raise SourceUnavailable(f"{table} disappeared a moment ago", "try again")
    usage, select, trigger, hidden, inherits, role = row
    name = sql.Identifier(table.schema, table.table).as_string(connection)
    to = sql.Identifier(role).as_string(connection)
    if not usage:
        schema = sql.Identifier(table.schema).as_string(connection)
        raise SourceRefused(
            f"the role {role} may not use schema {schema}", f"run GRANT USAGE ON SCHEMA {schema} TO {to};"
        )
    missing = [word for word, granted in (("SELECT", select), ("TRIGGER", trigger)) if not granted]
    if missing:
        raise SourceRefused(
            f"the role {role} lacks {' and '.join(missing)} on {table}",
            f"run GRANT {', '.join(missing)} ON TABLE {name} TO {to};",
        )
    if hidden:
        raise SourceRefused(
            f"row level security hides rows of {table} from the role {role}", f"run ALTER ROLE {to} BYPASSRLS;"
        )
    if inherits:
        raise SourceRefused(
            f"{table} takes part in table inheritance: writes through a parent do not fire its children's triggers",
            "use declarative partitioning, or capture tables that inherit nothing",
        )


# ── remove ───────────────────────────────────────────────────────────────────────────────────────────────────────


def remove(connections: Connections) -> list[str]:
    with connections.borrow() as connection:
        if generation(connection) is None:
            return []
        lines = []
        for captured in inspect(connection):  # one by one: short locks, and never two tables at once
            _patiently(connection, ".".join(captured.recorded), lambda c, o=captured.oid: _forget(c, o))  # type: ignore[misc]  # as above
            lines.append(f"dropped capture of {'.'.join(captured.current or captured.recorded)}")
        _patiently(connection, "schema headwater", lambda c: c.execute("DROP SCHEMA headwater CASCADE"))
        return [*lines, "dropped schema headwater"]


def _patiently(connection: Connection, what: str, work: Callable[[Connection], object]) -> None:
    """One transaction that never keeps writers queueing behind it for long: give up soon, try again a few times."""
    for attempt in range(_LOCK_TRIES):
        try:
            with connection.transaction():
                connection.execute(f"SET LOCAL lock_timeout = '{_LOCK_TIMEOUT}'")
                connection.execute(_ONE_AT_A_TIME)
                work(connection)
            return
        except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected):
            time.sleep(0.2 * (attempt + 1))
    raise SourceUnavailable(
        f"{what} is in use: its lock was not free within {_LOCK_TIMEOUT}, {_LOCK_TRIES} times",
        "try again when long transactions on it have ended (SELECT pid, xact_start, query FROM pg_stat_activity)",
    )
