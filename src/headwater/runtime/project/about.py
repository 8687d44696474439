"""What is written beside a view's tables when it is loaded: its definition, and which columns it was loaded from.

So a run can go on maintaining a view whose file was edited or deleted, until somebody says that it should change; and
after any pause it can be told whether a column is still the one that it was.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from headwater.model.names import SourceName, TableName, ViewName
from headwater.model.schema import Identities, Identity
from headwater.storage import Storage

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

    def to_json(self) -> bytes:
        raw = {
            "name": self.name,
            "sql": self.sql,
            "statement": self.statement,
            "file": self.file,
            "identities": identities_to_json(self.identities),
        }
        return json.dumps(raw, ensure_ascii=False, indent=1).encode()


def read_about(storage: Storage, folder: str) -> About | None:
    """What is known of the view in this folder."""
    text = storage.get(f"{folder}/{ABOUT}")
    if text is None:
        return None
    raw = json.loads(text)
    known = identities_from_json(raw.get("identities", []))
    return About(ViewName(raw["name"]), raw["sql"], raw.get("statement", ""), raw.get("file", ""), known)


def statement_of(view: ViewDefinition) -> str:
    """The statement that defines the view: its query as written, its promise in full."""
    options = [f"consistency = '{view.level.value}'"]
    options += [f"every = {view.every}"] if view.every > 1 else []
    options += [f"schedule = '{view.schedule}'"] if view.schedule else []
    return f"CREATE MATERIALIZED VIEW {view.name} WITH ({', '.join(options)}) AS\n{view.text};\n"


def identities_to_json(identities: Mapping[TableName, Identities]) -> list[Any]:
    return [
        [t.source, t.schema, t.table, {column: asdict(found) for column, found in columns.items()}]
        for t, columns in identities.items()
    ]


def identities_from_json(raw: list[Any]) -> dict[TableName, Identities]:
    return {
        TableName(SourceName(source), table, schema): {
            column: Identity(**{**found, "labels": tuple(found["labels"])}) for column, found in columns.items()
        }
        for source, schema, table, columns in raw
    }
