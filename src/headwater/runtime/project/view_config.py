"""[views.NAME]: what is wanted of one view beside its SQL.

[views.open_orders]
freshness = "5 s"           a target: `status`, the page, metrics and `headwater check` say whether it is met
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headwater.model.errors import ConfigError, UnknownName
from headwater.model.names import ViewName
from headwater.model.spans import seconds_of

SETTINGS = {"freshness": "how old, from commit to visible, a change may be before the view shows it: a target"}


def freshness_targets(settings: Mapping[str, Any], path: Path) -> dict[ViewName, float]:
    """The targets, in seconds, of those tables of [views] that name views."""
    found: dict[ViewName, float] = {}
    for name, given in settings.items():
        for key, value in given.items():
            if key not in SETTINGS:
                raise UnknownName("setting", key, SETTINGS, f"in [views.{name}] of {path}")
            found[ViewName(name)] = seconds(value, f"[views.{name}] {key} in {path}")
    return found


def seconds(said: Any, where: str) -> float:
    """A span of time such as "5 s", "500 ms", "2 minutes"; a plain number is seconds."""
    if isinstance(said, int | float) and not isinstance(said, bool) and said > 0:
        return float(said)
    found = seconds_of(said) if isinstance(said, str) else None
    if found is None:
        raise ConfigError(f"{where} must be a span of time, it is {said!r}", 'write it as "5 s", "500 ms" or "2 min"')
    return found
