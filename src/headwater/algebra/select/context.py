"""What building a tree needs everywhere: names, fresh columns, errors, and what has been found out on the way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa
from sqlglot import exp

from headwater.algebra.names import Names
from headwater.algebra.relations import Name, Relation
from headwater.algebra.select.scope import Fresh, Resolver, Scope
from headwater.algebra.statements import ParsedView


@dataclass(frozen=True)
class Cte:
    """A query by name, and the names that it may use itself. A `recursive` one uses its own, `alias`."""

    query: exp.Expr
    columns: tuple[str, ...]
    known: Mapping[str, Cte]
    recursive: bool = False
    alias: exp.Expr | None = None
    outer: Scope | None = None
    """What can be seen where WITH stands: the columns of the queries around."""


@dataclass
class Context:
    """One view. `types` are those of the columns of tables; `exact` is False once the tree decides what the query as
    written leaves open (which of several rows comes first) or says what Spark has no words for: then the query is
    recomputed from the tree."""

    names: Names
    fresh: Fresh = field(default_factory=Fresh)
    types: dict[Name, pa.DataType] = field(default_factory=dict)
    exact: bool = True
    built: dict[int, Built] = field(default_factory=dict)
    """Queries of WITH, by the id of what was written, which the view keeps alive."""
    alive: list[exp.Expr] = field(default_factory=list)
    """What was not written, and is known by its id nevertheless."""

    @property
    def parsed(self) -> ParsedView:
        return self.names.parsed

    @property
    def resolver(self) -> Resolver:
        return Resolver(self.names)


@dataclass(frozen=True)
class Place:
    """How far a SELECT has come: its rows so far, and what names mean there."""

    relation: Relation
    scope: Scope
    ctes: Mapping[str, Cte] = field(default_factory=dict)

    def over(self, relation: Relation) -> Place:
        return replace(self, relation=relation)


@dataclass(frozen=True)
class Built:
    """A query: its rows, and what its columns are called. `order` is ORDER BY where it decides nothing but the order in
    which rows are shown: (name of an output, descending, NULLs first)."""

    relation: Relation
    outputs: tuple[tuple[str, Name], ...]
    order: tuple[tuple[str, bool, bool], ...] = ()
