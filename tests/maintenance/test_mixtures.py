"""Whatever is kept, asked together, shared or foreseen: the same states, transaction by transaction.

One query, written as several views that each keep something else, over one history: nothing, joins of groups, copies,
what sources that must not be asked need. Tables of one source are asked together or one by one, answers are shared or
not, copies are waited for or foreseen: the seed mixes. All of it goes through the programs of Spark's tasks, with
journal, files and indexes as in a run; every state of every view is compared with the query, recomputed.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headwater.algebra import Bag, Relation, ViewDefinition, parse_views
from headwater.algebra.evaluate import evaluate_all
from headwater.algebra.view import is_copy
from headwater.integrator.journal import Journal, Segment
from headwater.maintenance.keeping.choose import define_each
from headwater.maintenance.keeping.known import Keeping
from headwater.maintenance.wave import core_schema
from headwater.model.changelog import COUNT, SEQ, fold
from headwater.model.names import TableName, ViewName, view_table
from headwater.runtime.compute import asking
from headwater.runtime.compute.answers import Answers, Wider
from headwater.runtime.compute.wave_work import ParentFiles, WaveWork
from headwater.runtime.compute.waves import contraction, core_changes
from headwater.storage import Storage
from headwater.warehouse.table import write_file

from .histories import Scenario, Wanted, scenario
from .oracle import Aggregated, Memory, Played, State, bag_of, evaluated, output, played, shown, spark_types
from .test_wave_oracle import journalled, states_of

Views = Mapping[ViewName, ViewDefinition]
MARKS = (pa.field(COUNT, pa.int64()), pa.field(SEQ, pa.int64()))


@dataclass
class Kept:
    """One view as it is maintained: its files so far, and what its groups keep."""

    view: ViewDefinition
    schema: pa.Schema
    groups: Aggregated | None = None
    paths: list[tuple[str, int, int]] = field(default_factory=list)


@dataclass
class Mixture:
    """A scenario, maintained as the seed says. `met` counts what took part."""

    world: Played
    storage: Storage
    random: Random
    met: Counter[str]
    kept: dict[ViewName, Kept] = field(default_factory=dict)

    def views(self) -> tuple[Views, set[str]]:
        """The query, written as several views, and all that is kept for them; the sources that are not asked."""
        r, sql = self.random, self.world.scenario.sql
        tables = len(self.world.view().occurrences)
        said = []
        for n in range(r.randint(2, 4)):
            how = r.choice(("none", "none", "equal", "frequency", "all", "none"))
            groups = f", groups = {r.randint(1, tables)}" if how in ("equal", "frequency") else ""
            said.append(f"CREATE MATERIALIZED VIEW v{n} WITH (auxiliary = '{how}'{groups}) AS {sql};")
        unasked = {s for s in self.world.sources if r.random() < 0.15}
        changes = {t: r.randint(0, 50) for t in self.world.types}
        made = define_each(parse_views("\n".join(said), "v.sql"), Memory(self.world.sources),
                           keeping=Keeping(unasked=frozenset(unasked), changes=changes))  # fmt: skip
        assert not made.errors, made.errors
        self.met["kept"] += len(made.views) - len(said)
        return made.views, unasked  # type: ignore[return-value]

    def schemas(self, view: ViewDefinition) -> dict[TableName, pa.Schema]:
        found = {t: s for t, s in self._used(view).items() if not t.is_view}
        for parent in view.parents:
            rows = self.kept[parent].schema
            found[view_table(parent)] = pa.schema([f for f in rows if f.name not in (COUNT, SEQ)])
        return found

    def _used(self, view: ViewDefinition) -> dict[TableName, pa.Schema]:
        mentions = [(o.table, c) for o in view.occurrences for c in (*o.columns, *(k.column for k in o.conditions))]
        return {t: pa.schema([f for f in self.world.types[t] if (t, f.name) in mentions]) for t in view.base_tables}

    def load(self, views: Views, state: State) -> None:
        known = evaluate_all(views.values(), state)
        tables = {**state, **{view_table(n): Relation(views[n].columns, bag) for n, bag in known.items()}}
        for name, view in views.items():
            core = core_schema(view, self.schemas(view))
            if view.aggregation is None:
                fields = [pa.field(o.name, core.field(o.expression.strip("`")).type) for o in view.outputs]
                self.kept[name] = Kept(view, pa.schema([*fields, *MARKS]))
                rows = _table(known[name], self.kept[name].schema)
            else:
                groups = Aggregated(view, spark_types(view, core))
                inner = (*view.aggregation.keys, *view.aggregation.arguments)
                bag = evaluate_all([replace(view, aggregation=None, outputs=inner)], tables)[name]
                rows = shown(view, groups.batch(_table(bag, groups.schema), 0, first=True))
                self.kept[name] = Kept(view, rows.schema, groups)
            self._write(name, rows)

    def _write(self, name: ViewName, rows: pa.Table) -> None:
        if rows.num_rows:
            self.storage.make_folder(name)
            file = write_file(self.storage, name, rows, "f")
            self.kept[name].paths.append((self.storage.path(f"{name}/{file.name}"), file.low, file.high))

    def batch(self, segments: Sequence[Segment], views: Views, unasked: set[str]) -> None:
        together, shared = self.random.random() < 0.5, self.random.random() < 0.7
        lo, hi = segments[0].lo, segments[-1].hi
        wider = self._wider(views) if shared else {}
        works: dict[ViewName, WaveWork] = {}
        for name, view in views.items():
            schemas = self.schemas(view)
            works[name] = work = WaveWork(
                view=view, storage=self.storage, segments=tuple(segments), lo=lo, hi=hi,
                positions=segments[-1].positions, schemas=schemas,
                specs={s: spec for s, spec in self.world.specs.items() if s not in unasked},
                sizes=dict.fromkeys(view.tables, self.random.choice((10**9, 10**9, 0))), join_at_sources=together,
                parents={view_table(p): self._parent(works[p], self.kept[p]) for p in view.parents}, wider=wider,
            )  # fmt: skip
            self.met["together"] += contraction(work) is not None
            core, tally = core_changes(work)
            for what in ("saved", "shared", "questions"):
                self.met[what] += getattr(tally, what)
            rows, one = output(view, core), self.kept[name]
            if one.groups is not None:
                rows = shown(view, one.groups.batch(rows, hi))
            self._write(name, rows.cast(one.schema))

    def _parent(self, work: WaveWork, parent: Kept) -> ParentFiles:
        """Its files up to the batch's end; or, of a copy, up to its beginning, and what it is going to write."""
        foreseen = is_copy(parent.view) and self.random.random() < 0.5
        self.met["foreseen"] += foreseen
        mine = [(path, low, high) for path, low, high in parent.paths if low <= (work.lo if foreseen else work.hi)]
        changes = tuple(path for path, _, high in mine if high > work.lo)
        return ParentFiles(changes, tuple(path for path, _, _ in mine), work if foreseen else None)

    def _wider(self, views: Views) -> dict[tuple[TableName, tuple[object, ...]], Wider]:
        found: dict[tuple[TableName, tuple[object, ...]], set[str]] = {}
        for view in views.values():
            for o in view.occurrences:
                if not o.table.is_view:
                    found.setdefault((o.table, o.conditions), set()).update(o.columns)
        return {
            mention: Wider(pa.schema([f for f in self.world.types[mention[0]] if f.name in columns]), {})
            for mention, columns in found.items()
        }

    def log(self, name: ViewName) -> pa.Table:
        schema, paths = self.kept[name].schema, [path for path, _, _ in self.kept[name].paths]
        return pa.concat_tables(
            [schema.empty_table(), *(pq.read_table(p, partitioning=None).cast(schema) for p in paths)]
        )


