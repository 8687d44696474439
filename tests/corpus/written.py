"""What a script says, statement by statement, whatever kind of file it stands in."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Role(Enum):
    STATEMENT = "statement"
    QUERY = "query"
    """A SELECT whose answer the script compares."""


@dataclass(frozen=True)
class Written:
    """A statement as its author wrote it; `file` is relative to the corpus, lines count from 1."""

    text: str
    file: str
    line: int
    role: Role = Role.STATEMENT
