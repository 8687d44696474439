"""Joins of all kinds, by any condition.

    Δ(L ⋈ R)(s) = ΔL(s) ⋈ R(s) + L(s−1) ⋈ ΔR(s)

Asked at the batch's end, R is ahead of R(s) by ΔR(u), u > s, and L ahead of L(s−1) by ΔL(t), t ≥ s. So every pair of
changes is counted once too often, in the earlier of its two transactions:

    Δ(L ⋈ R) = ΔL ⋈ R(hi) + L(hi) ⋈ ΔR − ΔL(t) ⋈ ΔR(u) labelled min(t, u)

That is all of compensation. Semi, anti and outer joins need to know of a row on one side, at a moment, how many matches
it has on the other:

    m(l, at) = Σ R(hi)(r) − Σ ΔR(t)(r), t > at, over the r that l matches
    Δ(L·f)(s) = ΔL⁺(s)·f(s) − ΔL⁻(s)·f(s−1) + K(s)·(f(s) − f(s−1))           f: m > 0 for semi, m = 0 for anti

K(s) = L(s) − ΔL⁺(s) are the rows that s leaves alone. So a row is only ever matched with what was there when it was:
a condition that would fail of two rows that never met is not asked about them.

An outer join is the inner one and what has no match, padded with NULLs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from headwater.algebra.conditions import kind_of
from headwater.algebra.dialect import spark_sql
from headwater.algebra.relations import (
    Aggregate,
    Equality,
    Expression,
    Filter,
    Join,
    JoinKind,
    Name,
    Project,
    Relation,
    SetOperation,
    Table,
    Window,
    has_one_row,
    mentioned,
    tables,
    walk,
)
from headwater.algebra.select.correlation import conjuncts
from headwater.maintenance.operators.local_sql import Types, equal_here, null_of
from headwater.maintenance.operators.maintain import Maintenance
from headwater.maintenance.operators.program import COUNT, END, INPUT, SEQ, Keys, alike, listed, total
from headwater.maintenance.operators.sizes import beginning
from headwater.model.names import CLOCK

AT, MATCHES, ROW = "at_", "m_", "row_"
_ORDERED = ("integer", "decimal", "date", "timestamp")
"""What a source puts in the same order as everybody else."""
_ONE_SIDED = (JoinKind.SEMI, JoinKind.ANTI)


class JoinOperator:
    def changes(self, node: Join, m: Maintenance) -> str:
        node = keyed(node, m.types)
        if node.kind is JoinKind.INNER:
            return _inner(node, m)
        if node.kind in _ONE_SIDED:
            return _with_or_without(node, m)
        steps = [_inner(node, m, _met(node, _points(node, m), m) if node.kind is JoinKind.LEFT else "")]
        parts = [f"SELECT {listed(node.columns, (COUNT, SEQ))} FROM {steps[0]}"]
        for side in _alone(node):
            steps.append(_with_or_without(side, m))
            parts.append(f"SELECT {listed(_padded(node, side.right, m), (COUNT, SEQ))} FROM {steps[-1]}")
        return m.draft.local(" UNION ALL ".join(parts), *steps)

    def ask(self, node: Join, columns: tuple[Name, ...], keys: Keys, m: Maintenance) -> str:
        """A row of an outer join is a pair, or one side alone with NULLs for the other: those are asked for apart."""
        node = keyed(node, m.types)
        if node.kind in _ONE_SIDED:
            left = m.ask(node.left, columns, keys)
            return _evaluated(node, left, _met(node, left, m), m)
        by_left, by_right = _known(node, columns), _known(_turned(node), columns)
        begin = [beginning(side, m.sizes) for side in (node.left, node.right)]
        of_all = not by_left and not by_right
        if begin[0] <= begin[1] if of_all else _preferred(by_left, columns) >= _preferred(by_right, columns):
            left = _asked(node.left, by_left, keys, m)
            right = _met(node, left, m)
        else:
            right = _asked(node.right, by_right, keys, m)
            left = _met(_turned(node), right, m)
        pairs = _evaluated(replace(node, kind=JoinKind.INNER), left, right, m)
        steps, parts = [pairs], [f"SELECT {listed(node.columns, (COUNT,))} FROM {pairs}"]
        for side in _alone(node):
            padded = [i for i, c in enumerate(columns) if c in side.right.columns]
            if not set(padded) <= keys.nullable:
                continue  # nobody asks for NULLs there
            nulls = " AND ".join(f"k{i} IS NULL" for i in padded)
            own = [i for i in range(len(columns)) if i not in padded]
            rows = m.ask(side.left, tuple(columns[i] for i in own), m.draft.some_keys(keys, own, nulls))
            steps.append(_evaluated(side, rows, _met(side, rows, m), m))
            parts.append(f"SELECT {listed(_padded(node, side.right, m), (COUNT,))} FROM {steps[-1]}")
        return m.draft.local(" UNION ALL ".join(parts), *steps)


def keyed(node: Join, types: Types) -> Join:
    """The join, with the equalities by which its sides can be asked."""
    left, right = set(node.left.columns), set(node.right.columns)
    found: list[Equality] = []
    for part in conjuncts(node.on):
        if not isinstance(part, exp.EQ | exp.NullSafeEQ):
            continue
        a, b = part.this.unnest(), part.expression.unnest()
        if not (isinstance(a, exp.Column) and isinstance(b, exp.Column)):
            continue
        if a.name in right and b.name in left:
            a, b = b, a
        if a.name in left and b.name in right and equal_here(types[a.name], types[b.name]):
            one = Equality(a.name, b.name, isinstance(part, exp.NullSafeEQ))
            if all(one.left != e.left or one.right != e.right for e in found):
                found.append(one)
    return replace(node, equalities=tuple(found))


def _alone(node: Join) -> list[Join]:
    """The anti joins whose rows an outer join pads."""
    sides = {JoinKind.LEFT: [node], JoinKind.FULL: [node, _turned(node)]}.get(node.kind, [])
    return [replace(side, kind=JoinKind.ANTI) for side in sides]


def _turned(node: Join) -> Join:
    equalities = tuple(Equality(e.right, e.left, e.nulls) for e in node.equalities)
    return replace(node, left=node.right, right=node.left, equalities=equalities)


def _padded(node: Join, missing: Relation, m: Maintenance) -> list[str]:
    gone = set(missing.columns)
    return [f"{null_of(m.types[c])} AS {c}" if c in gone else c for c in node.columns]


def _known(node: Join, columns: tuple[Name, ...]) -> dict[Name, int]:
    """What the left side is asked by: those of the columns that are its own, and its own ones that a pair demands to
    be equal to the others; each with its position."""
    equal = {e.right: e.left for e in node.equalities}
    own = {c: i for i, c in enumerate(columns) if c in node.left.columns}
    others = {equal[c]: i for i, c in enumerate(columns) if c in equal}
    return {**others, **own}


def _preferred(by: dict[Name, int], columns: tuple[Name, ...]) -> tuple[int, int]:
    """By as many columns as there can be, and rather by those that were asked for than by what equals them."""
    return len(by), sum(columns[i] == c for c, i in by.items())


def _asked(side: Relation, by: dict[Name, int], keys: Keys, m: Maintenance) -> str:
    return m.ask(side, tuple(by), m.draft.some_keys(keys, list(by.values())))


def _met(node: Join, left: str, m: Maintenance) -> str:
    """What the right side has for rows of the left side."""
    if is_clock(node.right):
        return _moments(node.right, m)[1]
    nullable = [i for i, e in enumerate(node.equalities) if e.nulls]
    return m.ask(node.right, node.right_keys, m.draft.keys([(left, node.left_keys)], nullable))


def _evaluated(node: Join, left: str, right: str, m: Maintenance) -> str:
    """The join of two steps of rows with counts."""
    here, rest = m.split(node.on)
    if node.kind is JoinKind.INNER:
        columns = (*node.left.columns, *node.right.columns)
        chosen = listed(columns, [f"l_.{COUNT} * r_.{COUNT} AS {COUNT}"])
        text = f"SELECT {chosen} FROM {left} AS l_ JOIN {right} AS r_ ON {here}"
        return m.kept(m.draft.local(text, left, right), rest, (*columns, COUNT))
    no = "NOT " if node.kind is JoinKind.ANTI else ""
    if not rest:
        text = f"SELECT * FROM {left} AS l_ WHERE {no}EXISTS (SELECT 1 FROM {right} AS r_ WHERE {here})"
        return m.draft.local(text, left, right)
    numbered = m.draft.local(f"SELECT *, ROW_NUMBER() OVER () AS {ROW} FROM {left}", left)
    said = _said(rest, (*node.left.columns, *node.right.columns))
    pairs = m.draft.local(
        f"SELECT {listed([ROW], said)} FROM {numbered} AS l_ JOIN {right} AS r_ ON {here}", numbered, right
    )
    matched = m.kept(pairs, rest, (ROW, *said))
    text = (
        f"SELECT {listed(node.left.columns, (COUNT,))} FROM {numbered}"
        f" WHERE {no}({ROW} IN (SELECT {ROW} FROM {matched}))"
    )
    return m.draft.local(text, numbered, matched)


def _said(rest: Sequence[Expression], columns: Sequence[Name]) -> list[Name]:
    used = mentioned(*rest)
    return [c for c in columns if c in used]


def _inner(node: Join, m: Maintenance, right: str = "") -> str:
    """The changes of the pairs. `right`: a step that has what the right side has for the left side's changes."""
    dl = _net(node.left, m)
    if is_clock(node.right):
        dr, right = _moments(node.right, m)
        left = _between(node, dr, right, m) or _met(_turned(node), dr, m)
    elif not right and _bound(node, m) is not None:
        dr = m.summed(m.changes(node.right), node.right.columns)
        right = m.ask(node.right, (), Keys(m.draft.local("SELECT 1 AS k_"), 0))
        left = _between(node, dr, right, m)
    else:
        dr = _net(node.right, m)
        right, left = right or _met(node, dl, m), _met(_turned(node), dr, m)
    columns = (*node.left.columns, *node.right.columns)
    here, rest = m.split(node.on)
    product = f"l_.{COUNT} * r_.{COUNT}"

    def joined(one: str, other: str, count: str, seq: str) -> str:
        chosen = listed(columns, [f"{count} AS {COUNT}", f"{seq} AS {SEQ}"])
        return f"SELECT {chosen} FROM {one} AS l_ JOIN {other} AS r_ ON {here}"

    parts = [
        joined(dl, right, product, f"l_.{SEQ}"),
        joined(left, dr, product, f"r_.{SEQ}"),
        joined(dl, dr, f"-({product})", f"LEAST(l_.{SEQ}, r_.{SEQ})"),
    ]
    both = m.draft.local(" UNION ALL ".join(parts), dl, right, left, dr, dl, dr)
    if rest or (_restless(node.left) and _restless(node.right)):
        both = m.summed(both, columns)
    return m.kept(both, rest, (*columns, COUNT, SEQ))


