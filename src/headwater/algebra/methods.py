"""Who maintains a view: `maintenance = '…'`, one of the published algorithms; the wave if nothing is said.

    value          gives at most   of each source
    wave           complete        any number of tables; any query
    sweep          complete        one table, once
    pvm-cc         complete        one table, once; `parallel` updates at a time
    nested-sweep   strong          one table, once
    tid            strong          any number of tables
    pvm            convergent      one table, once; `parallel` updates at a time
    pull-push      strong          one table, once, and an agent; joined with its neighbours only; a state a `window`
    pure-push      strong          as pull-push

What an algorithm cannot keep is refused when the view is defined: a promise above its level, a query that is not a join
of tables, a transaction that could touch two of its tables at a source where it knows of one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headwater.algebra.conditions import kind_of
from headwater.algebra.statements import ParsedView
from headwater.algebra.view import ViewDefinition
from headwater.model.consistency import Level
from headwater.model.errors import UnknownName, ViewSqlError
from headwater.model.names import TableName
from headwater.model.schema import TableSchema
from headwater.model.spans import seconds_of

MAINTENANCE, PARALLEL, WINDOW = "maintenance", "parallel", "window"
CHAIN = "chain"
"""In the stored statement of a view over a chain: the join that its agents bring about."""
WAVE = "wave"
UPDATES_AT_ONCE = 4
"""The default of `parallel`."""
MOST_AT_ONCE = 64
WINDOW_SECONDS = 10.0
"""The default of `window`."""


@dataclass(frozen=True)
class Method:
    """`level` is the most that it gives, `why` says why not more. `apart`: each source has one table in the view.
    `chained`: agents beside the sources do the work between themselves."""

    title: str
    level: Level
    why: str = ""
    apart: bool = True
    parallel: bool = False
    chained: bool = False


METHODS: Mapping[str, Method] = {
    WAVE: Method("the wave", Level.COMPLETE, apart=False),
    "sweep": Method("SWEEP", Level.COMPLETE),
    "nested-sweep": Method("Nested SWEEP", Level.STRONG, "it handles updates that meet as one"),
    "pvm": Method("PVM", Level.CONVERGENT, "its states in between need not be states of the sources", parallel=True),
    "pvm-cc": Method("PVM CC", Level.COMPLETE, parallel=True),
    "tid": Method("the TID rules", Level.STRONG, "a session handles all updates that wait as one", apart=False),
    "pull-push": Method("Interleaved Pull-Push", Level.STRONG, "the updates of a window are one", chained=True),
    "pure-push": Method("Pure-Push", Level.STRONG, "the updates of a window are one", chained=True),
}
_ORDER = (Level.COMPLETE, Level.STRONG, Level.CONVERGENT)
_NOUNS = {Level.COMPLETE: "completeness", Level.STRONG: "strong consistency", Level.CONVERGENT: "convergence"}


@dataclass(frozen=True)
class Chosen:
    """What a view's options say of its maintenance."""

    name: str = WAVE
    parallel: int = 1

    @property
    def method(self) -> Method:
        return METHODS[self.name]


def chosen(parsed: ParsedView, level: Level) -> Chosen:
    """Who is to maintain a view that promises this; raises UnknownName or ViewSqlError."""
    said = parsed.options.get(MAINTENANCE, WAVE)
    name = said.lower()
    if name not in METHODS:
        where = f"of view {parsed.name} at {parsed.option_place(MAINTENANCE)}"
        raise UnknownName(f"value of option {MAINTENANCE}", said, METHODS, where)
    method = METHODS[name]
    if PARALLEL in parsed.options and not method.parallel:
        who = ", ".join(f"'{n}'" for n, m in METHODS.items() if m.parallel)
        raise parsed.option_error(
            PARALLEL,
            f"option parallel says how many updates are handled at a time, and {method.title} handles one",
            f"remove parallel, or write maintenance = {who.replace(', ', ' or ')}",
        )
    if WINDOW in parsed.options and not method.chained:
        who = " or ".join(f"'{n}'" for n, m in METHODS.items() if m.chained)
        raise parsed.option_error(
            WINDOW,
            f"option window says how often agents pass their updates on, and {method.title} asks sources by itself",
            f"remove window, or write maintenance = {who}",
        )
    if method.chained:
        window_of(parsed)
    if name == WAVE:
        return Chosen()
    _check_promise(parsed, name, level)
    return Chosen(name, _parallel(parsed) if method.parallel else 1)


def window_of(parsed: ParsedView) -> float:
    """Update_Window, in seconds."""
    text = parsed.options.get(WINDOW, f"{WINDOW_SECONDS:g} s")
    found = seconds_of(text)
    if found is None or found > 7 * 86400:
        raise parsed.option_error(
            WINDOW, f"option window = '{text}' is no span of time up to a week", "write it as '10 s' or '5 min'"
        )
    return found


