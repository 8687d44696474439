"""Which views a view reads, and an order in which each stands after those it reads.

A view's query is looked at for names only: nothing is defined, no source is asked. The views must form a graph without
cycles; then their definitions, their loads and their states can follow one another.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from sqlglot import exp

from headwater.algebra.names import pick
from headwater.algebra.refusals import check
from headwater.algebra.statements import ParsedView
from headwater.algebra.trees import view_mentions
from headwater.model.errors import ViewSqlError
from headwater.model.names import ViewName


def references(parsed: ParsedView, names: Iterable[str]) -> tuple[ViewName, ...]:
    """The views, of these names, that a parsed view reads, in the order it mentions them. A view that is refused on
    sight reads nothing: defining it says why."""
    return tuple(_mentions(parsed, set(names)))


def in_order(parsed: Sequence[ParsedView]) -> list[ParsedView]:
    """The views, each after those it reads, and otherwise in the order given; raises ViewSqlError if some go in a
    circle."""
    names = {view.name for view in parsed}
    reads = [_mentions(view, names) for view in parsed]
    ordered: list[ParsedView] = []
    waiting = list(range(len(parsed)))
    while waiting:
        missing = {parsed[i].name for i in waiting}
        ready = next((i for i in waiting if missing.isdisjoint(reads[i])), None)
        if ready is None:
            raise _circle({parsed[i].name: parsed[i] for i in waiting}, {parsed[i].name: reads[i] for i in waiting})
        waiting.remove(ready)
        ordered.append(parsed[ready])
    return ordered


def _mentions(parsed: ParsedView, names: Collection[str]) -> dict[ViewName, exp.Table]:
    """The views it reads, each with its first mention."""
    try:
        check(parsed)
    except ViewSqlError:
        return {}
    found: dict[ViewName, exp.Table] = {}
    for table in _tables(parsed.select):
        meant = pick(names, table.name, str)
        if len(meant) == 1:
            found.setdefault(ViewName(meant[0]), table)
    return found


def _tables(query: exp.Expr) -> list[exp.Table]:
    """The names that may be views, as written, from left to right."""
    return sorted(view_mentions(query), key=lambda table: int(table.this.meta.get("start", 0)))


def _circle(views: Mapping[str, ParsedView], reads: Mapping[str, Mapping[ViewName, exp.Table]]) -> ViewSqlError:
    """Every view of these reads another of them, so following the first it reads ends in a circle."""
    path = [next(iter(views))]
    while path.count(path[-1]) == 1:
        path.append(next(name for name in reads[path[-1]] if name in views))
    circle = path[path.index(path[-1]) : -1]
    first = min(range(len(circle)), key=lambda i: list(views).index(circle[i]))
    circle = circle[first:] + circle[:first]
    view = views[circle[0]]
    mention = reads[view.name][ViewName(circle[1 % len(circle)])]
    if len(circle) == 1:
        return view.error(
            f"it reads itself: {view.name} → {view.name}", "name another view, or a table as source.table", mention
        )
    said = " → ".join(f"{views[name].name} ({views[name].file}:{views[name].line})" for name in circle)
    return view.error(
        f"views read each other in a circle: {said} → {view.name}",
        "let one of them read the tables that the others read, as source.table",
        mention,
    )
