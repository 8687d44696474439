"""A join question as one statement: the keys meet table after table, each as of p.

    WITH l0 AS (changes of table 0 after p), l1 AS …
    r0 AS (the keys, n = 1)
    r1 AS (the fold of
           SELECT r.*, b.columns, n              FROM r0 AS r, LATERAL (base 0 where it equals r) AS b
           UNION ALL
           SELECT r.*, l.columns, n * −l.count   FROM r0 AS r JOIN l0 AS l ON it equals r)
    r2 AS … from r1 …
    SELECT … FROM r2 WHERE (SELECT headwater.alive(p) AND headwater.holds(p, each table))

Invariant: ri is the join of the keys with the states at p of tables 0 … i−1, counts multiplied: a state is base less
changes, and a join is linear in each of its tables. One statement is one snapshot. Every step folds, lest rows that
changed often since p at two tables meet in all their versions.

Where an index leads, LATERAL and OFFSET 0 hold the planner to one probe per row; changes, which have none, it may join
as it likes. A column that later tables are joined by goes on as a value (`types.joined_value`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from psycopg import sql

from headwater.model.names import Position, TableName
from headwater.model.source import JoinQuestion
from headwater.sources.postgres.catalog import PgTable
from headwater.sources.postgres.sql import (
    Reference,
    alive,
    all_of,
    base_of,
    conditions_of,
    fresh,
    holds,
    later_of,
    split,
)
from headwater.sources.postgres.types import equals, indexable, joined_key, joined_value, key_array, output


def join_statement(
    tables: Mapping[TableName, PgTable], question: JoinQuestion, at: Position, part: tuple[int, int]
) -> sql.Composable:
    """`part` is (offset, length) in the question's keys."""
    met = _Met(tables, question)
    named = [("r0", met.keys(part))]
    for number, joined in enumerate(question.tables):
        named.append((f"l{number}", split(tables[joined.table], fresh(at))))
        named.append((f"r{number + 1}", met.step(number)))
    parts = [sql.SQL("{} AS MATERIALIZED ({})").format(sql.Identifier(name), select) for name, select in named]
    told = [f"o{number}_{n}" for number, joined in enumerate(question.tables) for n in range(len(joined.columns))]
    return sql.SQL("WITH {} SELECT {} FROM {} WHERE (SELECT {})").format(
        sql.SQL(", ").join(parts),
        _list(["place", *told, "n"]),
        sql.Identifier(named[-1][0]),
        all_of([alive(at), *(holds(at, table) for table in tables.values())]),
    )


class _Met:
    """The selects of one question. Columns are called `place`, `n` (the count), `k0` … (keys), `o0_0` … (told, as they
    leave the server) and `v0_0` … (values that later tables are joined by)."""

    def __init__(self, tables: Mapping[TableName, PgTable], question: JoinQuestion) -> None:
        self._question = question
        self._tables = [tables[joined.table] for joined in question.tables]
        ends = [(table, other) for joined in question.tables for _, table, other in joined.on]
        self._values = [
            list(dict.fromkeys(other for table, other in ends if table == n)) for n in range(len(self._tables))
        ]

    def keys(self, part: tuple[int, int]) -> sql.Composable:
        keys = self._question.keys.slice(*part)
        columns = [self._tables[number].columns[name] for number, name in self._question.key]
        arrays = [key_array(keys.column(n), column) for n, column in enumerate(columns)]
        names = _list([f"k{n}" for n in range(len(columns))])
        return sql.SQL(
            "SELECT k.place + {} AS place, 1::bigint AS n, {} FROM unnest({}) WITH ORDINALITY AS k ({}, place)"
        ).format(sql.Literal(part[0] - 1), names, sql.SQL(", ").join(arrays), names)

    def step(self, number: int) -> sql.Composable:
        """Table `number` joins what is there."""
        table = self._tables[number]
        kept, made = self._made_before(number), self._made(number)
        before, later = sql.Identifier(f"r{number}"), sql.Identifier(f"l{number}")
        found = self._columns(number, base_of)
        if table.indexed(c for c in self._question.reached_by(number) if indexable(table.columns[c])):
            probe = sql.SQL("CROSS JOIN LATERAL (SELECT {} FROM {} AS b WHERE {} OFFSET 0) AS p").format(
                found, table.rows_of_its_own, self._wanted(number, base_of)
            )
            found = _list(made, "p")
        else:
            probe = sql.SQL("JOIN {} AS b ON {}").format(table.rows_of_its_own, self._wanted(number, base_of))
        changed = later_of(table)
        return sql.SQL(
            "SELECT {all}, sum(n)::bigint AS n FROM (SELECT {kept}, r.n{found} FROM {before} AS r {probe}"
            " UNION ALL SELECT {kept}, r.n * -l.count{changed} FROM {before} AS r JOIN {later} AS l ON {wanted}) AS u"
            " GROUP BY {all} HAVING sum(n) <> 0"
        ).format(
            all=_list(["place", *kept, *made]),
            kept=_list(["place", *kept], "r"),
            found=_more(found, made),
            before=before,
            probe=probe,
            changed=_more(self._columns(number, changed), made),
            later=later,
            wanted=self._wanted(number, changed),
        )

    def _made(self, number: int) -> list[str]:
        told = [f"o{number}_{n}" for n in range(len(self._question.tables[number].columns))]
        return [*told, *(f"v{number}_{n}" for n in range(len(self._values[number])))]

    def _made_before(self, number: int) -> list[str]:
        keys = [f"k{n}" for n in range(len(self._question.key))]
        return keys + [name for n in range(number) for name in self._made(n)]

    def _columns(self, number: int, reference: Reference) -> sql.Composable:
        columns = self._tables[number].columns
        told = [output(reference(name), columns[name]) for name in self._question.tables[number].columns]
        values = [joined_value(reference(name), columns[name]) for name in self._values[number]]
        named = zip([*told, *values], self._made(number), strict=True)
        return sql.SQL(", ").join(sql.SQL("{} AS {}").format(value, sql.Identifier(name)) for value, name in named)

    def _wanted(self, number: int, reference: Reference) -> sql.Composable:
        """That a row of the table goes with a row `r` of what is there."""
        table, joined = self._tables[number], self._question.tables[number]
        terms = [
            equals(reference(name), sql.Identifier("r", f"k{n}"), table.columns[name])
            for n, (of, name) in enumerate(self._question.key)
            if of == number
        ]
        for name, of, other in joined.on:
            value = sql.Identifier("r", f"v{of}_{self._values[of].index(other)}")
            key = joined_key(value, table.columns[name], self._tables[of].columns[other])
            terms.append(equals(reference(name), key, table.columns[name]))
        return all_of([*terms, *conditions_of(table, joined.conditions, reference)])


def _list(names: Sequence[str], of: str = "") -> sql.Composable:
    return sql.SQL(", ").join(sql.Identifier(of, name) if of else sql.Identifier(name) for name in names)


def _more(columns: sql.Composable, made: Sequence[str]) -> sql.Composable:
    return sql.SQL(", {}").format(columns) if made else sql.SQL("")