def _parallel(parsed: ParsedView) -> int:
    text = parsed.options.get(PARALLEL, str(UPDATES_AT_ONCE))
    if not re.fullmatch(r"\+?[0-9]{1,5}", text) or not 1 <= int(text) <= MOST_AT_ONCE:
        raise parsed.option_error(
            PARALLEL,
            f"option parallel = {text} is not a whole number from 1 to {MOST_AT_ONCE}",
            f"write how many updates are handled at a time, such as parallel = {UPDATES_AT_ONCE}",
        )
    return int(text)


def _check_promise(parsed: ParsedView, name: str, level: Level) -> None:
    method, options = METHODS[name], parsed.options
    if level is Level.PERIODIC:
        raise parsed.option_error(
            MAINTENANCE,
            f"a periodic view is recomputed, so {method.title} would have nothing to do",
            f"remove maintenance, or write consistency = '{method.level.value}'",
        )
    if _ORDER.index(level) < _ORDER.index(method.level):
        others = [f"'{n}'" for n, m in METHODS.items() if n != WAVE and _ORDER.index(m.level) <= _ORDER.index(level)]
        raise parsed.option_error(
            MAINTENANCE,
            f"what {method.title} can give is {_NOUNS[method.level]} ({method.why}), and this view promises to be"
            f" {level.value}",
            f"write consistency = '{method.level.value}', or maintenance = {' or '.join(others)}",
        )
    if options.get("every", "1").lstrip("+0") != "1":
        raise parsed.option_error(
            "every", f"{method.title} does not know every, which counts the states of the wave", "remove every"
        )
    if options.get("auxiliary", "none").lower() != "none":
        raise parsed.option_error(
            "auxiliary", f"{method.title} asks the sources for all that it needs, and keeps nothing", "remove auxiliary"
        )


def refuse_tree(parsed: ParsedView, who: Chosen) -> None:
    """A query that is more than a join of tables and one grouping."""
    if who.name != WAVE:
        raise _refused(parsed, f"{who.method.title} maintains joins of tables (and a grouping over them), not more")


def check_shape(parsed: ParsedView, who: Chosen, view: ViewDefinition, tables: Sequence[TableSchema]) -> None:
    """Whether the algorithm can maintain this join; `tables` are those of the occurrences. Raises ViewSqlError."""
    if who.name == WAVE or CHAIN in parsed.options:
        return
    method = who.method
    if view.parents:
        raise _refused(parsed, f"it reads the view {view.parents[0]}, and {method.title} knows tables of sources only")
    if method.apart:
        _check_apart(parsed, method, view)
    if method.chained:
        _check_neighbours(parsed, method, view)
    alone = _unreached(view)
    if alone:
        raise _refused(
            parsed,
            f"no equality joins {alone} with the others, so {method.title} would read all of it for every update",
        )
    for equality in view.equalities:
        for i, column in (equality.left, equality.right):
            found = tables[i].column(column)
            if found is not None and kind_of(found.type) == "float":
                raise _refused(
                    parsed,
                    f"it joins on {view.occurrences[i].core(column)}, a floating-point number, and {method.title}"
                    " compares exact values only",
                )


def _check_apart(parsed: ParsedView, method: Method, view: ViewDefinition) -> None:
    seen: dict[str, TableName] = {}
    for table in (occurrence.table for occurrence in view.occurrences):
        other = seen.get(str(table.source))
        if other is None:
            seen[str(table.source)] = table
            continue
        what = (
            f"it names {table} twice, so one change is two of its updates"
            if other == table
            else f"{other} and {table} are tables of one source, so one transaction can change both"
        )
        raise _refused(
            parsed, f"{what}; {method.title} knows one table per source and transaction", "maintenance = 'tid', or "
        )


def _check_neighbours(parsed: ParsedView, method: Method, view: ViewDefinition) -> None:
    for equality in view.equalities:
        a, b = sorted((equality.left[0], equality.right[0]))
        if b - a != 1:
            one, other = view.occurrences[a].alias, view.occurrences[b].alias
            raise _refused(
                parsed,
                f"it joins {one} with {other}, which do not stand side by side in FROM; {method.title} goes along a"
                " chain of tables, each joined with the one before it",
                "the tables in the order in which they join, or ",
            )


def _unreached(view: ViewDefinition) -> str:
    """The alias of an occurrence that no equality joins with the first, however many others lie between; or nothing."""
    reached, found = {0}, True
    while found:
        found = False
        for equality in view.equalities:
            ends = {equality.left[0], equality.right[0]}
            if len(ends & reached) == 1:
                reached |= ends
                found = True
    return next((o.alias for i, o in enumerate(view.occurrences) if i not in reached), "")


def _refused(parsed: ParsedView, what: str, instead: str = "") -> ViewSqlError:
    return parsed.option_error(MAINTENANCE, what, f"write {instead}maintenance = 'wave', which knows every query")
