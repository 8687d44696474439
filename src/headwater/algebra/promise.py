"""What a view promises: its options, and what may be promised over the views it reads.

    consistency = 'complete' [, every = N] | 'strong' | 'periodic', schedule = '…' | 'convergent'
    auxiliary = 'none' | 'auto' | 'equal' | 'frequency' | 'all' [, groups = K]
    maintenance = 'wave' | 'sweep' | …, parallel = N, window = '10 s'    (`methods`)

A view cannot promise more than what it reads, because its states are made of the states of those:

    complete, every N   over complete, every M, where M divides N      else a state it owes is not there
    strong              over complete and strong                       states of both are real and in order
    convergent          over complete, strong and convergent
    periodic            over complete, strong, and periodic of the same schedule

and nothing but such a periodic view reads a periodic one, which is right only at the moment of its refresh.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from dataclasses import dataclass, field

from headwater.algebra.methods import CHAIN, MAINTENANCE, PARALLEL, WINDOW, Chosen, chosen
from headwater.algebra.statements import ParsedView
from headwater.algebra.view import ViewDefinition
from headwater.model.consistency import Level
from headwater.model.errors import ConfigError, UnknownName
from headwater.model.schedule import parse_schedule

OPTIONS = ("consistency", "every", "schedule", "auxiliary", "groups", MAINTENANCE, PARALLEL, WINDOW)
KEPT_FOR = "kept_for"
"""In the stored statement of a view that nobody wrote."""
RELIES = "relies"
"""In a stored statement: what the view counts on (`relying`)."""
AUXILIARY = ("none", "auto", "equal", "frequency", "all")
"""The values of `auxiliary`: what is kept beside the view to maintain it (`maintenance/keeping`)."""
GROUPED = ("equal", "frequency")
"""Those that put the tables of a view into groups."""
LEVELS = tuple(level.value for level in Level)
"""The values of `consistency`; the first is the default."""
MOST = 1_000_000_000
"""The largest `every`."""

_OVER = {
    Level.COMPLETE: (Level.COMPLETE,),
    Level.STRONG: (Level.COMPLETE, Level.STRONG),
    Level.PERIODIC: (Level.COMPLETE, Level.STRONG, Level.PERIODIC),
    Level.CONVERGENT: (Level.COMPLETE, Level.STRONG, Level.CONVERGENT),
}
"""The levels that a view of each level may read."""


@dataclass(frozen=True)
class Promise:
    """A level and what belongs to it: `every` is 1 but for COMPLETE; `schedule` is empty but for PERIODIC, where it is
    the schedule's normal text. `who` is to keep it."""

    level: Level
    every: int = 1
    schedule: str = ""
    who: Chosen = field(default_factory=Chosen)

    def __str__(self) -> str:
        detail = f" every {self.every}" if self.every > 1 else f" ({self.schedule})" if self.schedule else ""
        return f"{self.level.value}{detail}"


def promised(parsed: ParsedView) -> Promise:
    """What a view's options say; raises UnknownName or ViewSqlError."""
    options = parsed.options
    for name in options:
        if name not in (*OPTIONS, KEPT_FOR, RELIES, CHAIN):
            raise UnknownName("option", name, OPTIONS, f"of view {parsed.name} at {parsed.option_place(name)}")
    said = options.get("consistency", LEVELS[0])
    if said.lower() not in LEVELS:
        where = f"of view {parsed.name} at {parsed.option_place('consistency')}"
        raise UnknownName("value of option consistency", said, LEVELS, where)
    kept = options.get("auxiliary", AUXILIARY[0])
    if kept.lower() not in AUXILIARY:
        where = f"of view {parsed.name} at {parsed.option_place('auxiliary')}"
        raise UnknownName("value of option auxiliary", kept, AUXILIARY, where)
    _check_groups(parsed, kept.lower())
    level = Level(said.lower())
    if "every" in options and level is not Level.COMPLETE:
        raise parsed.option_error(
            "every",
            f"option every counts the states of a complete view, and this one is {level.value}",
            "remove every, or write consistency = 'complete'"
            + ("; when it is recomputed is said by schedule" if level is Level.PERIODIC else ""),
        )
    if "schedule" in options and level is not Level.PERIODIC:
        raise parsed.option_error(
            "schedule",
            f"option schedule is for a periodic view, and this one is {level.value}, kept up to date all the time",
            "remove schedule, or write consistency = 'periodic'",
        )
    if level is Level.PERIODIC and "schedule" not in options:
        raise parsed.option_error(
            "consistency",
            "a periodic view must say when it is recomputed",
            "add schedule = '10 minutes', or cron fields: schedule = '0 3 * * *'",
        )
    return Promise(level, _every(parsed), _schedule(parsed), chosen(parsed, level))


