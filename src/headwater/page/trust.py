"""Why to believe a view: what it promises, and what `verify` found, time after time."""

from __future__ import annotations

from typing import Any

from headwater.model.consistency import promise_of
from headwater.page.look import Now
from headwater.runtime.project.secrets import without_secrets
from headwater.warehouse.verdicts import Verdict

SHOWN = 60
"""So many verdicts of a view are shown."""


def trust(now: Now) -> dict[str, Any]:
    """Views with what they promise and their verdicts, oldest first."""
    history: dict[str, list[Verdict]] = {}
    for verdict in now.verdicts:
        history.setdefault(verdict.view, []).append(verdict)
    views = [
        {
            "name": name,
            "level": state.level,
            "every": state.every,
            "promise": promise_of(state.level),
            "seq": state.seq,
            "gaps": [list(gap) for gap in state.gaps],
            "verdicts": [verdict_json(v) for v in history.get(name, [])[-SHOWN:]],
        }
        for name, state in now.cut.views.items()
    ]
    return {"views": views}


def verdict_json(verdict: Verdict) -> dict[str, Any]:
    return {
        "seq": verdict.seq,
        "at": verdict.at,
        "ok": verdict.ok,
        "rows": verdict.rows,
        "differing": verdict.differing,
        "problem": without_secrets(verdict.problem),
        "missing": list(verdict.missing),
        "extra": list(verdict.extra),
    }
