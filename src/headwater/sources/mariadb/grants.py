"""What keeps a user or a server from being captured, all of it at once, as statements that a DBA can paste."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pymysql

from headwater.model.errors import SourceRefused
from headwater.model.names import TableName
from headwater.sources.mariadb import books
from headwater.sources.mariadb.catalog import MariaTable
from headwater.sources.mariadb.connection import Connection, dialect, log_end, quoted, rows
from headwater.sources.mariadb.dialect import MARIADB, steps_to
from headwater.sources.mariadb.moments import readable_key
from headwater.sources.mariadb.rights import rights

_OWN_RIGHTS = ("CREATE", "DROP", "SELECT", "INSERT", "UPDATE", "DELETE")
_DENIED = (1142, 1143, 1227, 1044, 1045)

_NO_LOG = "the server keeps no log of changes (log_bin is off), and without it changes cannot be seen"
_TRIGGERS = '; or let triggers do it: capture = "triggers" in [sources.…] of headwater.toml'


def check(
    connection: Connection, source: str, wanted: Sequence[TableName], found: Mapping[TableName, MariaTable]
) -> None:
    """Raise what keeps these tables from being captured."""
    product = dialect(connection)
    names = ", ".join(f"'{name}'" for name in ("log_bin", *product.settings))
    said = dict(rows(connection, f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({names})"))
    if str(said.get("log_bin", "OFF")).upper() != "ON":
        raise SourceRefused(f"source {source}: {_NO_LOG}", product.no_log + (_TRIGGERS if product is MARIADB else ""))
    lacking, statements = list[str](), list[str]()
    for name, value in product.settings.items():
        now = str(said.get(name, "")).upper()
        if now != value and (
            name in said or name != "binlog_format"
        ):  # a server that knows no other has no word for it
            lacking.append(f"{name} is {said.get(name, 'unknown to it')}")
            statements += steps_to(name, now, value, product)
    ((database, user),) = rows(connection, "SELECT DATABASE(), CURRENT_USER()")
    name, _, host = str(user).rpartition("@")
    to = f"'{name}'@'{host}'"
    if not allowed(connection, product.log_end):
        lacking.append("the user may not ask where its log is")
        statements.append(f"GRANT {product.monitor} ON *.* TO {to};")
    else:
        _not_filtered(connection, source, str(database))
    held = rights(connection)
    if not held["*"] & {"REPLICATION SLAVE", "REPLICATION SLAVE ADMIN"}:
        lacking.append("the user may not read its log")
        statements.append(f"GRANT REPLICATION SLAVE ON *.* TO {to};")
    for table in wanted:
        if table in found and not allowed(connection, f"SELECT 1 FROM {quoted(table.table)} LIMIT 0"):
            lacking.append(f"the user may not read {table}")
            statements.append(f"GRANT SELECT ON {quoted(str(database))}.{quoted(table.table)} TO {to};")
    for own in books.CREATE:
        mine = held["*"] | held[""] | held.get(own, set())
        missing = [right for right in _OWN_RIGHTS if right not in mine]
        if missing:
            lacking.append(f"the user may not keep {own}")
            statements.append(f"GRANT {', '.join(missing)} ON {quoted(str(database))}.{own} TO {to};")
    for table in wanted:
        refusal = found[table].refusal if table in found else None
        if refusal is not None:
            raise SourceRefused(*refusal)
    if statements:
        listed = "\n".join(f"    {statement}" for statement in dict.fromkeys(statements))
        kept = " (and write the settings into my.cnf)" if any(s.startswith("SET GLOBAL") for s in statements) else ""
        raise SourceRefused(f"source {source}: {', '.join(lacking)}", f"run{kept}\n{listed}")


def advice(connection: Connection, wanted: Sequence[TableName], found: Mapping[TableName, MariaTable]) -> list[str]:
    """What makes questions slower than they need be."""
    if dialect(connection).knows_its_place:
        return []
    ((user,),) = rows(connection, "SELECT CURRENT_USER()")
    name, _, host = str(user).rpartition("@")
    held = rights(connection)
    may = "LOCK TABLES" in held["*"] | held[""]
    also = "" if may else f", or GRANT LOCK TABLES ON `…`.* TO '{name}'@'{host}'"
    return [
        f"{table} has no primary key: while it is written without a pause, a question about it takes a second and"
        f" holds its writers up for a moment; add one{also}"
        for table in wanted
        if table in found and not readable_key(found[table])
    ]


def allowed(connection: Connection, statement: str) -> bool:
    try:
        rows(connection, statement)
    except pymysql.MySQLError as error:
        if error.args[0] in _DENIED:
            return False
        raise
    return True


def _not_filtered(connection: Connection, source: str, database: str) -> None:
    only, ignored = (str(listed or "").split(",") for listed in log_end(connection)[2:4])
    if (only != [""] and database not in only) or database in ignored:
        raise SourceRefused(
            f"source {source}: the server leaves the database {database} out of its log",
            "remove binlog_do_db and binlog_ignore_db from the server's my.cnf, and restart it",
        )
