"""What clients browse: the tables of pg_catalog and information_schema, and the functions that go with them.

The engine has a pg_catalog of its own, with its own types and fewer columns than clients ask for. So these tables are
made from the views' columns, in PostgreSQL's words (its OIDs, its type names). A table is one line of names; a sign
after a name is its type: # a number, ? true or false, [] numbers, @ texts, % a fraction, nothing: text. Those without
rows here are empty: views have no indexes, constraints, triggers and so on.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from headwater.serve import types
from headwater.serve.types import PgType

DATABASE = "headwater"
OWNER = "headwater"
VERSION = "14.0"
VERSION_TEXT = f"PostgreSQL {VERSION} (Headwater: views, read-only)"
SCHEMAS = {"pg_catalog": "hw_pg", "information_schema": "hw_info"}
SYSTEM, PUBLIC, INFORMATION, DATABASE_OID, OWNER_OID = 11, 2200, 13000, 16000, 10

_PG = """
pg_class oid# relname relnamespace# reltype# reloftype# relowner# relam# relfilenode# reltablespace# relpages# reltuples% relallvisible# reltoastrelid# relhasindex? relisshared? relpersistence relkind relnatts# relchecks# relhasrules? relhastriggers? relhassubclass? relrowsecurity? relforcerowsecurity? relispopulated? relreplident relispartition? relrewrite# relfrozenxid# relminmxid# relacl@ reloptions@ relpartbound
pg_attribute attrelid# attname atttypid# attstattarget# attlen# attnum# attndims# attcacheoff# atttypmod# attbyval? attstorage attalign attcompression attnotnull? atthasdef? atthasmissing? attidentity attgenerated attisdropped? attislocal? attinhcount# attcollation# attacl@ attoptions@ attfdwoptions@ attmissingval
pg_type oid# typname typnamespace# typowner# typlen# typbyval? typtype typcategory typispreferred? typisdefined? typdelim typrelid# typsubscript typelem# typarray# typinput typoutput typreceive typsend typmodin typmodout typanalyze typalign typstorage typnotnull? typbasetype# typtypmod# typndims# typcollation# typdefaultbin typdefault typacl@ hw_spoken
pg_namespace oid# nspname nspowner# nspacl@
pg_database oid# datname datdba# encoding# datcollate datctype datistemplate? datallowconn? datconnlimit# datlastsysoid# datfrozenxid# datminmxid# dattablespace# datacl@ daticulocale datlocprovider datcollversion
pg_roles oid# rolname rolsuper? rolinherit? rolcreaterole? rolcreatedb? rolcanlogin? rolreplication? rolconnlimit# rolpassword rolvaliduntil rolbypassrls? rolconfig@
pg_user usename usesysid# usecreatedb? usesuper? userepl? usebypassrls? passwd valuntil useconfig@
pg_settings name setting unit category short_desc extra_desc context vartype source min_val max_val enumvals@ boot_val reset_val sourcefile sourceline# pending_restart?
pg_tables schemaname tablename tableowner tablespace hasindexes? hasrules? hastriggers? rowsecurity?
pg_am oid# amname amhandler amtype
pg_collation oid# collname collnamespace# collowner# collprovider collisdeterministic? collencoding# collcollate collctype
pg_tablespace oid# spcname spcowner# spcacl@ spcoptions@
pg_views schemaname viewname viewowner definition
pg_matviews schemaname matviewname matviewowner tablespace hasindexes? ispopulated? definition
pg_index indexrelid# indrelid# indnatts# indnkeyatts# indisunique? indnullsnotdistinct? indisprimary? indisexclusion? indimmediate? indisclustered? indisvalid? indcheckxmin? indisready? indislive? indisreplident? indkey[] indcollation[] indclass[] indoption[] indexprs indpred
pg_indexes schemaname tablename indexname tablespace indexdef
pg_constraint oid# conname connamespace# contype condeferrable? condeferred? convalidated? conrelid# contypid# conindid# conparentid# confrelid# confupdtype confdeltype confmatchtype conislocal? coninhcount# connoinherit? conkey[] confkey[] conpfeqop[] conppeqop[] conffeqop[] conexclop[] confdelsetcols[] conbin
pg_attrdef oid# adrelid# adnum# adbin
pg_description objoid# classoid# objsubid# description
pg_shdescription objoid# classoid# description
pg_inherits inhrelid# inhparent# inhseqno# inhdetachpending?
pg_proc oid# proname pronamespace# proowner# prolang# provariadic# prokind prosecdef? proretset? provolatile pronargs# prorettype# proargtypes[] proallargtypes[] proargmodes@ proargnames@ prosrc proacl@ procost% prorows% prosupport proleakproof? proisstrict? proparallel pronargdefaults# proargdefaults probin proconfig@
pg_policy oid# polname polrelid# polcmd polpermissive? polroles[] polqual polwithcheck
pg_trigger oid# tgrelid# tgparentid# tgname tgfoid# tgtype# tgenabled tgisinternal? tgconstraint# tgdeferrable? tginitdeferred? tgconstrrelid# tgconstrindid# tgnargs# tgattr[] tgargs tgqual tgoldtable tgnewtable
pg_rewrite oid# rulename ev_class# ev_type ev_enabled is_instead? ev_qual ev_action
pg_rules schemaname tablename rulename definition
pg_enum oid# enumtypid# enumsortorder% enumlabel
pg_range rngtypid# rngsubtype# rngmultitypid# rngcollation# rngsubopc# rngcanonical rngsubdiff
pg_depend classid# objid# objsubid# refclassid# refobjid# refobjsubid# deptype
pg_shdepend dbid# classid# objid# objsubid# refclassid# refobjid# deptype
pg_sequence seqrelid# seqtypid# seqstart# seqincrement# seqmax# seqmin# seqcache# seqcycle?
pg_sequences schemaname sequencename sequenceowner data_type start_value# min_value# max_value# increment_by# cycle? cache_size# last_value#
pg_partitioned_table partrelid# partstrat partnatts# partdefid# partattrs[]
pg_publication oid# pubname puballtables? pubinsert? pubupdate? pubdelete? pubtruncate? pubviaroot?
pg_publication_rel oid# prpubid# prrelid# prqual prattrs[]
pg_publication_namespace oid# pnpubid# pnnspid#
pg_publication_tables pubname schemaname tablename
pg_statistic_ext oid# stxrelid# stxname stxnamespace# stxowner# stxstattarget# stxkeys[] stxkind@
pg_foreign_table ftrelid# ftserver# ftoptions@
pg_foreign_server oid# srvname srvowner# srvfdw# srvtype srvversion srvacl@ srvoptions@
pg_foreign_data_wrapper oid# fdwname fdwowner# fdwhandler# fdwvalidator# fdwacl@ fdwoptions@
pg_extension oid# extname extowner# extnamespace# extrelocatable? extversion extconfig[] extcondition@
pg_available_extensions name default_version installed_version comment
pg_language oid# lanname lanowner# lanispl? lanpltrusted? lanplcallfoid# laninline# lanvalidator# lanacl@
pg_event_trigger oid# evtname evtevent evtowner# evtfoid# evtenabled evttags@
pg_auth_members roleid# member# grantor# admin_option?
pg_authid oid# rolname rolsuper? rolcanlogin?
pg_group groname grosysid# grolist[]
pg_operator oid# oprname oprnamespace# oprleft# oprright# oprresult#
pg_opclass oid# opcname opcmethod# opcnamespace# opcowner# opcfamily# opcintype# opcdefault? opckeytype#
pg_aggregate aggfnoid# aggkind aggnumdirectargs#
pg_cast oid# castsource# casttarget# castfunc# castcontext castmethod
pg_stat_activity datid# datname pid# usesysid# usename application_name client_addr client_port# backend_start query_start state_change wait_event_type wait_event state query backend_type
pg_stat_database datid# datname numbackends# xact_commit# xact_rollback# blks_read# blks_hit# tup_returned# tup_fetched#
pg_stats schemaname tablename attname null_frac% avg_width# n_distinct%
pg_seclabel objoid# classoid# objsubid# provider label
pg_default_acl oid# defaclrole# defaclnamespace# defaclobjtype defaclacl@
pg_user_mappings umid# srvid# srvname umuser# usename umoptions@
pg_statistic_ext_data stxoid#
pg_conversion oid# conname connamespace# conowner#
pg_ts_config oid# cfgname cfgnamespace# cfgowner# cfgparser#
pg_transform oid# trftype# trflang#
pg_db_role_setting setdatabase# setrole# setconfig@
pg_cursors name statement is_holdable? is_binary? is_scrollable?
pg_prepared_xacts transaction gid prepared owner database
pg_stat_user_tables relid# schemaname relname seq_scan# n_live_tup# n_dead_tup#
pg_statio_user_tables relid# schemaname relname heap_blks_read#
pg_locks locktype database# relation# pid# mode granted?
pg_timezone_names name abbrev utc_offset is_dst?
"""  # noqa: E501 # one line is one table
_INFO = """
tables table_catalog table_schema table_name table_type self_referencing_column_name reference_generation user_defined_type_catalog user_defined_type_schema user_defined_type_name is_insertable_into is_typed commit_action
columns table_catalog table_schema table_name column_name ordinal_position# column_default is_nullable data_type character_maximum_length# character_octet_length# numeric_precision# numeric_precision_radix# numeric_scale# datetime_precision# interval_type character_set_name collation_name domain_name udt_catalog udt_schema udt_name is_identity identity_generation is_generated generation_expression is_updatable
schemata catalog_name schema_name schema_owner default_character_set_name sql_path
views table_catalog table_schema table_name view_definition check_option is_updatable is_insertable_into
table_constraints constraint_catalog constraint_schema constraint_name table_catalog table_schema table_name constraint_type is_deferrable initially_deferred enforced
key_column_usage constraint_catalog constraint_schema constraint_name table_catalog table_schema table_name column_name ordinal_position# position_in_unique_constraint#
constraint_column_usage table_catalog table_schema table_name column_name constraint_catalog constraint_schema constraint_name
referential_constraints constraint_catalog constraint_schema constraint_name unique_constraint_catalog unique_constraint_schema unique_constraint_name match_option update_rule delete_rule
check_constraints constraint_catalog constraint_schema constraint_name check_clause
routines specific_catalog specific_schema specific_name routine_catalog routine_schema routine_name routine_type data_type
parameters specific_schema specific_name ordinal_position# parameter_name data_type
sequences sequence_catalog sequence_schema sequence_name data_type
triggers trigger_catalog trigger_schema trigger_name event_manipulation event_object_catalog event_object_schema event_object_table action_order# action_condition action_statement action_orientation action_timing
column_privileges grantor grantee table_catalog table_schema table_name column_name privilege_type is_grantable
domains domain_catalog domain_schema domain_name data_type
element_types object_catalog object_schema object_name object_type collection_type_identifier data_type
enabled_roles role_name
applicable_roles grantee role_name is_grantable
view_table_usage view_catalog view_schema view_name table_catalog table_schema table_name
foreign_tables foreign_table_catalog foreign_table_schema foreign_table_name foreign_server_catalog foreign_server_name
character_sets character_set_name default_collate_name
table_privileges grantor grantee table_catalog table_schema table_name privilege_type is_grantable with_hierarchy
role_table_grants grantor grantee table_catalog table_schema table_name privilege_type is_grantable with_hierarchy
"""  # noqa: E501 # one line is one table
_SIGNS = {"#": "BIGINT", "?": "BOOLEAN", "%": "DOUBLE", "[]": "BIGINT[]", "@": "VARCHAR[]"}


def _declared(text: str) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for line in text.strip().splitlines():
        name, *columns = line.split()
        found[name] = {c.rstrip("#?%[]@"): _SIGNS.get(c[len(c.rstrip("#?%[]@")) :], "VARCHAR") for c in columns}
    return found


TABLES = {"pg_catalog": _declared(_PG), "information_schema": _declared(_INFO)}

_BARE = "regexp_replace(replace(x, '\"', ''), '^(public|pg_catalog)[.]', '')"


_PARTS = (
    'list_transform(regexp_extract_all(x, \'"(?:[^"]|"")*"|[^.]+\'), lambda p: CASE WHEN p[1] = \'"\''
    " THEN replace(p[2:-2], '\"\"', '\"') ELSE lower(trim(p)) END)"
)
"""The parts of a name as it is written, quoted or not."""


def _found(what: str, table: str, by: str, value: str = "x") -> str:
    """What a table says of an argument. The columns are renamed: an argument is put in as it was written, and its own
    names must not mean these."""
    renamed = f"SELECT {by} AS __by, {what} AS __what FROM hw_pg.{table}"
    return f"(SELECT min(__what) FROM ({renamed}) AS __found WHERE __by = {value})"


FUNCTIONS: Mapping[str, Sequence[str]] = {
    "pg_get_userbyid": [f"(x) AS '{OWNER}'"],
    "pg_table_is_visible": ["(x) AS true"],
    "pg_type_is_visible": ["(x) AS true"],
    "pg_function_is_visible": ["(x) AS true"],
    "pg_encoding_to_char": ["(x) AS 'UTF8'"],
    "pg_get_expr": ["(x, r) AS CAST(NULL AS VARCHAR)", "(x, r, p) AS CAST(NULL AS VARCHAR)"],
    "pg_get_viewdef": ["(x) AS CAST(NULL AS VARCHAR)", "(x, p) AS CAST(NULL AS VARCHAR)"],
    "pg_get_indexdef": ["(x) AS CAST(NULL AS VARCHAR)", "(x, n, p) AS CAST(NULL AS VARCHAR)"],
    "pg_get_constraintdef": ["(x) AS CAST(NULL AS VARCHAR)", "(x, p) AS CAST(NULL AS VARCHAR)"],
    "pg_get_partkeydef": ["(x) AS CAST(NULL AS VARCHAR)"],
    "pg_get_ruledef": ["(x) AS CAST(NULL AS VARCHAR)", "(x, p) AS CAST(NULL AS VARCHAR)"],
    "pg_get_triggerdef": ["(x) AS CAST(NULL AS VARCHAR)", "(x, p) AS CAST(NULL AS VARCHAR)"],
    "pg_get_statisticsobjdef_columns": ["(x) AS CAST(NULL AS VARCHAR)"],
    "pg_get_serial_sequence": ["(t, c) AS CAST(NULL AS VARCHAR)"],
    "pg_get_function_result": ["(x) AS CAST(NULL AS VARCHAR)"],
    "pg_get_function_arguments": ["(x) AS CAST(NULL AS VARCHAR)"],
    "pg_partition_ancestors": ["(x) AS CAST(NULL AS BIGINT)"],
    "pg_get_publication_tables": ["(x) AS CAST(NULL AS BIGINT)"],
    "pg_get_replica_identity_index": ["(x) AS CAST(NULL AS BIGINT)"],
    "pg_get_function_identity_arguments": ["(x) AS ''"],
    "pg_relation_is_publishable": ["(x) AS false"],
    "pg_is_in_recovery": ["() AS false"],
    "pg_backend_pid": ["() AS 0"],
    "pg_tablespace_location": ["(x) AS ''"],
    "pg_total_relation_size": ["(x) AS CAST(NULL AS BIGINT)"],
    "pg_relation_size": ["(x) AS CAST(NULL AS BIGINT)", "(x, f) AS CAST(NULL AS BIGINT)"],
    "pg_table_size": ["(x) AS CAST(NULL AS BIGINT)"],
    "pg_indexes_size": ["(x) AS CAST(NULL AS BIGINT)"],
    "pg_database_size": ["(x) AS CAST(NULL AS BIGINT)"],
    "pg_stat_get_numscans": ["(x) AS CAST(NULL AS BIGINT)"],
    "has_schema_privilege": ["(a, b) AS true", "(a, b, c) AS true"],
    "has_table_privilege": ["(a, b) AS upper(b) = 'SELECT'", "(a, b, c) AS upper(c) = 'SELECT'"],
    "has_any_column_privilege": ["(a, b) AS upper(b) = 'SELECT'", "(a, b, c) AS upper(c) = 'SELECT'"],
    "has_column_privilege": ["(a, b, c) AS upper(c) = 'SELECT'"],
    "has_database_privilege": ["(a, b) AS upper(b) = 'CONNECT'", "(a, b, c) AS upper(c) = 'CONNECT'"],
    "has_function_privilege": ["(a, b) AS true", "(a, b, c) AS true"],
    "pg_has_role": ["(a, b) AS true", "(a, b, c) AS true"],
    "obj_description": ["(x) AS CAST(NULL AS VARCHAR)", "(x, c) AS CAST(NULL AS VARCHAR)"],
    "col_description": ["(x, n) AS CAST(NULL AS VARCHAR)"],
    "shobj_description": ["(x, c) AS CAST(NULL AS VARCHAR)"],
    "quote_ident": ["(x) AS CASE WHEN regexp_full_match(x, '[a-z_][a-z0-9_$]*') THEN x"
                    " ELSE '\"' || replace(x, '\"', '\"\"') || '\"' END"],
    "parse_ident": [f"(x) AS {_PARTS}", f"(x, s) AS {_PARTS}"],
    "current_setting": [f"(x) AS {_found('setting', 'pg_settings', 'name')}",
                        f"(x, m) AS {_found('setting', 'pg_settings', 'name')}"],
    "set_config": ["(n, v, l) AS v"],
    "current_schemas": ["(x) AS CASE WHEN x THEN ['pg_catalog', 'public'] ELSE ['public'] END"],
    "format_type": ["(x, m) AS CASE WHEN x = 1700 AND m > 4 THEN 'numeric(' || ((m - 4) >> 16) || ','"
                    f" || ((m - 4) & 65535) || ')' ELSE {_found('hw_spoken', 'pg_type', 'oid')} END"],
    "_pg_expandarray": ["(x) AS struct_pack(x := CAST(NULL AS BIGINT), n := CAST(NULL AS BIGINT))"],
    "array_upper": ["(x, d) AS CASE WHEN d = 1 AND len(x) > 0 THEN len(x) END"],
    "array_lower": ["(x, d) AS CASE WHEN d = 1 AND len(x) > 0 THEN 1 END"],
    "pg_get_keywords": ["() AS TABLE SELECT keyword_name AS word, 'U' AS catcode FROM duckdb_keywords()"],
    "regclass_oid": [f"(x) AS {_found('oid', 'pg_class', 'relname', _BARE)}"],
    "regclass_name": [f"(x) AS {_found('relname', 'pg_class', 'oid')}"],
    "to_regclass": ["(x) AS hw_regclass_oid(x)"],
    "regtype_oid": [f"(x) AS coalesce({_found('oid', 'pg_type', 'typname', _BARE)},"
                    f" {_found('oid', 'pg_type', 'hw_spoken', _BARE)})"],
    "regtype_name": [f"(x) AS {_found('hw_spoken', 'pg_type', 'oid')}"],
    "to_regtype": ["(x) AS hw_regtype_oid(x)"],
    "regproc_oid": [f"(x) AS {_BARE}"],
    "regproc_name": ["(x) AS CAST(x AS VARCHAR)"],
    "regnamespace_oid": [f"(x) AS {_found('oid', 'pg_namespace', 'nspname')}"],
    "regnamespace_name": [f"(x) AS {_found('nspname', 'pg_namespace', 'oid')}"],
    "regrole_oid": [f"(x) AS {OWNER_OID}"],
    "regrole_name": [f"(x) AS '{OWNER}'"],
}  # fmt: skip
"""Each: what follows CREATE MACRO hw_…, once per number of arguments."""

SHOWN = {
    "server_version": VERSION, "server_version_num": "140000", "server_encoding": "UTF8", "client_encoding": "UTF8",
    "datestyle": "ISO, MDY", "intervalstyle": "postgres", "timezone": "UTC", "integer_datetimes": "on",
    "standard_conforming_strings": "on", "is_superuser": "off", "session_authorization": OWNER, "search_path": "public",
    "default_transaction_read_only": "on", "transaction_read_only": "on", "in_hot_standby": "off",
    "transaction_isolation": "repeatable read", "default_transaction_isolation": "repeatable read",
    "application_name": "", "max_identifier_length": "63", "bytea_output": "hex", "extra_float_digits": "1",
    "statement_timeout": "0", "lc_collate": "C", "lc_ctype": "C", "max_index_keys": "32", "block_size": "8192",
    "row_security": "on", "ssl": "off", "client_min_messages": "notice", "lock_timeout": "0",
    "idle_in_transaction_session_timeout": "0", "default_tablespace": "", "jit": "off", "lc_monetary": "C",
    "default_transaction_deferrable": "off", "escape_string_warning": "on", "synchronous_commit": "on",
}  # fmt: skip
"""Settings as SHOW and pg_settings tell them."""


def macros() -> Iterator[str]:
    for name, ways in FUNCTIONS.items():
        yield f"CREATE MACRO hw_{name}" + ", ".join(ways)


def rows(views: Mapping[str, pa.Schema]) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """What the tables hold that are not empty, for these views and their columns."""
    numbers = oids(views)
    kinds = {name: [(field, *column_type(field.type)) for field in schema] for name, schema in views.items()}
    at = {"table_catalog": DATABASE, "table_schema": "public"}
    pg: dict[str, list[dict[str, Any]]] = {
        "pg_namespace": [{"oid": o, "nspname": n, "nspowner": OWNER_OID}
                         for n, o in (("pg_catalog", SYSTEM), ("public", PUBLIC), ("information_schema", INFORMATION))],
        "pg_database": [{"oid": DATABASE_OID, "datname": DATABASE, "datdba": OWNER_OID, "encoding": 6,
                         "datcollate": "C", "datctype": "C", "datistemplate": False, "datallowconn": True,
                         "datconnlimit": -1, "dattablespace": 1663, "datlocprovider": "c"}],
        "pg_roles": [{"oid": OWNER_OID, "rolname": OWNER, "rolsuper": False, "rolinherit": True, "rolcreaterole": False,
                      "rolcreatedb": False, "rolcanlogin": True, "rolreplication": False, "rolconnlimit": -1,
                      "rolbypassrls": False}],
        "pg_user": [{"usename": OWNER, "usesysid": OWNER_OID, "usecreatedb": False, "usesuper": False}],
        "pg_settings": [{"name": n, "setting": v, "category": "Headwater", "context": "user", "vartype": "string",
                         "source": "default", "reset_val": v, "boot_val": v} for n, v in SHOWN.items()],
        "pg_am": [{"oid": 2, "amname": "heap", "amtype": "t"}],
        "pg_tablespace": [{"oid": 1663, "spcname": "pg_default", "spcowner": OWNER_OID}],
        "pg_type": [*map(_type_row, types.ALL), *map(_array_row, types.ALL)],
        "pg_tables": [{"schemaname": "public", "tablename": n, "tableowner": OWNER, "hasindexes": False,
                       "hasrules": False, "hastriggers": False, "rowsecurity": False} for n in views],
        "pg_class": [_class_row(numbers[n], n, len(kinds[n])) for n in views],
        "pg_attribute": [_attribute_row(numbers[n], number, *column)
                         for n in views for number, column in enumerate(kinds[n], 1)],
    }  # fmt: skip
    info: dict[str, list[dict[str, Any]]] = {
        "schemata": [{"catalog_name": DATABASE, "schema_name": n, "schema_owner": OWNER}
                     for n in ("public", "pg_catalog", "information_schema")],
        "tables": [{**at, "table_name": n, "table_type": "BASE TABLE", "is_insertable_into": "NO", "is_typed": "NO"}
                   for n in views],
        "columns": [_column_row({**at, "table_name": n}, number, *column)
                    for n in views for number, column in enumerate(kinds[n], 1)],
        "table_privileges": [{"grantor": OWNER, "grantee": OWNER, **at, "table_name": n, "privilege_type": "SELECT",
                              "is_grantable": "NO", "with_hierarchy": "NO"} for n in views],
    }  # fmt: skip
    info["role_table_grants"] = info["table_privileges"]
    return {("pg_catalog", n): r for n, r in pg.items()} | {("information_schema", n): r for n, r in info.items()}


def oids(views: Mapping[str, object]) -> dict[str, int]:
    """A number for each view, the same whenever it is asked for."""
    taken: dict[int, str] = {}
    for name in sorted(views):
        number = 16_384 + zlib.crc32(name.encode()) % 2**30
        while number in taken:
            number += 1
        taken[number] = name
    return {name: number for number, name in taken.items()}


def column_type(kind: pa.DataType) -> tuple[PgType, int]:
    """The type of a view's column, and its modifier."""
    if pa.types.is_decimal(kind):
        return types.NUMERIC, (kind.precision << 16 | kind.scale) + 4
    if pa.types.is_timestamp(kind):
        return (types.TIMESTAMPTZ if kind.tz else types.TIMESTAMP), -1
    plain = {pa.int8(): types.INT2, pa.int16(): types.INT2, pa.int32(): types.INT4, pa.int64(): types.INT8,
             pa.float32(): types.FLOAT4, pa.float64(): types.FLOAT8, pa.bool_(): types.BOOL, pa.date32(): types.DATE,
             pa.binary(): types.BYTEA, pa.large_binary(): types.BYTEA}  # fmt: skip
    return plain.get(kind, types.TEXT), -1


