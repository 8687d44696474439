"""Reads sqllogictest files, in the dialects of RisingWave, Materialize and DuckDB.

    statement ok                 query II rowsort            include ../tables.slt.part
    CREATE TABLE t (a INT)       SELECT a, b FROM t
                                 ----
                                 1  2

Records end at an empty line; what stands after `----` is the answer. Statements that must fail are left out, and so are
records that are meant for another engine (`onlyif`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from .written import Role, Written

ENDINGS = (".slt", ".slt.part", ".test")
_INCLUDE = re.compile(r"include\s+(\S+)")
_FAILS = re.compile(r"(statement|query)\s+(error|maybe)", re.IGNORECASE)
_ANSWER = "----"


def read_slt(path: Path, corpus: Path) -> Iterator[Written]:
    """The statements of a file and of those that it includes, in order."""
    lines = path.read_text(errors="replace").splitlines()
    name = str(path.relative_to(corpus))
    at, skipped = 0, False
    while at < len(lines):
        head = lines[at].strip()
        word = head.split(maxsplit=1)[0].lower() if head else ""
        if word == "halt":
            return
        if word in ("onlyif", "skipif"):
            skipped = skipped or word == "onlyif"
        elif word == "include":
            for found in included(path, head):
                yield from read_slt(found, corpus)
        elif word in ("statement", "query", "simple", "system"):
            body, after = _body(lines, at + 1)
            if body and word != "system" and not skipped and not _FAILS.match(head):
                role = Role.QUERY if word == "query" else Role.STATEMENT
                yield Written("\n".join(body), name, at + 2, role)
            at, skipped = after, False
            continue
        at += 1


def included(path: Path, head: str) -> list[Path]:
    """The files that `include …` means, a pattern; a file never includes itself."""
    said = _INCLUDE.match(head)
    found = sorted(path.parent.glob(_normal(said[1]))) if said and not said[1].startswith("/") else []
    return [Path(os.path.normpath(one)) for one in found if one.resolve() != path.resolve()]


def all_included(paths: list[Path]) -> set[Path]:
    """Files that are a part of others, which says nothing when it is read alone."""
    found: set[Path] = set()
    for path in paths:
        for line in path.read_text(errors="replace").splitlines():
            if line.startswith("include"):
                found |= {one.resolve() for one in included(path, line)}
    return found


def _normal(pattern: str) -> str:
    return pattern.removeprefix("./")


def _body(lines: list[str], at: int) -> tuple[list[str], int]:
    """The SQL of a record, and the line after the record."""
    body: list[str] = []
    while at < len(lines) and lines[at].strip() and lines[at].strip() != _ANSWER:
        body.append(lines[at])
        at += 1
    while at < len(lines) and lines[at].strip():
        at += 1
    return body, at
