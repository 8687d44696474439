"""WITH RECURSIVE … UNION ALL: each level is the step of the one before, and every row carries its level.

The step is linear in the level before, so its change rule can be taken apart:

    Δ X(k+1) = C(Δ X(k), nothing) + C(nothing, X(k)(hi))

C is the step's own rule: what it makes of changes of the reference, and of rows that it asks it for. The second term is
the old rows that meet what changed beside the reference, a question to the recursion itself, of all levels at once. The
first is a loop, from level to level, until nothing changes any more. A row that came and went within a level is
cancelled there, so no chain is followed that never was.

A question is answered in two loops: from the keys that are asked for back to the keys of the rows that such rows were
made of, until there is no new one; then from the base rows with those keys forward, level by level.

What happens in a loop happens in the embedded engine. Relations beside the reference that need Spark are read whole,
before it; expressions over the reference's own rows that need Spark are refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from headwater.algebra.relations import (
    Join,
    JoinKind,
    Name,
    Project,
    Recursion,
    Reference,
    Relation,
    Union,
    children,
    expressions,
    walk,
    with_children,
)
from headwater.algebra.select.scope import column
from headwater.algebra.spoken import called, in_words
from headwater.maintenance.operators.linear import renamed
from headwater.maintenance.operators.local_sql import local_sql, null_of
from headwater.maintenance.operators.maintain import Maintenance
from headwater.maintenance.operators.program import COUNT, SEQ, Draft, Evaluated, Keys, Loop, alike, listed
from headwater.model.errors import ViewSqlError


class RecursionOperator:
    def changes(self, node: Recursion, m: Maintenance) -> str:
        base, step = m.changes(node.base), _led(node.step)
        met = _Inside(node, m, whole=self).changes(step)
        first = m.draft.local(
            f"SELECT {_as(node.base, node, m)}, {COUNT}, {SEQ} FROM {base}"
            f" UNION ALL SELECT {_as(step, node, m)}, {COUNT}, {SEQ} FROM {met}",
            base,
            met,
        )
        return _levels(node, first, lambda inside: inside.changes(step), (COUNT, SEQ), m)

    def ask(self, node: Recursion, columns: tuple[Name, ...], keys: Keys, m: Maintenance) -> str:
        step = _led(node.step)
        by = () if keys.between else _closed(node, step, columns, m)
        asked = m.draft.some_keys(keys, [columns.index(c) for c in by])
        needed = _needed(node, step, by, asked, m) if by else asked
        base = m.ask(node.base, tuple(node.base.columns[node.columns.index(c)] for c in by), needed)
        first = m.draft.local(f"SELECT {_as(node.base, node, m)}, {COUNT} FROM {base}", base)
        everything = Keys(m.draft.local("SELECT 1 AS k_"), 0)
        return _levels(node, first, lambda inside: inside.ask(step, (), everything), (COUNT,), m, by, needed)


def _levels(
    node: Recursion,
    first: str,
    rule: Callable[[Maintenance], str],
    more: tuple[str, ...],
    m: Maintenance,
    by: tuple[Name, ...] = (),
    needed: Keys | None = None,
) -> str:
    """The loop from level to level; only rows whose columns `by` are among those needed."""
    hole = m.draft.hole()
    given = m.draft.local(f"SELECT {listed(map('{} AS {}'.format, node.columns, node.inside), more)} FROM {hole}", hole)
    made = rule(_Inside(node, m, given=given) if SEQ in more else _Inside(node, m, rows=given))
    result = m.draft.local(f"SELECT {_as(_led(node.step), node, m)}, {listed(more)} FROM {made}", made)
    if by and needed is not None:
        pairs = [(f"k{i}", c) for i, c in enumerate(by)]
        among = f"EXISTS (SELECT 1 FROM {needed.step} AS k_ WHERE {alike('k_', 'm_', pairs)})"
        result = m.draft.local(f"SELECT * FROM {result} AS m_ WHERE {among}", result, needed.step)
    found = m.draft.loop(first, hole, result, node.level, node.limit)
    _check(node, m)
    return found


def _needed(node: Recursion, step: Relation, by: tuple[Name, ...], asked: Keys, m: Maintenance) -> Keys:
    """The keys asked for, and those of all rows that rows with such keys are made of."""
    hole = m.draft.hole()
    found: list[Question] = []
    inside = _Inside(node, m, asked=found)
    inside.ask(step, tuple(step.columns[node.columns.index(c)] for c in by), replace(asked, step=hole))
    places = [tuple(columns.index(node.inside[node.columns.index(c)]) for c in by) for columns, _ in found]
    steps = [m.draft.some_keys(keys, at).step for (_, keys), at in zip(found, places, strict=True)]
    text = " UNION ".join(f"SELECT {listed(f'k{i}' for i in range(len(by)))} FROM {one}" for one in steps)
    made = m.draft.local(text, *steps)
    name = m.draft.loop(asked.step, hole, made)
    _check(node, m)
    return Keys(name, len(by), frozenset(range(len(by))))


def _closed(node: Recursion, step: Relation, columns: tuple[Name, ...], m: Maintenance) -> tuple[Name, ...]:
    """Those of the columns by which a level can be asked whenever the next one is asked by them."""
    by = columns
    while by:
        draft = Draft(m.draft.types)
        found: list[Question] = []
        inside = _Inside(node, Maintenance(m.operators, draft, m.sizes), asked=found)
        inside.ask(step, tuple(step.columns[node.columns.index(c)] for c in by), Keys("k_", len(by)))
        seen = [{node.columns[node.inside.index(c)] for c in asked if c in node.inside} for asked, _ in found]
        kept = tuple(c for c in by if all(c in one for one in seen))
        if kept == by:
            break
        by = kept
    return by


def _as(child: Relation, node: Recursion, m: Maintenance) -> str:
    return listed(renamed(child.columns, node.columns, m))


def _led(node: Relation) -> Relation:
    """The step with the reference on the left of every inner join: what it is joined with is asked for its keys."""
    if not any(isinstance(one, Reference) for one in walk(node)):
        return node
    below = tuple(_led(child) for child in children(node))
    if isinstance(node, Union):
        pairs = zip(below, node.children, strict=True)
        below = tuple(Project(b, tuple((n, column(n)) for n in c.columns)) for b, c in pairs)
    new = with_children(node, below)
    if isinstance(new, Join) and new.kind is JoinKind.INNER and not _refers(new.left):
        return replace(new, left=new.right, right=new.left)
    return new


def _refers(node: Relation) -> bool:
    return any(isinstance(one, Reference) for one in walk(node))


def _check(node: Recursion, m: Maintenance) -> None:
    """That the loop written last does without Spark; else what needs it is said."""
    loop = m.draft.steps[-1]
    assert isinstance(loop, Loop)
    if not any(isinstance(one, Evaluated) for one in loop.steps):
        return
    inside = (e for one in walk(node.step) if _refers(one) for e in expressions(one))
    needing = next((e for e in inside if local_sql(e, m.types) is None), None)
    what = f": {in_words(needing, called(node))}" if needing is not None else ""
    raise ViewSqlError(
        f"the recursive part of WITH RECURSIVE computes what only Spark can{what}",
        "compute it before or after the recursion; inside it: comparisons, +, -, *, ||, CAST of whole numbers,"
        " array(…), array_append, array_contains",
    )


Question = tuple[tuple[Name, ...], Keys]


@dataclass
class _Reference:
    """What the reference is while a step is written: it has `changes`, it has `rows` when it is asked, it remembers
    what it was `asked`, or it is the `whole` recursion; else it has nothing."""

    node: Recursion
    around: Maintenance
    given: str = ""
    rows: str = ""
    asked: list[Question] | None = None
    whole: RecursionOperator | None = None

    def changes(self, node: Reference, m: Maintenance) -> str:
        return self.given or _nothing(node, (COUNT, SEQ), m)

    def ask(self, node: Reference, columns: tuple[Name, ...], keys: Keys, m: Maintenance) -> str:
        if self.asked is not None:
            self.asked.append((columns, keys))
        if self.whole is not None:
            names = dict(zip(self.node.inside, self.node.columns, strict=True))
            rows = self.whole.ask(self.node, tuple(names[c] for c in columns), keys, self.around)
            chosen = map("{} AS {}".format, self.node.columns, self.node.inside)
            return m.draft.local(f"SELECT {listed(chosen, (COUNT,))} FROM {rows}", rows)
        return self.rows or _nothing(node, (COUNT,), m)


def _nothing(node: Reference, more: tuple[str, ...], m: Maintenance) -> str:
    nulls = [f"{null_of(m.types[c])} AS {c}" for c in node.columns]
    return m.draft.local(f"SELECT {listed(nulls, [f'CAST(0 AS BIGINT) AS {c}' for c in more])} WHERE FALSE")


class _Inside(Maintenance):
    """Writing a step of the recursion, where the reference is what it is there."""

    def __init__(self, node: Recursion, around: Maintenance, **reference: Any) -> None:
        operators: dict[type, Any] = {**around.operators, Reference: _Reference(node, around, **reference)}
        super().__init__(operators, around.draft, around.sizes, alone="whole" not in reference)

    def ask(self, node: Relation, columns: tuple[Name, ...], keys: Keys) -> str:
        """A relation beside the reference that needs Spark is read whole, before the loop."""
        if self.alone and not _refers(node) and _needs_spark(node, columns, keys, self):
            columns, keys = (), Keys(self.draft.local("SELECT 1 AS k_"), 0)
        return super().ask(node, columns, keys)


def _needs_spark(node: Relation, columns: tuple[Name, ...], keys: Keys, m: Maintenance) -> bool:
    draft = Draft(m.draft.types)
    Maintenance(m.operators, draft).ask(node, columns, keys)
    return any(isinstance(step, Evaluated) for step in draft.steps)
