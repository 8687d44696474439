"""What really happened, for the lab's checker: the numbered transactions, the states that readers could ask for, and
the cuts that they saw.

The tables are read as of the newest cut; what the journal holds is taken back from them, as far as the views' history
reaches:

    T(lo) = T(P) − changes of T in (lo, P]

Then transactions (lo, hi] are told one by one. If all views are complete, every number is a state that a reader may ask
for. Cuts are what a reader sees who asks for nothing: each shows every view up to some number, not the same for all.
Nothing of the wave takes part, and no JVM.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import pyarrow as pa
from deltalake import QueryBuilder

from headwater.algebra.bag import Bag
from headwater.algebra.view import ViewDefinition
from headwater.integrator.journal import Journal, read_changes
from headwater.model.changelog import COUNT, SEQ
from headwater.model.errors import HeadwaterError, UsageError
from headwater.model.names import Position, SourceName, TableName, ViewName
from headwater.model.schema import TableSchema
from headwater.runtime.project.project import Project
from headwater.runtime.reading.log import transactions
from headwater.warehouse.cuts import ViewState
from headwater.warehouse.delta import open_table
from headwater.warehouse.layout import log_folder
from headwater.warehouse.reading import plain

MOST = 200_000
"""So many rows of a table are recorded at most: a recording is for looking into, not for copying a database."""


@dataclass(frozen=True)
class Recorded:
    """One source's part of a numbered transaction."""

    seq: int
    source: str
    at: float
    changes: Mapping[TableName, Bag]
    part_of: str


@dataclass(frozen=True)
class RecordedCut:
    """Up to which transaction each view is shown, and the views' changes since the cut before; those of the first are
    since the recording's `content`."""

    number: int
    at: float
    shows: Mapping[str, int]
    changes: Mapping[str, Bag]


@dataclass(frozen=True)
class Recording:
    """`states` are the numbers that readers could ask for, with the views' changes since the one before; none, because
    of the views that are `not_complete`."""

    schemas: Mapping[TableName, pa.Schema]
    initial: Mapping[TableName, Bag]
    views: Sequence[ViewDefinition]
    content: Mapping[str, Bag]
    transactions: Sequence[Recorded]
    states: Sequence[tuple[int, Mapping[str, Bag]]]
    cuts: Sequence[RecordedCut]
    not_complete: Sequence[str]


def record(project: Project, names: Sequence[str] = (), last: int | None = None, inner: bool = False) -> Recording:
    """The last `last` transactions (None: all that are kept) of these views (empty: all of them). `inner`: also what
    views went through that skip states, number by number as their changelogs have it, though nobody can ask for it."""
    cut = project.cut()
    chosen = [cut.named(n) for n in names] or list(cut.views)
    views = _with_parents(chosen, project.views())
    states = {v.name: cut.views[v.name] for v in views if v.name in cut.views}
    if len(states) < len(views):
        missing = ", ".join(v.name for v in views if v.name not in states)
        raise UsageError(f"not maintained yet: {missing}", "run 'headwater run' first")
    journal = Journal(project.storage)
    hi = min((s.seq for s in states.values()), default=cut.seq)
    kept = journal.segments[0].lo if journal.segments else hi
    oldest = max([int(kept), *(s.horizon for s in states.values())])
    partial = [str(name) for name, state in states.items() if not state.every_transaction]
    cuts = _cuts(project, states, oldest)
    if partial and not inner:
        while last is not None and len(cuts) > 2 and min(cuts[1].shows.values()) <= hi - last:
            cuts = cuts[1:]  # at least `last` transactions: a state that skips some is not cut in two
        begin = cuts[0].shows if cuts else dict.fromkeys(states, hi)
    else:
        begin = dict.fromkeys(states, max(oldest, hi - last) if last is not None else oldest)
        cuts = [cut for cut in cuts if min(cut.shows.values()) >= min(begin.values())]
    end = {name: cuts[-1].shows[name] if cuts else hi for name in states}
    if begin == end:
        raise HeadwaterError("no transaction is kept to be recorded", "change something at a source, and try again")
    lo, top = min(begin.values()), max(end.values())
    newest = journal.reaching(top)
    assert newest is not None, "the cut's transactions are in the journal"
    schemas = _schemas(project, views)
    initial = {}
    for table in schemas:
        after = read_changes(project.storage, journal.between(lo, newest.hi), table, lo, newest.hi)
        now = _table(project, table, schemas[table], newest.positions)
        initial[table] = now - _bag(after, schemas[table].names)
    logs = {name: _folded(_log(project, state)) for name, state in states.items()}
    numbers: Sequence[int] = range(lo, lo if partial and not inner else hi + 1)
    if partial and inner:  # a number without a change is no state that the view went through
        numbers = [n for n in numbers if n in (lo, hi) or any(n in log for log in logs.values())]
    changes = _between(logs, [begin, *(cut.shows for cut in cuts)])
    return Recording(
        schemas,
        initial,
        views,
        {name: _sum(bag for seq, bag in log.items() if seq <= begin[name]) for name, log in logs.items()},
        _transactions(project, schemas, lo, top),
        list(zip(numbers[1:], _between(logs, [dict.fromkeys(states, n) for n in numbers]), strict=False)),
        [RecordedCut(c.number, c.at, _named(c.shows), own) for c, own in zip(cuts, changes, strict=True)],
        partial,
    )


