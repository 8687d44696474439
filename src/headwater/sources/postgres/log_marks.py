"""Where reading the log begins.

A slot tells what was committed after the place up to which it was let go. To do so the server reads its log from the
last **mark** before that place on: a record of which transactions are under way, which it writes every 15 seconds. So a
burst is read again by everyone who looks, told or not, until there is a mark behind it and the slot is let go beyond
that. Whoever may makes such a mark where much lies behind the last one (PostgreSQL 16). The others wait for the
server's, and note now and then how far they have come, since a slot is let go only of what is noted.
"""

from __future__ import annotations

import time

from headwater.sources.postgres.connection import Connection
from headwater.sources.postgres.lsn import int_of, lsn_of

LATE_BYTES = 1 << 20
"""So much that the server reads of its log each time it is asked is too much."""
EVERY = 15.0
"""Seconds, as the server's own marks have it."""

_MARK = """
SELECT pg_current_wal_insert_lsn()::text, pg_log_standby_snapshot()::text
FROM headwater.log AS l JOIN pg_catalog.pg_replication_slots AS s
    ON s.slot_name = l.slot AND s.database = current_database()
WHERE (s.restart_lsn >= %s::pg_lsn OR %s) AND has_function_privilege('pg_log_standby_snapshot()', 'EXECUTE')
"""
_SINCE = 160000


class Marks:
    """Of one source's slot, as one reader has seen them."""

    def __init__(self) -> None:
        self._begins = self._ends = 0  # of the last mark that was made
        self._made_at = -EVERY
        self._let_go_at = self._noted_at = -EVERY

    def make(self, connection: Connection, upto: str, held: int) -> str:
        """Make a mark if much is to be read, `held`; where the log ends with it."""
        if held <= LATE_BYTES or connection.info.server_version < _SINCE:
            return upto
        again = time.monotonic() > self._made_at + EVERY
        row = connection.execute(_MARK, [lsn_of(self._begins), again]).fetchone()
        if row is None:
            return upto
        self._begins, self._ends, self._made_at = int_of(row[0]), int_of(row[1]), time.monotonic()
        return lsn_of(max(self._ends, int_of(upto)))

    def lets_go(self, begins: int, moved: int) -> bool:
        """Whether the slot should be let go up to `moved` for the sake of a mark, however little was told since, if
        the log is read from `begins` on as it is."""
        if begins < self._begins and self._ends <= moved:
            return True
        if moved - begins <= LATE_BYTES or time.monotonic() < self._let_go_at + EVERY:
            return False
        self._let_go_at = time.monotonic()
        return True

    def note(self, begins: int, moved: int, end: int) -> bool:
        """Whether to note that everything up to `end` was read, though nothing was told: only what was noted is let go
        of."""
        if begins < self._begins and moved < self._ends <= end:
            return True
        if end - begins <= LATE_BYTES or time.monotonic() < self._noted_at + EVERY:
            return False
        self._noted_at = time.monotonic()
        return True
