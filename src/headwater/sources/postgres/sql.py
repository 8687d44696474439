"""The statements of a PostgreSQL source: pure text, no I/O (but for `chunk_bounds`, which looks at the data).

Every as-of statement has the same form, R(p) = R(now) − changes that p does not show:

    SELECT columns, 1      FROM base                   WHERE wanted
    UNION ALL
    SELECT columns, −count FROM later                  WHERE wanted        -- later: changes after p, split once
    … WHERE (SELECT headwater.alive(p) AND headwater.holds(p, table))      -- an error if p cannot be answered for

A change's row is split into texts (`headwater.fields_<n>`), and only the columns that are asked for are then read as
what they are: a column that nobody asks for may hold a value, or have become a type, that its text no longer fits.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from psycopg import sql

from headwater.model.conditions import Condition
from headwater.model.names import Position
from headwater.model.source import Chunk, Question
from headwater.sources.postgres.catalog import PgTable
from headwater.sources.postgres.connection import Connection
from headwater.sources.postgres.schema import FORMAT, WIDTHS
from headwater.sources.postgres.snapshot import life_of
from headwater.sources.postgres.triggers import changes_table
from headwater.sources.postgres.types import PgColumn, equals, indexable, key_array, output

_HASH_CHUNKS_AT_MOST = 16
_SAMPLE_PER_CHUNK = 5_000

Reference = Callable[[str], sql.Composable]
"""How a column is written: `b."qty"` in the base table, `(l.f).f3::int4` in a change that was split."""


def base_of(column: str) -> sql.Composable:
    return sql.SQL("b.{}").format(sql.Identifier(column))


def later_text(table: PgTable) -> Reference:
    """A column of a change as the text it was written as."""
    return lambda column: sql.SQL("(l.f).{}").format(sql.Identifier(f"f{table.place(column)}"))


def later_of(table: PgTable) -> Reference:
    """A column of a change as a value that compares as the base table's does."""
    text = later_text(table)

    def reference(name: str) -> sql.Composable:
        column = table.columns[name]
        value = sql.SQL("{}::{}").format(text(name), column.sql_type())
        if column.collation:
            value = sql.SQL("{} COLLATE {}").format(value, sql.Identifier(*column.collation))
        return sql.SQL("({})").format(value)

    return reference


def key_of(table: PgTable, text: Reference, row: sql.Composable) -> sql.Composable:
    """What names a row to people: its primary key, `id = 17`, or its own text, shortened."""
    if not table.key:
        return sql.SQL("left({}, 60)").format(row)
    parts = [sql.SQL("{} || coalesce({}, 'NULL')").format(sql.Literal(f"{name} = "), text(name)) for name in table.key]
    return sql.SQL("concat_ws(', ', {})").format(sql.SQL(", ").join(parts))


def snapshot(position: str) -> sql.Composable:
    return sql.SQL("{}::pg_snapshot").format(sql.Literal(position.partition("@")[0]))


def relation(table: PgTable) -> sql.Composable:
    """The oid behind the name, as the statement itself finds it: a table created anew is not the captured one."""
    return sql.SQL("{}::regclass").format(sql.Literal(table.identifier.as_string(None)))


def fresh(after: str) -> sql.Composable:
    """Of a change `c`: it came after this position. (That it is committed now, the reader's own snapshot sees to.)"""
    condition = "c.xid >= pg_snapshot_xmin({p}) AND NOT pg_visible_in_snapshot(c.xid, {p})"
    return sql.SQL(condition).format(p=snapshot(after))


def alive(at: Position) -> sql.Composable:
    return sql.SQL("headwater.alive({}, {}, {})").format(snapshot(at), sql.Literal(life_of(at)), sql.Literal(FORMAT))


def holds(at: Position, table: PgTable) -> sql.Composable:
    shape = table.capture.shape if table.capture else ""
    return sql.SQL("headwater.holds({}, {}, {})").format(snapshot(at), relation(table), sql.Literal(shape))


def split(table: PgTable, where: sql.Composable) -> sql.Composable:
    """Changes with their row as texts `f`. OFFSET 0 keeps the planner from splitting once per column; today's layout
    is a subselect, so that it is looked up once, not per row."""
    fields = max(len(table.columns), 1)
    width = next(w for w in WIDTHS if w >= fields)
    return sql.SQL(
        'SELECT c.xid, c.count, c."row", (left(CASE WHEN c.layout = {now} THEN c."row"'
        ' ELSE headwater.relaid(c."row", c.layout, {now}) END, -1) || {rest})::{split} AS f'
        " FROM {changes} AS c WHERE {where} OFFSET 0"
    ).format(
        now=sql.SQL("(SELECT headwater.layout({}))").format(relation(table)),
        rest=sql.Literal("," * (width - fields) + ")"),
        split=sql.Identifier("headwater", f"fields_{width}"),
        changes=changes_table(table.oid),
        where=where,
    )


