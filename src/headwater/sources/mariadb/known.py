"""Tables as a reader last saw them, and the columns that are expected of them.

The catalog is read once per table, and again when the log tells of an alteration since. A column's identity is the
capture's generation, the place at which it last became another one, and what decides how its values read; longer
texts, new defaults and other columns beside it leave it what it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headwater.model.errors import CaptureMissing, PositionTrimmed, SchemaChanged, SourceRefused
from headwater.model.names import SourceName, TableName
from headwater.model.schema import Identities, Identity
from headwater.sources.mariadb import catalog
from headwater.sources.mariadb.books import Books
from headwater.sources.mariadb.catalog import MariaTable
from headwater.sources.mariadb.charsets import Decoder, decoder
from headwater.sources.mariadb.connection import Connection
from headwater.sources.mariadb.places import Place, file_name
from headwater.sources.mariadb.window import LogWindow

LOAD_AGAIN = "'headwater apply' loads the views that use it again"


class KnownTables:
    def __init__(self, source: SourceName) -> None:
        self._source = source
        self._known: dict[TableName, tuple[MariaTable, int]] = {}
        self._texts: dict[str, Decoder] = {}
        self.expected: Mapping[TableName, Identities] = {}

    def forget(self) -> None:
        self._known.clear()

    def table(self, connection: Connection, name: TableName, altered: int = 0) -> MariaTable:
        """As remembered if it was not altered since then, or as it is now."""
        found = self._known.get(name)
        if found is None or found[1] < altered:
            now = catalog.tables(connection, self._source, name.table).get(name)
            if now is None:
                self._known.pop(name, None)
                raise SchemaChanged(f"{name} does not exist", "create it again, or change the views")
            found = self._known[name] = now, altered
        if found[0].refusal is not None:
            raise CaptureMissing(*found[0].refusal)
        return found[0]

    def texts(self, connection: Connection, table: MariaTable) -> Mapping[str, Decoder]:
        """How the texts of a table's columns are decoded."""
        for column in table.columns.values():
            if column.charset and column.type is not None and column.charset not in self._texts:
                self._texts[column.charset] = decoder(connection, column.charset)
        return self._texts

    def identities(self, table: MariaTable, books: Books, became: Mapping[str, int]) -> Identities:
        found = {}
        for name, place in became.items():
            column = table.columns.get(name)
            if column is None:
                raise SchemaChanged(f"{table.name} has no column {name!r}", "change the views that use it")
            if column.type is None:
                raise SchemaChanged(
                    f"{table.name}.{name} is of type {column.declared}, which Headwater cannot hold", "leave it out"
                )
            whole = f"{books.generation}/{place}/{table.name.table}/{name}/{column.kind}"
            found[name] = Identity(whole, labels=tuple(f"{n}={label}" for n, label in enumerate(column.labels, 1)))
        return found

    def judged(
        self, connection: Connection, name: TableName, columns: Sequence[str], told: tuple[Books, LogWindow]
    ) -> tuple[MariaTable, int]:
        """The table, if these columns are the ones expected; and the place from which they are what they are."""
        books, window = told
        captured(books, name)
        became = window.became(books, name.table, tuple(columns))
        newest = max(became.values(), default=0)
        table = self.table(connection, name, newest)
        now, expected = self.identities(table, books, became), self.expected.get(name, {})
        for column in columns:
            why = expected[column].became(now[column]) if column in expected else ""
            if why:
                self.forget()
                raise altered(name, column, window, why)
        return table, newest


def altered(name: TableName, column: str, window: LogWindow, why: str) -> SchemaChanged:
    said = [one.why for _, one in window.altered if one.why and one.concerns(name.table, [column])]
    return SchemaChanged(f"{name}.{column} {said[-1] if said else why}", LOAD_AGAIN)


def captured(books: Books, name: TableName) -> Place:
    """Since when."""
    if name.table not in books.tables:
        raise CaptureMissing(f"{name} is not captured", "run 'headwater setup'")
    return books.tables[name.table]


def old_enough(books: Books, name: TableName, at: Place, newest: int) -> None:
    """Whether a table's columns can be asked about as of a place."""
    since = max(int(books.tables[name.table]), newest)
    if int(at) < since:
        log = books.floor.head.log if books.floor else "bin"
        whole = Place.of(since)
        raise PositionTrimmed(
            f"{name} is captured since {file_name(log, whole.number)}:{whole.offset}", "ask as of a newer position"
        )


def refuse(table: MariaTable) -> None:
    if table.refusal is not None:
        raise SourceRefused(*table.refusal)
