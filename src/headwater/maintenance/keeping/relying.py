"""What a project promises of its tables, used to ask for less, and so to keep less.

    V = F ⋈ D1 ⋈ … ⋈ Dn            F changes as it likes; of every D one of these holds

    never     D does not change                                    ΔD(s) = ∅
    parent    rows only come to D, and F refers to it by a         F(s−1) ⋈ ΔD(s) = ∅: whoever refers to a row
              foreign key, or another such D does                  comes with it or after it
    deletes   rows only go from D, and the view shows its key      F(s−1) ⋈ ΔD(s) = − the rows of V(s−1) with the keys
                                                                   of ΔD(s): the view itself says what goes

With D met as it is after s, the wave has one term left, `ΔF(s) ⋈ D1(s) ⋈ … ⋈ Dn(s)`: nobody asks for F. In a tree the
same is true of tables that never change, where nothing above the join asks for what is joined. If rows only go from all
of them, the wave has no term at all, and nothing is kept (`maintenance/taking_out`).

*Nothing of this is believed.* Whatever a D does beside what it is said to do halts the view. A foreign key is what is
meant, and no proof: SQLite checks it only for writers that want it, and in PostgreSQL it can be switched off. So every
row of F must find its one row in D: when the view is loaded, and whenever one comes. As D loses nothing, it finds it
for ever. That D's key is a key is what the database itself sees to.

A D may only be asked without conditions where it is a parent: of a row that a condition hides nobody could say whether
it is missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from headwater.algebra.methods import WAVE
from headwater.algebra.names import Catalog
from headwater.algebra.view import Reliance, Relied, ViewDefinition, quoted
from headwater.maintenance.graph import JoinStep, steps
from headwater.maintenance.keeping.copies import Copy, asked_tables
from headwater.maintenance.keeping.known import Changing
from headwater.model.consistency import Level
from headwater.model.names import TableName, view_table
from headwater.model.schema import TableSchema

Promised = Mapping[TableName, Changing]


def relied_on(view: ViewDefinition, unasked: frozenset[TableName], promised: Promised, catalog: Catalog) -> set[Relied]:
    """What the view must count on so that it asks for as few as possible of the tables that are not to be asked;
    nothing, if no promise helps."""
    if view.maintenance != WAVE or not promised:
        return set()
    without = asked_tables(view) & unasked
    best, fewest = set[Relied](), len(without)
    for candidate in _candidates(view, promised, catalog):
        asked = len(asked_tables(replace(view, relies=tuple(candidate))) & unasked)
        if asked < fewest:
            best, fewest = candidate, asked
    return _needed(view, best, unasked)


def _candidates(view: ViewDefinition, promised: Promised, catalog: Catalog) -> Iterable[set[Relied]]:
    still = {
        Relied(i, Reliance.NEVER, str(o.table))
        for i, o in enumerate(view.occurrences)
        if promised.get(o.table) is Changing.NEVER
    }
    yield still
    if view.tree is not None:
        return
    schemas = [
        None if o.table.is_view else catalog.resolve(o.table.source, o.table.schema, o.table.table)
        for o in view.occurrences
    ]
    still |= _going(view, promised, schemas)
    yield still
    fixed = {r.occurrence for r in still}
    for root in range(len(view.occurrences)):
        if root in fixed:
            continue
        others = [i for i in range(len(view.occurrences)) if i != root and i not in fixed]
        into = {step.target: step for step in steps(view) if root in step.origins}
        if all(_is_parent(view, into[i], promised, schemas) for i in others):
            yield still | {Relied(i, Reliance.PARENT, str(view.occurrences[i].table)) for i in others}


def _going(view: ViewDefinition, promised: Promised, schemas: list[TableSchema | None]) -> set[Relied]:
    """The occurrences that only lose rows, and whose key the view shows. Its own rows are looked up, so they must be
    there: a view whose batches may be computed in any order cannot say, and neither can groups."""
    if view.aggregation is not None or view.level not in (Level.COMPLETE, Level.STRONG):
        return set()
    found, places = set(), {o.expression: place for place, o in reversed(list(enumerate(view.outputs)))}
    for i, (o, schema) in enumerate(zip(view.occurrences, schemas, strict=True)):
        if promised.get(o.table) is not Changing.DELETES or schema is None or not schema.key:
            continue
        shown = tuple(places.get(quoted(o.core(column)), -1) for column in schema.key)
        if -1 not in shown:
            found.add(Relied(i, Reliance.DELETES, str(o.table), shown))
    return found


def _is_parent(view: ViewDefinition, step: JoinStep, promised: Promised, schemas: list[TableSchema | None]) -> bool:
    """Whether the walk comes to an occurrence by a foreign key of the one before it."""
    target, start = view.occurrences[step.target], view.occurrences[step.start]
    schema, before = schemas[step.target], schemas[step.start]
    if promised.get(target.table) is not Changing.INSERTS or target.conditions or schema is None or before is None:
        return False
    walked = set(zip((name.removeprefix(f"{start.alias}.") for name in step.near), step.far, strict=True))
    return set(step.far) == set(schema.key) and any(
        key.table == target.table and set(zip(key.columns, key.referenced, strict=True)) == walked
        for key in before.foreign_keys
    )


def _needed(view: ViewDefinition, found: set[Relied], unasked: frozenset[TableName]) -> set[Relied]:
    """Only those without which more would be asked for: what is not relied on halts nobody."""
    asked = asked_tables(replace(view, relies=tuple(found))) & unasked
    for one in sorted(found, key=lambda r: r.occurrence):
        less = found - {one}
        if asked_tables(replace(view, relies=tuple(less))) & unasked == asked:
            found = less
    return found


def over_copies_of(
    relied: Iterable[Relied], written: ViewDefinition, made: ViewDefinition, copies: Mapping[TableName, Copy]
) -> tuple[Relied, ...]:
    """The same of the view over copies: which of its occurrences stand for those that are relied on. A copy changes as
    its table does, and a table is relied on wherever it is mentioned, unless the view shows one mention's key only."""
    found = []
    for one in relied:
        mention = written.occurrences[one.occurrence]
        table = mention.table
        stands = {table} | ({view_table(copies[table].view)} if table in copies else set())
        found += [
            replace(one, occurrence=i)
            for i, o in enumerate(made.occurrences)
            if o.table in stands and (one.on is not Reliance.DELETES or o.alias == mention.alias)
        ]
    return tuple(sorted(set(found), key=lambda r: r.occurrence))


def why(view: ViewDefinition) -> list[str]:
    """What is not kept, and because of what, for the one who reads the plan."""
    if not view.relies:
        return []
    relied = {r.occurrence for r in view.relies}
    free = sorted({str(o.table) for i, o in enumerate(view.occurrences) if i not in relied and not o.table.is_view})
    said = (
        (Reliance.NEVER, "{} never changes", "{} never change"),
        (Reliance.PARENT, "rows only come to {}, by a foreign key", "rows only come to {}, by foreign keys"),
        (Reliance.DELETES, "rows only go from {}, by its key", "rows only go from {}, by their keys"),
    )
    because = []
    for on, one, more in said:
        found = sorted({r.table for r in view.relies if r.on is on})
        because += [(one if len(found) == 1 else more).format(", ".join(found))] if found else []
    return [f"no copy of {', '.join(free) or 'any table'}: {'; '.join(because)}; the view halts where that is not so"]
