"""Tables of real sources by key, as strategies look them up: all the keys that a question is about are asked for at
once (PVM's ComputeJoin is one question), any other by itself, each once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from headwater.algebra.bag import Bag, Row
from headwater.algebra.spj import Find, Key
from headwater.maintenance.strategies.contract import Wanted
from headwater.maintenance.strategies.values import EXACT, Values
from headwater.model.conditions import Condition
from headwater.model.names import TableName
from headwater.model.source import ORDINAL, Question

AskSource = Callable[[Question], Iterable[pa.Table]]
"""Rows with ORDINAL and COUNT, in any number of tables."""


@dataclass(frozen=True)
class AskedTable:
    """A table as it is asked for: these columns, of rows that meet these conditions."""

    name: TableName
    columns: pa.Schema
    conditions: tuple[Condition, ...] = ()
    values: Values = field(default=EXACT)

    def find(self, ask: AskSource, positions: tuple[int, ...], wanted: Wanted | None = None) -> Find:
        """Rows by the key at these positions; there must be one."""
        found: dict[Key, Bag] = {}

        def find(key: Key) -> Bag:
            if key not in found:
                keys = [key, *(k for k in (wanted() if wanted is not None and not found else ()) if k != key)]
                found.update(self._answers(ask, positions, keys))
            return found[key]

        return find

    def _answers(self, ask: AskSource, positions: tuple[int, ...], keys: Sequence[Key]) -> dict[Key, Bag]:
        asked = self._keys([(key,) if len(positions) == 1 else key for key in keys], positions)
        pairs: list[list[tuple[Row, int]]] = [[] for _ in keys]
        if asked is not None:
            table, places = asked
            question = Question(self.name, tuple(table.column_names), table, tuple(self.columns.names), self.conditions)
            for rows in ask(question):
                own = self.values.rows(rows, self.columns.names)
                for ordinal, pair in zip(rows.column(ORDINAL).to_pylist(), own, strict=True):
                    pairs[places[ordinal]].append(pair)
        return {key: Bag.summed(own) for key, own in zip(keys, pairs, strict=True)}

    def _keys(self, keys: Sequence[Row], positions: tuple[int, ...]) -> tuple[pa.Table, list[int]] | None:
        """Keys in the types of their columns, and which ones they are; those are left out that no row can have: with
        two values for one column, or one that the column cannot hold. None if none is left."""
        fields = [self.columns.field(i) for i in positions]
        first = {field.name: n for n, field in reversed(list(enumerate(fields)))}
        places = [n for n, key in enumerate(keys) if all(key[i] == key[first[f.name]] for i, f in enumerate(fields))]
        for n in first.values():
            _, fit = self.values.fitting([keys[place][n] for place in places], fields[n].type)
            places = [places[at] for at in fit]
        if not places:
            return None
        arrays = {
            name: self.values.fitting([keys[place][n] for place in places], fields[n].type)[0]
            for name, n in sorted(first.items(), key=lambda pair: pair[1])
        }
        return pa.table(arrays), places
