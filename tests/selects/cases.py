"""Queries in a file: each ends with a semicolon and a line end. A comment line of its own that lists tables,

    -- t0(a int, e text) t1(a int, b int)  seeds 3 17

says what the queries after it read, and with which seeds they failed once (none: any will do)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .worlds import Schema, schema_from


@dataclass(frozen=True)
class Case:
    query: str
    schema: Schema
    seeds: tuple[int, ...]

    def __str__(self) -> str:
        return self.query


def cases(path: Path) -> Iterator[Case]:
    schema: Schema = ()
    seeds: tuple[int, ...] = ()
    lines: list[str] = []
    for line in path.read_text().splitlines():
        if line.startswith("--"):
            found = schema_from(line)
            if found:
                schema = found
                said = re.search(r"seeds((?: \d+)+)", line)
                seeds = tuple(map(int, said[1].split())) if said else ()
            continue
        lines.append(line.strip())
        if line.rstrip().endswith(";"):
            yield Case(" ".join(part for part in lines if part).rstrip(";"), schema, seeds)
            lines = []
    assert not any(lines), f"{path}: the last query does not end with a semicolon"