def _type_row(kind: PgType) -> dict[str, Any]:
    return {"oid": kind.oid, "typname": kind.name, "typnamespace": SYSTEM, "typowner": OWNER_OID, "typlen": kind.size,
            "typbyval": 0 < kind.size <= 8, "typtype": "b", "typcategory": kind.category, "typispreferred": False,
            "typisdefined": True, "typdelim": ",", "typrelid": 0, "typelem": 0, "typarray": kind.array,
            "typnotnull": False, "typbasetype": 0, "typtypmod": -1, "typndims": 0, "typcollation": 0,
            "typinput": f"{kind.name}in", "hw_spoken": types.SPOKEN.get(kind.oid, kind.name)}  # fmt: skip


def _array_row(kind: PgType) -> dict[str, Any]:
    spoken = f"{types.SPOKEN.get(kind.oid, kind.name)}[]"
    return {**_type_row(kind), "oid": kind.array, "typname": f"_{kind.name}", "typlen": -1, "typcategory": "A",
            "typelem": kind.oid, "typarray": 0, "typinput": "array_in", "hw_spoken": spoken}  # fmt: skip


def _class_row(oid: int, name: str, columns: int) -> dict[str, Any]:
    return {"oid": oid, "relname": name, "relnamespace": PUBLIC, "reltype": 0, "reloftype": 0, "relowner": OWNER_OID,
            "relam": 2, "relfilenode": 0, "reltablespace": 0, "relpages": 0, "reltuples": -1.0, "reltoastrelid": 0,
            "relhasindex": False, "relisshared": False, "relpersistence": "p", "relkind": "r", "relnatts": columns,
            "relchecks": 0, "relhasrules": False, "relhastriggers": False, "relhassubclass": False,
            "relrowsecurity": False, "relforcerowsecurity": False, "relispopulated": True, "relreplident": "d",
            "relispartition": False, "relacl": [f"{OWNER}=r/{OWNER}"]}  # fmt: skip


