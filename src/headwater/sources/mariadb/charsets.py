"""How bytes of the log become text: each column is there in its own character set.

UTF-8 and the other forms of Unicode are Python's. Sets of one byte per character are asked from the server itself,
all 256 at once, so that they mean exactly what its SELECT says. Others (gbk, sjis, …) are not read.
"""

from __future__ import annotations

from collections.abc import Callable

from headwater.sources.mariadb.connection import Connection, rows

Decoder = Callable[[bytes], str]

_PYTHON = {
    "utf8mb4": "utf-8",
    "utf8mb3": "utf-8",
    "utf8": "utf-8",
    "ascii": "ascii",
    "ucs2": "utf-16-be",
    "utf16": "utf-16-be",
    "utf16le": "utf-16-le",
    "utf32": "utf-32-be",
}
_tables: dict[str, str] = {}


def is_read(charset: str, widest: int) -> bool:
    """Whether a set is read; `widest` is how many bytes a character may have."""
    return charset in _PYTHON or widest == 1


def decoder(connection: Connection, charset: str) -> Decoder:
    if charset in _PYTHON:
        name = _PYTHON[charset]
        return lambda raw: raw.decode(name)
    if charset not in _tables:
        every = bytes(range(256)).hex()
        ((_tables[charset],),) = rows(connection, f"SELECT CONVERT(_{charset} X'{every}' USING utf8mb4)")
    table = _tables[charset]
    return lambda raw: raw.decode("latin-1").translate(_translation(table))


def _translation(table: str) -> dict[int, str]:
    return dict(enumerate(table))
