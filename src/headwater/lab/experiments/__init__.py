"""Every module here holds one `EXPERIMENT`; `all_experiments` finds them."""

from __future__ import annotations

import importlib
import pkgutil
import re

from headwater.lab.experiment import PAPERS, Experiment


def all_experiments() -> dict[str, Experiment]:
    """By name; paper by paper."""
    modules = [importlib.import_module(f"{__name__}.{m.name}") for m in pkgutil.iter_modules(__path__)]
    papers = list(PAPERS)
    found: list[Experiment] = [m.EXPERIMENT for m in modules]
    return {e.name: e for e in sorted(found, key=lambda e: (papers.index(e.paper), _as_read(e.name)))}


def _as_read(name: str) -> list[tuple[int, str]]:
    """Figure 6 before figure 12."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]
