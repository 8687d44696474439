"""A script, played in a DuckDB that is the source: its tables, what its statements do to them, the views it defines.

Every statement that changes rows is a transaction: the bag of its table's rows after it, less the bag before. What a
block rolls back is taken back in one transaction. A view lives from its definition until a table that it reads is
dropped, altered or made anew.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import duckdb
import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.errors import ErrorLevel, SqlglotError

from .definitions import Head, is_definition, read_head
from .translating import SOURCE, Tables, Unknown, defined, key, name_of, rewritten
from .written import Role, Written

Row = tuple[object, ...]
Bag = Counter[Row]
NAN = float("nan")
"""The one that bags hold, so that it equals itself."""
_WORDS = re.compile(r"\s*(BEGIN|START\s+TRANSACTION|COMMIT|END|ROLLBACK|ABORT)\b", re.IGNORECASE)
_COLUMNS = re.compile(
    r"\s*CREATE\s+(TABLE|SOURCE)\s+(IF\s+NOT\s+EXISTS\s+)?(?P<name>[\w.\"]+)\s*(?P<rest>\(.*)", re.I | re.S
)
_WATERMARK = re.compile(r",\s*WATERMARK\s+FOR\s+[^()]*(?:\([^()]*\)[^()]*)*(\)$)", re.I)
_SERIAL = {"SERIAL": "INT", "BIGSERIAL": "BIGINT", "SMALLSERIAL": "SMALLINT"}


@dataclass(frozen=True)
class Shape:
    """A table: its columns with their types, None where Headwater's sources have no such type."""

    name: str
    columns: tuple[tuple[str, pa.DataType | None, str], ...]

    @property
    def arrow(self) -> pa.Schema:
        """Of what can be represented."""
        return pa.schema([pa.field(name, kind) for name, kind, _ in self.columns if kind is not None])


@dataclass
class Defined:
    """A view of a script: `since` and `until` are the numbers of the transactions that it lives through."""

    written: Written
    head: Head
    query: exp.Query | None
    why: str = ""
    """Why there is no query that can be compared."""
    tables: dict[str, tuple[Shape, Bag]] = field(default_factory=dict)
    since: int = 0
    until: int | None = None


@dataclass
class Story:
    """What a script does: its views, and by number what each transaction did to which tables."""

    views: list[Defined] = field(default_factory=list)
    transactions: list[dict[str, Bag]] = field(default_factory=list)
    failed: Counter[str] = field(default_factory=Counter)
    """Statements that DuckDB cannot do, by its first words: they did not happen."""


