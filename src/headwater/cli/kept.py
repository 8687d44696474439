"""What is kept for a view, as `plan` says it: what it stores, about, and which questions it saves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from rich import filesize

if TYPE_CHECKING:
    from headwater.cli.planning import PlannedRelation, PlannedView


def kept_lines(view: PlannedView, views: Iterable[PlannedView]) -> list[str]:
    """One line for each view that is kept for this one, and what they save together."""
    known = {str(one.name): one for one in views if one.kept_for}
    kept = [known[r.table.table] for r in view.relations if r.table.is_view and r.table.table in known]
    kept = list({one.name: one for one in kept}.values())
    if not kept:
        return []
    lines = [f"{one.name}: {_tables(one.relations)}{_rows(one)}" for one in kept]
    if view.tree or any(one.tree or one.aggregation for one in kept):
        return lines
    now = sum(one.to_sources for one in kept) + view.to_sources
    return [*lines, f"so a batch asks the sources {_times(now)} instead of {_times(2 * (_count(view, known) - 1))}"]


def too_large(views: Iterable[PlannedView], free: int | None) -> list[str]:
    """What is kept and would not fit where the warehouse lies."""
    from headwater.maintenance.keeping.costs import stored

    if free is None:
        return []
    found = []
    for view in views:
        sizes = [relation.rows for relation in view.relations if relation.rows is not None]
        takes = stored(max(sizes, default=0), len(view.columns)) if view.kept_for and not view.aggregation else 0
        if takes > free:
            found.append(
                f"{view.name}, kept for {view.kept_for}, would take about {filesize.decimal(takes)}, and"
                f" {filesize.decimal(free)} are free where the warehouse lies"
            )
    return found


def _count(view: PlannedView, known: Mapping[str, PlannedView]) -> int:
    """The tables of sources that it joins, through what is kept for it."""
    return sum(_count(known[r.table.table], known) if r.table.table in known else 1 for r in view.relations)


def _tables(relations: Sequence[PlannedRelation]) -> str:
    said = " ⋈ ".join(str(relation.table) for relation in relations)
    only = [condition for relation in relations for condition in relation.conditions]
    return said + (f", only {' and '.join(only)}" if only else "")


def _rows(view: PlannedView) -> str:
    """The largest of its tables: keys join most of them."""
    sizes = [relation.rows for relation in view.relations if relation.rows is not None]
    if view.aggregation or len(sizes) < len(view.relations):
        return ""
    return f", {'up to' if len(sizes) == 1 else 'about'} {max(sizes):,} rows"


def _times(n: int) -> str:
    return "nothing" if not n else "once" if n == 1 else f"{n} times"