def is_clock(node: Relation) -> bool:
    """Whether it is the one row that the clock replaces."""
    found = tables(node)
    return bool(found) and all(table.table.source == CLOCK for table in found)


def _moments(node: Relation, m: Maintenance) -> tuple[str, str]:
    """The changes of a clock's row, and the row at the batch's end; Spark evaluates both at once."""
    if not isinstance(node, Project) or not isinstance(node.child, Table):
        return m.summed(m.changes(node), node.columns), m.ask(node, (), Keys(m.draft.local("SELECT 1 AS k_"), 0))
    table = node.child
    changes, row = m.changes(table), m.ask(table, (), Keys(m.draft.local("SELECT 1 AS k_"), 0))
    own = listed(table.columns)
    text = (
        f"SELECT {own}, {COUNT}, {SEQ} FROM {changes} UNION ALL SELECT {own}, {COUNT}, CAST({END} AS BIGINT) FROM {row}"
    )
    both = m.draft.local(text, changes, row)
    chosen = [f"{spark_sql(e)} AS {name}" for name, e in node.outputs]
    made = m.draft.evaluated(f"SELECT {listed(chosen, (COUNT, SEQ))} FROM {INPUT}", both, (*node.columns, COUNT, SEQ))
    ticks = m.draft.local(f"SELECT * FROM {made} WHERE {SEQ} < {END}", made)
    now = m.draft.local(f"SELECT {listed(node.columns, (COUNT,))} FROM {made} WHERE {SEQ} = {END}", made)
    return m.summed(ticks, node.columns), now


