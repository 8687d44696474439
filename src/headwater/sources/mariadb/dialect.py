"""MariaDB and MySQL: one protocol and one log, with other words here and there.

Whatever differs between the two is in this table, or asks it: how a session is begun, how the end of the log is asked
for, which settings and rights capture needs and how a DBA grants them. What the log itself holds differs by the
numbers of its events, which do not collide, so reading it knows no dialect (`events.py`). How a snapshot's place in the
log is found is the one real difference: `moments.py`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_SESSION = (
    "SET NAMES utf8mb4, SESSION time_zone = '+00:00', SESSION sql_mode = '', SESSION autocommit = 1,"
    " SESSION lock_wait_timeout = 30, SESSION innodb_lock_wait_timeout = 30, SESSION group_concat_max_len = 1048576,"
    " @master_binlog_checksum = 'NONE', @source_binlog_checksum = 'NONE', "
)
_CNF = (
    "    log_bin = bin\n    server_id = 1\n    binlog_format = ROW\n    binlog_row_image = FULL\n"
    "    binlog_row_metadata = FULL\n    binlog_expire_logs_seconds = 604800\n"
)


@dataclass(frozen=True)
class Dialect:
    name: str
    oldest: tuple[int, int]
    session: str
    """Begins a session. A long IN list is to stay one: its ranges are looked up in an index. What begins with @ is for
    reading the log."""
    log_end: str
    """The statement that tells the file and the offset at which the log ends."""
    settings: Mapping[str, str]
    """What capture needs of the server, besides a log."""
    assign: str
    """How a setting is set for good, or nearly."""
    monitor: str
    """The right to ask where the log is."""
    no_log: str
    """What to do where there is no log."""

    @property
    def knows_its_place(self) -> bool:
        """Whether a snapshot says where in the log it is."""
        return self is MARIADB


MARIADB = Dialect(
    "MariaDB",
    (10, 5),
    _SESSION
    + "SESSION tx_isolation = 'REPEATABLE-READ', SESSION max_statement_time = 0,"
    + " SESSION in_predicate_conversion_threshold = 0, @mariadb_slave_capability = 4",
    "SHOW MASTER STATUS",
    {"binlog_format": "ROW", "binlog_row_image": "FULL", "binlog_row_metadata": "FULL"},
    "SET GLOBAL",
    "BINLOG MONITOR",
    f"in the server's my.cnf, under [mariadb]:\n{_CNF}  and restart it",
)
_MYSQL = Dialect(
    "MySQL",
    (8, 0),
    _SESSION
    + "SESSION transaction_isolation = 'REPEATABLE-READ', SESSION max_execution_time = 0,"
    + " SESSION range_optimizer_max_mem_size = 0, SESSION information_schema_stats_expiry = 0",
    "SHOW BINARY LOG STATUS",
    {
        "binlog_format": "ROW",
        "binlog_row_image": "FULL",
        "binlog_row_metadata": "FULL",
        "binlog_row_value_options": "",
        "enforce_gtid_consistency": "ON",
        "gtid_mode": "ON",
    },
    "SET PERSIST",
    "REPLICATION CLIENT",
    f"in the server's my.cnf, under [mysqld]:\n{_CNF}    enforce_gtid_consistency = ON\n    gtid_mode = ON\n"
    "  and restart it (a managed server has these in its parameter group; its log is on once backups are)",
)
_MYSQL_8_0 = Dialect(**{**_MYSQL.__dict__, "log_end": "SHOW MASTER STATUS"})
"""SHOW BINARY LOG STATUS came with 8.2."""


def dialect_of(version: str) -> Dialect:
    """By what a server says of itself as it is connected to."""
    if "mariadb" in version.lower():
        return MARIADB
    return _MYSQL if number_of(version) >= (8, 2) else _MYSQL_8_0


def number_of(version: str) -> tuple[int, int]:
    """The first two numbers; MariaDB may say 5.5.5- before its own."""
    found = re.match(r"(\d+)\.(\d+)", version.removeprefix("5.5.5-"))
    return (int(found[1]), int(found[2])) if found else (0, 0)


def steps_to(name: str, now: str, wanted: str, dialect: Dialect) -> list[str]:
    """The statements that bring a setting where it must be. `gtid_mode` goes one step at a time."""
    if name == "gtid_mode":
        modes = ["OFF", "OFF_PERMISSIVE", "ON_PERMISSIVE", "ON"]
        begun = modes.index(now) if now in modes else 0
        return [f"{dialect.assign} gtid_mode = {mode};" for mode in modes[begun + 1 :]]
    return [f"{dialect.assign} {name} = '{wanted}';"]
