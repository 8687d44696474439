"""What is kept of a source that must not be asked is as little as can be, with what is promised of its tables.

By brute force: over every pair of states of tiny tables that a transaction may lead from and to, a set of kept tables
suffices if what is known (the kept tables before, the changes) determines the view's change. What the planner keeps
suffices, and no smaller set does.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random

import pyarrow as pa
import pytest

from headwater.algebra.statements import parse_views
from headwater.algebra.view import Reliance
from headwater.maintenance.keeping.choose import Defined, define_each
from headwater.maintenance.keeping.copies import asked_tables, copy_in
from headwater.maintenance.keeping.known import Changing, Keeping
from headwater.maintenance.keeping.relying import why
from headwater.model.names import SourceName, TableName
from headwater.model.schema import Column, ForeignKey, TableSchema
from headwater.runtime.project.about import statement_of
from tpch.standard import StandardCatalog

X = SourceName("x")
ANY, NEVER, INSERTS, DELETES = None, Changing.NEVER, Changing.INSERTS, Changing.DELETES


@dataclass(frozen=True)
class Graph:
    """Tables t0, t1, … of (id, ref, v). `edges`: (child, parent, whether a foreign key is declared): child.ref =
    parent.id; every table refers to one other at most."""

    changing: tuple[Changing | None, ...]
    edges: tuple[tuple[int, int, bool], ...]

    def name(self, i: int) -> TableName:
        return TableName(X, f"t{i}")

    def catalog(self) -> StandardCatalog:
        found = {}
        for i in range(len(self.changing)):
            refers = [
                ForeignKey(("ref",), self.name(p), ("id",)) for c, p, declared in self.edges if c == i and declared
            ]
            columns = tuple(Column(c, pa.int64(), "bigint") for c in ("id", "ref", "v"))
            found[self.name(i)] = TableSchema(self.name(i), columns, ("id",), foreign_keys=tuple(refers))
        return StandardCatalog(found)

    def sql(self) -> str:
        n = range(len(self.changing))
        columns = ", ".join(f"t{i}.id AS id{i}, t{i}.v AS v{i}" for i in n)
        joined = " AND ".join(f"t{c}.ref = t{p}.id" for c, p, _ in self.edges)
        return f"SELECT {columns} FROM {', '.join(f'x.t{i}' for i in n)} WHERE {joined}"

    def planned(self) -> Defined:
        promised = {self.name(i): how for i, how in enumerate(self.changing) if how is not None}
        (parsed,) = parse_views(f"CREATE MATERIALIZED VIEW v AS {self.sql()}", "v.sql")
        return define_each([parsed], self.catalog(), keeping=Keeping(unasked=frozenset({X}), promised=promised))

    def kept(self) -> frozenset[int]:
        made = self.planned()
        assert not made.errors
        assert not any(asked_tables(view) for view in made.views.values())
        copies = [copy for view in made.views.values() if (copy := copy_in(view)) is not None]
        return frozenset(int(copy.table.table[1:]) for copy in copies)

    # ── every state of tiny tables, and every transaction ─────────────────────────────────────────────────────────

    def states(self) -> Iterator[tuple[Table, ...]]:
        """A row is (ref, v) by its id. References are to 0 or 1, there or not, unless a foreign key forbids it."""
        refers = {c: p for c, p, _ in self.edges}
        rows = {i: [None, *itertools.product((0, 1) if i in refers else (0,), (0, 1) if i not in refers else (0,))]
                for i in range(len(self.changing))}  # fmt: skip
        tables = [[tuple(t) for t in itertools.product(rows[i], repeat=2)] for i in rows]
        for state in itertools.product(*tables):
            if all(state[p][row[0]] is not None for c, p, key in self.edges if key for row in state[c] if row):
                yield state

    def may(self, before: tuple[Table, ...], after: tuple[Table, ...]) -> bool:
        for how, old, new in zip(self.changing, before, after, strict=True):
            if how is NEVER and old != new:
                return False
            if how is INSERTS and any(o is not None and o != n for o, n in zip(old, new, strict=True)):
                return False
            if how is DELETES and any(n is not None and o != n for o, n in zip(old, new, strict=True)):
                return False
        return True

    def view(self, state: tuple[Table, ...]) -> frozenset[object]:
        n = range(len(self.changing))
        found = set()
        for ids in itertools.product((0, 1), repeat=len(n)):
            rows = [state[i][ids[i]] for i in n]
            if all(row is not None for row in rows) and all(rows[c][0] == ids[p] for c, p, _ in self.edges):  # type: ignore[index]
                found.add((ids, tuple(row[1] for row in rows if row is not None)))
        return frozenset(found)

    def suffices(self, kept: frozenset[int]) -> bool:
        states = list(self.states())
        shown = {state: self.view(state) for state in states}
        known: dict[object, object] = {}
        for before, after in itertools.product(states, states):
            if not self.may(before, after):
                continue
            changes = tuple((o, n) if o != n else () for old, new in zip(before, after, strict=True)
                            for o, n in zip(old, new, strict=True))  # fmt: skip
            view = shown[before] if DELETES in self.changing else None  # it says what goes by its key
            seen = (tuple(before[i] for i in sorted(kept)), changes, view)
            change = (shown[after] - shown[before], shown[before] - shown[after])
            if known.setdefault(seen, change) != change:
                return False
        return True

    def check(self) -> None:
        kept = self.kept()
        assert self.suffices(kept), f"{self} keeps {set(kept)}, which is not enough"
        for size in range(len(kept)):
            for fewer in itertools.combinations(range(len(self.changing)), size):
                assert not self.suffices(frozenset(fewer)), f"{self} keeps {set(kept)}, and {fewer} is enough"


Table = tuple[tuple[int, int] | None, ...]
CHANGING = (ANY, NEVER, INSERTS)
PAIRS = [
    Graph(changing, ((0, 1, declared),))
    for changing in itertools.product(CHANGING, repeat=2)
    for declared in (False, True)
    if ANY in changing
]


GOING = [
    Graph(changing, ((0, 1, False),)) for changing in itertools.product((*CHANGING, DELETES), repeat=2)
    if DELETES in changing
]  # fmt: skip


@pytest.mark.parametrize("graph", GOING, ids=str)
def test_the_kept_set_of_two_tables_that_lose_rows_is_the_smallest(graph: Graph) -> None:
    graph.check()


@pytest.mark.parametrize("graph", PAIRS, ids=str)
def test_the_kept_set_of_two_tables_is_the_smallest(graph: Graph) -> None:
    graph.check()


def graphs_of_three(seed: int, count: int) -> list[Graph]:
    chance, shapes = Random(seed), [((0, 1), (1, 2)), ((0, 2), (1, 2))]
    every = [
        Graph(changing, tuple((c, p, key) for (c, p), key in zip(shape, keys, strict=True)))
        for shape in shapes
        for changing in itertools.product(CHANGING, repeat=3)
        for keys in itertools.product((True, False), repeat=2)
        if ANY in changing and changing.count(ANY) < 3
    ]
    return chance.sample([graph for graph in every if not aside(graph)], count)


def aside(graph: Graph) -> bool:
    """A key that is not used: of a table that never changes, to which nothing that changes refers. It would show that
    new rows of the parent meet nothing, though the way from what changes to the parent is another one."""
    reached = {p for c, p, _ in graph.edges if graph.changing[c] is ANY}
    return any(key and graph.changing[c] is NEVER and c not in reached for c, _, key in graph.edges)


@pytest.mark.parametrize("graph", graphs_of_three(1, 2), ids=str)
def test_the_kept_set_of_three_tables_is_the_smallest(graph: Graph) -> None:
    graph.check()


@pytest.mark.soak
@pytest.mark.parametrize("graph", graphs_of_three(2, 60), ids=str)
def test_the_kept_set_of_any_three_tables_is_the_smallest(graph: Graph) -> None:
    graph.check()


def test_brute_force_knows_what_is_not_enough() -> None:
    """Nothing is proven by a checker that finds every set enough."""
    graph = Graph((ANY, ANY), ((0, 1, False),))
    assert graph.kept() == {0, 1}
    assert not any(graph.suffices(frozenset(s)) for s in ((), (0,), (1,)))
    assert Graph((ANY, INSERTS), ((0, 1, False),)).kept() == {0, 1}, "without a foreign key, a parent may come late"


# ── what decides ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_chain_of_parents_needs_no_copy_of_what_refers_to_them() -> None:
    graph = Graph((ANY, INSERTS, INSERTS), ((0, 1, True), (1, 2, True)))
    assert graph.kept() == {1, 2}
    view = graph.planned().views["v"]  # type: ignore[index]
    assert [(r.occurrence, r.on, r.table) for r in view.relies] == [
        (1, Reliance.PARENT, "x.t1"), (2, Reliance.PARENT, "x.t2"),
    ]  # fmt: skip
    assert why(view) == [
        "no copy of x.t0: rows only come to x.t1, x.t2, by foreign keys; the view halts where that is not so"
    ]
    (again,) = parse_views(statement_of(view), "stored.sql")
    others = {name: one for name, one in graph.planned().views.items() if name != "v"}
    assert define_each([again], graph.catalog(), others).views[view.name].relies == view.relies


@pytest.mark.parametrize("changing", [(ANY, DELETES, INSERTS), (INSERTS, ANY, DELETES), (DELETES, DELETES, DELETES)])
def test_what_is_kept_of_three_tables_that_lose_rows_is_enough(changing: tuple[Changing | None, ...]) -> None:
    graph = Graph(changing, ((0, 1, False), (1, 2, True)))
    assert graph.suffices(graph.kept())


def test_a_key_that_is_not_shown_spares_nothing() -> None:
    promised = {"t0": DELETES, "t1": DELETES}
    joined = "FROM x.t0 JOIN x.t1 ON t0.ref = t1.id"
    assert copies(defined(f"SELECT t0.id, t1.id AS other {joined}", promised)) == set()
    assert copies(defined(f"SELECT t0.id, t1.v {joined}", promised)) == {"t0"}, "t0 is met by what goes from t1"
    assert copies(defined(f"SELECT t0.id + 1 AS id, t1.id AS other {joined}", promised)) == {"t1"}
    assert copies(defined(f"SELECT DISTINCT t0.id, t1.id AS other {joined}", promised)) == {"t0", "t1"}
    same = "FROM x.t0 AS a JOIN x.t0 AS b ON a.ref = b.id"
    assert copies(defined(f"SELECT a.id, b.id AS other {same}", promised)) == set()
    assert copies(defined(f"SELECT a.id, b.v {same}", promised)) == {"t0"}


def test_what_goes_is_stored_with_the_statement() -> None:
    made = defined("SELECT t1.v, t0.id, t1.id AS other FROM x.t0 JOIN x.t1 ON t0.ref = t1.id", {"t1": DELETES})
    view = made.views["v"]  # type: ignore[index]
    assert [str(r) for r in view.relies] == ["1 deletes:2 x.t1"]
    assert [(k.columns, k.shown) for k in view.taken_out_by] == [(("id",), ("other",))]
    (again,) = parse_views(statement_of(view), "stored.sql")
    others = {name: one for name, one in made.views.items() if name != "v"}
    assert define_each([again], Graph((ANY, ANY, ANY), ()).catalog(), others).views[view.name].relies == view.relies
    assert why(view) == ["no copy of x.t0: rows only go from x.t1, by its key; the view halts where that is not so"]


def defined(sql: str, promised: Mapping[str, Changing], keys: Sequence[ForeignKey] = ()) -> Defined:
    catalog = Graph((ANY, ANY, ANY), ((0, 1, True), (1, 2, True))).catalog()
    tables = {TableName(X, name): how for name, how in promised.items()}
    (parsed,) = parse_views(f"CREATE MATERIALIZED VIEW v AS {sql}", "v.sql")
    return define_each([parsed], catalog, keeping=Keeping(unasked=frozenset({X}), promised=tables))


def copies(made: Defined) -> set[str]:
    assert not made.errors
    return {copy.table.table for view in made.views.values() if (copy := copy_in(view)) is not None}


@pytest.mark.parametrize(
    ("sql", "promised", "kept"),
    [
        # trees: what never changes on the right of an outer, semi or anti join asks for nothing on the left
        ("SELECT t0.id, t1.v FROM x.t0 LEFT JOIN x.t1 ON t0.ref = t1.id", {"t1": NEVER}, {"t1"}),
        ("SELECT t0.id, t1.v FROM x.t0 LEFT JOIN x.t1 ON t0.ref = t1.id", {"t0": NEVER}, {"t0", "t1"}),
        ("SELECT t0.id, t1.v FROM x.t0 FULL JOIN x.t1 ON t0.ref = t1.id", {"t1": NEVER}, {"t0", "t1"}),
        ("SELECT id FROM x.t0 WHERE EXISTS (SELECT 1 FROM x.t1 WHERE t1.id = t0.ref)", {"t1": NEVER}, {"t1"}),
        ("SELECT id FROM x.t0 WHERE ref NOT IN (SELECT id FROM x.t1)", {"t1": NEVER}, {"t1"}),
        # a grouping above asks for what it groups, whoever changed
        ("SELECT COUNT(*) AS n FROM (SELECT DISTINCT t0.v FROM x.t0 LEFT JOIN x.t1 ON t0.ref = t1.id) AS d",
         {"t1": NEVER}, {"t0", "t1"}),
        # a condition on a parent hides whether a row has one
        ("SELECT t0.id FROM x.t0 JOIN x.t1 ON t0.ref = t1.id WHERE t1.v = 1", {"t1": INSERTS}, {"t0", "t1"}),
        # joined by more, or by something else, than the key
        ("SELECT t0.id FROM x.t0 JOIN x.t1 ON t0.ref = t1.id AND t0.v = t1.v", {"t1": INSERTS}, {"t0", "t1"}),
        ("SELECT t0.id FROM x.t0 JOIN x.t1 ON t0.ref = t1.v", {"t1": INSERTS}, {"t0", "t1"}),
        ("SELECT t0.id FROM x.t0 JOIN x.t1 ON t0.v = t1.id", {"t1": INSERTS}, {"t0", "t1"}),
        ("SELECT a.id, b.id AS other FROM x.t0 AS a JOIN x.t0 AS b ON a.ref = b.id", {"t0": INSERTS}, {"t0"}),
        ("SELECT t0.v, COUNT(*) AS n FROM x.t0 JOIN x.t1 ON t0.ref = t1.id GROUP BY t0.v", {"t1": INSERTS}, {"t1"}),
        ("SELECT t0.id FROM x.t0 JOIN x.t1 ON t0.ref = t1.id", {"t0": NEVER, "t1": NEVER}, set()),
    ],
)  # fmt: skip
def test_what_promises_spare(sql: str, promised: Mapping[str, Changing], kept: set[str]) -> None:
    made = defined(sql, promised)
    assert copies(made) == kept
    assert not any(asked_tables(view) for view in made.views.values())


def test_nothing_is_relied_on_that_spares_nothing() -> None:
    view = defined("SELECT t0.id FROM x.t0, x.t1, x.t2 WHERE t0.ref = t1.id AND t1.ref = t2.id", {"t2": NEVER}).views[
        "v"
    ]  # type: ignore[index]
    assert not view.relies