def _attribute_row(relation: int, number: int, field: pa.Field, kind: PgType, modifier: int) -> dict[str, Any]:
    return {"attrelid": relation, "attname": field.name, "atttypid": kind.oid, "attstattarget": -1, "attlen": kind.size,
            "attnum": number, "attndims": 0, "atttypmod": modifier, "attbyval": 0 < kind.size <= 8, "attstorage": "p",
            "attalign": "i", "attcompression": "", "attnotnull": False, "atthasdef": False, "atthasmissing": False,
            "attidentity": "", "attgenerated": "", "attisdropped": False, "attislocal": True, "attinhcount": 0,
            "attcollation": 0}  # fmt: skip


def _column_row(at: Mapping[str, str], number: int, field: pa.Field, kind: PgType, modifier: int) -> dict[str, Any]:
    decimal = kind is types.NUMERIC
    return {**at, "column_name": field.name, "ordinal_position": number, "is_nullable": "YES",
            "data_type": types.SPOKEN.get(kind.oid, kind.name), "udt_catalog": DATABASE, "udt_schema": "pg_catalog",
            "udt_name": kind.name, "numeric_precision": (modifier - 4) >> 16 if decimal else None,
            "numeric_scale": (modifier - 4) & 0xFFFF if decimal else None, "is_identity": "NO", "is_generated": "NEVER",
            "is_updatable": "NO"}  # fmt: skip
