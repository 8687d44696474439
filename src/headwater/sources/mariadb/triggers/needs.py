"""What keeps a user or a server from being captured by triggers, all of it at once, as statements that a DBA can
paste."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from headwater.model.errors import SourceRefused
from headwater.model.names import TableName
from headwater.sources.mariadb.catalog import MariaTable
from headwater.sources.mariadb.connection import Connection, dialect, quoted, rows
from headwater.sources.mariadb.dialect import MARIADB
from headwater.sources.mariadb.grants import allowed
from headwater.sources.mariadb.rights import rights
from headwater.sources.mariadb.triggers.layout import CREATE, PARTS, changes_of

_OWN = ("CREATE", "DROP", "SELECT", "INSERT", "UPDATE", "DELETE")


def check(
    connection: Connection, source: str, wanted: Sequence[TableName], found: Mapping[TableName, MariaTable]
) -> None:
    """Raise what keeps these tables from being captured."""
    product = dialect(connection)
    if product is not MARIADB:
        raise SourceRefused(
            f"source {source} is {product.name}, which is captured by its log only: whether a table was truncated or"
            " altered is asked in words that only MariaDB has",
            f"leave capture out; {product.no_log}",
        )
    refused = [refusal for table in wanted if table in found and (refusal := refused_by_triggers(found[table]))]
    if refused:
        raise SourceRefused(*refused[0])
    _not_a_replica(connection, source)
    ((database, user),) = rows(connection, "SELECT DATABASE(), CURRENT_USER()")
    name, _, host = str(user).rpartition("@")
    to, held = f"'{name}'@'{host}'", rights(connection)
    lacking, statements = list[str](), list[str]()
    if not _trusted(connection, held["*"]):
        lacking.append("the server keeps a log, and lets only trusted users create triggers then")
        statements.append("SET GLOBAL log_bin_trust_function_creators = 1;")
    if "PROCESS" not in held["*"]:
        lacking.append("the user may not see when a table was truncated")
        statements.append(f"GRANT PROCESS ON *.* TO {to};")
    for table in wanted:
        if table in found and not allowed(connection, f"SELECT 1 FROM {quoted(table.table)} LIMIT 0"):
            lacking.append(f"the user may not read {table}")
            statements.append(f"GRANT SELECT ON {quoted(str(database))}.{quoted(table.table)} TO {to};")
    needed = {own: [*_OWN, *(["TRIGGER"] if own == PARTS else [])] for own in CREATE}
    needed |= {changes_of(t.table): [*_OWN] for t in wanted} | {t.table: ["TRIGGER"] for t in wanted}
    for own, wants in needed.items():
        missing = [right for right in wants if right not in held["*"] | held[""] | held.get(own, set())]
        if missing:
            lacking.append(f"the user may not put triggers on {own}" if wants == ["TRIGGER"] else f"nor keep {own}")
            statements.append(f"GRANT {', '.join(missing)} ON {quoted(str(database))}.{quoted(own)} TO {to};")
    if statements:
        listed = "\n".join(f"    {statement}" for statement in dict.fromkeys(statements))
        raise SourceRefused(f"source {source}: {', '.join(lacking)}", f"run\n{listed}")


def _trusted(connection: Connection, held: Set[str]) -> bool:
    said = dict(
        rows(
            connection,
            "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('log_bin', 'log_bin_trust_function_creators')",
        )
    )
    return "SUPER" in held or said.get("log_bin") != "ON" or said.get("log_bin_trust_function_creators") == "ON"


def refused_by_triggers(table: MariaTable) -> tuple[str, str] | None:
    """Why a table cannot be captured by triggers. What a foreign key does in silence fires none, either."""
    return table.refusal


def _not_a_replica(connection: Connection, source: str) -> None:
    """Rows that come from another server fire no triggers, unless it is told to."""
    said = dict(rows(connection, "SHOW GLOBAL STATUS WHERE Variable_name IN ('Slaves_running', 'Slave_running')"))
    runs = dict(rows(connection, "SHOW GLOBAL VARIABLES LIKE 'slave_run_triggers_for_rbr'"))
    running = str(said.get("Slaves_running", "0")) not in ("0", "") or said.get("Slave_running") == "ON"
    if running and str(runs.get("slave_run_triggers_for_rbr", "NO")).upper() not in ("YES", "LOGGING", "ENFORCE"):
        raise SourceRefused(
            f"source {source} is a replica, and rows that come from its primary fire no triggers",
            "capture the primary; or SET GLOBAL slave_run_triggers_for_rbr = 'YES', and write it into my.cnf",
        )
