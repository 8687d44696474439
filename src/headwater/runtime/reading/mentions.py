"""Which views a query mentions: only those are read, checked and resolved to a state.

Never too few. A view's name that does not occur in the text is not read by it; where that leaves more than matters, the
parser tells names of tables from other words, and a query it does not understand counts as mentioning them all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from headwater.model.names import ViewName


def occurring(query: str, views: Iterable[ViewName]) -> list[ViewName]:
    """The views whose names occur in the query as words, in any case; all of them if none does."""
    text = query.replace('""', '"').replace("``", "`").casefold()
    known = list(views)
    found = [v for v in known if re.search(rf"(?<!\w){re.escape(v.casefold())}(?!\w)", text)]
    return found or known


def mentioned(query: str, views: Sequence[ViewName], dialect: str) -> list[ViewName]:
    """Of these views, those that stand where tables do."""
    import sqlglot  # only where it matters: reading must answer at once
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    try:
        parsed = [statement for statement in sqlglot.parse(query, dialect=dialect) if statement is not None]
    except SqlglotError:
        return list(views)
    if not parsed or any(s.find(exp.Command) is not None for s in parsed):  # it keeps what it does not know as text
        return list(views)
    tables = {table.name.casefold() for statement in parsed for table in statement.find_all(exp.Table)}
    return [v for v in views if v.casefold() in tables] or list(views)