def _with_parents(names: Sequence[ViewName], views: Mapping[ViewName, ViewDefinition]) -> list[ViewDefinition]:
    found: dict[ViewName, ViewDefinition] = {}

    def take(name: ViewName) -> None:
        if name not in views:
            raise UsageError(
                f"view {name} is maintained, but views/ does not define it any more", "run 'headwater apply'"
            )
        for parent in views[name].parents:
            take(parent)
        found.setdefault(name, views[name])

    for name in names:
        take(name)
    return list(found.values())


def _schemas(project: Project, views: Sequence[ViewDefinition]) -> dict[TableName, pa.Schema]:
    """The columns that the views use, table by table."""
    wanted: dict[TableName, dict[str, None]] = {}
    known: dict[TableName, TableSchema] = {}
    for view in views:
        known |= project.catalog.schemas(view)  # a view along a chain brings its chain with it
        for occurrence in view.occurrences:
            if not occurrence.table.is_view:
                wanted.setdefault(occurrence.table, {}).update(dict.fromkeys(occurrence.columns))
    return {
        table: pa.schema([(c.name, c.type) for c in known[table].supported() if c.name in columns])
        for table, columns in wanted.items()
    }


def _table(project: Project, table: TableName, schema: pa.Schema, positions: Mapping[SourceName, Position]) -> Bag:
    source = project.catalog.source(table.source)
    parts = [
        pa.table(batch)
        for chunk in source.chunks(table, MOST)
        for batch in source.scan(chunk, schema.names, positions[table.source])
    ]
    if sum(p.num_rows for p in parts) > MOST:
        raise HeadwaterError(
            f"{table} has more than {MOST:,} rows", "record a project with less data, or only views over smaller tables"
        )
    return _bag(pa.concat_tables([p.select([*schema.names, COUNT]) for p in parts]) if parts else None, schema.names)


def _bag(rows: pa.Table | None, columns: Sequence[str]) -> Bag:
    if rows is None or not rows.num_rows:
        return Bag()
    counts = rows.column(COUNT).to_pylist()
    values = [rows.column(c).to_pylist() for c in columns]
    return Bag.summed(zip(zip(*values, strict=True) if values else [()] * len(counts), counts, strict=True))


def _log(project: Project, state: ViewState) -> pa.Table:
    """A view's changelog."""
    delta = open_table(project.storage, log_folder(state.folder), state.version)
    return plain(pa.table(QueryBuilder().register("log", delta).execute("SELECT * FROM log").read_all()))


def _folded(log: pa.Table) -> dict[int, Bag]:
    """What each transaction did to a view."""
    columns = [c for c in log.column_names if c not in (COUNT, SEQ)]
    values = [log.column(c).to_pylist() for c in columns]
    rows = zip(*values, strict=True) if values else [()] * log.num_rows
    found: dict[int, list[tuple[Any, int]]] = {}
    for row, count, seq in zip(rows, log.column(COUNT).to_pylist(), log.column(SEQ).to_pylist(), strict=True):
        found.setdefault(seq, []).append((row, count))
    return {seq: Bag.summed(pairs) for seq, pairs in found.items()}


Shown = Mapping[ViewName, int]
"""Up to which transaction each view is shown in one state."""


class _Cut(NamedTuple):
    number: int
    at: float
    shows: Shown


def _cuts(project: Project, states: Mapping[ViewName, ViewState], oldest: int) -> list[_Cut]:
    """The cuts that readers could see, in which these views were what they are now."""
    found: list[_Cut] = []
    for cut in project.cuts.kept():
        if all(n in cut.views and cut.views[n].folder == state.folder for n, state in states.items()):
            shows = {n: int(cut.views[n].seq) for n in states}
            if min(shows.values()) >= oldest and (not found or shows != found[-1].shows):
                found.append(_Cut(cut.number, cut.at, shows))
    return found


def _between(logs: Mapping[ViewName, Mapping[int, Bag]], seen: Sequence[Shown]) -> list[dict[str, Bag]]:
    """What changed in the views from each of these states to the next."""
    return [
        {str(n): _sum(log[s] for s in range(before[n] + 1, shown[n] + 1) if s in log) for n, log in logs.items()}
        for before, shown in pairwise(seen)
    ]


def _named(shows: Shown) -> dict[str, int]:
    return {str(name): seq for name, seq in shows.items()}


def _sum(bags: Iterable[Bag]) -> Bag:
    return Bag.summed(pair for bag in bags for pair in bag)


def _transactions(project: Project, schemas: Mapping[TableName, pa.Schema], lo: int, hi: int) -> list[Recorded]:
    """Global transactions have one number at several sources."""
    found = []
    tables = {str(t): t for t in schemas}
    for transaction in transactions(project.storage, lo + 1, hi):
        changes: dict[TableName, list[tuple[Any, int]]] = {}
        for change in transaction["changes"]:
            table = tables.get(change["table"])
            if table is not None:
                row = tuple(change["row"][c] for c in schemas[table].names)
                changes.setdefault(table, []).append((row, change["count"]))
        bags = {t: Bag.summed(pairs) for t, pairs in changes.items()}
        part_of = str(transaction["seq"]) if transaction["global"] else ""
        at = transaction["committed_at"].timestamp() if transaction["committed_at"] else 0.0
        found.append(Recorded(transaction["seq"], transaction["source"], at, bags, part_of))
    return found
