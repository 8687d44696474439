"""The schema headwater, as SQL: what capture notes, and the functions that readers use to look at it.

A reader's functions are STABLE: they look with their caller's snapshot, so what they say holds for the very rows that
the statement reads.

    here()                  where this database is: server and database, to recognise a copy
    alive(at, life, format) true, or an error: is this database a continuation of that position's past?
    newest()                the witness of all that is committed (see `life.py`)
    signature(table)        our triggers on a table, each with the transaction that last touched it
    fault(table)            what is wrong with a table's capture, null if nothing is
    shape(table)            a digest of all that decides how its rows and changes are to be read
    holds(at, table, shape) true, or an error: can the table's state as of that position be told, in that shape?
    layout, relaid          how a change's row is laid out, and the same row laid out anew
    fields_<n>              n texts: a change's row is read as these, so that no column can make reading fail
"""

from __future__ import annotations

from headwater.sources.postgres.connection import BROKEN, LIFE, MOVED, NOT_CAPTURED, TRIMMED

FORMAT = 2
"""Of what is described here. A capture of another one is not read, and installed anew."""

WIDTHS = (8, 32, 128, 512, 1600)
"""Of the types fields_<n>; no table has more columns than the last."""

_TABLES = """
CREATE SCHEMA headwater;
COMMENT ON SCHEMA headwater IS 'Change capture of Headwater; `headwater teardown` takes it away.';
CREATE TABLE headwater.meta (format integer NOT NULL, generation uuid NOT NULL, trimmed pg_snapshot, home text);
CREATE TABLE headwater.tables (oid oid PRIMARY KEY, schema_name text NOT NULL, table_name text NOT NULL,
    since pg_snapshot NOT NULL, life uuid NOT NULL, signature text);
CREATE TABLE headwater.leaves (root oid NOT NULL, oid oid NOT NULL, filenode oid, signature text);
CREATE INDEX ON headwater.leaves (oid);
CREATE TABLE headwater.gaps (oid oid NOT NULL, at timestamptz NOT NULL, reason text NOT NULL);
CREATE TABLE headwater.consumers (owner text PRIMARY KEY, label text NOT NULL, trimmed pg_snapshot NOT NULL,
    life text NOT NULL, seen_at timestamptz NOT NULL DEFAULT now());
CREATE TABLE headwater.owned
    (owner text REFERENCES headwater.consumers ON DELETE CASCADE, oid oid, PRIMARY KEY (owner, oid));
CREATE TABLE headwater.witnesses
    (log oid NOT NULL, id bigint PRIMARY KEY, xid xid8 NOT NULL, at timestamptz NOT NULL, seen pg_snapshot);
CREATE SEQUENCE headwater.ids CACHE 1;
-- so that they may be updated although someone publishes all tables of the database
ALTER TABLE headwater.meta REPLICA IDENTITY FULL;
ALTER TABLE headwater.leaves REPLICA IDENTITY FULL;
ALTER TABLE headwater.gaps REPLICA IDENTITY FULL;
"""

