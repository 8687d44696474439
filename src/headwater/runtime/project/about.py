"""What is written beside a view's tables when it is loaded: its definition, and which columns it was loaded from.

So a run can go on maintaining a view whose file was edited or deleted, until somebody says that it should change; and
after any pause it can be told whether a column is still the one that it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headwater.model.names import TableName, ViewName
from headwater.model.schema import Identities
from headwater.storage import Storage
from headwater.storage.records import TableRow, by_table, decode, encode, of_tables

if TYPE_CHECKING:
    from headwater.algebra.view import ViewDefinition  # with it comes sqlglot, and status answers at once without

ABOUT = "view.json"


@dataclass(frozen=True)
class About:
    """`statement` is empty in warehouses from before it was kept."""

    name: ViewName
    sql: str
    statement: str = ""
    file: str = ""
    identities: Mapping[TableName, Identities] = field(default_factory=dict)
    kept_for: str = ""
    """The view that it is kept for, if nobody wrote it."""
    maintenance: str = ""
    """The algorithm that maintains it, in words, if it is not the wave."""

    def to_json(self) -> bytes:
        known = by_table(self.identities)
        return encode(_Stored(self.name, self.sql, self.statement, self.file, known, self.kept_for, self.maintenance))


@dataclass(frozen=True)
class _Stored:
    name: ViewName
    sql: str
    statement: str = ""
    file: str = ""
    identities: list[TableRow[Identities]] = field(default_factory=list)
    kept_for: str = ""
    maintenance: str = ""


def read_about(storage: Storage, folder: str) -> About | None:
    """What is known of the view in this folder."""
    text = storage.get(f"{folder}/{ABOUT}")
    if text is None:
        return None
    found = decode(text, _Stored, storage.uri(f"{folder}/{ABOUT}"))
    known = of_tables(found.identities)
    return About(found.name, found.sql, found.statement, found.file, known, found.kept_for, found.maintenance)


def statement_of(view: ViewDefinition) -> str:
    """The statement that defines the view: its query as written, its promise in full."""
    from headwater.algebra.methods import METHODS, WAVE

    options = [f"consistency = '{view.level.value}'"]
    options += [f"every = {view.every}"] if view.every > 1 else []
    options += [f"schedule = '{view.schedule}'"] if view.schedule else []
    options += [f"kept_for = '{view.kept_for}'"] if view.kept_for else []
    options += [f"relies = '{'; '.join(map(str, view.relies))}'"] if view.relies else []
    options += [f"maintenance = '{view.maintenance}'"] if view.maintenance != WAVE else []
    options += [f"parallel = {view.parallel}"] if METHODS[view.maintenance].parallel else []
    if view.chain is not None:
        query = view.chain.query.replace("'", "''")
        options += [f"maintenance = '{view.chain.how}'", f"window = '{view.chain.window:g} s'", f"chain = '{query}'"]
    return f"CREATE MATERIALIZED VIEW {view.name} WITH ({', '.join(options)}) AS\n{view.text};\n"


def maintained_by(view: ViewDefinition) -> str:
    """The algorithm that maintains the view, in words; empty for the wave."""
    from headwater.algebra.methods import METHODS, WAVE

    if view.chain is not None:
        along = " → ".join(member.source for member in view.chain.members)
        return f"{METHODS[view.chain.how].title} along {along}, every {view.chain.window:g} s"
    if view.maintenance == WAVE:
        return ""
    method = METHODS[view.maintenance]
    return f"{method.title}, {view.parallel} at a time" if method.parallel else method.title
