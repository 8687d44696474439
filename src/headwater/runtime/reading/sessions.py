"""One state of the project, for any number of reads.

What is read is what the state says, and where a view says less than its reader may think, because it is halted, a
warning goes with the rows: `ViewHalted`, once for every view that is read.
"""

from __future__ import annotations

import datetime as dt
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING

import pyarrow as pa

from headwater.model.errors import UsageError, ViewHalted
from headwater.model.names import ViewName
from headwater.runtime.reading.mentions import mentioned, occurring
from headwater.runtime.reading.moments import At, cut_by, parse_at, state_in
from headwater.runtime.reading.resolve import pinned_views
from headwater.warehouse.cuts import Cut
from headwater.warehouse.reading import Pinned, columns_of, find_rows, read_view, run_sql, scan_view

if TYPE_CHECKING:  # Spark is imported by those who use it: reading must answer at once
    from pyspark.sql import DataFrame, SparkSession

    from headwater.runtime.project.project import Project


def _no_spark() -> SparkSession:
    raise UsageError("a session without Spark gives no DataFrames", "open one of headwater.open(…)")


class Session:
    """One state of the warehouse for any number of reads. `spark` starts a session, where one is wanted."""

    def __init__(
        self, project: Project, cut: Cut, at: At = None, spark: Callable[[], SparkSession] = _no_spark
    ) -> None:
        self._project, self._spark, self.cut, self._at = project, spark, cut, parse_at(at)

    def pinned(self, names: Sequence[str] | None = None) -> dict[ViewName, Pinned]:
        found = [self.cut.named(n) for n in names] if names is not None else list(self.cut.views)
        return dict(pinned_views(self.cut, self._project.cuts, found, self.seq(found)))

    def seq(self, names: Sequence[ViewName]) -> int | None:
        """The number of the state in which these views are read here; None: each as new as the cut has it."""
        return state_in(self._then, names, self._at) if isinstance(self._at, dt.datetime) else self._at

    def oldest(self) -> int | None:
        """The oldest state that is read here, to be kept from clean-up."""
        if not isinstance(self._at, dt.datetime):
            return self._at
        return self.seq([name for name in self.cut.views if name in self._then.views])

    def halted(self, views: Sequence[str] | None = None) -> dict[ViewName, str]:
        """Those of these views (all) that are not maintained any more and are behind the state read here: why."""
        names = self.cut.views if views is None else [self.cut.named(v) for v in views]
        return {n: self.cut.views[n].reason for n in names if self.cut.views[n].state != "live" and self._behind(n)}

    def resolved(self, views: Sequence[str] | None = None) -> dict[ViewName, Pinned]:
        """The tables to read for these views (all), with a warning for each that is halted."""
        pinned = self.pinned(views)
        for name, reason in self.halted(list(pinned)).items():
            state = self.cut.views[name]
            warnings.warn(ViewHalted(name, state.seq, reason, state.fix), stacklevel=_outside())
        return pinned

    def rows(self, view: str, limit: int | None = None, where: Mapping[str, object] | None = None) -> pa.Table:
        """A view's rows as an Arrow table, in the view's ORDER BY and then by all columns, without a JVM. `where`: only
        those with these values, which are looked up."""
        (pinned,) = self.resolved([view]).values()
        if not where:
            return read_view(self._project.shelf, pinned, limit)
        return find_rows(self._project.storage, pinned, where, limit)

    def scan(self, view: str) -> pa.RecordBatchReader:
        """A view's rows in no particular order, as they are read: the cheapest way to all of them."""
        (pinned,) = self.resolved([view]).values()
        return scan_view(self._project.shelf, pinned)

    def columns(self, view: str) -> pa.Schema:
        (pinned,) = self.pinned([view]).values()
        return columns_of(self._project.storage, pinned)

    def query(self, sql: str) -> pa.Table:
        """Any SQL over the views as an Arrow table, without a JVM."""
        pinned = self.resolved(self._mentioned(sql, "postgres"))
        return run_sql(self._project.storage, pinned, sql, known=list(self.cut.views))

    def read(self, view: str) -> DataFrame:
        """A view's rows as a Spark DataFrame."""
        from headwater.runtime.reading.verify import read_frame

        (pinned,) = self.resolved([view]).values()
        return read_frame(self._spark(), self._project.storage, pinned)

    def sql(self, query: str) -> DataFrame:
        """Any Spark SQL over the views."""
        from headwater.algebra.view import quoted
        from headwater.runtime.reading.verify import read_frame

        for name, pinned in self.resolved(self._mentioned(query, "spark")).items():
            read_frame(self._spark(), self._project.storage, pinned).createOrReplaceTempView(quoted(name))
        return self._spark().sql(query)

    def _mentioned(self, query: str, dialect: str) -> list[ViewName]:
        found = occurring(query, self.cut.views)
        matters = self._at is not None or self.halted(found)
        return mentioned(query, found, dialect) if matters and len(found) > 1 else found

    def _behind(self, view: ViewName) -> bool:
        """Whether more had happened by the state read here than a halted view holds."""
        if isinstance(self._at, dt.datetime):
            return view not in self._then.views or self._then.views[view].state != "live"
        return self._at is None or self._at > self.cut.views[view].seq

    @cached_property
    def _then(self) -> Cut:
        """The cut that readers saw at the time asked for."""
        assert isinstance(self._at, dt.datetime)
        return cut_by(self._project.cuts, self.cut, self._at)


def _outside() -> int:
    """How many frames up the caller is who is no part of Headwater: a warning names the line that asked."""
    frame = sys._getframe(1)
    for level in count(1):
        if frame.f_back is None or not str(frame.f_globals.get("__name__", "")).startswith("headwater."):
            return level
        frame = frame.f_back
    raise AssertionError