_LIFE = f"""
CREATE FUNCTION headwater.here() RETURNS text LANGUAGE plpgsql STABLE AS $$
DECLARE place text := (SELECT oid::text FROM pg_catalog.pg_database WHERE datname = current_database());
BEGIN
    RETURN place || '@' || (SELECT system_identifier FROM pg_catalog.pg_control_system());
EXCEPTION WHEN insufficient_privilege THEN
    RETURN place;
END $$;

CREATE FUNCTION headwater.moment("at" timestamptz) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT round(extract(epoch FROM "at") * 1000000)::bigint $$;

CREATE FUNCTION headwater.alive("at" pg_snapshot, life text, expected integer) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
DECLARE meta headwater.meta; witness text; part text[]; log text; there boolean;
BEGIN
    SELECT * INTO meta FROM headwater.meta;
    IF meta.format <> expected THEN
        RAISE EXCEPTION USING ERRCODE = '{NOT_CAPTURED}', MESSAGE = 'capture was installed by another Headwater';
    ELSIF meta.home <> headwater.here() THEN
        RAISE EXCEPTION USING ERRCODE = '{LIFE}', MESSAGE =
            'this is a copy of the database that capture was installed in, on another server or under another name';
    ELSIF left(meta.generation::text, 8) <> split_part(life, '/', 1) AND life <> '' THEN
        RAISE EXCEPTION USING ERRCODE = '{LIFE}', MESSAGE = 'capture was removed and installed anew';
    ELSIF pg_snapshot_xmax(pg_current_snapshot()) < pg_snapshot_xmax("at") THEN
        RAISE EXCEPTION USING ERRCODE = '{LIFE}', MESSAGE = 'it has not come as far as what was read from it';
    ELSIF NOT headwater.contains("at", meta.trimmed) THEN  -- its witness may have been trimmed with the rest
        RAISE EXCEPTION USING ERRCODE = '{TRIMMED}',
            MESSAGE = format('changes after position %s were trimmed', left("at"::text, 80));
    END IF;
    FOREACH witness IN ARRAY string_to_array(split_part(life, '/', 2), '+') LOOP
        part := string_to_array(witness, '.');
        there := EXISTS (SELECT FROM headwater.witnesses AS w WHERE w.id = part[2]::bigint
            AND w.log = part[1]::oid AND headwater.moment(w.at) = part[3]::bigint);
        log := CASE part[1] WHEN '0' THEN 'parts' ELSE 'changes_' || part[1] END;
        IF NOT there AND to_regclass('headwater.' || log) IS NOT NULL THEN
            EXECUTE format('SELECT EXISTS (SELECT FROM headwater.%I WHERE id = $1 AND headwater.moment(at) = $2)', log)
                INTO there USING part[2]::bigint, part[3]::bigint;
        END IF;
        IF NOT there THEN
            RAISE EXCEPTION USING ERRCODE = '{LIFE}', MESSAGE =
                format('it does not have change %s, which was read from it', part[2]);
        END IF;
    END LOOP;
    RETURN true;
END $$;

CREATE FUNCTION headwater.logs() RETURNS TABLE (log oid, name text) LANGUAGE sql STABLE AS $$
    SELECT 0::oid, 'headwater.parts'
    UNION ALL SELECT t.oid, 'headwater.changes_' || t.oid FROM headwater.tables AS t
        WHERE to_regclass('headwater.changes_' || t.oid) IS NOT NULL $$;

CREATE FUNCTION headwater.newest() RETURNS text LANGUAGE plpgsql STABLE AS $$
DECLARE
    newest headwater.witnesses; others text := ''; found text;
    generation text := (SELECT left(m.generation::text, 8) FROM headwater.meta AS m);
BEGIN
    EXECUTE (SELECT string_agg(format('(SELECT %s::oid AS log, id, xid, at, seen FROM %s ORDER BY id DESC LIMIT 1)',
            l.log, l.name), ' UNION ALL ') FROM headwater.logs() AS l)
        || ' UNION ALL (SELECT * FROM headwater.witnesses ORDER BY id DESC LIMIT 1) ORDER BY id DESC LIMIT 1'
        INTO newest;
    IF newest.id IS NULL THEN
        RETURN generation;
    END IF;
    -- is there any transaction that it may not have seen, other than itself?
    IF newest.seen IS NULL OR EXISTS (SELECT FROM pg_snapshot_xip(newest.seen))
            OR pg_snapshot_xmax(newest.seen) < newest.xid OR pg_snapshot_xmax(pg_current_snapshot())::text::numeric >
                greatest(newest.xid::text::numeric + 1, pg_snapshot_xmax(newest.seen)::text::numeric) THEN
        EXECUTE 'SELECT string_agg(format(''+%s.%s.%s'', log, id, headwater.moment(at)), '''' ORDER BY id DESC) FROM (
                SELECT DISTINCT ON (xid) log, id, at FROM ('
            || (SELECT string_agg(format('(SELECT %s::oid AS log, id, xid, at FROM %s
                    WHERE xid = ANY (ARRAY(SELECT pg_snapshot_xip($1))) AND xid <> $2)
                    UNION ALL (SELECT %s::oid, id, xid, at FROM %s WHERE xid >= pg_snapshot_xmax($1) AND xid <> $2
                    ORDER BY xid DESC, id DESC LIMIT {{OTHERS}})', l.log, l.name, l.log, l.name), ' UNION ALL ')
                FROM headwater.logs() AS l)
            || ') AS unseen ORDER BY xid, id DESC LIMIT {{OTHERS}}) AS others'
            INTO found USING coalesce(newest.seen, '1:1:'), newest.xid;
        others := coalesce(found, '');
    END IF;
    RETURN format('%s/%s.%s.%s%s', generation, newest.log, newest.id, headwater.moment(newest.at), others);
END $$;
""".replace("{OTHERS}", "4")

_ROWS = """
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
"""