def _bound(node: Join, m: Maintenance) -> tuple[Name, Name] | None:
    """A column of the left side and the bound that it is compared with, where the right side is one row that is always
    there, the clock's or a total's, and the comparison is all that joins. Of a total that somebody looks at every row
    changes with it, be it between its bounds or not."""
    on = node.on.unnest() if node.on is not None else None
    total = has_one_row(node.right) and node.unseen
    if not (is_clock(node.right) or total) or node.kind is not JoinKind.INNER:
        return None
    if not isinstance(on, exp.LT | exp.LTE | exp.GT | exp.GTE) or m.split(on)[1]:
        return None
    row, bound = on.this.unnest(), on.expression.unnest()
    if not (isinstance(row, exp.Column) and isinstance(bound, exp.Column)):
        return None
    if row.name not in node.left.columns:
        row, bound = bound, row
    ordered = all(kind_of(m.types[side.name]) in _ORDERED for side in (row, bound))
    return (row.name, bound.name) if ordered and row.name in node.left.columns else None


def _between(node: Join, dr: str, present: str, m: Maintenance) -> str:
    """What the left side has for the changes of a bound: the rows between the bounds of the batch. Of any other row the
    condition is true before and after each change, or false: what the old bound takes away the new one brings. Of a
    bound that is NULL nothing is true, so where one is or was, everything is asked for. Empty if there is no bound."""
    found = _bound(node, m)
    if found is None:
        return ""
    row, bound = found
    every = m.draft.local(
        f"SELECT {bound} AS b_ FROM {dr} UNION ALL SELECT {bound} FROM {present} WHERE EXISTS (SELECT 1 FROM {dr})",
        dr,
        present,
        dr,
    )
    known = "COUNT(b_) = COUNT(*) AND COUNT(*) > 0"
    bounds = m.draft.local(f"SELECT MIN(b_) AS k0, MAX(b_) AS k1 FROM {every} HAVING {known}", every)
    between = m.ask(node.left, (row,), Keys(bounds, 1, between=True))
    if is_clock(node.right):
        return between
    unknown = m.draft.local(f"SELECT 1 AS k_ FROM {every} HAVING COUNT(b_) < COUNT(*)", every)
    whole = m.ask(node.left, (), Keys(unknown, 0))
    chosen = listed(node.left.columns, (COUNT,))
    return m.draft.local(  # who is asked for nothing may still answer: a total has a row in any case
        f"SELECT {chosen} FROM {between} WHERE EXISTS (SELECT 1 FROM {bounds})"
        f" UNION ALL SELECT {chosen} FROM {whole} WHERE EXISTS (SELECT 1 FROM {unknown})",
        between,
        bounds,
        whole,
        unknown,
    )


