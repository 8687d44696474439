"""When a periodic view is recomputed: at an interval, or at the times that five cron fields name.

    '30 seconds'   '90s'   'every 10 minutes'   '1 hour'   '2 days'         whole multiples of it since 1970
    '0 3 * * *'    minute, hour, day of month, month, day of week           in the machine's local time

A schedule is a pure function of time: `next(t)` is the first due time after `t`, whoever asks and whenever it was
started. So all views of one schedule are due at the same instants.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from dataclasses import dataclass

from cronsim import CronSim, CronSimError

from headwater.model.errors import ConfigError

_FORMS = (
    "write an interval of at least a second ('30 seconds', '10 minutes', '1 hour', '2 days')"
    " or five cron fields ('0 3 * * *' is daily at 03:00)"
)
_UNITS = {"week": 604_800, "day": 86_400, "hour": 3_600, "minute": 60, "second": 1}
_SHORT = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "min": 60, "s": 1, "sec": 1}
_WORDS = _SHORT | _UNITS | {f"{unit}s": seconds for unit, seconds in _UNITS.items()}
_INTERVAL = re.compile(r"(?:every\s+)?([0-9]{1,9})\s*([a-z]+)|every\s+([a-z]+)")


@dataclass(frozen=True)
class Interval:
    """A fixed number of seconds, at least one, counted from 1970, so every process agrees on the due times."""

    seconds: int

    @property
    def text(self) -> str:
        """The one way to write it; '600s' is '10 minutes'."""
        unit, each = next((u, s) for u, s in _UNITS.items() if self.seconds % s == 0)
        count = self.seconds // each
        return f"{count} {unit}{'' if count == 1 else 's'}"

    @property
    def says(self) -> str:
        return f"every {self.text.removeprefix('1 ')}"

    def next(self, after: float) -> float:
        """Seconds since 1970 of the first due time after `after`."""
        return float((math.floor(after) // self.seconds + 1) * self.seconds)


@dataclass(frozen=True)
class Cron:
    """Five cron fields, one space apart and in capitals, so that equal schedules are equal values."""

    text: str

    @property
    def says(self) -> str:
        words = CronSim(self.text, dt.datetime(2000, 1, 1)).explain()
        return words[:1].lower() + words[1:]

    def next(self, after: float) -> float:
        """Seconds since 1970 of the first due time after `after`. Where clocks are put forward, a time of day that does
        not exist is due when the clocks have moved; where they are put back, one that comes twice is due once. (Fields
        that hold for every hour go on as the hours do.)"""
        for due in CronSim(self.text, dt.datetime.fromtimestamp(math.floor(after), _LOCAL)):
            # while an hour is repeated, cronsim's first answers may lie in its first pass
            if due.timestamp() > after:
                return due.timestamp()
        raise AssertionError(f"{self.text} is never due, which parse_schedule refuses")


Schedule = Interval | Cron


def parse_schedule(text: str) -> Schedule:
    """The schedule a text means; raises ConfigError that says which forms there are."""
    words = text.lower().split()
    interval = _INTERVAL.fullmatch(" ".join(words))
    if interval:
        return _interval(text, interval[1] or "1", interval[2] or interval[3])
    if len(words) != 5:
        raise ConfigError(f"{text!r} is not a schedule", _FORMS)
    cron = Cron(" ".join(words).upper())
    try:
        next(CronSim(cron.text, dt.datetime(2000, 1, 1)))
    except (CronSimError, ValueError) as error:
        raise ConfigError(f"{text!r} is not a schedule: {str(error).lower()}", _FORMS) from None
    except StopIteration:
        raise ConfigError(f"schedule {text!r} is never due", "choose a day that exists; " + _FORMS) from None
    return cron


def _interval(text: str, count: str, unit: str) -> Interval:
    seconds = _WORDS.get(unit)
    if seconds is None:
        raise ConfigError(f"{text!r} is not a schedule: {unit!r} is no unit of time", _FORMS)
    if int(count) < 1:
        raise ConfigError(f"{text!r} is not a schedule: an interval is at least a second", _FORMS)
    return Interval(int(count) * seconds)


class _Local(dt.tzinfo):
    """The machine's time zone with its rules. (`datetime.astimezone()` knows today's offset only.)"""

    def utcoffset(self, when: dt.datetime | None) -> dt.timedelta | None:
        return None if when is None else when.replace(tzinfo=None).astimezone().utcoffset()

    def dst(self, when: dt.datetime | None) -> dt.timedelta | None:
        return None

    def tzname(self, when: dt.datetime | None) -> str | None:
        return None if when is None else when.replace(tzinfo=None).astimezone().tzname()

    def fromutc(self, when: dt.datetime) -> dt.datetime:
        local = dt.datetime.fromtimestamp(when.replace(tzinfo=dt.UTC).timestamp())
        return local.replace(tzinfo=self)


_LOCAL = _Local()
