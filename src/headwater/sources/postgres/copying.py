"""COPY … TO STDOUT in large pieces.

The driver hands a copy over row by row, each row a Python object with its own memory: a million rows took two seconds
here, of which the server needed a tenth. So what has come is taken in one loop and appended to one buffer, and only
waiting for more goes by way of the driver. A piece always ends where a row ends.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from psycopg import errors, generators, pq, sql, waiting
from psycopg.abc import PQGen

from headwater.sources.postgres.connection import Connection

PIECE_BYTES = 4 << 20


@contextlib.contextmanager
def copied_out(connection: Connection, statement: sql.Composed) -> Iterator[Iterator[bytearray]]:
    """The pieces of what the statement tells. Whoever stops in their midst has the rest cancelled, if by an error."""
    with connection.cursor() as cursor, cursor.copy(statement):
        yield _pieces(connection)


def _pieces(connection: Connection) -> Iterator[bytearray]:
    more = True
    while more:
        piece = bytearray()
        more = connection.wait(_fill(connection.pgconn, piece))
        if piece:
            yield piece


def _fill(pgconn: pq.abc.PGconn, piece: bytearray) -> PQGen[bool]:
    """Rows until the piece is large enough; whether there may be more."""
    get = pgconn.get_copy_data
    while len(piece) < PIECE_BYTES:
        size, row = get(1)
        if size > 0:
            piece += row
        elif size == 0:
            while not (yield waiting.Wait.R):
                continue
            pgconn.consume_input()
        else:
            for result in (yield from generators.fetch_many(pgconn)):
                if result.status != pq.ExecStatus.COMMAND_OK:
                    raise errors.error_from_result(result)
            return False
    return True
