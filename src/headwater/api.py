"""A project, opened: everything a person can do with Headwater, from Python as from the command line.

warehouse = headwater.open(".")
warehouse.read("open_orders", at=1042)      a Spark DataFrame
warehouse.query("SELECT …")                 an Arrow table, without a JVM
warehouse["open_orders"].at(1042)           one view at one state; a notebook shows its rows
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from headwater.integrator.journal import Journal
from headwater.model.errors import HeadwaterError, PositionTrimmed, WarehouseError
from headwater.model.names import Seq, SourceName, TableName, ViewName
from headwater.runtime.change.requests import HERE_AND_NOW, UNSEEN, Request, answer, ask, forget
from headwater.runtime.project.catalog import SourceCatalog
from headwater.runtime.project.config import Config, lineage_settings, load_config
from headwater.runtime.project.project import Project
from headwater.runtime.project.secrets import without_secrets
from headwater.runtime.reading.changes import Change, changes
from headwater.runtime.reading.handles import View
from headwater.runtime.reading.html import warehouse_html
from headwater.runtime.reading.log import transactions
from headwater.runtime.reading.moments import At
from headwater.runtime.reading.resolve import settled_views
from headwater.runtime.reading.sessions import Session
from headwater.runtime.reading.values import text
from headwater.sources.agent.adapter import AgentSource
from headwater.storage import Storage
from headwater.warehouse.cuts import Cut, CutLog
from headwater.warehouse.lock import Lock, holder
from headwater.warehouse.publishing import publish_view, published_folder
from headwater.warehouse.sessions import PinnedCut
from headwater.warehouse.verdicts import Verdict, record_verdicts

if TYPE_CHECKING:  # Spark and the parser are imported by those who use them: reading must answer at once
    from pyspark.sql import DataFrame, SparkSession

    from headwater.algebra.view import ViewDefinition
    from headwater.runtime.change.applying import ApplyPlan
    from headwater.runtime.engine import Engine
    from headwater.runtime.progress import Progress
    from headwater.runtime.project.plan import ViewPlan
    from headwater.runtime.reading.status import Status
    from headwater.runtime.reading.verify import Verification


class Warehouse:
    """What `headwater.open` gives: a project's views, and the ways to maintain, read and check them."""

    def __init__(self, config: Config) -> None:
        self.project = Project(config)
        self._spark: SparkSession | None = None

    # ------------------------------------------------------------ the project

    @property
    def config(self) -> Config:
        return self.project.config

    @property
    def storage(self) -> Storage:
        return self.project.storage

    @property
    def catalog(self) -> SourceCatalog:
        return self.project.catalog

    @property
    def cuts(self) -> CutLog:
        return self.project.cuts

    @property
    def spark(self) -> SparkSession:
        """The Spark session, started when it is first asked for."""
        if self._spark is None:
            from headwater.runtime.compute.spark import start_spark

            self._spark = start_spark(self.config)
        return self._spark

    def close(self) -> None:
        """Let go of the sources; they are connected to again when they are needed again. Spark goes on, for others."""
        self.catalog.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def views(self) -> dict[ViewName, ViewDefinition]:
        """The views of the project's SQL files, resolved against its sources."""
        return self.project.views()

    def cut(self, create: bool = False) -> Cut:
        """The newest cut; an error where nothing has been maintained yet."""
        return self.project.cut(create)

    def plans(self, names: Sequence[ViewName] | None = None) -> dict[ViewName, ViewPlan]:
        """The views with the types Spark gives them."""
        from headwater.runtime.compute.planning import plan_views

        planned = plan_views(self.spark, self.views, {n: self.catalog.schemas(v) for n, v in self.views.items()})
        return {n: plan for n, plan in planned.items() if names is None or n in names}

    def tables(self) -> dict[SourceName, list[TableName]]:
        """The tables that views use, per source."""
        return self.project.tables()

    def setup(self) -> dict[SourceName, list[str]]:
        """Install capture for every table a view uses; says what was done."""
        self.project.claim()
        return {source: self.catalog.source(source).install(tables) for source, tables in self.tables().items()}

    def teardown(self) -> dict[SourceName, list[str]]:
        """Remove this project's capture from all sources; says what was done."""
        done = {name: self.catalog.source(name).remove() for name in self.config.sources}
        self._keep_chains([])
        return done

    def _keep_chains(self, chains: Sequence[SourceName]) -> None:
        """Agents forget the windows of all other chains."""
        for name, spec in self.config.sources.items():
            source = self.catalog.source(name)
            if spec.chained and isinstance(source, AgentSource):
                source.chain("keep", None, 0, [str(chain) for chain in chains])

    def _views_in_use(self) -> list[ViewDefinition]:
        from headwater.runtime.change.maintained import maintained_views

        maintained = maintained_views(self.storage, self.cut(create=True), self.catalog).views
        return [*self.views.values(), *maintained.values()]

    def tables_in_use(self) -> dict[SourceName, list[TableName]]:
        """Per source, the tables that views use: those of views/, and those that are maintained."""
        used = [t for view in self._views_in_use() for t in view.captured_tables]
        return {name: sorted({t for t in used if t.source == name}) for name in self.config.sources}

    def release(self) -> dict[SourceName, list[str]]:
        """Stop capturing tables that no view of the project uses any more; says what was done."""
        done = {name: self.catalog.source(name).release(keep) for name, keep in self.tables_in_use().items()}
        self._keep_chains([view.chain.source for view in self._views_in_use() if view.chain is not None])
        return done

    # ---------------------------------------------------------------- running

    def engine(self, progress: Progress | None = None) -> Engine:
        """What `run` uses, for those who want to take its steps themselves: a context manager."""
        from headwater.runtime.compute.machinery import spark_machinery
        from headwater.runtime.engine import Engine

        self.project.claim()
        return Engine(self.config, spark_machinery(self.config, self.spark, self.catalog), self.catalog, progress)

    def check_free(self) -> None:
        """Refuse early, before Spark starts, what `run` would refuse: a warehouse that somebody maintains already, and
        settings that only a run needs."""
        lineage_settings(self.config)
        if holder(self.storage) is not None:
            with Lock(self.storage, ""):
                pass

    def run(
        self,
        until_caught_up: bool = False,
        progress: Progress | None = None,
        started: Callable[[Engine], None] | None = None,
        apply: bool = False,
        without: Sequence[str] = (),
    ) -> Cut:
        """Load new views and maintain all of them, until stopped or caught up. Returns the last cut. Views whose files
        were edited or deleted go on as they are, unless `apply` says that views/ counts. `without`: sources that
        catching up does not wait for."""
        leave_out = [self.catalog.spec(name).name for name in without]
        self.catalog.recall_from(self.storage)
        with self.engine(progress) as engine:
            if started:
                started(engine)
            self._start(engine, apply)
            engine.run(until_caught_up, leave_out)
            return engine.cut

    def _start(self, engine: Engine, apply: bool, build: bool = True) -> None:
        from headwater.runtime.change.maintained import to_apply, to_go_on

        cut = self.cuts.newest()
        if apply or not cut.views:
            todo = to_apply(engine.plan, self.config, self.catalog, (self.storage, cut))
        else:
            todo = to_go_on(engine.plan, self.config, self.catalog, (self.storage, cut))
        for note in todo.notes:
            engine.meter.note(note)
        engine.start(todo.plans, build, replace=apply or not cut.views, unresolved=todo.unresolved)

    def _here(self, work: Callable[[Engine], None], apply: bool = False, build: bool = True) -> None:
        """Do something with the views here and now, where nothing runs."""
        with self.engine() as engine:
            self._start(engine, apply, build)
            work(engine)
            engine.build()

    def plan_apply(self) -> ApplyPlan:
        """What `apply` would do; changes nothing, starts no JVM."""
        from headwater.runtime.change.applying import plan_apply

        return plan_apply(self.project)

    def apply(self, plan: ApplyPlan, heard: Callable[[str], None] = lambda phase: None) -> None:
        """Bring the maintained views in line with views/: a running `headwater run` does it without stopping the
        others, else it is done here. Returns when the change is shown; raises what kept it from being made."""
        self.project.claim()
        for source, lines in plan.capture.items():
            if lines:
                self.catalog.source(source).install(self.tables()[source])
        if holder(self.storage) is None:
            heard(HERE_AND_NOW)
            self._here(lambda engine: None, apply=True)
            return
        self._ask(Request("apply", wanted=plan.wanted), heard)

    def rebuild(self, views: Sequence[str], heard: Callable[[str], None] = lambda phase: None) -> None:
        """Load these views again, and those that read them; the others go on meanwhile."""
        names = [self.cut().named(name) for name in views]
        if holder(self.storage) is not None:
            self._ask(Request("rebuild", views=names), heard)
            return
        heard(HERE_AND_NOW)
        self._here(lambda engine: engine.do(Request("rebuild", views=names)), build=False)

    def resume(self, views: Sequence[str], heard: Callable[[str], None] = lambda phase: None) -> None:
        """Let halted views go on from where they stopped."""
        names = [self.cut().named(name) for name in views]
        if holder(self.storage) is not None:
            self._ask(Request("resume", views=names), heard)
        else:
            heard(HERE_AND_NOW)
            self._here(lambda engine: engine.do(Request("resume", views=names)), build=False)
        for name in names:
            state = self.cut().views[name]
            if state.state != "live":
                raise HeadwaterError(f"view {name} is still halted: {state.reason}", state.fix)

    def _ask(self, wanted: Request, heard: Callable[[str], None]) -> None:
        request = ask(self.storage, wanted)
        try:
            while (said := answer(self.storage, request)) is None or not said.final:
                heard(UNSEEN if said is None else said.said or said.state)
                if holder(self.storage) is None:
                    raise WarehouseError("the run that was asked has ended", "say it again")
                time.sleep(0.1)
            if said.state == "failed":
                raise HeadwaterError(said.said, said.fix)
        finally:
            forget(self.storage, request)

    def compact(self) -> dict[str, tuple[int, int]]:
        """Fold history up to the horizon; rows before and after, per view."""
        with self.engine() as engine:
            self._start(engine, apply=False, build=False)
            return {str(name): rows for name, rows in engine.compact().items()}

    def publish(self) -> dict[str, str]:
        """Refresh the plain tables at the newest cut; where each is."""
        cut = self.cut()
        for name, pinned in self._session(cut, None).resolved().items():
            publish_view(self.storage, name, pinned, cut)
        return {name: self.storage.uri(published_folder(name)) for name in cut.views}

    # ---------------------------------------------------------------- reading

    def _session(self, cut: Cut, at: At) -> Session:
        return Session(self.project, cut, at, lambda: self.spark)

    @contextmanager
    def session(self, at: At = None) -> Iterator[Session]:
        """One state for any number of reads, kept from clean-up while it is open."""
        session = self._session(self.cut(), at)
        pin = PinnedCut(self.storage, session.cut, session.oldest())
        try:
            yield session
        finally:
            pin.close()

    def __getitem__(self, view: str) -> View:
        """A maintained view by its name: its rows, its changes, at the newest cut or `.at(1042)`."""
        return View(self.cut().named(view), lambda at: self._session(self.cut(), at), self.changes)

    def __iter__(self) -> Iterator[ViewName]:
        """The names of the views that are maintained."""
        return iter(self.cut(create=True).views)

    def __contains__(self, view: object) -> bool:
        return view in self.cut(create=True).views

    def __repr__(self) -> str:
        return f"<warehouse of {self.config.folder}>"

    def _repr_html_(self) -> str:
        """The views of the newest cut, for a notebook; asks no source."""
        return warehouse_html(self.config.folder.name, self.cut(create=True))

    def halted(self) -> dict[ViewName, str]:
        """The views that are not maintained any more, and why; reading one of them warns with `ViewHalted`."""
        return self._session(self.cut(), None).halted()

    def read(self, view: str, at: At = None) -> DataFrame:
        """A view's rows at the newest cut or at `at`, as a Spark DataFrame."""
        return self._session(self.cut(), at).read(view)

    def sql(self, query: str, at: At = None) -> DataFrame:
        """Any Spark SQL over all views at one state."""
        return self._session(self.cut(), at).sql(query)

    def rows(
        self, view: str, at: At = None, limit: int | None = None, where: Mapping[str, object] | None = None
    ) -> pa.Table:
        """`where`: only rows whose columns have these values; they are looked up by key."""
        return self._session(self.cut(), at).rows(view, limit, where)

    @contextmanager
    def scan(self, view: str, at: At = None) -> Iterator[pa.RecordBatchReader]:
        """All rows of a view as Arrow batches, in no particular order, as they are read: for views that are larger
        than memory, and for whoever needs no order. Its files are kept from clean-up meanwhile."""
        with self.session(at) as session:
            yield session.scan(view)

    def columns(self, view: str) -> pa.Schema:
        """The columns of a view and their types."""
        return self._session(self.cut(), None).columns(view)

    def query(self, sql: str, at: At = None) -> pa.Table:
        return self._session(self.cut(), at).query(sql)

    def numbered(self) -> Seq:
        """The newest transaction that has a number; the newest cut may not hold it yet."""
        cut, last = self.cut(), Journal(self.storage).newest
        return Seq(max(cut.seq, last.hi if last else 0))

    def log(self, first: int | None = None, last: int | None = None) -> Iterator[dict[str, Any]]:
        """The numbered source transactions (first … last, inclusive) with their changes, as far as they are kept."""
        self.cut()
        return transactions(self.storage, first, last)

    def changes(self, view: str, after: int | None = None, follow: bool = False) -> Iterator[Change]:
        """What happened to a view after transaction `after` (None: after the newest one shown): every transaction that
        changed it once, in order. Remember the last `seq` to go on from there. `follow`: wait for more, for ever."""
        return changes(self.project, view, after, follow)

    # --------------------------------------------------------------- checking

    def status(self, rows: bool = False) -> Status:
        """How far sources, views and the warehouse are; connects to the sources, starts no JVM. `rows` says to count
        the rows of large views too."""
        from headwater.runtime.reading.status import take_status

        return take_status(self.project, rows)

    def verify(
        self,
        views: Sequence[str] = (),
        at: At = None,
        progress: Callable[[int, int | None], None] = lambda rows, total: None,
    ) -> list[Verification]:
        """Recompute views from the sources as of exactly their cut, and compare as bags. What is found is kept beside
        the views: the page and `headwater check` know of it."""
        found = self._verified(views, at, progress)
        record_verdicts(self.storage, [_kept(v) for v in found])
        return found

    def _verified(
        self, views: Sequence[str], at: At, progress: Callable[[int, int | None], None]
    ) -> list[Verification]:
        from headwater.runtime.change.maintained import maintained_views, plan_each
        from headwater.runtime.compute.planning import plan_view
        from headwater.runtime.reading.verify import Verifier

        for _ in range(3):
            session = self._session(self.cut(), at)
            pin = PinnedCut(self.storage, session.cut, session.oldest())
            try:
                names = [pin.cut.named(v) for v in views] or list(pin.cut.views)
                pinned = settled_views(pin.cut, names) if at is None else session.pinned(names)
                defined = maintained_views(self.storage, pin.cut, self.catalog)
                plans, refused = plan_each(partial(plan_view, self.spark), defined.views, self.catalog)
                errors = {**defined.errors, **refused}
                for name in names:
                    if name in errors and (views or not plans):
                        raise errors[name]
                verifier = Verifier(self.spark, self.config, self.catalog, pin.cut)
                found = verifier.verify([plans[n] for n in names if n in plans], pinned, progress)
                return [*found, *(verifier.unverified(n, pinned[n], errors.get(n)) for n in names if n not in plans)]
            except PositionTrimmed:
                continue  # the run moved on before our pin was seen: take a newer cut
            finally:
                pin.close()
        raise WarehouseError("the views change faster than they can be pinned", "try again")


def open_warehouse(path: str | Path = ".") -> Warehouse:
    """Open the project at `path` or above it."""
    return Warehouse(load_config(path))


def _kept(found: Verification) -> Verdict:
    """What is remembered of a verification."""
    problem = without_secrets(found.problem)
    missing, extra = (tuple(map(_said, rows[:WITNESSES])) for rows in (found.missing, found.extra))
    return Verdict(
        found.view, found.seq, time.time(), found.ok, found.rows, found.differing, problem, missing, extra
    )  # fmt: skip


WITNESSES = 10
"""So many rows that differ are remembered, of each kind."""


def _said(row: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {'NULL' if value is None else text(value)}" for name, value in row.items())[:500]
