"""What tools ask of a PostgreSQL database when a person connects, browses and draws a chart: one statement each.

The tables and columns of pg_catalog and information_schema that they name, and their habits of SQL, are those of the
tools; texts are shortened where a tool lists every column. Each comes with the number of rows of the answer (−1: none
are sent).
"""

from __future__ import annotations

from typing import LiteralString

ASKED: list[tuple[str, LiteralString, int]] = [
    (
        "DBeaver schemas",
        "SELECT n.oid,n.*,d.description FROM pg_catalog.pg_namespace n LEFT OUTER JOIN pg_catalog.pg_description "
        "d ON d.objoid=n.oid AND d.objsubid=0 AND d.classoid='pg_namespace'::regclass ORDER BY nspname",
        3,
    ),
    (
        "DBeaver tables",
        "SELECT c.oid,c.*,d.description,pg_catalog.pg_get_expr(c.relpartbound, c.oid) as partition_expr, "
        "pg_catalog.pg_get_partkeydef(c.oid) as partition_key FROM pg_catalog.pg_class c LEFT OUTER JOIN "
        "pg_catalog.pg_description d ON d.objoid=c.oid AND d.objsubid=0 AND d.classoid='pg_class'::regclass "
        "WHERE c.relnamespace=2200 AND c.relkind not in ('i','I','c')",
        2,
    ),
    (
        "DBeaver columns",
        "SELECT c.relname,a.*,pg_catalog.pg_get_expr(ad.adbin, ad.adrelid, true) as "
        "def_value,dsc.description,dep.objid FROM pg_catalog.pg_attribute a INNER JOIN pg_catalog.pg_class c ON "
        "(a.attrelid=c.oid) LEFT OUTER JOIN pg_catalog.pg_attrdef ad ON (a.attrelid=ad.adrelid AND a.attnum = "
        "ad.adnum) LEFT OUTER JOIN pg_catalog.pg_description dsc ON (c.oid=dsc.objoid AND a.attnum = "
        "dsc.objsubid) LEFT OUTER JOIN pg_depend dep on dep.refobjid = a.attrelid AND dep.deptype = 'i' and "
        "dep.refobjsubid = a.attnum and dep.classid = dep.refclassid WHERE NOT a.attisdropped AND c.relkind not "
        "in ('i','I','c') AND c.oid=(SELECT oid FROM pg_class WHERE relname='people') ORDER BY a.attnum",
        7,
    ),
    (
        "DBeaver types",
        "SELECT t.oid,t.*,c.relkind,format_type(nullif(t.typbasetype, 0), t.typtypmod) as base_type_name, "
        "d.description FROM pg_catalog.pg_type t LEFT OUTER JOIN pg_catalog.pg_type et ON et.oid=t.typelem LEFT "
        "OUTER JOIN pg_catalog.pg_class c ON c.oid=t.typrelid LEFT OUTER JOIN pg_catalog.pg_description d ON "
        "t.oid=d.objoid WHERE t.typname IS NOT NULL AND (c.relkind IS NULL OR c.relkind = 'c') AND "
        "(et.typcategory IS NULL OR et.typcategory <> 'C')",
        40,
    ),
    (
        "DBeaver db",
        "SELECT db.oid,db.* FROM pg_catalog.pg_database db WHERE datname='headwater'",
        1,
    ),
    (
        "DBeaver session",
        "SELECT current_schema(),session_user",
        1,
    ),
    (
        "DBeaver search",
        "SELECT n.nspname = ANY(current_schemas(true)), n.nspname FROM pg_catalog.pg_namespace n",
        3,
    ),
    (
        "DBeaver version",
        "SHOW search_path",
        1,
    ),
    (
        "DBeaver constraints",
        "SELECT c.oid,c.*,t.relname as tabrelname,rt.relnamespace as refnamespace,d.description, case when "
        "c.contype='c' then \"substring\"(pg_get_constraintdef(c.oid), 7) else null end consrc_copy FROM "
        "pg_catalog.pg_constraint c INNER JOIN pg_catalog.pg_class t ON t.oid=c.conrelid LEFT OUTER JOIN "
        "pg_catalog.pg_class rt ON rt.oid=c.confrelid LEFT OUTER JOIN pg_catalog.pg_description d ON "
        "d.objoid=c.oid AND d.objsubid=0 AND d.classoid='pg_constraint'::regclass WHERE c.conrelid=16385 ORDER "
        "BY c.oid",
        0,
    ),
    (
        "DBeaver indexes",
        "SELECT i.*,i.indkey as keys,c.relname,c.relnamespace,c.relam,c.reltablespace,tc.relname as "
        "tabrelname,dsc.description,pg_catalog.pg_get_expr(i.indpred, i.indrelid) as "
        "pred_expr,pg_catalog.pg_get_expr(i.indexprs, i.indrelid, true) as "
        "expr,pg_catalog.pg_relation_size(i.indexrelid) as "
        "index_rel_size,pg_catalog.pg_stat_get_numscans(i.indexrelid) as index_num_scans FROM "
        "pg_catalog.pg_index i INNER JOIN pg_catalog.pg_class c ON c.oid=i.indexrelid INNER JOIN "
        "pg_catalog.pg_class tc ON tc.oid=i.indrelid LEFT OUTER JOIN pg_catalog.pg_description dsc ON "
        "i.indexrelid=dsc.objoid WHERE i.indrelid=16385 ORDER BY tabrelname, c.relname",
        0,
    ),
    (
        "DBeaver stats",
        "SELECT c.oid, pg_catalog.pg_total_relation_size(c.oid) as total_rel_size, "
        "pg_catalog.pg_relation_size(c.oid) as rel_size FROM pg_class c WHERE c.relnamespace=2200",
        2,
    ),
    (
        "DBeaver roles",
        "SELECT a.oid,a.*,pd.description FROM pg_catalog.pg_roles a left join pg_catalog.pg_shdescription pd on "
        "a.oid = pd.objoid ORDER BY a.rolname",
        1,
    ),
    (
        "DBeaver settings",
        "select * from pg_catalog.pg_settings where name='standard_conforming_strings'",
        1,
    ),
    (
        "DBeaver quote",
        "select string_agg(word, ',') from pg_catalog.pg_get_keywords() where word <> ALL ('{a,abs,absolute}'::text[])",
        1,
    ),
    (
        "DBeaver extra",
        "SET extra_float_digits = 3",
        -1,
    ),
    (
        "app",
        "SET application_name = 'DBeaver 24.0 - Main'",
        -1,
    ),
    (
        "app2",
        "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
        -1,
    ),
    (
        "DBeaver limit",
        "SELECT x.* FROM public.people x LIMIT 200",
        3,
    ),
    (
        "DBeaver count",
        "SELECT count(*) FROM public.people",
        1,
    ),
    (
        "Metabase tables",
        "SELECT n.nspname AS \"schema\", c.relname AS \"name\", CASE c.relkind WHEN 'r' THEN 'TABLE' WHEN 'p' THEN "
        "'PARTITIONED TABLE' WHEN 'v' THEN 'VIEW' WHEN 'f' THEN 'FOREIGN TABLE' WHEN 'm' THEN 'MATERIALIZED "
        'VIEW\' ELSE NULL END AS "type", d.description AS "description", NULLIF(stat.n_live_tup, 0) AS '
        '"estimated_row_count" FROM pg_catalog.pg_class AS c INNER JOIN pg_catalog.pg_namespace AS n ON '
        "c.relnamespace = n.oid LEFT JOIN pg_catalog.pg_description AS d ON (c.oid = d.objoid) AND (d.objsubid = "
        "0) AND (d.classoid = 'pg_class'::regclass) LEFT JOIN pg_stat_user_tables AS stat ON (n.nspname = "
        "stat.schemaname) AND (c.relname = stat.relname) WHERE ((c.relnamespace = n.oid) AND (n.nspname !~ "
        "'^information_schema|catalog_history|pg_') AND (c.relkind IN ('r', 'p', 'v', 'f', 'm'))) AND (n.nspname "
        'IN (\'public\')) ORDER BY "type" ASC, "schema" ASC, "name" ASC',
        2,
    ),
    (
        "Metabase fields",
        "SELECT c.column_name AS name, CASE WHEN c.udt_schema IN ('public', 'pg_catalog') THEN FORMAT('%s', "
        'c.udt_name) ELSE FORMAT(\'"%s"."%s"\', c.udt_schema, c.udt_name) END AS "database-type", '
        'c.ordinal_position - 1 AS "database-position", c.table_schema AS "table-schema", c.table_name AS '
        '"table-name", pk.column_name IS NOT NULL AS "pk?", COL_DESCRIPTION(CAST(CAST(FORMAT(\'%I.%I\', '
        "CAST(c.table_schema AS TEXT), CAST(c.table_name AS TEXT)) AS REGCLASS) AS OID), c.ordinal_position) AS "
        "\"field-comment\", ((c.column_default IS NULL) OR (LOWER(c.column_default) = 'null')) AND (c.is_nullable "
        "= 'NO') AND NOT (((c.column_default IS NOT NULL) AND (c.column_default LIKE '%nextval(%')) OR "
        "(c.is_identity <> 'NO')) AS \"database-required\", ((c.column_default IS NOT NULL) AND (c.column_default "
        "LIKE '%nextval(%')) OR (c.is_identity <> 'NO') AS \"database-is-auto-increment\" FROM "
        "information_schema.columns AS c LEFT JOIN (SELECT tc.table_schema, tc.table_name, kc.column_name FROM "
        "information_schema.table_constraints AS tc INNER JOIN information_schema.key_column_usage AS kc ON "
        "(tc.constraint_name = kc.constraint_name) AND (tc.table_schema = kc.table_schema) AND (tc.table_name = "
        "kc.table_name) WHERE tc.constraint_type = 'PRIMARY KEY') AS pk ON (c.table_schema = pk.table_schema) "
        "AND (c.table_name = pk.table_name) AND (c.column_name = pk.column_name) WHERE c.table_schema !~ "
        "'^information_schema|catalog_history|pg_' AND c.table_schema IN ('public') ORDER BY \"table-schema\" ASC, "
        '"table-name" ASC, "database-position" ASC',
        8,
    ),
    (
        "Metabase privs",
        "with table_privileges as (select NULL as role, t.schemaname as schema, t.objectname as table, "
        "pg_catalog.has_any_column_privilege(current_user, '\"' || replace(t.schemaname, '\"', '\"\"') || '\".\"' || "
        "replace(t.objectname, '\"', '\"\"') || '\"', 'update') as update, "
        "pg_catalog.has_any_column_privilege(current_user, '\"' || t.schemaname || '\".\"' || t.objectname || '\"', "
        "'select') as select from (select schemaname, tablename as objectname from pg_catalog.pg_tables union "
        "select schemaname, viewname as objectname from pg_catalog.pg_views union select schemaname, matviewname "
        "as objectname from pg_catalog.pg_matviews) t where t.schemaname !~ '^pg_' and t.schemaname <> "
        "'information_schema' and pg_catalog.has_schema_privilege(current_user, t.schemaname, 'usage')) select "
        "t.* from table_privileges t",
        2,
    ),
    (
        "Metabase tz",
        "show timezone",
        1,
    ),
    (
        "Metabase enums",
        "SELECT nspname, typname FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace WHERE t.oid IN "
        "(SELECT DISTINCT enumtypid FROM pg_enum e)",
        0,
    ),
    (
        "Metabase bin",
        'SELECT DATE_TRUNC(\'month\', "public"."people"."at") AS "at", COUNT(*) AS "count" FROM "public"."people" '
        'GROUP BY DATE_TRUNC(\'month\', "public"."people"."at") ORDER BY DATE_TRUNC(\'month\', '
        '"public"."people"."at") ASC',
        2,
    ),
    (
        "Metabase cast",
        'SELECT CAST("public"."people"."at" AS date) AS d, SUM("public"."people"."amount") AS "sum" FROM '
        '"public"."people" WHERE ("public"."people"."at" >= timestamp with time zone \'2024-01-01 00:00:00.000Z\') '
        'AND (LOWER("public"."people"."name") LIKE \'%a%\') GROUP BY CAST("public"."people"."at" AS date) LIMIT '
        "1048575",
        1,
    ),
    (
        "Metabase sub",
        'SELECT "source"."id" AS "id", AVG("source"."ratio") AS "avg" FROM (SELECT "public"."people"."id" AS '
        '"id", "public"."people"."ratio" AS "ratio" FROM "public"."people") AS "source" GROUP BY "source"."id"',
        2,
    ),
    (
        "Metabase interval",
        "SELECT count(*) FROM people WHERE at >= DATE_TRUNC('day', (NOW() + INTERVAL '-30 day')) AND at < "
        "DATE_TRUNC('day', NOW())",
        1,
    ),
    (
        "Grafana tables",
        "SELECT CASE WHEN quote_ident(table_schema) IN (SELECT CASE WHEN trim(s[i]) = '\"$user\"' THEN user ELSE "
        "trim(s[i]) END FROM generate_series(array_lower(string_to_array(current_setting('search_path'), ','), "
        "1), array_upper(string_to_array(current_setting('search_path'), ','), 1)) as i, "
        "string_to_array(current_setting('search_path'), ',') s) THEN quote_ident(table_name) ELSE "
        "quote_ident(table_schema) || '.' || quote_ident(table_name) END AS \"table\" FROM "
        "information_schema.tables WHERE quote_ident(table_schema) NOT IN ('information_schema', 'pg_catalog', "
        "'_timescaledb_cache')",
        2,
    ),
    (
        "Grafana columns",
        'SELECT quote_ident(column_name) AS "column", data_type AS "type" FROM information_schema.columns WHERE '
        "quote_ident(table_name) = 'people'",
        7,
    ),
    (
        "Grafana version",
        "SELECT current_setting('server_version_num')::int/100 as version",
        1,
    ),
    (
        "Grafana timescale",
        "SELECT extversion FROM pg_extension WHERE extname = 'timescaledb'",
        0,
    ),
    (
        "Grafana series",
        'SELECT floor(extract(epoch from at)/3600)*3600 AS "time", name AS metric, avg(ratio) AS "value" FROM '
        "people WHERE at BETWEEN '2024-02-28T00:00:00Z' AND '2024-03-01T00:00:00Z' GROUP BY 1, 2 ORDER BY 1",
        1,
    ),
    (
        "Grafana $__timeFilter",
        'SELECT at AS "time", ratio FROM people WHERE at BETWEEN to_timestamp(1709164800) AND '
        "to_timestamp(1709337600) ORDER BY 1",
        2,
    ),
    (
        "powerbi types",
        "select ns.nspname, a.typname, a.oid, a.typrelid, a.typbasetype, case when pg_proc.proname='array_recv' "
        "then 'a' else a.typtype end as type from pg_type as a join pg_namespace as ns on (ns.oid = "
        "a.typnamespace) left join pg_proc on pg_proc.oid = 0 where a.typtype in ('b','r','e','d')",
        40,
    ),
    (
        "npgsql",
        "SELECT version()",
        1,
    ),
    (
        "n2",
        "SELECT pg_is_in_recovery(), current_setting('server_version')",
        1,
    ),
    (
        "bool",
        "SHOW standard_conforming_strings",
        1,
    ),
    (
        "tx",
        "SHOW TRANSACTION ISOLATION LEVEL",
        1,
    ),
    (
        "pgadmin",
        "SELECT db.oid as did, db.datname, db.datallowconn, pg_catalog.pg_encoding_to_char(db.encoding) AS "
        "serverencoding, pg_catalog.has_database_privilege(db.oid, 'CREATE') as cancreate, datistemplate FROM "
        "pg_catalog.pg_database db WHERE db.datname = current_database()",
        1,
    ),
    (
        "pgadmin2",
        "SELECT roles.oid as id, roles.rolname as name, roles.rolsuper as is_superuser FROM pg_catalog.pg_roles "
        "as roles WHERE rolname = current_user",
        1,
    ),
    (
        "superset",
        "SELECT c.relname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
        "WHERE c.relkind IN ('v', 'm') AND n.nspname = 'public'",
        0,
    ),
    (
        "tableau",
        'SELECT 1 AS "number_of_records" FROM people LIMIT 1',
        1,
    ),
    (
        "asyncpg",
        "SELECT t.oid, t.typelem AS elemtype, t.typtype AS kind FROM pg_catalog.pg_type AS t WHERE t.oid = "
        "any('{20,1016}'::oid[])",
        2,
    ),
    (
        "Grafana schemas",
        'SELECT schema_name AS "name" FROM information_schema.schemata WHERE schema_name NOT IN '
        "('information_schema', 'pg_catalog', 'pg_toast', '_timescaledb_cache') ORDER BY schema_name",
        1,
    ),
    (
        "Grafana tables, in order",
        "SELECT CASE WHEN quote_ident(table_schema) IN (SELECT CASE WHEN trim(s[i]) = '\"$user\"' THEN user ELSE "
        "trim(s[i]) END FROM generate_series(array_lower(string_to_array(current_setting('search_path'),','),1), "
        "array_upper(string_to_array(current_setting('search_path'),','),1)) as i, "
        "string_to_array(current_setting('search_path'),',') s) THEN quote_ident(table_name) ELSE "
        "quote_ident(table_schema) || '.' || quote_ident(table_name) END AS \"table\" FROM information_schema.tables "
        "WHERE quote_ident(table_schema) NOT IN ('information_schema', 'pg_catalog') ORDER BY CASE WHEN "
        "quote_ident(table_schema) IN (SELECT CASE WHEN trim(s[i]) = '\"$user\"' THEN user ELSE trim(s[i]) END FROM "
        "generate_series(array_lower(string_to_array(current_setting('search_path'),','),1), "
        "array_upper(string_to_array(current_setting('search_path'),','),1)) as i, "
        "string_to_array(current_setting('search_path'),',') s) THEN 0 ELSE 1 END, 1",
        2,
    ),
    (
        "Grafana columns, by parts of a name",
        'SELECT quote_ident(column_name) AS "column", data_type AS "type" FROM information_schema.columns WHERE CASE '
        "WHEN array_length(parse_ident('public.people'),1) = 2 THEN quote_ident(table_schema) = "
        "(parse_ident('public.people'))[1] AND quote_ident(table_name) = (parse_ident('public.people'))[2] ELSE "
        "quote_ident(table_name) = 'public.people' AND quote_ident(table_schema) IN (SELECT CASE WHEN trim(s[i]) = "
        "'\"$user\"' THEN user ELSE trim(s[i]) END FROM "
        "generate_series(array_lower(string_to_array(current_setting('search_path'),','),1), "
        "array_upper(string_to_array(current_setting('search_path'),','),1)) as i, "
        "string_to_array(current_setting('search_path'),',') s) END",
        7,
    ),
    (
        "Grafana columns, by a plain name",
        'SELECT quote_ident(column_name) AS "column", data_type AS "type" FROM information_schema.columns WHERE CASE '
        "WHEN array_length(parse_ident('people'),1) = 2 THEN quote_ident(table_schema) = (parse_ident('people'))[1] "
        "AND quote_ident(table_name) = (parse_ident('people'))[2] ELSE quote_ident(table_name) = 'people' AND "
        "quote_ident(table_schema) IN ('public') END",
        7,
    ),
    (
        "Grafana $__timeGroup",
        'SELECT floor(extract(epoch from at)/60)*60 AS "time", count(*) AS "count" FROM people WHERE at BETWEEN '
        "'2024-02-28T00:00:00.123Z' AND '2024-03-01T00:00:00.456Z' GROUP BY time ORDER BY time",
        1,
    ),
    (
        "Metabase fields, of materialized views too",
        '(SELECT c.column_name AS name, c.ordinal_position - 1 AS "database-position", c.table_schema AS '
        '"table-schema", c.table_name AS "table-name" FROM information_schema.columns AS c WHERE c.table_schema !~ '
        "'^information_schema|catalog_history|pg_') UNION ALL (SELECT pa.attname AS name, pa.attnum - 1 AS "
        '"database-position", pn.nspname AS "table-schema", pc.relname AS "table-name" FROM pg_catalog.pg_class AS '
        "pc INNER JOIN pg_catalog.pg_namespace AS pn ON pn.oid = pc.relnamespace INNER JOIN pg_catalog.pg_attribute AS "
        "pa ON pa.attrelid = pc.oid INNER JOIN pg_catalog.pg_type AS pt ON pt.oid = pa.atttypid INNER JOIN "
        "pg_catalog.pg_namespace AS ptn ON ptn.oid = pt.typnamespace WHERE (pc.relkind = 'm') AND (pa.attnum >= 1)) "
        'ORDER BY "table-schema" ASC, "table-name" ASC, "database-position" ASC',
        8,
    ),
    (
        "Metabase foreign keys",
        'SELECT fk_ns.nspname AS "fk-table-schema", fk_table.relname AS "fk-table-name", fk_column.attname AS '
        '"fk-column-name", pk_ns.nspname AS "pk-table-schema", pk_table.relname AS "pk-table-name", '
        'pk_column.attname AS "pk-column-name" FROM pg_constraint AS c INNER JOIN pg_class AS fk_table ON c.conrelid = '
        "fk_table.oid INNER JOIN pg_namespace AS fk_ns ON c.connamespace = fk_ns.oid INNER JOIN pg_attribute AS "
        "fk_column ON c.conrelid = fk_column.attrelid INNER JOIN pg_class AS pk_table ON c.confrelid = pk_table.oid "
        "INNER JOIN pg_namespace AS pk_ns ON pk_table.relnamespace = pk_ns.oid INNER JOIN pg_attribute AS pk_column ON "
        "c.confrelid = pk_column.attrelid WHERE (fk_ns.nspname !~ '^information_schema|catalog_history|pg_') AND "
        "(c.contype = 'f'::char) AND (fk_column.attnum = ANY(c.conkey)) AND (pk_column.attnum = ANY(c.confkey)) ORDER "
        'BY "fk-table-schema", "fk-table-name"',
        0,
    ),
    (
        "Metabase indexes",
        'SELECT tmp."table-schema", tmp."table-name", TRIM(BOTH \'"\' FROM pg_catalog.pg_get_indexdef(tmp.ci_oid, '
        'tmp.pos, FALSE)) AS "field-name" FROM (SELECT n.nspname AS "table-schema", ct.relname AS "table-name", '
        "ci.oid AS ci_oid, (information_schema._pg_expandarray(i.indkey)).n AS pos FROM pg_catalog.pg_class AS ct "
        "INNER JOIN pg_catalog.pg_namespace AS n ON ct.relnamespace = n.oid INNER JOIN pg_catalog.pg_index AS i ON "
        "ct.oid = i.indrelid INNER JOIN pg_catalog.pg_class AS ci ON ci.oid = i.indexrelid WHERE "
        "(pg_catalog.pg_get_expr( i.indpred, i.indrelid) IS NULL) AND (n.nspname !~ "
        "'^information_schema|catalog_history|pg_')) AS tmp WHERE tmp.pos = 1",
        0,
    ),
    (
        "Metabase week",
        'SELECT CAST(DATE_TRUNC(\'week\', CAST("public"."people"."at" AS timestamp)) AS timestamp) AS "at", '
        'COUNT(*) AS "count" FROM "public"."people" GROUP BY CAST(DATE_TRUNC(\'week\', CAST("public"."people"."at" AS '
        "timestamp)) AS timestamp) ORDER BY 1 ASC",
        2,
    ),
    (
        "DBeaver access methods",
        "SELECT am.oid,am.* FROM pg_catalog.pg_am am ORDER BY am.oid",
        1,
    ),
    (
        "DBeaver session path",
        'SET search_path = "$user",public',
        -1,
    ),
    (
        "DBeaver active",
        "SELECT current_schema(), session_user",
        1,
    ),
    (
        "DBeaver views",
        "SELECT c.oid,c.relname,pg_catalog.pg_get_viewdef(c.oid, true) as definition FROM pg_catalog.pg_class c WHERE "
        "c.relnamespace=2200 AND c.relkind IN ('v','m')",
        0,
    ),
    (
        "DBeaver filter",
        "SELECT x.* FROM public.people x WHERE \"name\" ILIKE '%ann%' ORDER BY x.id DESC LIMIT 200 OFFSET 0",
        2,
    ),
    (
        "pgjdbc getTables",
        "SELECT NULL AS TABLE_CAT, n.nspname AS TABLE_SCHEM, c.relname AS TABLE_NAME, CASE n.nspname ~ '^pg_' OR "
        "n.nspname = 'information_schema' WHEN true THEN CASE WHEN n.nspname = 'pg_catalog' OR n.nspname = "
        "'information_schema' THEN CASE c.relkind WHEN 'r' THEN 'SYSTEM TABLE' ELSE NULL END ELSE NULL END WHEN false "
        "THEN CASE c.relkind WHEN 'r' THEN 'TABLE' WHEN 'v' THEN 'VIEW' ELSE NULL END ELSE NULL END AS TABLE_TYPE, "
        "d.description AS REMARKS, '' as TYPE_CAT FROM pg_catalog.pg_namespace n, pg_catalog.pg_class c LEFT JOIN "
        "pg_catalog.pg_description d ON (c.oid = d.objoid AND d.objsubid = 0 and d.classoid = 'pg_class'::regclass) "
        "WHERE c.relnamespace = n.oid AND (false OR ( c.relkind = 'r' AND n.nspname !~ '^pg_' AND n.nspname <> "
        "'information_schema' )) ORDER BY TABLE_TYPE,TABLE_SCHEM,TABLE_NAME",
        2,
    ),
    (
        "Superset schemas",
        "SELECT nspname FROM pg_namespace WHERE nspname NOT LIKE 'pg_%' ORDER BY nspname",
        2,
    ),
    (
        "Superset grain",
        "SELECT DATE_TRUNC('hour', at) AS at, sum(amount) AS \"SUM(amount)\" FROM public.people WHERE at >= "
        "TO_TIMESTAMP('2024-02-28 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US') AND at < "
        "TO_TIMESTAMP('2024-03-01 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US') GROUP BY DATE_TRUNC('hour', at) ORDER "
        'BY "SUM(amount)" DESC LIMIT 10000',
        1,
    ),
    (
        "Tableau cast",
        'SELECT SUM("people"."ratio") AS "sum:ratio:ok", CAST(TRUNC(EXTRACT(YEAR FROM "people"."at")) AS INTEGER) AS '
        '"yr:at:ok" FROM "public"."people" "people" GROUP BY 2',
        2,
    ),
    (
        "Power BI top",
        'select "$Table"."id" as "id", "$Table"."name" as "name" from "public"."people" "$Table" limit 1000',
        3,
    ),
    (
        "Power BI relations",
        "select TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE from INFORMATION_SCHEMA.tables where TABLE_SCHEMA not in "
        "('information_schema', 'pg_catalog') order by TABLE_SCHEMA, TABLE_NAME",
        2,
    ),
    (
        "Power BI columns",
        "select COLUMN_NAME, ORDINAL_POSITION, IS_NULLABLE, case when (data_type like '%unsigned%') then DATA_TYPE || "
        "' unsigned' else DATA_TYPE end as DATA_TYPE from INFORMATION_SCHEMA.columns where TABLE_SCHEMA = 'public' and "
        "TABLE_NAME = 'people' order by TABLE_SCHEMA, TABLE_NAME, ORDINAL_POSITION",
        7,
    ),
    (
        "Power BI keys",
        "select kcu.COLUMN_NAME, kcu.ORDINAL_POSITION, fk.CONSTRAINT_NAME from "
        "INFORMATION_SCHEMA.REFERENTIAL_CONSTRAINTS as fk inner join INFORMATION_SCHEMA.KEY_COLUMN_USAGE kcu "
        "on fk.CONSTRAINT_NAME = kcu.CONSTRAINT_NAME",
        0,
    ),
]