@dataclass(frozen=True)
class AsOf:
    """What a table held at a position: what is there now, `base`, less what came since, `later`. Where changes are told
    with the rows, both are read at once; where the log tells them, in two looks (`log.py`)."""

    table: PgTable
    at: Position
    base: sql.Composable
    later: sql.Composable

    def at_once(self) -> sql.Composable:
        both = sql.SQL("{} UNION ALL {}").format(self.base, self.later)
        return self._after(fresh(self.at), both)

    def present(self) -> sql.Composable:
        """The first look, in a snapshot S."""
        return self._checked(self.base)

    def since(self, shown: str) -> sql.Composable:
        """The second: the changes that are in S and not in the position."""
        seen = sql.SQL("c.xid < pg_snapshot_xmax({s}) AND pg_visible_in_snapshot(c.xid, {s})").format(s=snapshot(shown))
        return self._after(sql.SQL("{} AND {}").format(fresh(self.at), seen), self.later)

    def _after(self, wanted: sql.Composable, rows: sql.Composable) -> sql.Composable:
        return sql.SQL("WITH l AS MATERIALIZED ({}) {}").format(split(self.table, wanted), self._checked(rows))

    def _checked(self, rows: sql.Composable) -> sql.Composable:
        return sql.SQL("SELECT * FROM ({}) AS answer WHERE (SELECT {} AND {})").format(
            rows, alive(self.at), holds(self.at, self.table)
        )


def all_of(conditions: Sequence[sql.Composable]) -> sql.Composable:
    return sql.SQL(" AND ").join(conditions) if conditions else sql.SQL("true")


def outputs_of(columns: Sequence[PgColumn], reference: Reference) -> sql.Composable:
    return sql.SQL("").join(sql.SQL("{}, ").format(output(reference(c.name), c)) for c in columns)


# ── questions ────────────────────────────────────────────────────────────────────────────────────────────────────


def answer_statement(
    table: PgTable, question: Question, columns: Sequence[PgColumn], at: Position, part: tuple[int, int]
) -> AsOf:
    """`part` is (offset, length) in the question's keys. Where an index leads, LATERAL and OFFSET 0 hold the planner to
    one probe per key; where none does, it may choose its join."""
    keys = question.keys.slice(*part)
    key_columns = [table.columns[name] for name in question.key]
    arrays = [key_array(keys.column(i), column) for i, column in enumerate(key_columns)]
    names = [sql.Identifier(f"k{i}") for i in range(len(arrays))]
    unnested = sql.SQL("unnest({}) WITH ORDINALITY AS k ({}, place)").format(
        sql.SQL(", ").join(arrays), sql.SQL(", ").join(names)
    )
    ordinal = sql.SQL("k.place + {}").format(sql.Literal(part[0] - 1))

    def wanted(reference: Reference) -> sql.Composable:
        matches = [
            equals(reference(c.name), sql.SQL("k.{}").format(n), c) for c, n in zip(key_columns, names, strict=True)
        ]
        return all_of(matches + conditions_of(table, question.conditions, reference))

    probed = table.indexed(c.name for c in key_columns if indexable(c))
    outputs = outputs_of(columns, base_of)
    if probed:
        base = sql.SQL(
            "SELECT {}, p.* FROM {} CROSS JOIN LATERAL (SELECT {} 1 FROM {} AS b WHERE {} OFFSET 0) AS p"
        ).format(ordinal, unnested, outputs, table.rows_of_its_own, wanted(base_of))
    else:
        base = sql.SQL("SELECT {}, {} 1 FROM {} JOIN {} AS b ON {}").format(
            ordinal, outputs, unnested, table.rows_of_its_own, wanted(base_of)
        )
    changed = later_of(table)
    later = sql.SQL("SELECT {}, {} -l.count FROM l JOIN {} ON {}").format(
        ordinal, outputs_of(columns, changed), unnested, wanted(changed)
    )
    return AsOf(table, at, base, later)


