"""What a notebook shows of a warehouse and its views: bounded, escaped, with cut and consistency."""

from __future__ import annotations

import html
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pyarrow as pa
import pytest

import headwater
from cli.small import add_view, halt_people, small_project
from headwater.model.errors import HistoryGone, UnknownName
from headwater.model.names import Seq, ViewName
from headwater.runtime.reading.html import COLUMNS, LETTERS, ROWS, view_html, warehouse_html
from headwater.warehouse.cuts import Cut, ViewState

STATE = ViewState("f", 1, -1, Seq(9), Seq(3), "complete", "x")
NASTY = '<script>alert("&")</script>'


@pytest.fixture
def warehouse(tmp_path: Path) -> headwater.Warehouse:
    return headwater.open(small_project(tmp_path / "p"))


def tree(shown: str | None) -> ElementTree.Element:
    """It is well-formed, or this fails."""
    assert shown is not None
    return ElementTree.fromstring(shown)


def cells(shown: str | None, tag: str = "td") -> list[str]:
    return ["".join(cell.itertext()) for cell in tree(shown).iter(tag)]


def test_a_warehouse_lists_its_views(warehouse: headwater.Warehouse) -> None:
    shown = warehouse._repr_html_()
    assert cells(shown) == ["people", "complete", "live", "3", "1", ""]
    (caption,) = cells(shown, "caption")
    assert "cut 1" in caption
    assert "transaction 3" in caption
    assert list(warehouse) == ["people"]
    assert "people" in warehouse
    assert "nobody" not in warehouse


def test_a_warehouse_that_is_not_there_yet(tmp_path: Path) -> None:
    (tmp_path / "headwater.toml").write_text('[sources.crm]\nurl = "sqlite:///crm.db"\n')
    warehouse = headwater.open(tmp_path)
    assert "nothing is maintained yet" in "".join(tree(warehouse._repr_html_()).itertext())
    assert list(warehouse) == []
    with pytest.raises(HistoryGone):
        warehouse["people"]


def test_a_view_shows_its_rows_at_a_state(warehouse: headwater.Warehouse) -> None:
    view = warehouse["People"]
    assert (view.name, view.seq, view.at(1).seq) == ("people", 3, 1)
    assert view.columns.names[:2] == ["id", "name"]
    assert view.rows(where={"id": 2}).column("name").to_pylist() == ["tab\tand\nline"]
    assert [change.seq for change in view.changes(after=1)] == [2, 3]
    (caption,) = cells(view._repr_html_(), "caption")
    assert caption == "people after transaction 3, cut 1, consistency complete: 3 rows"
    assert cells(view._repr_html_()).count("Anne") == 2
    assert cells(view.at(1)._repr_html_()).count("Ann") == 2
    assert "NULL" in cells(view._repr_html_())
    with pytest.raises(UnknownName, match="peeple"):
        warehouse["peeple"]


def test_a_state_that_is_not_there_is_a_warning_and_no_traceback(warehouse: headwater.Warehouse) -> None:
    with pytest.warns(UserWarning, match="there is no state 99 yet"):
        assert warehouse["people"].at(99)._repr_html_() is None
    assert repr(warehouse["people"].at(99)) == "<view people at 99>"


def test_a_halted_view_says_so(tmp_path: Path) -> None:
    folder = small_project(tmp_path / "p")
    halt_people(folder, f"postgresql://me:sesame-open@db/x {NASTY}")
    for shown in (headwater.open(folder)._repr_html_(), headwater.open(folder)["people"]._repr_html_()):
        assert shown is not None
        assert "halted at 3" in "".join(tree(shown).itertext())
        assert "sesame" not in shown
        assert "<script" not in shown


def test_nothing_in_it_is_markup_but_its_own() -> None:
    rows = pa.table({NASTY: [NASTY, "ab‮c"]})
    shown = view_html(NASTY, STATE, 9, 2, rows)
    assert "<script" not in shown
    assert cells(shown) == [NASTY, "ab‮c"]
    assert cells(shown, "th") == [NASTY]
    assert html.escape(NASTY) in shown
    cut = Cut(1, Seq(9), views={ViewName(NASTY): replace(STATE, every=3)})
    assert cells(warehouse_html(NASTY, cut))[:2] == [NASTY, "complete, every 3"]


def test_it_is_bounded_and_says_so() -> None:
    rows = pa.table([pa.array(["x" * 10_000] * (ROWS + 1))] * (COLUMNS + 5), names=["same"] * (COLUMNS + 5))
    shown = view_html("wide", STATE, 9, 2, rows)
    assert len(cells(shown)) == ROWS * COLUMNS
    assert max(map(len, cells(shown))) == LETTERS
    (caption,) = cells(shown, "caption")
    assert f"the first {ROWS} rows, {COLUMNS} of {COLUMNS + 5} columns" in caption


def test_it_reads_no_more_than_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = small_project(tmp_path / "p")
    add_view(folder, "numbers")
    warehouse, asked = headwater.open(folder), []
    rows = headwater.Session.rows

    def spied(self: headwater.Session, view: str, limit: int | None = None, where: object = None) -> pa.Table:
        asked.append(limit)
        return rows(self, view, limit)

    monkeypatch.setattr(headwater.Session, "rows", spied)
    assert cells(warehouse["numbers"]._repr_html_()) == ["7"]
    assert asked == [ROWS + 1]