# A partition is as good as captured from its first row on if it was created as a partition: it had no row before, and
# PostgreSQL gave it our row trigger with it. ATTACH PARTITION updates the columns of a table that was there before, be
# it in the same transaction; so the columns of one created as a partition are as old as its system columns.
_FAULTS = """
CREATE FUNCTION headwater.tree(root oid) RETURNS TABLE (oid oid, since xid) LANGUAGE sql STABLE AS $$
    WITH RECURSIVE tree (oid, since) AS (
        SELECT i.inhrelid, i.xmin FROM pg_catalog.pg_inherits AS i WHERE i.inhparent = root
        UNION ALL
        SELECT i.inhrelid, i.xmin FROM tree JOIN pg_catalog.pg_inherits AS i ON i.inhparent = tree.oid)
    SELECT tree.oid, tree.since FROM tree $$;

CREATE FUNCTION headwater.signature(relation oid, root oid) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT string_agg(t.tgname || ' ' || t.xmin::text, ', ' ORDER BY t.tgname)
        || coalesce((SELECT ', since ' || i.xmin::text FROM pg_catalog.pg_inherits AS i
            WHERE i.inhrelid = relation), '')
    FROM pg_catalog.pg_trigger AS t JOIN pg_catalog.pg_proc AS p ON p.oid = t.tgfoid
    WHERE t.tgrelid = relation AND p.proname = 'headwater_capture_' || root
      AND p.pronamespace = 'headwater'::regnamespace $$;

CREATE FUNCTION headwater.fault_of_triggers(relation oid, root oid, wanted text[]) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN t.tgname IS NULL THEN format('the trigger %s is gone', w.name)
                ELSE format('the trigger %s is disabled', w.name) END
    FROM unnest(wanted) WITH ORDINALITY AS w (name, place)
    LEFT JOIN (pg_catalog.pg_trigger AS t JOIN pg_catalog.pg_proc AS p ON p.oid = t.tgfoid
            AND p.proname = 'headwater_capture_' || root AND p.pronamespace = 'headwater'::regnamespace)
        ON t.tgname = w.name AND t.tgrelid = relation
    WHERE t.tgname IS NULL OR t.tgenabled NOT IN ('O', 'A')
    ORDER BY t.tgname IS NOT NULL, w.place LIMIT 1 $$;

CREATE FUNCTION headwater.fault_of_partitions(root oid) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT reason FROM (
        SELECT 1 AS weight, format('its partition %s was dropped or detached', l.oid) AS reason
        FROM headwater.leaves AS l WHERE l.root = fault_of_partitions.root
          AND l.oid NOT IN (SELECT t.oid FROM headwater.tree(l.root) AS t)
        UNION ALL
        SELECT 2, format('its partition %s %s', c.oid::regclass, CASE
            WHEN c.relkind NOT IN ('r', 'p') THEN 'is a foreign table'
            WHEN c.relpersistence <> 'p' THEN 'is not logged: a crash empties it unseen'
            WHEN bad.reason IS NOT NULL THEN 'is not captured: ' || bad.reason
            WHEN l.signature IS NULL AND NOT EXISTS (
                    SELECT FROM pg_catalog.pg_attribute AS s JOIN pg_catalog.pg_attribute AS a
                        ON a.attrelid = s.attrelid AND a.attnum > 0 AND a.xmin = s.xmin AND a.cmin = s.cmin
                    WHERE s.attrelid = t.oid AND s.attnum = -1 AND s.xmin = t.since)
                THEN 'was attached, with whatever rows it had'
            WHEN l.signature IS NULL AND g.xmin <> t.since THEN 'was written while its trigger was disabled, perhaps'
            WHEN l.signature <> headwater.signature(t.oid, fault_of_partitions.root)
                THEN 'was detached, or its triggers were disabled, for a while'
            WHEN l.filenode <> c.relfilenode AND w.oid IS NULL THEN 'was truncated or written anew, before '
                || '''headwater setup'' had put a TRUNCATE trigger on it' END)
        FROM headwater.tree(fault_of_partitions.root) AS t
        JOIN pg_catalog.pg_class AS c ON c.oid = t.oid
        LEFT JOIN LATERAL (SELECT * FROM headwater.leaves AS l WHERE l.oid = t.oid AND l.root = fault_of_partitions.root
            ORDER BY l.signature NULLS LAST LIMIT 1) AS l ON true
        LEFT JOIN pg_catalog.pg_trigger AS g ON g.tgrelid = t.oid AND g.tgname = 'headwater_rows'
        LEFT JOIN pg_catalog.pg_trigger AS w ON w.tgrelid = t.oid AND w.tgname = 'headwater_truncate'
            AND w.tgenabled IN ('O', 'A')
        CROSS JOIN LATERAL headwater.fault_of_triggers(t.oid, fault_of_partitions.root, ARRAY['headwater_rows'])
            AS bad (reason)
    ) AS found WHERE reason NOT LIKE '% ' ORDER BY weight LIMIT 1 $$;

CREATE FUNCTION headwater.fault(captured oid) RETURNS text LANGUAGE plpgsql STABLE AS $$
DECLARE noted headwater.tables; found pg_catalog.pg_class; said text; wanted text[];
BEGIN
    SELECT * INTO noted FROM headwater.tables AS t WHERE t.oid = captured;
    SELECT * INTO found FROM pg_catalog.pg_class AS c WHERE c.oid = captured;
    IF found.oid IS NULL THEN
        RETURN 'the table was dropped (or dropped and created anew)';
    ELSIF noted.oid IS NULL THEN
        RETURN 'the table is not captured';
    END IF;
    wanted := CASE found.relkind WHEN 'p' THEN ARRAY['headwater_rows']
        ELSE ARRAY['headwater_insert', 'headwater_update', 'headwater_delete', 'headwater_truncate'] END;
    said := headwater.fault_of_triggers(captured, captured, wanted);
    IF said IS NOT NULL THEN
        RETURN said;
    ELSIF EXISTS (SELECT FROM pg_catalog.pg_inherits WHERE inhrelid = captured) THEN
        RETURN 'the table is a part of another one now, and what is written through that one goes unseen';
    ELSIF noted.signature <> headwater.signature(captured, captured) THEN
        RETURN 'its triggers were disabled for a while: some of its rows may have gone unseen';
    ELSIF to_regclass('headwater.changes_' || captured) IS NULL THEN
        RETURN format('the change table headwater.changes_%s is gone', captured);
    ELSIF found.relpersistence <> 'p' THEN
        RETURN 'the table is not logged any longer: a crash would empty it unseen';
    ELSIF found.relrowsecurity AND row_security_active(captured) THEN
        RETURN 'row level security hides rows of it from the role ' || current_user;
    ELSIF found.relkind <> 'p' AND EXISTS (SELECT FROM pg_catalog.pg_inherits WHERE inhparent = captured) THEN
        RETURN 'other tables inherit from it now, and what is written to them goes unseen';
    END IF;
    SELECT max(reason) INTO said FROM headwater.gaps AS g WHERE g.oid = captured;
    IF said IS NOT NULL THEN
        RETURN format('the table %s: some of its rows may have gone unseen', said);
    END IF;
    RETURN CASE WHEN found.relkind = 'p' THEN headwater.fault_of_partitions(captured) END;
END $$;
"""