def _check_groups(parsed: ParsedView, kept: str) -> None:
    text = parsed.options.get("groups", "1")
    if not re.fullmatch(r"\+?[0-9]{1,4}", text) or not int(text):
        raise parsed.option_error(
            "groups", f"option groups = {text} is not a number of groups", "write a whole number from 1 on: groups = 2"
        )
    if "groups" in parsed.options and "auxiliary" in parsed.options and kept not in GROUPED:
        raise parsed.option_error(
            "groups",
            f"option groups is for auxiliary = 'equal' and 'frequency', and here it is '{kept}'",
            "remove groups, or choose one of these",
        )


def _every(parsed: ParsedView) -> int:
    text = parsed.options.get("every", "1")
    if not re.fullmatch(r"\+?[0-9]{1,10}", text) or not 1 <= int(text) <= MOST:
        raise parsed.option_error(
            "every",
            f"option every = {text} is not a whole number from 1 to {MOST}",
            "write how many transactions make one state, such as every = 10",
        )
    return int(text)


def _schedule(parsed: ParsedView) -> str:
    if "schedule" not in parsed.options:
        return ""
    try:
        return parse_schedule(parsed.options["schedule"]).text
    except ConfigError as error:
        raise parsed.option_error("schedule", f"option schedule: {error.what}", error.fix) from None


def promise_of(view: ViewDefinition) -> Promise:
    return Promise(view.level, view.every, view.schedule)


def refusal(promise: Promise, parents: Collection[ViewDefinition], parent: ViewDefinition) -> tuple[str, str] | None:
    """Why a view over `parents` cannot promise this over one of them, and what to do; None if it can."""
    theirs = promise_of(parent)
    what = f"a view that is {promise} cannot read {parent.name}, which is {theirs}"
    if theirs.level not in _OVER[promise.level]:
        return f"{what}: {_why(promise, theirs)}", _weaker(theirs, parent)
    if theirs.level is Level.PERIODIC and theirs.schedule != promise.schedule:
        return f"{what}: {_why(promise, theirs)}", f"write schedule = '{theirs.schedule}' in both, or another in both"
    if promise.level is Level.COMPLETE and promise.every % theirs.every:
        step = math.lcm(*(p.every for p in parents if p.level is Level.COMPLETE))
        enough = -(-promise.every // step) * step
        return (
            f"{what}: {promise.every} is no multiple of {theirs.every}, so states are owed that {parent.name} skips",
            f"write every = {enough}, or consistency = 'strong'",
        )
    return None


def _why(promise: Promise, theirs: Promise) -> str:
    if theirs.level is Level.PERIODIC:
        return "a periodic view is right only when it is recomputed"
    return f"it cannot be more than what it reads, and {theirs.level.value} is less than {promise.level.value}"


def _weaker(theirs: Promise, parent: ViewDefinition) -> str:
    """What to write to be allowed to read `parent`."""
    schedule = f", schedule = '{theirs.schedule}'" if theirs.schedule else ""
    return f"write consistency = '{theirs.level.value}'{schedule} here, or change {parent.name}"
