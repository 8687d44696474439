"""Views that compare with now(), on the engine: time passes at a source `clock`, and rows come and go with it."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headwater.model.errors import ConfigError
from headwater.model.names import ViewName
from headwater.runtime.project.catalog import define_views
from headwater.sources import clock
from runtime.small_project import Project, rows

pytestmark = pytest.mark.spark

TABLES = {
    "a": "CREATE TABLE e (id INTEGER PRIMARY KEY, at TIMESTAMP, day DATE);"
    "CREATE TABLE f (id INTEGER PRIMARY KEY, e INTEGER)"
}
VIEWS = """
CREATE MATERIALIZED VIEW recent AS SELECT id, day FROM a.e WHERE at > now() - INTERVAL 1 HOUR;
CREATE MATERIALIZED VIEW due AS SELECT e.id, COUNT(f.id) AS n FROM a.e e LEFT JOIN a.f f ON f.e = e.id
    WHERE e.day >= current_date AND e.day < current_date() + INTERVAL 7 DAYS GROUP BY e.id;
CREATE MATERIALIZED VIEW soon AS SELECT id FROM a.e WHERE day <= now() + INTERVAL 1 DAY;
CREATE MATERIALIZED VIEW all_of_them AS SELECT id FROM a.e;
"""


class Hands:
    """Of a clock that a test moves."""

    def __init__(self, patch: pytest.MonkeyPatch, text: str) -> None:
        self.now = dt.datetime.fromisoformat(text)
        patch.setattr(clock, "present", lambda: self.now)

    def move(self, **by: float) -> None:
        self.now += dt.timedelta(**by)


def test_rows_come_and_go_as_time_passes(tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    hands = Hands(monkeypatch, "2024-03-01T12:00:03+00:00")
    project = Project(tmp_path / "p", VIEWS, TABLES)
    project.execute(
        "a",
        "INSERT INTO e VALUES (1, '2024-03-01 11:10:00', '2024-03-01'), (2, '2024-03-01 11:50:00', '2024-03-08'),"
        " (3, NULL, NULL), (4, '2024-03-01 11:50:30', '2024-02-20')",
        "INSERT INTO f VALUES (1, 1), (2, 1)",
    )
    warehouse = project.loaded()
    assert [r[0] for r in rows(warehouse, "recent")] == [1, 2, 4]
    assert rows(warehouse, "due") == [(1, 2)]
    assert rows(warehouse, "soon") == [(1,), (4,)]
    before = warehouse.status().cut.seq
    hands.move(minutes=15)
    warehouse.run(until_caught_up=True)
    assert [r[0] for r in rows(warehouse, "recent")] == [2, 4]
    assert rows(warehouse, "due") == [(1, 2)]
    project.execute("a", "INSERT INTO e VALUES (5, '2024-03-01 12:14:00', '2024-03-09')")
    warehouse.run(until_caught_up=True)
    hands.move(days=2)
    project.execute("a", "INSERT INTO f VALUES (3, 2)")
    warehouse.run(until_caught_up=True)
    assert rows(warehouse, "recent") == []
    assert rows(warehouse, "due") == [(2, 1), (5, 0)]
    assert not warehouse.halted()
    assert not [(v.view, v.missing, v.extra) for v in warehouse.verify() if not v.ok]
    assert not [(v.view, v.missing, v.extra) for v in warehouse.verify(at=before + 1) if not v.ok]
    assert [name for name in warehouse.status().sources if name.name == "clock"]


def test_a_view_without_a_clock_has_no_such_source(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", "CREATE MATERIALIZED VIEW v AS SELECT id FROM a.e", TABLES)
    assert "clock" not in (tmp_path / "p" / "headwater.toml").read_text()
    assert list(project.open().config.sources) == ["a"]


def test_a_source_of_ones_own_cannot_be_called_clock(tmp_path: Path) -> None:
    views = "CREATE MATERIALIZED VIEW v AS SELECT id FROM clock.e WHERE day >= current_date"
    project = Project(tmp_path / "p", views, {"clock": TABLES["a"]})
    warehouse = project.open()
    with pytest.raises(ConfigError, match="so is one of yours"):
        warehouse.catalog.schemas(define_views(warehouse.config, warehouse.catalog, warehouse.storage)[ViewName("v")])
