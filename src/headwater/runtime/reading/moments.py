"""States named by time: from "10 minutes ago" to the state that readers saw then.

A time means the newest cut made at or before it; the state is the one in which that cut showed the views asked for.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence

from headwater.model.errors import HistoryGone, UsageError
from headwater.model.names import Seq, ViewName
from headwater.warehouse.cuts import Cut, CutLog

At = int | str | dt.datetime | None
"""A state: the number of its last transaction; a time (ISO 8601, "10 minutes ago"); None: the newest."""

_AGO = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s+ago\s*", re.IGNORECASE)
_UNITS = {"s": 1, "sec": 1, "second": 1, "min": 60, "minute": 60, "h": 3600, "hour": 3600, "d": 86400, "day": 86400}


def parse_at(said: At, now: dt.datetime | None = None) -> int | dt.datetime | None:
    """A number, or a moment with its time zone; one without is local time."""
    if said is None or isinstance(said, int):
        return said
    if isinstance(said, str):
        if said.strip().isdecimal():
            return int(said)
        now = now or dt.datetime.now(dt.UTC)
        ago = _AGO.fullmatch(said)
        unit = _UNITS.get(ago[2].lower().removesuffix("s") or "s") if ago else None
        try:
            said = now - dt.timedelta(seconds=float(ago[1]) * unit) if ago and unit else dt.datetime.fromisoformat(said)
        except (ValueError, OverflowError):
            raise UsageError(
                f"{said!r} is no state", "give a number (1042), a time (2024-05-31T12:00) or '10 minutes ago'"
            ) from None
    return said.astimezone()


def cut_by(cuts: CutLog, newest: Cut, moment: dt.datetime) -> Cut:
    """The newest cut made at or before a moment."""
    if moment.timestamp() > dt.datetime.now(dt.UTC).timestamp():
        raise HistoryGone(f"{_written(moment)} has not come yet", "leave out --at for the newest state")
    found = cuts.find(lambda cut: cut.at <= moment.timestamp(), newest)
    if found is None:
        oldest = next(iter(cuts.kept()), newest)
        raise HistoryGone(f"no cut was made by {_written(moment)}", f"the oldest one is of {_written(_made(oldest))}")
    return found


def state_in(cut: Cut, names: Sequence[ViewName], moment: dt.datetime) -> Seq:
    """The number of the state in which that cut showed these views."""
    absent = [name for name in names if name not in cut.views]
    if absent:
        raise HistoryGone(f"view {absent[0]} was not there yet at {_written(moment)}", "ask for a later time")
    return min((cut.views[name].seq for name in names if cut.views[name].state == "live"), default=cut.seq)


def _made(cut: Cut) -> dt.datetime:
    return dt.datetime.fromtimestamp(cut.at).astimezone()


def _written(moment: dt.datetime) -> str:
    return moment.isoformat(" ", "milliseconds" if moment.microsecond else "seconds")
