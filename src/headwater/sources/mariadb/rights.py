"""What a user may do, by right: everywhere (`*`), in this database (empty), and with single tables.

MariaDB's catalog has it. MySQL's does not tell the rights of roles, so its own list of grants is read.
"""

from __future__ import annotations

import re

from headwater.sources.mariadb.connection import Connection, dialect, rows
from headwater.sources.mariadb.dialect import MARIADB

Rights = dict[str, set[str]]


def rights(connection: Connection) -> Rights:
    return _by_catalog(connection) if dialect(connection) is MARIADB else _by_grants(connection)


def _by_catalog(connection: Connection) -> Rights:
    me = "(REPLACE(GRANTEE, '''', '') IN (CURRENT_USER(), CURRENT_ROLE(), CONCAT(CURRENT_ROLE(), '@')))"
    held: Rights = {"*": set(), "": set()}
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


_GRANT = re.compile(r"(GRANT|REVOKE) (.+?) ON (\*|`(?:[^`]|``)*`)\.(\*|`(?:[^`]|``)*`) (?:TO|FROM) ")
_EVERYTHING = ("CREATE", "DROP", "SELECT", "INSERT", "UPDATE", "DELETE")
"""What ALL PRIVILEGES holds, of what we ask about."""


def _by_grants(connection: Connection) -> Rights:
    ((database, roles),) = rows(connection, "SELECT DATABASE(), CURRENT_ROLE()")
    using = "" if str(roles) == "NONE" else f" USING {roles}"
    held: Rights = {"*": set(), "": set()}
    taken: Rights = {}
    for (line,) in rows(connection, f"SHOW GRANTS FOR CURRENT_USER(){using}"):
        if (found := _GRANT.match(str(line))) is None:
            continue
        verb, listed, where, what = found[1], found[2].upper(), _plain(found[3]), _plain(found[4])
        if where not in ("*", database) and not (verb == "GRANT" and _like(where, str(database))):
            continue
        place = "*" if where == "*" else "" if what == "*" else what
        names = {name.strip() for name in re.sub(r"\([^)]*\)", "", listed).split(",")}
        if names & {"ALL", "ALL PRIVILEGES"}:
            names |= {*_EVERYTHING, "REPLICATION SLAVE", "LOCK TABLES"}
        (held if verb == "GRANT" else taken).setdefault(place, set()).update(names)
    if taken:  # partial revokes take away what is held everywhere
        held[""] |= held["*"] - set().union(*taken.values())
        held["*"] -= set(_EVERYTHING)
    return held


def _plain(name: str) -> str:
    return name[1:-1].replace("``", "`") if name.startswith("`") else name


def _like(pattern: str, name: str) -> bool:
    """The name of a database in a grant may be a pattern."""
    parts = re.findall(r"\\.|.", pattern, re.DOTALL)
    wild = {"%": ".*", "_": "."}
    return re.fullmatch("".join(wild.get(p) or re.escape(p[-1]) for p in parts), name, re.DOTALL) is not None
