"""A view by its name, in a program or a notebook: `warehouse["open_orders"]`.

A handle holds no rows. Whatever is asked of it is read then, at the newest cut or at the state it was given with `at`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from headwater.model.errors import HeadwaterError, ViewHalted
from headwater.model.names import ViewName
from headwater.runtime.reading.changes import Change
from headwater.runtime.reading.html import ROWS, view_html
from headwater.runtime.reading.moments import At
from headwater.runtime.reading.sessions import Session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Sessions = Callable[[At], Session]
Changes = Callable[[str, int | None, bool], Iterator[Change]]


class View:
    """One view of a warehouse, at the newest cut or at one state."""

    def __init__(self, name: ViewName, sessions: Sessions, changes: Changes, at: At = None) -> None:
        self.name, self._sessions, self._changes, self._at = name, sessions, changes, at

    def at(self, at: At) -> View:
        """The view as it was after a transaction, or as it was shown at a time."""
        return View(self.name, self._sessions, self._changes, at)

    def rows(self, limit: int | None = None, where: Mapping[str, object] | None = None) -> pa.Table:
        """Its rows as an Arrow table. `where`: only rows with these values; they are looked up by key."""
        return self._sessions(self._at).rows(self.name, limit, where)

    def read(self) -> DataFrame:
        """Its rows as a Spark DataFrame."""
        return self._sessions(self._at).read(self.name)

    def changes(self, after: int | None = None, follow: bool = False) -> Iterator[Change]:
        """What happened to it after a transaction, as `Warehouse.changes` tells it."""
        return self._changes(self.name, after, follow)

    @property
    def columns(self) -> pa.Schema:
        """Its columns and their types."""
        return self._sessions(self._at).columns(self.name)

    @property
    def seq(self) -> int:
        """The transaction after which its rows are read now."""
        return self._seq(self._sessions(self._at))

    def _seq(self, session: Session) -> int:
        (pinned,) = session.pinned([self.name]).values()
        return int(min(pinned.seq, session.cut.views[self.name].seq))

    def __repr__(self) -> str:
        where = "" if self._at is None else f" at {self._at}"
        return f"<view {self.name}{where}>"

    def _repr_html_(self) -> str | None:
        """Its first rows; None, and so the plain text, where its state cannot be read."""
        try:
            session = self._sessions(self._at)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ViewHalted)  # the caption says it
                rows = session.rows(self.name, ROWS + 1)
            return view_html(self.name, session.cut.views[self.name], self._seq(session), session.cut.number, rows)
        except HeadwaterError as error:
            warnings.warn(str(error), stacklevel=2)
            return None