def _net(side: Relation, m: Maintenance) -> str:
    """The changes of a side, summed if it is a join itself: rows that T transactions change on both of its sides make
    T² pairs of changes, of which all but T cancel each other. Unsummed, this join would make T³ of them."""
    below = side
    while isinstance(below, Filter | Project):
        below = below.child
    changes = m.changes(side)
    return m.summed(changes, side.columns) if isinstance(below, Join) else changes


def _restless(node: Relation) -> bool:
    """Whether a key may change with every transaction."""
    return any(isinstance(one, Aggregate | Window | SetOperation) for one in walk(node))


def _with_or_without(node: Join, m: Maintenance) -> str:
    """The changes of the left rows that have a match, or that have none."""
    dl, stayed, seen = _own(node, m), _stayed(node, m), _seen(node)
    matches = _matches(node, seen, _points(node, m), m)
    has = "> 0" if node.kind is JoinKind.SEMI else "<= 0"
    pairs, own = [(c, c) for c in seen], [f"d_.{c}" for c in node.left.columns]
    turned = f"CASE WHEN a_.{MATCHES} {has} THEN d_.{COUNT} ELSE -d_.{COUNT} END"
    text = (
        f"SELECT {listed(own, [f'd_.{COUNT} AS {COUNT}', f'd_.{SEQ} AS {SEQ}'])} FROM {dl} AS d_"
        f" JOIN {matches} AS a_ ON {alike('d_', 'a_', pairs)} AND a_.{AT} = {_moment('d_.')} WHERE a_.{MATCHES} {has}"
        f" UNION ALL SELECT {listed(own, [turned, f'd_.{AT}'])} FROM {stayed} AS d_"
        f" JOIN {matches} AS a_ ON {alike('d_', 'a_', pairs)} AND a_.{AT} = d_.{AT}"
        f" JOIN {matches} AS b_ ON {alike('d_', 'b_', pairs)} AND b_.{AT} = d_.{AT} - 1"
        f" WHERE (a_.{MATCHES} {has}) <> (b_.{MATCHES} {has})"
    )
    return m.draft.local(text, dl, matches, stayed, matches, matches)


def _moment(of: str = "") -> str:
    """When it matters what a row that comes or goes matches: at the transaction it comes with, before the one it goes
    with."""
    return f"CASE WHEN {of}{COUNT} > 0 THEN {of}{SEQ} ELSE {of}{SEQ} - 1 END"


