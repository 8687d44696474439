"""A project, opened: everything a person can do with Headwater, from Python as from the command line.

warehouse = headwater.open(".")
warehouse.read("open_orders", at=1042)      a Spark DataFrame
warehouse.query("SELECT …")                 an Arrow table, without a JVM
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headwater.integrator.journal import Journal, read_changes
from headwater.model.changelog import COUNT, SEQ
from headwater.model.errors import HeadwaterError, HistoryGone, PositionTrimmed, WarehouseError
from headwater.model.names import Seq, SourceName, TableName, ViewName
from headwater.runtime.catalog import SourceCatalog, define_views
from headwater.runtime.config import Config, load_config
from headwater.runtime.moments import At
from headwater.runtime.requests import HERE_AND_NOW, UNSEEN, answer, ask, forget
from headwater.runtime.resolve import find_view, settled_views
from headwater.runtime.sessions import Session
from headwater.runtime.status import Status, take_status
from headwater.storage import Storage
from headwater.warehouse.cuts import Cut, CutLog
from headwater.warehouse.format import check_format
from headwater.warehouse.lock import Lock, holder
from headwater.warehouse.publishing import publish_view, published_folder
from headwater.warehouse.sessions import PinnedCut

if TYPE_CHECKING:  # Spark and the parser are imported by those who use them: reading must answer at once
    from pyspark.sql import DataFrame, SparkSession

    from headwater.algebra.view import ViewDefinition
    from headwater.runtime.applying import ApplyPlan
    from headwater.runtime.engine import Engine
    from headwater.runtime.plans import ViewPlan
    from headwater.runtime.progress import Progress
    from headwater.runtime.verify import Verification


class Warehouse:
    """What `headwater.open` gives: a project's views, and the ways to maintain, read and check them."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.storage = Storage(config.warehouse)
        self.cuts = CutLog(self.storage)
        self.catalog = SourceCatalog(config)
        self._spark: SparkSession | None = None
        self._views: dict[ViewName, ViewDefinition] | None = None

    # ------------------------------------------------------------ the project

    @property
    def spark(self) -> SparkSession:
        if self._spark is None:
            from headwater.runtime.spark import start_spark

            self._spark = start_spark(self.config)
        return self._spark

    @property
    def views(self) -> dict[ViewName, ViewDefinition]:
        """The views of the project's SQL files, resolved against its sources."""
        if self._views is None:
            self._views = define_views(self.config, self.catalog)
        return self._views

    def plans(self, names: Sequence[ViewName] | None = None) -> dict[ViewName, ViewPlan]:
        """The views with the types Spark gives them."""
        from headwater.runtime.plans import plan_views

        planned = plan_views(self.spark, self.views, {n: self.catalog.schemas(v) for n, v in self.views.items()})
        return {n: plan for n, plan in planned.items() if names is None or n in names}

    def tables(self) -> dict[SourceName, list[TableName]]:
        """The tables that views use, per source."""
        result: dict[SourceName, list[TableName]] = {}
        for view in self.views.values():
            for table in view.base_tables:
                known = result.setdefault(table.source, [])
                if table not in known:
                    known.append(table)
        return {source: sorted(tables) for source, tables in sorted(result.items())}

    def setup(self) -> dict[SourceName, list[str]]:
        """Install capture for every table a view uses; says what was done."""
        return {source: self.catalog.source(source).install(tables) for source, tables in self.tables().items()}

    def teardown(self) -> dict[SourceName, list[str]]:
        """Remove all capture from all sources; says what was done."""
        return {name: self.catalog.source(name).remove() for name in self.config.sources}

    # ---------------------------------------------------------------- running

    def check_free(self) -> None:
        """Refuse early, before Spark starts, what `run` would refuse: a warehouse that somebody maintains already."""
        if holder(self.storage) is not None:
            Lock(self.storage, "").acquire()

    def run(
        self,
        until_caught_up: bool = False,
        progress: Progress | None = None,
        started: Callable[[Engine], None] | None = None,
    ) -> Cut:
        """Load new views and maintain all of them, until stopped or caught up. Returns the last cut."""
        from headwater.runtime.engine import Engine

        check_format(self.storage, create=False)
        with Engine(self.config, self.spark, self.catalog, progress) as engine:
            if started:
                started(engine)
            engine.start(self.plans())
            engine.run(until_caught_up)
            return engine.cut

    def _build(self) -> None:
        """Bring the views in line with views/, here and now."""
        from headwater.runtime.engine import Engine

        with Engine(self.config, self.spark, self.catalog) as engine:
            engine.start(self.plans())
            engine.build()

    def plan_apply(self) -> ApplyPlan:
        """What `apply` would do; changes nothing, starts no JVM."""
        from headwater.runtime.applying import plan_apply

        return plan_apply(self)

    def apply(self, plan: ApplyPlan, heard: Callable[[str], None] = lambda phase: None) -> None:
        """Bring the maintained views in line with views/: a running `headwater run` does it without stopping the
        others, else it is done here. Returns when the change is shown; raises what kept it from being made."""
        for source, lines in plan.capture.items():
            if lines:
                self.catalog.source(source).install(self.tables()[source])
        if holder(self.storage) is None:
            heard(HERE_AND_NOW)
            self._build()
            return
        request = ask(self.storage, plan.wanted)
        try:
            while (said := answer(self.storage, request)) is None or not said.final:
                heard(UNSEEN if said is None else said.said or said.state)
                if holder(self.storage) is None:
                    raise WarehouseError("the run that was asked has ended", "run 'headwater apply' again")
                time.sleep(0.1)
            if said.state == "failed":
                raise HeadwaterError(said.said, said.fix)
        finally:
            forget(self.storage, request)

    def compact(self) -> dict[str, tuple[int, int]]:
        """Fold history up to the horizon; rows before and after, per view."""
        from headwater.runtime.engine import Engine

        with Engine(self.config, self.spark, self.catalog) as engine:
            engine.start(self.plans([n for n in self.views if n in self.cut().views]), build=False)
            return engine.chores.compact_now()

    def publish(self) -> dict[str, str]:
        """Refresh the plain tables at the newest cut; where each is."""
        cut = self.cut()
        for name, pinned in Session(self, cut, None).resolved().items():
            publish_view(self.storage, name, pinned, cut)
        return {name: self.storage.uri(published_folder(name)) for name in cut.views}

    # ---------------------------------------------------------------- reading

    @contextmanager
    def session(self, at: At = None) -> Iterator[Session]:
        """One state for any number of reads, kept from clean-up while it is open."""
        session = Session(self, self.cut(), at)
        pin = PinnedCut(self.storage, session.cut, session.oldest())
        try:
            yield session
        finally:
            pin.close()

    def halted(self) -> dict[ViewName, str]:
        """The views that are not maintained any more, and why; reading one of them warns with `ViewHalted`."""
        return Session(self, self.cut(), None).halted()

    def read(self, view: str, at: At = None) -> DataFrame:
        """A view's rows at the newest cut or at `at`, as a Spark DataFrame."""
        return Session(self, self.cut(), at).read(view)

    def sql(self, query: str, at: At = None) -> DataFrame:
        """Any Spark SQL over all views at one state."""
        return Session(self, self.cut(), at).sql(query)

    def rows(self, view: str, at: At = None, limit: int | None = None) -> pa.Table:
        return Session(self, self.cut(), at).rows(view, limit)

    def query(self, sql: str, at: At = None) -> pa.Table:
        return Session(self, self.cut(), at).query(sql)

    def numbered(self) -> Seq:
        """The newest transaction that has a number; the newest cut may not hold it yet."""
        cut, last = self.cut(), Journal(self.storage).newest
        return Seq(max(cut.seq, last.hi if last else 0))

    def log(self, first: int | None = None, last: int | None = None) -> Iterator[dict[str, Any]]:
        """The numbered source transactions (first … last, inclusive) with their changes, as far as they are kept."""
        self.cut()
        journal = Journal(self.storage)
        lo, hi = (first - 1 if first is not None else 0), (last if last is not None else 2**62)
        for segment in journal.between(lo, hi):
            low, high = max(lo, segment.lo), min(hi, segment.hi)
            changes: dict[tuple[int, str], list[dict[str, Any]]] = {}
            for table in segment.tables:
                rows = read_changes(self.storage, [segment], table, low, high)
                for row in rows.to_pylist() if rows is not None else ():
                    count, seq = row.pop(COUNT), row.pop(SEQ)
                    found = {"table": str(table), "count": count, "row": row}
                    changes.setdefault((seq, table.source), []).append(found)
            for transactions in journal.transactions(low, high):
                for row in transactions.to_pylist():
                    if low < row[SEQ] <= high and segment.lo < row[SEQ] <= segment.hi:
                        yield {
                            "seq": row[SEQ],
                            "source": row["source"],
                            "transaction": row["transaction"],
                            "committed_at": row["committed_at"],
                            "global": row.get("global_id"),
                            "changes": changes.get((row[SEQ], row["source"]), []),
                        }

    # --------------------------------------------------------------- checking

    def status(self, rows: bool = False) -> Status:
        """How far sources, views and the warehouse are; connects to the sources, starts no JVM. `rows` says to count
        the rows of large views too."""
        return take_status(self, rows)

    def verify(
        self,
        views: Sequence[str] = (),
        at: At = None,
        progress: Callable[[int, int | None], None] = lambda rows, total: None,
    ) -> list[Verification]:
        """Recompute views from the sources as of exactly their cut, and compare as bags."""
        from headwater.runtime.verify import Verifier

        for _ in range(3):
            session = Session(self, self.cut(), at)
            pin = PinnedCut(self.storage, session.cut, session.oldest())
            try:
                names = [find_view(pin.cut, v) for v in views] or list(pin.cut.views)
                known = [n for n in names if n in self.views]
                pinned = settled_views(pin.cut, known) if at is None else session.pinned(known)
                plans = self.plans(known)
                verifier = Verifier(self.spark, self.config, self.catalog, pin.cut)
                return verifier.verify([plans[n] for n in known], pinned, progress)
            except PositionTrimmed:
                continue  # the run moved on before our pin was seen: take a newer cut
            finally:
                pin.close()
        raise WarehouseError("the views change faster than they can be pinned", "try again")

    def cut(self, create: bool = False) -> Cut:
        """The newest cut; an error where nothing has been maintained yet."""
        there = check_format(self.storage, create=False)
        cut = self.cuts.newest() if there else Cut()
        if not cut.number and not create:
            raise HistoryGone(f"there is nothing in the warehouse {self.storage.url} yet", "run 'headwater run' first")
        return cut


def open_warehouse(path: str | Path = ".") -> Warehouse:
    """Open the project at `path` or above it."""
    return Warehouse(load_config(path))
