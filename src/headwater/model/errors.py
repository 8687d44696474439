"""One error root. Every error says what happened, what to do, and whether trying again can help.

Messages are made for the person at the terminal: they never hold passwords, and they name the thing as that
person wrote it. `exit_code` follows the command line's promise: 2 the user's input is wrong, 1 the data or
the run is not good.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class HeadwaterError(Exception):
    """What happened (`what`), and what to do about it (`fix`)."""

    exit_code = 1
    retry_helps = False

    def __init__(self, what: str, fix: str = "") -> None:
        super().__init__(what, fix)
        self.what = what
        self.fix = fix

    def __str__(self) -> str:
        return f"{self.what}\n  → {self.fix}" if self.fix else self.what


class UsageError(HeadwaterError):
    """The user's input is wrong: configuration, SQL, or a command's arguments."""

    exit_code = 2


class ConfigError(UsageError):
    """headwater.toml, or what it names, is not usable."""


class ViewSqlError(UsageError):
    """View SQL that does not parse, or asks for something Headwater does not maintain."""


class UnknownName(UsageError):
    """A source, table, column or view that does not exist; offers the nearest ones that do."""

    def __init__(self, kind: str, name: str, known: Iterable[str], where: str = "") -> None:
        known = sorted(set(known))
        near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
        place = f" {where}" if where else ""
        if near:
            fix = f"did you mean {' or '.join(repr(n) for n in near)}?"
        elif known:
            fix = f"there are: {', '.join(known[:12])}{', …' if len(known) > 12 else ''}"
        else:
            fix = f"there is no {kind} at all yet"
        super().__init__(f"unknown {kind} {name!r}{place}", fix)


class SourceUnavailable(HeadwaterError):
    """A source cannot be reached right now. Trying again can help."""

    retry_helps = True


class SourceRefused(UsageError):
    """A source answered no: wrong password, missing privilege."""


class CaptureMissing(HeadwaterError):
    """Change capture is not (or no longer) what this warehouse relies on."""


class LifeChanged(CaptureMissing):
    """The source's data is not a continuation of the past that a position belongs to: a restored backup, a copy, a
    replaced file. What was read before and what would be read now are two histories, which must not be mixed."""


class PositionTrimmed(HeadwaterError):
    """The source no longer keeps what is needed to answer as of that position. A newer position can help."""

    retry_helps = True


class SchemaChanged(HeadwaterError):
    """A column that a view uses was dropped, renamed or retyped at its source."""


class ValueUnfit(HeadwaterError):
    """A source holds a value that its column's type here cannot represent exactly."""


class PromiseBroken(HeadwaterError):
    """A table did what the project's settings say it never does, and a view counted on that."""


class EndlessRecursion(HeadwaterError):
    """WITH RECURSIVE over data that never ends, or only after more levels than are allowed."""


class NoRoom(HeadwaterError):
    """A number that its type has no room for."""


class WarehouseError(HeadwaterError):
    """The warehouse cannot be used: not writable, locked, newer than this software, disk full."""


class LeaseLost(WarehouseError):
    """This process may no longer write to the warehouse: another one maintains it now, or may do so."""


class HeadwaterWarning(UserWarning):
    """Something is given that is not what a person would expect: what it is (`what`), and what to do (`fix`)."""

    def __init__(self, what: str, fix: str = "") -> None:
        super().__init__(f"{what}; {fix}" if fix else what)
        self.what = what
        self.fix = fix


class ViewHalted(HeadwaterWarning):
    """Rows of a view that is no longer maintained: `view`, the last transaction it holds (`seq`), and why."""

    def __init__(self, view: str, seq: int, reason: str, fix: str = "") -> None:
        super().__init__(
            f"view {view} is halted: its rows are those of state {seq}, changes since then are missing (why: {reason})",
            fix or "when the cause is gone, 'headwater apply' loads it again; 'headwater status' shows all views",
        )
        self.view, self.seq, self.reason = view, seq, reason


class HistoryGone(UsageError):
    """A state older than the history horizon, or newer than the newest cut, was asked for."""
