"""The lab at the page: plays of the published algorithms, frame by frame, and the lab's report where there is one.

Plays are made by the lab's own objects in virtual time when they are asked for; nothing here tells a story of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

REPORT = "lab-report"
"""The folder that `headwater lab run all` writes, where it is started."""


def plays(folders: Sequence[Path]) -> dict[str, Any]:
    """What can be played, by group, and whether there is a report."""
    from headwater.lab.stepping.plays import listed  # a second of imports, which no other part needs

    return {"plays": [asdict(one) for one in listed()], "report": report(folders) is not None}


def play(name: str) -> dict[str, Any]:
    from headwater.lab.stepping.plays import play as played

    return asdict(played(name))


def report(folders: Sequence[Path]) -> Path | None:
    """The first of these folders' reports."""
    found = (folder / REPORT for folder in folders)
    return next((one for one in found if (one / "report.html").is_file()), None)


def report_file(folders: Sequence[Path], path: str) -> Path | None:
    """A file of the report, and never one outside of it."""
    root = report(folders)
    if root is None:
        return None
    wanted = (root / (path or "report.html")).resolve()
    return wanted if wanted.is_file() and wanted.is_relative_to(root.resolve()) else None
