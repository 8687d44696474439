"""One word for how a view or a source is, and sentences for what is wrong and what to do.

The word is the worst of: its state, its freshness against its target, what the last `verify` found. Pure: everything is
said from a cut, from what a run tells (`report`) and from verdicts, without asking anybody.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from headwater.model.names import SourceName, ViewName
from headwater.runtime.project.secrets import without_secrets
from headwater.runtime.reading.values import duration
from headwater.warehouse.cuts import ViewState
from headwater.warehouse.verdicts import Verdict


class Grade(IntEnum):
    """How much it matters."""

    GOOD = 0
    IDLE = 1
    WARN = 2
    BAD = 3


@dataclass(frozen=True)
class Finding:
    """Something that is not as it should be: a word, what it is, what to do."""

    word: str
    grade: Grade
    what: str
    fix: str = ""


@dataclass(frozen=True)
class Health:
    """`word` is that of the worst finding."""

    word: str
    grade: Grade
    findings: Sequence[Finding] = ()


@dataclass(frozen=True)
class ViewFacts:
    """What is known of a view. `age` is how old the oldest change is that it does not show, or, when it shows all, how
    long the last one took; None if nobody knows."""

    name: ViewName
    state: ViewState
    running: bool
    age: float | None = None
    target: float | None = None
    verdict: Verdict | None = None
    waits: str = ""


def view_health(view: ViewFacts) -> Health:
    good = Health("live", Grade.GOOD) if view.running else Health("idle", Grade.IDLE)
    return _worst(good, [*_halted(view), *_wrong(view), *_late(view)])


def source_health(name: SourceName, told: Mapping[str, Any] | None) -> Health:
    """`told` is what the run says of the source; None if nothing runs, or the run has nothing to do with it."""
    if told is None:
        return Health("idle", Grade.IDLE)
    state, reason = str(told.get("state", "ok")), without_secrets(str(told.get("reason", "")))
    if state == "ok":
        return Health("ok", Grade.GOOD)
    fix = "nothing is lost: it goes on by itself when the source is back; views that do not need it go on now"
    return _worst(Health("ok", Grade.GOOD), [Finding(state, Grade.BAD, f"source {name} is {state}: {reason}", fix)])


def age_told(told: Mapping[str, Any], sources: Iterable[Mapping[str, Any]], now: float) -> float | None:
    """How far behind a view is, from what the run tells of it and of the sources it reads: the age of the oldest commit
    that it does not show; with a source that cannot be read, the time since then; else the last measurement."""
    fresh = told.get("freshness") or {}
    waiting = [fresh["since"]] if fresh.get("since") else []
    waiting += [s["since"] for s in sources if s.get("state", "ok") != "ok" and s.get("since")]
    if waiting:
        return max(0.0, now - float(min(waiting)))
    last = fresh.get("last")
    return None if last is None else float(last)


def _worst(good: Health, findings: Sequence[Finding]) -> Health:
    if not findings:
        return good
    worst = max(findings, key=lambda finding: finding.grade)
    if good.grade > worst.grade:
        return Health(good.word, good.grade, findings)
    return Health(worst.word, worst.grade, findings)


def _halted(view: ViewFacts) -> list[Finding]:
    state = view.state
    if state.state == "live":
        return []
    what = f"view {view.name} is {state.state} at transaction {state.seq:,}: {without_secrets(state.reason)}"
    return [Finding(state.state, Grade.BAD, what, without_secrets(state.fix))]


def _wrong(view: ViewFacts) -> list[Finding]:
    verdict = view.verdict
    if verdict is None or verdict.ok:
        return []
    how = verdict.problem if verdict.problem and not verdict.differing else f"{verdict.differing:,} rows differ"
    what = f"view {view.name} did not equal its sources when it was verified at transaction {verdict.seq:,}: {how}"
    fix = f"'headwater verify {view.name}' shows the rows; 'headwater rebuild {view.name}' loads it again"
    return [Finding("wrong", Grade.BAD, without_secrets(what), fix)]


def _late(view: ViewFacts) -> list[Finding]:
    if view.target is None or view.age is None or view.age <= view.target or view.state.state != "live":
        return []
    what = f"view {view.name} is {duration(view.age)} behind its sources; its target is {duration(view.target)}"
    if view.waits:
        what += f"; it waits for {without_secrets(view.waits)}"
    if not view.running:
        return [Finding("late", Grade.WARN, f"{what}; nothing maintains it", "run 'headwater run'")]
    return [Finding("late", Grade.WARN, what, "'headwater status --vut' shows who waits for whom")]
