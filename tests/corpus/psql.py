"""Reads scripts for psql: statements that end with a semicolon. Commands of psql itself (`\\d t`) are left out.

A semicolon inside quotes, dollar quotes or a comment ends nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from .written import Role, Written

ENDINGS = (".sql",)
_PART = re.compile(
    r"""(?P<quoted>'(?:[^']|'')*'|"(?:[^"]|"")*")
      | (?P<dollars>\$(?P<tag>\w*)\$.*?\$(?P=tag)\$)
      | (?P<comment>--[^\n]*|/\*.*?\*/)
      | (?P<end>;)
      | (?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)


def read_psql(path: Path, corpus: Path) -> Iterator[Written]:
    name = str(path.relative_to(corpus))
    for text, line in split(path.read_text(errors="replace")):
        role = Role.QUERY if re.match(r"(select|with|values)\b", text, re.IGNORECASE) else Role.STATEMENT
        yield Written(text, name, line, role)


def split(text: str) -> Iterator[tuple[str, int]]:
    """The statements of a script, each with its first line."""
    kept = "\n".join("" if line.startswith("\\") else line for line in text.split("\n"))
    parts: list[str] = []
    line = begun = 1
    for found in _PART.finditer(kept):
        if found["end"]:
            yield from _said(parts, begun)
            parts = []
        elif not found["comment"] and (parts or not found[0].isspace()):
            begun = begun if parts else line
            parts.append(found[0])
        line += found[0].count("\n")
    yield from _said(parts, begun)


def _said(parts: list[str], line: int) -> Iterator[tuple[str, int]]:
    text = "".join(parts).strip()
    if text:
        yield text, line