def _table(bag: Bag, schema: pa.Schema) -> pa.Table:
    rows = [(*row, count, 0) for row, count in bag]
    return pa.table([pa.array([row[i] for row in rows], f.type) for i, f in enumerate(schema)], schema=schema)


def _batches(segments: Sequence[Segment], random: Random) -> Iterator[Sequence[Segment]]:
    while segments:
        size = random.randint(1, 3)
        yield segments[:size]
        segments = segments[size:]


def mixed(seed: int, met: Counter[str]) -> str | None:
    random = Random(seed)
    wanted = Wanted(joined=random.random() < 0.85, kind=random.choice(("plain", "plain", "grouped", "distinct")))
    history: Scenario = scenario(seed, wanted)
    with played(history) as world, tempfile.TemporaryDirectory() as folder:
        view, journal = world.view(), Journal(Storage(folder))
        journalled(world, view, journal, [random.choice((5, 8)), 12])
        states = states_of(world, journal)
        mixture = Mixture(world, Storage(folder), random, met)
        views, unasked = mixture.views()
        mixture.load(views, states[0])
        for segments in _batches(list(journal.segments), random):
            mixture.batch(segments, views, unasked)
        for name in (name for name in views if views[name].kept_for is None):
            log = mixture.log(name)
            for seq, state in enumerate(states):
                if bag_of(fold(log, seq)) != evaluated(view, state):
                    return f"seed {seed}, {name} at {seq}\n{history}"
    return None


@pytest.fixture(autouse=True)
def nothing_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "ANSWERS", Answers())


@pytest.mark.parametrize("share", range(3))
def test_the_same_states_whatever_is_kept(share: int) -> None:
    met = Counter[str]()
    for seed in range(share, 60, 3):
        assert (wrong := mixed(seed, met)) is None, wrong
    assert min(met[what] for what in ("kept", "together", "saved", "shared", "questions", "foreseen")) > 0, met
