"""The view update tables of a run, as values: who waits for whom, and since when (decision 8)."""

from __future__ import annotations

from typing import Any

from headwater.page.look import Now

COLORS = {"w": "white", "r": "red", "g": "gray", "b": "black"}


def painting(now: Now) -> dict[str, Any]:
    """One table for each group of views that share sources."""
    return {
        "running": now.running is not None,
        "at": now.report.get("at"),
        "seq": now.cut.seq,
        "groups": [_group(group) for group in now.report.get("groups", ())],
    }


def _group(group: dict[str, Any]) -> dict[str, Any]:
    keys = list(group["views"])
    return {
        "algorithm": group["algorithm"],
        "sources": group["sources"],
        "views": _labels(group["views"]),
        "waiting": group["waiting"],
        "committing": group["committing"],
        "rows": [
            {
                "first": row["lo"] + 1,
                "last": row["hi"],
                "about": row["about"],
                "since": row["since"],
                "entries": [_entry(row["entries"].get(key)) for key in keys],
                "ready": [keys.index(key) for key in sorted(set(row["actions"])) if key in keys],
            }
            for row in group["rows"]
        ],
    }


def _entry(entry: list[Any] | None) -> dict[str, Any]:
    """Its colour, and the state that it goes with where that is a later one."""
    color, state = entry if entry is not None else ("b", 0)
    return {"color": COLORS.get(color, color), "state": state}


def _labels(views: dict[str, str]) -> list[str]:
    """A view that is being replaced has two columns, the new one with a prime."""
    seen: dict[str, int] = {}
    labels = []
    for name in views.values():
        labels.append(name + "′" * seen.get(name, 0))
        seen[name] = seen.get(name, 0) + 1
    return labels
