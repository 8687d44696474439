"""A simulated source: a database that commits transactions and is asked about now, about the past, and for its log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from headwater.algebra.bag import Bag, Row
from headwater.algebra.spj import Find, Key, key_of
from headwater.maintenance.strategies.contract import Label, Node, Update, Wanted
from headwater.model.errors import HeadwaterError
from headwater.model.names import TableName

Index = dict[Key, dict[Row, int]]


class SourceDatabase:
    """The `Database` of the contract. Indexes are made when first asked for, and kept up to date."""

    def __init__(self, name: Node, tables: Mapping[TableName, Bag]) -> None:
        self.name = name
        self._rows: dict[TableName, dict[Row, int]] = {t: dict(bag.counts) for t, bag in tables.items()}
        self._indexes: dict[TableName, dict[tuple[int, ...], Index]] = {t: {} for t in tables}
        self._log: list[Update] = []
        self._delta: dict[str, Update] = {}

    @property
    def position(self) -> int:
        return len(self._log)

    def commit(self, changes: Mapping[TableName, Bag], at: float, part_of: str = "") -> Update:
        label = Label(self.name, len(self._log) + 1)
        for table, change in changes.items():
            rows, indexes = self._rows[table], self._indexes[table]
            for row, count in change.counts.items():
                total = rows.get(row, 0) + count
                if total < 0:
                    raise HeadwaterError(
                        f"{label} deletes {row} from {table}, which does not have it", "delete what is there only"
                    )
                for positions, index in indexes.items():
                    _put(index.setdefault(key_of(positions)(row), {}), row, total)
                _put(rows, row, total)
        update = Update(label, changes, at, f"{self.name}-T{label.number}", part_of)
        self._log.append(update)
        self._delta[update.tid] = update
        return update

    def rows(self, table: TableName) -> Bag:
        return Bag(dict(self._rows[table]))

    def find(self, table: TableName, positions: tuple[int, ...], wanted: Wanted | None = None) -> Find:
        rows = self._rows[table]
        if not positions:
            return lambda key: rows.items()
        index = self._indexes[table].get(positions)
        if index is None:
            key_at = key_of(positions)
            index = self._indexes[table][positions] = {}
            for row, count in rows.items():
                index.setdefault(key_at(row), {})[row] = count
        found = index
        return lambda key: found[key].items() if key in found else ()

    def as_of(self, table: TableName, positions: tuple[int, ...], position: int) -> Find:
        """Now, less what came after: R(p) = R − changes after p."""
        now = self.find(table, positions)
        later: Index = {}
        key_at = key_of(positions)
        for update in self._log[position:]:
            for row, count in update.changes.get(table, Bag()).counts.items():
                rows = later.setdefault(key_at(row), {})
                rows[row] = rows.get(row, 0) + count
        if not later:
            return now

        def find(key: Key) -> Iterable[tuple[Row, int]]:
            if key not in later:
                return now(key)
            rows = dict(now(key))
            for row, count in later[key].items():
                _put(rows, row, rows.get(row, 0) - count)
            return rows.items()

        return find

    def log(self, after: int) -> Sequence[Update]:
        return self._log[after:]

    def delta(self) -> Mapping[str, Update]:
        return self._delta

    def forget(self, tids: Iterable[str]) -> None:
        for tid in tids:
            self._delta.pop(tid, None)


def _put(rows: dict[Row, int], row: Row, count: int) -> None:
    if count:
        rows[row] = count
    else:
        rows.pop(row, None)