_SHAPE = f"""
-- Of an enum, or a domain over one.
CREATE FUNCTION headwater.values_of(type oid) RETURNS text LANGUAGE sql STABLE AS $$
    WITH RECURSIVE below (oid) AS (
        SELECT type UNION ALL SELECT t.typbasetype FROM below JOIN pg_catalog.pg_type AS t ON t.oid = below.oid
        WHERE t.typbasetype <> 0)
    SELECT string_agg(e.oid || '=' || e.enumlabel, ' ' ORDER BY e.oid)
    FROM below JOIN pg_catalog.pg_enum AS e ON e.enumtypid = below.oid $$;

CREATE FUNCTION headwater.shape(captured oid) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT md5(concat_ws('|', concat_ws(' ', c.relname, c.relnamespace, c.relkind, c.relpersistence, c.relrowsecurity,
            c.relforcerowsecurity, c.relfilenode),
        (SELECT string_agg(concat_ws(' ', a.attnum, a.attname, a.atttypid, a.atttypmod, a.attcollation, a.xmin,
                y.xmin, CASE WHEN y.typtype IN ('d', 'e') THEN headwater.values_of(y.oid) END), ', ' ORDER BY a.attnum)
            FROM pg_catalog.pg_attribute AS a JOIN pg_catalog.pg_type AS y ON y.oid = a.atttypid
            WHERE a.attrelid = captured AND a.attnum > 0 AND NOT a.attisdropped),
        (SELECT string_agg(concat_ws(' ', t.tgname, t.tgenabled, t.tgfoid, t.xmin), ', ' ORDER BY t.tgname)
            FROM pg_catalog.pg_trigger AS t WHERE t.tgrelid = captured AND t.tgname LIKE 'headwater\\_%'),
        (SELECT string_agg(i.inhparent || ' ' || i.inhrelid, ', ' ORDER BY i.inhparent, i.inhrelid)
            FROM pg_catalog.pg_inherits AS i WHERE captured IN (i.inhparent, i.inhrelid)),
        (SELECT count(*) FROM headwater.gaps AS g WHERE g.oid = captured),
        (SELECT t.life || coalesce(t.signature, '') FROM headwater.tables AS t WHERE t.oid = captured),
        CASE WHEN c.relkind = 'p' THEN concat_ws('|',
            (SELECT string_agg(concat_ws(' ', p.oid, p.relkind, p.relpersistence, p.relfilenode, tree.since,
                    headwater.signature(p.oid, captured), headwater.fault_of_triggers(p.oid, captured,
                    ARRAY['headwater_rows'])), ', ' ORDER BY p.oid)
                FROM headwater.tree(captured) AS tree JOIN pg_catalog.pg_class AS p ON p.oid = tree.oid),
            (SELECT string_agg(concat_ws(' ', l.oid, l.filenode, l.signature), ', ' ORDER BY l.oid, l.filenode)
                FROM headwater.leaves AS l WHERE l.root = captured)) END))
    FROM pg_catalog.pg_class AS c WHERE c.oid = captured $$;

CREATE FUNCTION headwater.holds("at" pg_snapshot, captured oid, shape text) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
DECLARE began pg_snapshot; gone pg_snapshot; fault text;
BEGIN
    SELECT since, trimmed INTO began, gone FROM headwater.tables, headwater.meta WHERE oid = captured;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = '{NOT_CAPTURED}', MESSAGE = captured::regclass::text || ' is not captured';
    ELSIF shape IS NULL THEN
        fault := headwater.fault(captured);
        IF fault IS NOT NULL THEN
            RAISE EXCEPTION USING ERRCODE = '{BROKEN}', MESSAGE = captured::regclass::text || ': ' || fault;
        END IF;
    ELSIF shape <> headwater.shape(captured) OR row_security_active(captured) THEN
        RAISE EXCEPTION USING ERRCODE = '{MOVED}', MESSAGE = captured::regclass::text || ' was altered';
    END IF;
    IF NOT headwater.contains("at", began) THEN
        RAISE EXCEPTION USING ERRCODE = '{TRIMMED}',
            MESSAGE = format('capture of %s began after position %s', captured::regclass, left("at"::text, 80));
    ELSIF NOT headwater.contains("at", gone) THEN  -- NULL: never trimmed
        RAISE EXCEPTION USING ERRCODE = '{TRIMMED}',
            MESSAGE = format('changes after position %s were trimmed', left("at"::text, 80));
    END IF;
    RETURN true;
END $$;
"""