def scan_statement(
    table: PgTable, chunk: Chunk, columns: Sequence[PgColumn], at: Position, conditions: Sequence[Condition]
) -> AsOf:
    def wanted(reference: Reference) -> sql.Composable:
        return all_of([*_in_chunk(table, chunk, reference), *conditions_of(table, conditions, reference)])

    base = sql.SQL("SELECT {} 1 FROM {} AS b WHERE {}").format(
        outputs_of(columns, base_of), table.rows_of_its_own, wanted(base_of)
    )
    changed = later_of(table)
    later = sql.SQL("SELECT {} -l.count FROM l WHERE {}").format(outputs_of(columns, changed), wanted(changed))
    return AsOf(table, at, base, later)


def conditions_of(table: PgTable, conditions: Sequence[Condition], reference: Reference) -> list[sql.Composable]:
    return [_condition(table.columns[c.column], c, reference(c.column)) for c in conditions]


def _condition(column: PgColumn, condition: Condition, reference: sql.Composable) -> sql.Composable:
    """The same rows as `conditions.meets`: text by code points; NaN is neither greater nor smaller than anything."""
    operator, value = condition.operator, condition.value
    if operator in ("is null", "is not null"):
        return sql.SQL("{} " + operator).format(reference)
    values = value if isinstance(value, tuple) else (value,)
    compared = output(reference, column)
    # a text with NUL is in no PostgreSQL table; its literal would be refused
    possible = [v for v in values if not (isinstance(v, str) and "\x00" in v)]
    if operator == "in" or not possible:
        if operator == "<>":
            return sql.SQL("{} IS NOT NULL").format(reference)
        literals = sql.SQL(", ").join([*(sql.Literal(v) for v in possible), sql.SQL("NULL")])
        return sql.SQL("{} IN ({})").format(compared, literals)
    comparison = sql.SQL("{} " + operator + " {}").format(compared, sql.Literal(value))
    if column.base in ("float4", "float8") and operator in (">", ">="):
        comparison = sql.SQL("{} AND {} <> 'NaN'").format(comparison, reference)
    return comparison


# ── chunks ───────────────────────────────────────────────────────────────────────────────────────────────────────
#
# A table with a primary key is cut into ranges of its leading column, in that column's own order, the first and the
# last open-ended; the cuts are percentiles of a sample, so skewed keys give even chunks. Other tables are cut by a hash
# of the whole row. Either way base rows and change rows fall into chunks by the same expression.


def chunk_bounds(connection: Connection, table: PgTable, rows: int, parts: int) -> list[tuple[str, ...]]:
    if parts == 1:
        return [()]
    if not table.key or table.columns[table.key[0]].type is None:
        parts = min(parts, _HASH_CHUNKS_AT_MOST)
        return [("hash", str(parts), str(i)) for i in range(parts)]
    leading = table.key[0]
    percent = min(100.0, max(0.01, 100.0 * parts * _SAMPLE_PER_CHUNK / max(rows, 1)))
    statement = sql.SQL(
        "SELECT percentile_disc({}) WITHIN GROUP (ORDER BY b.{})::text[]"
        " FROM {} AS b TABLESAMPLE SYSTEM ({}) REPEATABLE (0)"
    ).format(
        sql.Literal([i / parts for i in range(1, parts)]),
        sql.Identifier(leading),
        table.rows_of_its_own,
        sql.Literal(percent),
    )
    row = connection.execute(statement).fetchone()
    cuts = list(dict.fromkeys(row[0])) if row and row[0] else []
    edges: list[tuple[str, ...]] = [("",), *(("=", cut) for cut in cuts), ("",)]
    return [("range", leading, *low, *high) for low, high in itertools.pairwise(edges)]


def _in_chunk(table: PgTable, chunk: Chunk, reference: Reference) -> list[sql.Composable]:
    if not chunk.bounds:
        return []
    if chunk.bounds[0] == "hash":
        fields = sql.SQL(", ").join(reference(c.name) for c in table.columns.values() if c.type is not None)
        template = "mod(hashtextextended(ROW({})::text, 0), {}) IN ({}, {})"
        parts, number = int(chunk.bounds[1]), int(chunk.bounds[2])
        # the remainder has the dividend's sign
        return [
            sql.SQL(template).format(fields, sql.Literal(parts), sql.Literal(number), sql.Literal(number - parts))
            if number
            else sql.SQL(template).format(fields, sql.Literal(parts), sql.Literal(0), sql.Literal(0))
        ]
    _, leading, *edges = chunk.bounds
    column = table.columns[leading]
    found: list[sql.Composable] = []
    operators = iter((">=", "<"))
    while edges:
        operator = next(operators)
        if edges.pop(0) == "=":
            cut = sql.SQL("{}::{}").format(sql.Literal(edges.pop(0)), column.sql_type())
            found.append(sql.SQL("{} " + operator + " {}").format(reference(leading), cut))
    return found
