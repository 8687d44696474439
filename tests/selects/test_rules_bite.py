"""Proof that the oracle bites: a change rule broken on purpose is caught, for each operator.

Each breakage is one that a tired programmer could commit. Most are one piece of SQL in place of another, wherever an
operator writes it (`Swap`); a breakage whose text is written nowhere any more fails, so none goes stale.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from headwater.algebra.relations import JoinKind, Project, mentioned
from headwater.maintenance.operators import aggregates, joins, linear, recursion, running, sets, timelines, windows
from headwater.maintenance.operators.local_types import duck_type
from headwater.maintenance.operators.program import Draft, Keys

from .oracle import Mismatch, check
from .worlds import schema_from

SCHEMA = schema_from("r(a int, b int) s(a int, d int) t(d int, e text)")
SEEDS = range(40)

INNER = ["SELECT r.b, s.d FROM s.r JOIN s.s ON r.a = s.a"]
OUTER = ["SELECT r.b, s.d FROM s.r LEFT JOIN s.s ON r.a = s.a"]
FULL = ["SELECT r.b, s.d FROM s.r FULL JOIN s.s ON r.a = s.a"]
SEMI = ["SELECT r.b FROM s.r WHERE EXISTS (SELECT 1 FROM s.s WHERE s.a = r.a)"]
ANTI = ["SELECT r.b FROM s.r WHERE NOT EXISTS (SELECT 1 FROM s.s WHERE s.a = r.a)"]
NOT_IN = ["SELECT r.b FROM s.r WHERE r.a NOT IN (SELECT a FROM s.s)"]
GROUPED = ["SELECT a, COUNT(*) AS n, SUM(b) AS m FROM s.r GROUP BY a"]
WHOLE = ["SELECT COUNT(*) AS n, MIN(b) AS m FROM s.r", "SELECT COUNT(DISTINCT b) AS n FROM s.r"]
DISTINCT = ["SELECT DISTINCT a FROM s.r"]
WINDOW = ["SELECT a, b, ROW_NUMBER() OVER (PARTITION BY a ORDER BY b NULLS FIRST) AS n FROM s.r"]
TOP = ["SELECT a, b FROM s.r ORDER BY a NULLS FIRST, b NULLS FIRST LIMIT 2"]
RUNNING = ["SELECT a, SUM(b) OVER (PARTITION BY a ORDER BY b NULLS FIRST) AS n FROM s.r"]
EXCEPT = ["SELECT a FROM s.r EXCEPT SELECT a FROM s.s", "SELECT a FROM s.r EXCEPT ALL SELECT a FROM s.s"]
INTERSECT = ["SELECT a FROM s.r INTERSECT ALL SELECT a FROM s.s"]
UNION = ["SELECT a, b FROM s.r UNION ALL SELECT d, a FROM s.s"]
ROWS = ["SELECT a + 1 AS x FROM s.r WHERE b > 1"]
CONSTANT = ["SELECT v.x, r.b FROM s.r FULL JOIN (VALUES (1), (2)) AS v(x) ON v.x = r.a"]
EXPLODED = ["SELECT r.b, g.x FROM s.r LATERAL VIEW EXPLODE(ARRAY(r.a, r.b)) g AS x"]
MADE_ABOVE = ["SELECT s.d, q.y FROM s.s LEFT JOIN (SELECT b AS x, a + 1 AS y FROM s.r) AS q ON q.y = s.a"]
KEY_ABOVE = ["SELECT r.b, q.n FROM s.r LEFT JOIN (SELECT a, COUNT(*) AS n FROM s.s GROUP BY a) AS q ON q.a = r.a"]
NULLS_ABOVE = [
    "SELECT x.d, COUNT(*) AS n FROM (SELECT r.b, s.d FROM s.r LEFT JOIN s.s ON r.a = s.a) AS x GROUP BY x.d",
]
RANK_ABOVE = [
    "SELECT t.e, q.n FROM s.t LEFT JOIN (SELECT a, b, RANK() OVER (PARTITION BY a ORDER BY b NULLS FIRST) AS n"
    " FROM s.r) AS q ON q.b = t.d",
]
DEEP = [
    "WITH RECURSIVE x(a, n) AS (SELECT a, 1 FROM s.r"
    " UNION ALL SELECT s.d, n + 1 FROM x JOIN s.s ON s.a = x.a WHERE n < 4) SELECT a, n FROM x",
]
TOTAL = ["SELECT r.a, r.b FROM s.r WHERE r.b >= (SELECT MAX(a) FROM s.s)"]
SET_ABOVE = ["SELECT t.e, q.a FROM s.t LEFT JOIN (SELECT a FROM s.r EXCEPT SELECT a FROM s.s) AS q ON q.a = t.d"]


@dataclass(frozen=True)
class Swap:
    """SQL that is written in place of other SQL."""

    old: str
    new: str

    def __call__(self, patch: pytest.MonkeyPatch) -> None:
        for kind in ("local", "evaluated"):
            patch.setattr(Draft, kind, self._swapped(getattr(Draft, kind)))

    def _swapped(self, write: Callable[..., str]) -> Callable[..., str]:
        def swapped(draft: Draft, sql: str, *rest: Any) -> str:
            if self.old in sql:
                HIT.append(self)
            return write(draft, sql.replace(self.old, self.new), *rest)

        return swapped


HIT: list[Swap] = []
Break = Callable[[pytest.MonkeyPatch], None]


def one_level_only(patch: pytest.MonkeyPatch) -> None:
    """What a level makes of the one before is made once."""
    patch.setattr(running._Levels, "given", _once(running._Levels.given))


def _once(given: Callable[..., Any]) -> Callable[..., Any]:
    def once(self: Any, made: Any) -> Any:
        return given(self, made) if self._level < 1 else None

    return once


def keys_not_followed(patch: pytest.MonkeyPatch) -> None:
    """Only what has the keys that were asked for is looked at, not what it was made of."""
    patch.setattr(recursion, "_needed", lambda node, step, by, asked, m: asked)


def nothing_old(patch: pytest.MonkeyPatch) -> None:
    """The term of old rows that meet new ones is forgotten."""
    patch.setattr(recursion.RecursionOperator, "ask", lambda self, node, columns, keys, m: _no_rows(node, m))


def _no_rows(node: Any, m: Any) -> str:
    nulls = [f"CAST(NULL AS {duck_type(m.types[c])}) AS {c}" for c in node.columns]
    return str(m.draft.local(f"SELECT {', '.join(nulls)}, CAST(0 AS BIGINT) AS n_ WHERE FALSE"))


def one_side_padded(patch: pytest.MonkeyPatch) -> None:
    """A full join pads one side only."""
    alone = joins._alone
    patch.setattr(joins, "_alone", lambda node: alone(node)[:1])


def padded_rows_not_asked(patch: pytest.MonkeyPatch) -> None:
    """An outer join that is asked has pairs only."""
    ask = joins.JoinOperator.ask

    def pairs(self: Any, node: Any, *rest: Any) -> str:
        return ask(self, replace(node, kind=JoinKind.INNER) if node.kind is JoinKind.LEFT else node, *rest)

    patch.setattr(joins.JoinOperator, "ask", pairs)


def null_keys_lost(patch: pytest.MonkeyPatch) -> None:
    """What is asked by NULL is not asked for."""
    keys = Draft.keys
    patch.setattr(Draft, "keys", lambda draft, parts, nullable=(): keys(draft, parts, ()))


def beginning_forgotten(patch: pytest.MonkeyPatch) -> None:
    """No version before the first transaction: what was there is never taken back."""
    versions = timelines.versions

    def without(parts: Any, m: Any) -> str:
        moments = versions(parts, m)
        return str(m.draft.local(f"SELECT * FROM {moments} WHERE v_ > {timelines.BEGIN}", moments))

    for module in (aggregates, sets, windows):
        patch.setattr(module, "versions", without)


def nothing_is_no_group(patch: pytest.MonkeyPatch) -> None:
    """A grouping without keys has no row of nothing."""
    patch.setattr(aggregates, "_with_nothing", lambda step, seen, moments, m, counted: _present(step, m))


def _present(step: str, m: Any) -> str:
    return str(m.draft.local(f"SELECT *, TRUE AS {aggregates.PRESENT} FROM {step}", step))


def a_key_dropped(patch: pytest.MonkeyPatch) -> None:
    """A side is asked by one key too many: a column that need not be equal."""
    keyed = joins.keyed

    def more(node: Any, types: Any) -> Any:
        node = keyed(node, types)
        extra = joins.Equality(node.left.columns[-1], node.right.columns[-1])
        return replace(node, equalities=(*node.equalities, extra)) if len(node.right.columns) > 1 else node

    patch.setattr(joins, "keyed", more)


def values_change(patch: pytest.MonkeyPatch) -> None:
    """VALUES come anew with every batch."""

    def again(self: Any, node: Any, m: Any) -> str:
        rows = self._rows(node, m)
        return str(m.draft.local(f"SELECT *, CAST(1 AS BIGINT) AS s_ FROM {rows}", rows))

    patch.setattr(linear.ValuesOperator, "changes", again)


def half_a_union(patch: pytest.MonkeyPatch) -> None:
    everything = linear.UnionOperator._all

    def first(self: Any, node: Any, steps: Sequence[str], more: Any, m: Any) -> str:
        return everything(self, node, [steps[0], *[_none(step, m) for step in steps[1:]]], more, m)

    patch.setattr(linear.UnionOperator, "_all", first)


def _none(step: str, m: Any) -> str:
    return str(m.draft.local(f"SELECT * FROM {step} WHERE FALSE", step))


def asked_by_another_column(patch: pytest.MonkeyPatch) -> None:
    """An expression is taken for the column that it speaks of."""

    def plain(node: Project) -> dict[str, str]:
        return {name: next(iter(mentioned(e))) for name, e in node.outputs if mentioned(e)}

    patch.setattr(Project, "plain", property(plain))


def some_keys_only(patch: pytest.MonkeyPatch) -> None:
    """A question is passed on with the first of its keys."""
    some = Draft.some_keys

    def first(draft: Draft, keys: Keys, positions: Sequence[int], where: str = "") -> Keys:
        found = some(draft, keys, positions, where)
        return replace(found, step=draft.local(f"SELECT * FROM {found.step} LIMIT 1", found.step))

    patch.setattr(Draft, "some_keys", first)


BREAKAGES: dict[str, tuple[Break, list[str]]] = {
    "inner: pairs of changes not taken back": (Swap("-(l_.n_ * r_.n_)", "(l_.n_ * r_.n_)"), INNER),
    "inner: the later of two transactions": (Swap("LEAST(l_.s_, r_.s_)", "GREATEST(l_.s_, r_.s_)"), INNER),
    "inner: counts forgotten": (Swap("l_.n_ * r_.n_ AS n_, l_.s_", "l_.n_ AS n_, l_.s_"), INNER),
    "join: asked by a key too many": (a_key_dropped, INNER),
    "semi: what comes with s, as if it had been there": (Swap("l_.s_ = t_.at_ AND l_.n_ > 0", "FALSE"), SEMI),
    "semi: matches at s−1 for matches at s": (Swap("r_.s_ > p_.at_", "r_.s_ >= p_.at_"), SEMI),
    "semi: the moment before left out": (Swap("b_.at_ = d_.at_ - 1", "b_.at_ = d_.at_"), SEMI),
    "semi: one sign": (Swap("THEN d_.n_ ELSE -d_.n_", "THEN d_.n_ ELSE d_.n_"), SEMI),
    "semi: a match that goes counts": (Swap("-n_, s_", "n_, s_"), SEMI),
    "anti: one match for none": (Swap("<= 0", "<= 1"), ANTI),
    "anti: what changes on the left is left out": (
        Swap("d_.s_ - 1 END WHERE", "d_.s_ - 1 END AND FALSE WHERE"),
        ANTI,
    ),
    "anti: by a condition, what comes with s, as if it had been there": (
        Swap("l_.s_ = t_.at_ AND l_.n_ > 0", "FALSE"),
        NOT_IN,
    ),
    "left: the padding has the wrong sign": (Swap("CASE WHEN a_.m_ <= 0 THEN", "CASE WHEN a_.m_ > 0 THEN"), OUTER),
    "full: one side of the padding": (one_side_padded, FULL),
    "left, asked: no padding": (padded_rows_not_asked, NULLS_ABOVE),
    "left, asked by NULL": (null_keys_lost, NULLS_ABOVE),
    "group: the version before forgotten": (beginning_forgotten, GROUPED),
    "group: the state at s for the state before it": (Swap("r_.s_ > t_.v_", "r_.s_ >= t_.v_"), GROUPED),
    "group: changes not taken back": (Swap("-n_, s_ FROM", "0 * n_, s_ FROM"), GROUPED),
    "group: the old row stays": (Swap("-r_.n_, t_.next_", "0 * r_.n_, t_.next_"), GROUPED),
    "group: by NULL": (null_keys_lost, GROUPED),
    "group without keys: nothing is no group": (nothing_is_no_group, WHOLE),
    "group, asked: one key of many": (some_keys_only, KEY_ABOVE),
    "distinct: the old row stays": (Swap("-r_.n_, t_.next_", "0 * r_.n_, t_.next_"), DISTINCT),
    "window: the state at s for the state before it": (Swap("r_.s_ > t_.v_", "r_.s_ >= t_.v_"), WINDOW),
    "window: rows counted once": (Swap("range(n_)", "range(1)"), RUNNING),
    "window: ranked the other way": (Swap("c1 ASC NULLS FIRST", "c1 DESC NULLS FIRST"), WINDOW),
    "window: the version before forgotten": (beginning_forgotten, WINDOW),
    "top-N: the old partition stays": (Swap("-r_.n_, t_.next_", "0 * r_.n_, t_.next_"), TOP),
    "top-N: one row too few": (Swap("WHERE b_ < 2", "WHERE b_ < 1"), TOP),
    "top-N: touched rows are taken for settled ones": (Swap("0 FROM r", "1 FROM r"), TOP),
    "top-N: the head of a partition too short": (Swap("CAST(2 + COUNT(*)", "CAST(1 + 0 * COUNT(*)"), TOP),
    "bound: what was below NULL is not asked for": (Swap("COUNT(b_) < COUNT(*)", "FALSE"), TOTAL),
    "bound: only the last one": (Swap("SELECT MIN(b_) AS k0", "SELECT MAX(b_) AS k0"), TOTAL),
    "window, asked by another column: some of the partition": (some_keys_only, RANK_ABOVE),
    "recursion: one level only": (one_level_only, DEEP),
    "recursion: keys are not followed back": (keys_not_followed, DEEP),
    "recursion: old rows are not asked for": (nothing_old, DEEP),
    "except: the right side's changes are not looked at": (Swap("0 AS l_, n_ AS r_", "0 AS l_, 0 * n_ AS r_"), EXCEPT),
    "except: the version before forgotten": (beginning_forgotten, EXCEPT),
    "intersect all: the greater count": (Swap("LEAST(l_, r_)", "GREATEST(l_, r_)"), INTERSECT),
    "set, asked: one key of many": (some_keys_only, SET_ABOVE),
    "union all: one side": (half_a_union, UNION),
    "filter: none": (Swap("WHERE (c", "WHERE TRUE OR (c"), ROWS),
    "explode: what goes comes": (Swap("n_, s_ FROM input_ LATERAL", "ABS(n_) AS n_, s_ FROM input_ LATERAL"), EXPLODED),
    "project, asked by what it makes of a column": (asked_by_another_column, MADE_ABOVE),
    "values: again and again": (values_change, CONSTANT),
}


@pytest.mark.parametrize("name", BREAKAGES)
def test_a_broken_rule_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    broken, queries = BREAKAGES[name]
    HIT.clear()
    broken(monkeypatch)
    assert caught(queries) is not None
    assert not isinstance(broken, Swap) or HIT, "this SQL is not written any more: break what is"


def test_the_queries_are_right_as_they_are() -> None:
    for queries in {id(queries): queries for _, queries in BREAKAGES.values()}.values():
        for query in queries:
            for seed in range(2):
                assert check(query, SCHEMA, seed) is None


def caught(queries: Sequence[str]) -> Mismatch | None:
    """The first witness among a few seeds."""
    for seed in SEEDS:
        for query in queries:
            found = check(query, SCHEMA, seed)
            if found is not None:
                return found
    return None
