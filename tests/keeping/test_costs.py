"""What 'auto' keeps follows what was measured."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from headwater.maintenance.keeping.copies import asked_tables
from headwater.maintenance.keeping.costs import Measured, stored, weighed, why
from headwater.maintenance.keeping.known import Keeping
from headwater.model.names import SourceName, TableName
from headwater.model.schema import TableSchema
from headwater.runtime.project.catalog import SourceCatalog
from headwater.runtime.project.measuring import measured
from headwater.storage import Storage
from keeping.test_choices import VIEWS, chosen
from runtime.small_project import Project

NAMES = sorted({t.source for view in chosen([VIEWS["q03"]]) for t in view.base_tables})
FAR = SourceName(NAMES[0])


def table(rows: int) -> TableSchema:
    return TableSchema(TableName(FAR, "t"), (), rows=rows)


@pytest.mark.parametrize(
    ("question", "kept", "yes"),
    [(0.001, False, False), (0.02, False, True), (0.009, False, False), (0.009, True, True), (0.002, True, False)],
)
def test_a_copy_must_save_more_than_it_costs(question: float, kept: bool, yes: bool) -> None:
    assert Measured({FAR: question}, upkeep=0.01).pays(table(1000), 3, kept) is yes


def test_nothing_is_kept_that_has_no_room() -> None:
    costs = Measured({FAR: 0.1}, upkeep=0.01, free=4 * stored(1000, 3))
    assert costs.pays(table(1000), 3, False)
    assert not costs.pays(table(1001), 3, False)


def test_nothing_is_decided_by_what_nobody_has_measured() -> None:
    assert not Measured().pays(table(10), 1, False)


@pytest.mark.parametrize("name", ["q03", "q05", "q09", "q18"])
def test_far_sources_are_kept_and_near_ones_asked(name: str) -> None:
    parsed = replace(VIEWS[name], options={**VIEWS[name].options, "auxiliary": "auto"})
    costs = Measured({FAR: 0.05, **{SourceName(n): 0.001 for n in NAMES[1:]}}, upkeep=0.01)
    before, after = chosen([parsed]), chosen([parsed], Keeping(measured=costs))
    assert FAR in {t.source for view in before for t in asked_tables(view)}
    asked = {t.source for view in after for t in asked_tables(view)}
    assert asked == {t.source for view in before for t in asked_tables(view)} - {FAR}
    by_name = {view.name: view for view in after}
    decided: dict[TableName, bool] = {}
    for view in after:
        decided |= weighed(view, by_name)
    assert {t.source for t, yes in decided.items() if yes} == {FAR}
    assert any("keeps" in line and "50 ms" in line for line in why(costs, decided))


def test_questions_are_timed_where_they_can_be_asked(tmp_path: Path) -> None:
    script = "CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT)"
    project = Project(tmp_path, "CREATE MATERIALIZED VIEW v AS SELECT * FROM a.t;", {"a": script, "b": script})
    toml = project.folder / "headwater.toml"
    toml.write_text(toml.read_text().replace('"sqlite:///b.db"\n', '"sqlite:///b.db"\ndelay_ms = 30\n'))
    warehouse = project.open()
    storage = Storage(str(tmp_path / "warehouse"))
    assert not measured(SourceCatalog(warehouse.config), storage).question, "nothing is captured yet"
    catalog = SourceCatalog(warehouse.config)
    for name in catalog.sources():
        catalog.source(name).install([TableName(SourceName(name), "t")])
    found = measured(catalog, storage)
    assert found.question[SourceName("b")] >= 0.03 > found.question[SourceName("a")] > 0
    assert found.upkeep > 0
    assert found.free is not None
    assert not (tmp_path / "warehouse").exists(), "measuring makes no warehouse"