def fault_with_log() -> str:
    """The function `fault` where some tables are captured by the log."""
    start = _FAULTS.index("CREATE FUNCTION headwater.fault(captured oid)")
    trigger = "    wanted := CASE found.relkind"
    log = """    IF EXISTS (SELECT FROM headwater.logged AS g WHERE g.oid = captured) THEN
        said := headwater.fault_of_log(captured);
        IF said IS NOT NULL THEN
            RETURN said;
        END IF;
    END IF;
    wanted := CASE WHEN EXISTS (SELECT FROM headwater.logged AS g WHERE g.oid = captured)
        THEN CASE found.relkind WHEN 'p' THEN ARRAY[]::text[] ELSE ARRAY['headwater_truncate'] END
        WHEN found.relkind ="""
    body = _FAULTS[start:].replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION", 1)
    assert trigger + " WHEN 'p' THEN" in body
    parts = "    RETURN CASE WHEN found.relkind = 'p' THEN headwater.fault_of_partitions(captured) END;"
    logged = """    IF found.relkind = 'p' AND EXISTS (SELECT FROM headwater.logged AS g WHERE g.oid = captured) THEN
        RETURN headwater.fault_of_logged_partitions(captured);
    END IF;
"""
    assert parts in body
    return body.replace(trigger + " WHEN 'p' THEN", log + " 'p' THEN", 1).replace(parts, logged + parts, 1)


def statements() -> list[str]:
    """What creates the schema; the parts of global transactions are in `parts.py`."""
    types = [
        f"CREATE TYPE headwater.fields_{width} AS ({', '.join(f'f{n} text' for n in range(1, width + 1))})"
        for width in WIDTHS
    ]
    begun = f"INSERT INTO headwater.meta VALUES ({FORMAT}, gen_random_uuid(), NULL, headwater.here())"
    return [_TABLES, _LIFE, _ROWS, _FAULTS, _SHAPE, *types, begun]
