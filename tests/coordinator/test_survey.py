"""What a run finds at its sources when it begins."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from headwater.model.errors import HeadwaterError, LifeChanged, SourceUnavailable
from headwater.model.names import Position, SourceName, TableName, ViewName
from headwater.runtime.change.startup import SourceFound, Survey, Surveyed
from headwater.warehouse.cuts import Cut

FAR = SourceName("far")
VIEW = ViewName("v")


@pytest.mark.parametrize(
    ("raised", "lost"), [(SourceUnavailable("it has just gone"), False), (LifeChanged("restored", "apply"), True)]
)
def test_a_source_that_goes_away_while_it_is_looked_at_halts_nothing(raised: HeadwaterError, lost: bool) -> None:
    def check(at: Position, tables: object) -> None:
        raise raised

    catalog: Any = SimpleNamespace(source=lambda name: SimpleNamespace(check=check))
    journal: Any = SimpleNamespace(newest=None)
    kept: Any = {VIEW: SimpleNamespace(plan=SimpleNamespace(base=[TableName(FAR, "t")]))}
    cut = Cut(positions={FAR: Position("7")})
    found = Surveyed(cut, {FAR: SourceFound()}, {FAR: ""}, kept)
    assert bool(Survey(None, journal, catalog)._past(found)) is lost  # type: ignore[arg-type]
