"""What keeps a user or a server from being captured, all of it at once, as statements that a DBA can paste."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pymysql

from headwater.model.errors import SourceRefused
from headwater.model.names import TableName
from headwater.sources.mariadb import books
from headwater.sources.mariadb.catalog import MariaTable
from headwater.sources.mariadb.connection import Connection, quoted, rows

_SETTINGS = {"binlog_format": "ROW", "binlog_row_image": "FULL", "binlog_row_metadata": "FULL"}
_OWN_RIGHTS = ("CREATE", "DROP", "SELECT", "INSERT", "UPDATE", "DELETE")
_DENIED = (1142, 1143, 1227, 1044, 1045)

NO_LOG = (
    "the server keeps no log of changes (log_bin is off), and without it changes cannot be seen",
    "in the server's my.cnf, under [mariadb]:\n    log_bin = bin\n    server_id = 1\n    binlog_format = ROW\n"
    "    binlog_row_image = FULL\n    binlog_row_metadata = FULL\n    binlog_expire_logs_seconds = 604800\n"
    '  and restart it; or let triggers do it: capture = "triggers" in [sources.…] of headwater.toml',
)


def check(
    connection: Connection, source: str, wanted: Sequence[TableName], found: Mapping[TableName, MariaTable]
) -> None:
    """Raise what keeps these tables from being captured."""
    said = dict(
        rows(connection, "SHOW GLOBAL VARIABLES WHERE Variable_name LIKE 'binlog%%' OR Variable_name = 'log_bin'")
    )
    if str(said.get("log_bin", "OFF")).upper() != "ON":
        raise SourceRefused(f"source {source}: {NO_LOG[0]}", NO_LOG[1])
    lacking, statements = list[str](), list[str]()
    for name, value in _SETTINGS.items():
        if str(said.get(name, "")).upper() != value:
            lacking.append(f"{name} is {said.get(name, 'unknown to it')}")
            statements.append(f"SET GLOBAL {name} = '{value}';")
    ((database, user),) = rows(connection, "SELECT DATABASE(), CURRENT_USER()")
    name, _, host = str(user).rpartition("@")
    to = f"'{name}'@'{host}'"
    if not may(connection, "SHOW MASTER STATUS"):
        lacking.append("the user may not ask where its log is")
        statements.append(f"GRANT BINLOG MONITOR ON *.* TO {to};")
    else:
        _not_filtered(connection, source, str(database))
    held = rights(connection)
    if not held["*"] & {"REPLICATION SLAVE", "REPLICATION SLAVE ADMIN"}:
        lacking.append("the user may not read its log")
        statements.append(f"GRANT REPLICATION SLAVE ON *.* TO {to};")
    for table in wanted:
        if table in found and not may(connection, f"SELECT 1 FROM {quoted(table.table)} LIMIT 0"):
            lacking.append(f"the user may not read {table}")
            statements.append(f"GRANT SELECT ON {quoted(str(database))}.{quoted(table.table)} TO {to};")
    for own in books.CREATE:
        allowed = held["*"] | held[""] | held.get(own, set())
        missing = [right for right in _OWN_RIGHTS if right not in allowed]
        if missing:
            lacking.append(f"the user may not keep {own}")
            statements.append(f"GRANT {', '.join(missing)} ON {quoted(str(database))}.{own} TO {to};")
    for table in wanted:
        refusal = found[table].refusal if table in found else None
        if refusal is not None:
            raise SourceRefused(*refusal)
    if statements:
        listed = "\n".join(f"    {statement}" for statement in dict.fromkeys(statements))
        kept = " (and write the settings into my.cnf)" if any(s.startswith("SET") for s in statements) else ""
        raise SourceRefused(f"source {source}: {', '.join(lacking)}", f"run{kept}\n{listed}")


def may(connection: Connection, statement: str) -> bool:
    try:
        rows(connection, statement)
    except pymysql.MySQLError as error:
        if error.args[0] in _DENIED:
            return False
        raise
    return True


def _not_filtered(connection: Connection, source: str, database: str) -> None:
    (status,) = rows(connection, "SHOW MASTER STATUS")
    only, ignored = (str(listed or "").split(",") for listed in status[2:4])
    if (only != [""] and database not in only) or database in ignored:
        raise SourceRefused(
            f"source {source}: the server leaves the database {database} out of its log",
            "remove binlog_do_db and binlog_ignore_db from the server's my.cnf, and restart it",
        )


def rights(connection: Connection) -> dict[str, set[str]]:
    """What the user may do: everywhere (`*`), in this database (empty), and with single tables."""
    me = "(REPLACE(GRANTEE, '''', '') IN (CURRENT_USER(), CURRENT_ROLE(), CONCAT(CURRENT_ROLE(), '@')))"
    held: dict[str, set[str]] = {"*": set(), "": set()}
    for (right,) in rows(connection, f"SELECT PRIVILEGE_TYPE FROM information_schema.USER_PRIVILEGES WHERE {me}"):
        held["*"].add(str(right).upper())
    for (right,) in rows(
        connection,
        f"SELECT PRIVILEGE_TYPE FROM information_schema.SCHEMA_PRIVILEGES WHERE {me} AND DATABASE() LIKE TABLE_SCHEMA",
    ):
        held[""].add(str(right).upper())
    for table, right in rows(
        connection,
        "SELECT TABLE_NAME, PRIVILEGE_TYPE FROM information_schema.TABLE_PRIVILEGES"
        f" WHERE {me} AND TABLE_SCHEMA = DATABASE()",
    ):
        held.setdefault(table, set()).add(str(right).upper())
    return held