def _own(node: Join, m: Maintenance) -> str:
    """The left side's changes; summed where Spark decides what matches, for it might fail of rows that never were."""
    dl = m.changes(node.left)
    return m.summed(dl, node.left.columns) if m.split(node.on)[1] else dl


def _seen(node: Join) -> list[Name]:
    """The columns of the left side that decide what matches."""
    return _said([node.on], node.left.columns) if node.on is not None else []


def _stayed(node: Join, m: Maintenance) -> str:
    """K(s), of the rows whose matches transaction s may have changed: columns, AT = s, COUNT."""
    dl, dr = _own(node, m), m.changes(node.right)
    own = node.left.columns
    left = _met(_turned(node), dr, m)
    keys = [f"{c} AS t{i}_" for i, c in enumerate(node.right_keys)]
    touched = m.draft.local(f"SELECT DISTINCT {listed(keys, [f'{SEQ} AS {AT}'])} FROM {dr}", dr)
    meets = (
        " AND ".join(
            f"l_.{e.left} {'IS NOT DISTINCT FROM' if e.nulls else '='} t_.t{i}_" for i, e in enumerate(node.equalities)
        )
        or "TRUE"
    )
    text = (
        f"SELECT {listed(own, [AT, f'{total()} AS {COUNT}'])} FROM ("
        f"SELECT {listed(own, [f't_.{AT} AS {AT}', f'l_.{COUNT} AS {COUNT}'])} FROM {left} AS l_"
        f" JOIN {touched} AS t_ ON {meets}"
        f" UNION ALL SELECT {listed(own, [f't_.{AT}', f'-l_.{COUNT}'])} FROM {dl} AS l_"
        f" JOIN {touched} AS t_ ON {meets} AND (l_.{SEQ} > t_.{AT} OR (l_.{SEQ} = t_.{AT} AND l_.{COUNT} > 0))"
        f") AS b_ GROUP BY {listed(own, [AT])} HAVING SUM({COUNT}) <> 0"
    )
    return m.draft.local(text, left, touched, dl, touched)


def _points(node: Join, m: Maintenance) -> str:
    """The moments at which it matters what a left row matches: at its own change, and around a change of matches."""
    dl, stayed, seen = _own(node, m), _stayed(node, m), _seen(node)
    text = (
        f"SELECT {listed(seen, [f'{_moment()} AS {AT}'])} FROM {dl} UNION SELECT {listed(seen, [AT])} FROM {stayed}"
        f" UNION SELECT {listed(seen, [f'{AT} - 1'])} FROM {stayed}"
    )
    return m.draft.local(text, dl, stayed, stayed)


def _matches(node: Join, seen: Sequence[Name], points: str, m: Maintenance) -> str:
    """m(l, at): the columns of l that `on` mentions, AT, MATCHES."""
    here, rest = m.split(node.on)
    dr = m.changes(node.right)
    right = _met(node, points, m)
    theirs = _said([node.on], node.right.columns) if node.on is not None else []
    there = m.draft.local(
        f"SELECT {listed(theirs, [COUNT, f'CAST({END} AS BIGINT) AS {SEQ}'])} FROM {right}"
        f" UNION ALL SELECT {listed(theirs, [f'-{COUNT}', SEQ])} FROM {dr}",
        right,
        dr,
    )
    said = [c for c in theirs if c in mentioned(*rest)]
    pairs = m.draft.local(
        f"SELECT {listed(seen, said, [COUNT, AT])} FROM {points} AS p_ JOIN {there} AS r_"
        f" ON {here} AND r_.{SEQ} > p_.{AT}",
        points,
        there,
    )
    if rest:
        pairs = m.summed(pairs, (*seen, *said), AT)
    matched = m.kept(pairs, rest, (*seen, *said, COUNT, AT))
    counted = m.draft.local(
        f"SELECT {listed(seen, [AT])}, {total()} AS {MATCHES} FROM {matched} GROUP BY {listed(seen, [AT])}", matched
    )
    both = [(c, c) for c in seen]
    text = (
        f"SELECT {listed(f'p_.{c}' for c in (*seen, AT))}, COALESCE(c_.{MATCHES}, 0) AS {MATCHES} FROM {points} AS p_"
        f" LEFT JOIN {counted} AS c_ ON {alike('p_', 'c_', both)} AND p_.{AT} = c_.{AT}"
    )
    return m.draft.local(text, points, counted)