class Source:
    """The tables of a script as far as it is played."""

    def __init__(self, dialect: str, queries: bool = False) -> None:
        self._dialect, self._queries = dialect, queries
        self._connection = duckdb.connect(config={"threads": 1})
        self._connection.execute(f"SET TimeZone = 'UTC'; CREATE SCHEMA {SOURCE}; USE {SOURCE}")
        self._shapes: dict[str, Shape] = {}
        self._bags: dict[str, Bag] = {}
        self._views: dict[str, exp.Query] = {}
        self._before: dict[str, Bag] | None = None
        self._texts: set[str] = set()
        self.story = Story()

    def close(self) -> None:
        self._connection.close()

    def play(self, script: Iterable[Written]) -> Story:
        for written in script:
            try:
                self._do(written)
            except Exception as error:  # whatever sqlglot and DuckDB make of the words of others
                self.story.failed[f"{' '.join(written.text.split()[:2]).upper()[:30]}: {type(error).__name__}"] += 1
        return self.story

    def _do(self, written: Written) -> None:
        word = _WORDS.match(written.text)
        if word is not None:
            self._block(word[1].upper())
            return
        try:
            head = read_head(written.text, self._dialect)
        except SqlglotError as error:
            if not is_definition(written.text):
                raise
            self._define(written, Head("?", (), written.text, True), f"sqlglot: {_first_line(error)}")
            return
        if head is not None:
            self._define(written, head)
        elif written.role is Role.QUERY:
            self._query(written)
        else:
            self._statement(written)

    # ── views ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _query(self, written: Written) -> None:
        """A query that the script asks, as if it were a view."""
        if not self._queries or not re.match(r"\s*(SELECT|WITH|\()", written.text, re.IGNORECASE):
            return
        query = written.text.strip().rstrip(";")
        if query not in self._texts:
            self._texts.add(query)
            self._define(written, Head(f"query_{written.line}", (), query, True))

    def _define(self, written: Written, head: Head, why: str = "") -> None:
        view = Defined(written, head, None, why, since=len(self.story.transactions))
        try:
            if not why:
                view.query = defined(head, self._dialect, self._known())
        except Unknown as error:
            view.why = f"reads what is no table: {error}"
        except Exception as error:
            view.why = f"sqlglot: {type(error).__name__}: {_first_line(error)}"
        if view.query is not None:
            self._views[key(head.name.split("."))] = view.query
            read = {table.name for table in view.query.find_all(exp.Table) if table.db == SOURCE}
            view.tables = {name: (self._shapes[name], self._bags[name]) for name in sorted(read)}
        if head.kept:
            self.story.views.append(view)

    def _known(self) -> Tables:
        return Tables(frozenset(self._shapes), self._views)

    def _ended(self, table: str) -> None:
        """Views that read the table end here."""
        for view in self.story.views:
            if view.until is None and table in view.tables:
                view.until = len(self.story.transactions)

    # ── tables ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _statement(self, written: Written) -> None:
        try:
            statements = sqlglot.parse(written.text, read=self._dialect, error_level=ErrorLevel.RAISE)
        except SqlglotError:
            self._create(self._columns_only(written.text))
            return
        for one in statements:
            match one:
                case exp.Create(kind="TABLE"):
                    self._create(one)
                case exp.Insert() | exp.Update() | exp.Delete():
                    target = one.this.this if isinstance(one.this, exp.Schema) else one.this
                    if isinstance(target, exp.Table):
                        self._changed([name_of(target)], one)
                case exp.TruncateTable():
                    for table in one.expressions:
                        self._changed([name_of(table)], exp.delete(exp.to_identifier(name_of(table), quoted=True)))
                case exp.Drop(kind="TABLE" | "SOURCE"):
                    for table in one.find_all(exp.Table):
                        self._drop(name_of(table))
                case exp.Drop():
                    for table in one.find_all(exp.Table):
                        self._views.pop(name_of(table), None)
                case exp.Alter(kind="TABLE"):
                    self._alter(one)
                case exp.Command() if re.match(r"\s*CREATE\s+(TABLE|SOURCE)", written.text, re.IGNORECASE):
                    self._create(self._columns_only(written.text))
                case exp.Create(kind="TYPE" | "SCHEMA" | "SEQUENCE" | "FUNCTION" | "MACRO"):
                    self._connection.execute(one.sql("duckdb"))
                case _:
                    pass

    def _columns_only(self, text: str) -> exp.Create:
        """A table of which all but its columns is beyond sqlglot; a source elsewhere is a table that begins empty."""
        found = _COLUMNS.match(text)
        if found is None:
            raise SqlglotError("not to be read")
        rest, depth = found["rest"], 0
        for i, letter in enumerate(rest):
            depth += (letter == "(") - (letter == ")")
            if depth == 0:
                rest = rest[: i + 1]
                break
        rest = _WATERMARK.sub(r"\1", rest)
        made = sqlglot.parse_one(f"CREATE TABLE {found['name']} {rest}", read="postgres")
        assert isinstance(made, exp.Create)
        return made

    def _create(self, create: exp.Create) -> None:
        schema = create.this
        if isinstance(schema, exp.Table) and create.expression is None:
            raise SqlglotError("a table without columns")
        table = schema.this if isinstance(schema, exp.Schema) else schema
        name = name_of(table)
        if name in self._shapes:
            if create.args.get("exists"):
                return
            self._drop(name)
        quoted = f'"{name}"'
        if create.expression is not None:
            query = rewritten(create.expression, self._known())
            self._connection.execute(f"CREATE TABLE {quoted} AS {query.sql('duckdb')}")
        else:
            self._connection.execute(f"CREATE TABLE {quoted} ({', '.join(self._columns(name, schema))})")
        self._views.pop(name, None)
        self._learn(name)

    def _columns(self, name: str, schema: exp.Schema) -> list[str]:
        """Columns with their types, defaults and the primary key; constraints beyond that are left out."""
        found = []
        for item in schema.expressions:
            if isinstance(item, exp.PrimaryKey):
                found.append(f"PRIMARY KEY ({', '.join(part.sql('duckdb') for part in item.expressions)})")
            if not isinstance(item, exp.ColumnDef):
                continue
            kind = item.args["kind"].sql("duckdb") if item.args.get("kind") else "VARCHAR"
            parts = [exp.to_identifier(item.name, quoted=True).sql("duckdb"), _SERIAL.get(kind, kind)]
            if kind in _SERIAL:
                sequence = f"{name}_{item.name}_seq"
                self._connection.execute(f'CREATE SEQUENCE IF NOT EXISTS "{sequence}"')
                parts.append(f"DEFAULT nextval('{sequence}')")
            for constraint in item.constraints:
                if isinstance(constraint.kind, exp.PrimaryKeyColumnConstraint):
                    parts.append("PRIMARY KEY")
                elif isinstance(constraint.kind, exp.DefaultColumnConstraint):
                    parts.append(f"DEFAULT {constraint.kind.this.sql('duckdb')}")
                elif isinstance(constraint.kind, exp.ComputedColumnConstraint):
                    parts.append(f"AS ({constraint.kind.this.sql('duckdb')})")
            found.append(" ".join(parts))
        return found

    def _drop(self, name: str) -> None:
        self._views.pop(name, None)
        if name in self._shapes:
            self._ended(name)
            self._connection.execute(f'DROP TABLE IF EXISTS "{name}" CASCADE')
            del self._shapes[name], self._bags[name]

    def _alter(self, alter: exp.Alter) -> None:
        name = name_of(alter.this)
        if name not in self._shapes:
            return
        self._ended(name)
        alter = alter.copy()
        alter.set("this", exp.to_table(f'"{name}"'))
        self._connection.execute(alter.sql("duckdb"))
        renamed = next((a for a in alter.args.get("actions") or [] if isinstance(a, exp.AlterRename)), None)
        if renamed is not None:
            del self._shapes[name], self._bags[name]
            name = name_of(renamed.this)
        self._learn(name)

    def _learn(self, name: str) -> None:
        types = self._connection.sql(f'SELECT * FROM "{name}" LIMIT 0')
        found = types.to_arrow_table().schema
        columns = [
            (field.name, represented(field.type), str(declared))
            for field, declared in zip(found, types.types, strict=True)
        ]
        self._shapes[name] = Shape(name, tuple(columns))
        self._bags[name] = self._rows(name)

    def _rows(self, name: str) -> Bag:
        shape = self._shapes[name]
        chosen = ", ".join(f'"{field.name}"' for field in shape.arrow)
        if not chosen:
            return Counter()
        found = self._connection.sql(f'SELECT {chosen} FROM "{name}"').to_arrow_table().cast(shape.arrow)
        return Counter(rows_of(found))

    # ── transactions ─────────────────────────────────────────────────────────────────────────────────────────────

    def _changed(self, names: list[str], statement: exp.Expr) -> None:
        known = self._known()
        for table in list(statement.find_all(exp.Table)):
            if name_of(table) in known.tables:
                table.set("this", exp.to_identifier(name_of(table), quoted=True))
                table.set("db", None)
                table.set("catalog", None)
            elif name_of(table) in known.views and table.parent is not statement:
                table.replace(rewritten(exp.select("*").from_(table.copy()), known).args["from_"].this)
        statement.set("returning", None)
        text = statement.sql("duckdb", unsupported_level=ErrorLevel.IGNORE)
        try:
            self._connection.execute(text)
        except duckdb.ConstraintException:
            if self._dialect != "risingwave" or not isinstance(statement, exp.Insert):
                raise
            self._connection.execute(text.replace("INSERT INTO", "INSERT OR REPLACE INTO", 1))
        self._commit(names)

    def _commit(self, names: Iterable[str]) -> None:
        """What happened to these tables since they were looked at last, as a transaction."""
        change: dict[str, Bag] = {}
        for name in names:
            if name not in self._shapes:
                continue
            before, after = self._bags[name], self._rows(name)
            less = after.copy()
            less.subtract(before)
            moved = Counter({row: n for row, n in less.items() if n})
            if moved:
                change[name] = moved
            self._bags[name] = after
        if change:
            self.story.transactions.append(change)

    def _block(self, word: str) -> None:
        if word.startswith(("BEGIN", "START")):
            self._before = dict(self._bags)
        elif word in ("ROLLBACK", "ABORT") and self._before is not None:
            restored = [name for name, bag in self._bags.items() if bag != self._before.get(name, Counter())]
            for name in restored:
                rows = list(self._before.get(name, Counter()).elements())
                shape = self._shapes[name]
                if rows and len(rows[0]) != len(shape.arrow):
                    continue
                self._connection.register("rows_", table_of(shape.arrow, rows))
                chosen = ", ".join(f'"{field.name}"' for field in shape.arrow)
                self._connection.execute(f'DELETE FROM "{name}"')
                self._connection.execute(f'INSERT INTO "{name}" ({chosen}) SELECT {chosen} FROM rows_')
            self._before = None
            self._commit(restored)
        else:
            self._before = None


def represented(kind: pa.DataType) -> pa.DataType | None:
    """The type that a source of Headwater gives such a column; None if none does."""
    of = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return pa.string()
    if of.is_unsigned_integer(kind):
        return {8: pa.int16(), 16: pa.int32(), 32: pa.int64()}.get(kind.bit_width)
    if of.is_integer(kind) or of.is_floating(kind) or of.is_boolean(kind) or of.is_date(kind) or of.is_string(kind):
        return kind
    if of.is_decimal(kind) or of.is_binary(kind):
        return kind
    if of.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    return pa.string() if of.is_dictionary(kind) or of.is_time(kind) else None


def rows_of(table: pa.Table) -> list[Row]:
    columns = [column.to_pylist() for column in table.columns]
    return [tuple(NAN if v != v else v for v in row) for row in zip(*columns, strict=True)]


def table_of(schema: pa.Schema, rows: list[Row]) -> pa.Table:
    arrays = [pa.array([row[i] for row in rows], field.type) for i, field in enumerate(schema)]
    return pa.Table.from_arrays(arrays, schema=schema)


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n")[0]


__all__ = ["NAN", "Bag", "Defined", "Row", "Shape", "Source", "Story", "rows_of", "table_of"]
