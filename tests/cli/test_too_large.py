"""What is kept and would not fit is said by `plan`, before anything is built."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

from headwater.cli.kept import too_large
from headwater.cli.planning import PlannedView
from headwater.runtime.project.measuring import free_bytes
from headwater.storage import Storage


def planned(rows: int, kept_for: str = "v") -> PlannedView:
    relations = [SimpleNamespace(rows=rows), SimpleNamespace(rows=None)]
    made = SimpleNamespace(name="x__t", relations=relations, columns=["a", "b"], kept_for=kept_for, aggregation=None)
    return cast(PlannedView, made)


def test_what_does_not_fit_is_said(tmp_path: Path) -> None:
    free = free_bytes(Storage(str(tmp_path)))
    assert free is not None
    (said,) = too_large([planned(free), planned(10), planned(free, kept_for="")], free)
    assert said.startswith("x__t, kept for v, would take about ")
    assert "are free where the warehouse lies" in said
