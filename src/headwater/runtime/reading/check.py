"""What `headwater check` finds: everything that somebody should be woken for, or a build should fail of.

A view that is halted, that is further behind its sources than its target, or that did not equal them when it was last
verified; a source that cannot be read; nothing maintained at all. Without a run the sources are asked how old the
oldest change is that no view shows.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from headwater.model.names import ViewName
from headwater.runtime.project.config import Config
from headwater.runtime.reading.health import Finding, Grade, ViewFacts, view_health
from headwater.runtime.reading.status import Status, lag_of, told_of
from headwater.warehouse.verdicts import Verdict, newest_of_each


def check(found: Status, config: Config, verdicts: Sequence[Verdict], now: float | None = None) -> list[Finding]:
    """The findings, the worst first; none if all is well."""
    now = time.time() if now is None else now
    said = []
    if not found.cut.number or not found.cut.views:
        said.append(Finding("nothing", Grade.BAD, "nothing is maintained yet", "run 'headwater run'"))
    for source in found.sources:
        if source.state != "ok":
            why = f": {source.reason}" if source.reason else ""
            said.append(Finding(source.state, Grade.BAD, f"source {source.name} is {source.state}{why}"))
    last = newest_of_each(verdicts)
    for name in found.cut.views:
        said += view_health(_facts(found, config, name, last.get(name), now)).findings
    for name, why in found.report.get("not_built", {}).items():
        said.append(Finding("not built", Grade.BAD, f"view {name} could not be built: {why}"))
    for name in config.freshness:
        if found.cut.number and name not in found.cut.views:
            fix = f"correct [views.{name}] in headwater.toml"
            said.append(
                Finding("unknown", Grade.WARN, f"a freshness is wanted of view {name}, which is not there", fix)
            )
    return sorted(said, key=lambda finding: -finding.grade)


def _facts(found: Status, config: Config, name: ViewName, verdict: Verdict | None, now: float) -> ViewFacts:
    told = told_of(found, name)
    age, target = lag_of(found, name, now), config.freshness.get(name)
    return ViewFacts(
        name, found.cut.views[name], found.running is not None, age, target, verdict, told.get("waits", "")
    )
