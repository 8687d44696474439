"""The overview: one word for every view and source, and sentences for what is wrong and what to do.

Times are told as moments, not as ages: so what is told changes only when something happens, and the browser counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headwater.model.names import CLOCK, SourceName, ViewName
from headwater.page.look import Now
from headwater.runtime.project.config import Config
from headwater.runtime.project.secrets import without_secrets
from headwater.runtime.reading.health import (
    Finding,
    Grade,
    Health,
    ViewFacts,
    age_told,
    source_health,
    view_health,
)
from headwater.warehouse.verdicts import Verdict, newest_of_each

SILENT_SECONDS = 15.0
"""A run that has not told anything for so long is said to be silent."""


def overview(now: Now, config: Config) -> dict[str, Any]:
    """Everything that the page shows at a glance."""
    verdicts, told = newest_of_each(now.verdicts), now.by_view
    views = {name: _health(now, config, name, verdicts.get(name), told.get(name, {})) for name in now.cut.views}
    sources = {name: source_health(name, now.told_of_source(name)) for name in (*config.sources, *_chains(now, config))}
    cut, run = now.cut, now.running
    return {
        "project": config.folder.name,
        "cut": {"number": cut.number, "seq": cut.seq, "at": cut.at} if cut.number else None,
        "running": None if run is None else {"pid": run.pid, "host": run.host, "since": run.since, "fence": run.fence},
        "numbered": now.report.get("numbered", cut.seq),
        "totals": now.report.get("totals"),
        "load": now.report.get("load"),
        "building": now.report.get("building"),
        "findings": [_finding(f) for f in findings(now, [*sources.values(), *views.values()])],
        "sources": [_source(now, config, name, health) for name, health in sources.items()],
        "views": [_view(now, config, name, health, told.get(name, {})) for name, health in views.items()],
    }


def _chains(now: Now, config: Config) -> list[SourceName]:
    """What views read that no section of headwater.toml names: chains of agents."""
    return sorted({s for state in now.cut.views.values() for s in state.sources} - {*config.sources, CLOCK})


def findings(now: Now, healths: list[Health]) -> list[Finding]:
    """What is not as it should be, the worst first."""
    found = [finding for health in healths for finding in health.findings]
    report = now.report
    if "at" in report and now.at - report["at"] > SILENT_SECONDS:
        what = f"the run has told nothing for {now.at - report['at']:.0f} s: what it does now is not known"
        found.append(Finding("silent", Grade.WARN, what, "see whether its process still works"))
    for name, why in report.get("not_built", {}).items():
        what = f"view {name} could not be built: {without_secrets(why)}"
        found.append(Finding("not built", Grade.BAD, what, "correct it, then 'headwater apply'"))
    for waiting in report.get("global", ()):
        parts = f"{waiting['have']} of {waiting['parts']} parts are here"
        found.append(Finding("waits", Grade.WARN, f"global transaction {waiting['global_id']}: {parts}"))
    found += [
        Finding("torn", Grade.WARN, without_secrets(f"global transaction {text}")) for text in report.get("torn", ())
    ]
    return sorted(found, key=lambda finding: -finding.grade)


def _health(now: Now, config: Config, name: ViewName, verdict: Verdict | None, told: Mapping[str, Any]) -> Health:
    state = now.cut.views[name]
    sources = [found for s in state.sources if (found := now.told_of_source(s)) is not None]
    age = age_told(told, sources, now.at) if now.running is not None else None
    waits = told.get("waits", "")
    return view_health(ViewFacts(name, state, now.running is not None, age, config.freshness.get(name), verdict, waits))


def _view(now: Now, config: Config, name: ViewName, health: Health, told: Mapping[str, Any]) -> dict[str, Any]:
    state, about, fresh = now.cut.views[name], now.abouts.get(name), told.get("freshness") or {}
    sources, parents = now.reads(name)
    return {
        "name": name,
        "word": health.word,
        "grade": health.grade.name.lower(),
        "level": state.level,
        "every": state.every,
        "seq": state.seq,
        "horizon": state.horizon,
        "target": config.freshness.get(name),
        "last": fresh.get("last"),
        "since": fresh.get("since"),
        "waits": without_secrets(told.get("waits", "")),
        "waits_since": told.get("since") or None,
        "questions": told.get("questions"),
        "rows_changed": told.get("rows_changed"),
        "sources": sources,
        "parents": parents,
        "kept_for": about.kept_for if about is not None else "",
        "maintenance": about.maintenance if about is not None else "",
    }


def _source(now: Now, config: Config, name: SourceName, health: Health) -> dict[str, Any]:
    told = now.told_of_source(name) or {}
    return {
        "name": name,
        "kind": config.sources[name].url.partition(":")[0] if name in config.sources else "chain",
        "word": health.word,
        "grade": health.grade.name.lower(),
        "since": told.get("since"),
        "lag": told.get("lag"),
        "transactions": told.get("transactions"),
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {"word": finding.word, "grade": finding.grade.name.lower(), "what": finding.what, "fix": finding.fix}


def patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """What changed from one overview to the next; of views and sources only those that did."""
    changed: dict[str, Any] = {key: value for key, value in after.items() if before.get(key) != value}
    for key in ("views", "sources"):
        if key in changed:
            known = {one["name"]: one for one in before.get(key, ())}
            names = [one["name"] for one in after[key]]
            if names == list(known):
                changed[key] = [one for one in after[key] if known[one["name"]] != one]
            else:  # some came or went: all are told, and the browser forgets what it knew
                changed[f"all_{key}"] = changed.pop(key)
    return changed
