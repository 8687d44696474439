"""Records as they are stored: what goes in comes out, older ones are read, damaged ones are refused by name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from headwater.model.errors import WarehouseError
from headwater.model.names import Position, Seq, SourceName, TableName, ViewName
from headwater.storage.records import by_table, decode, encode, of_tables
from headwater.warehouse.cuts import Cut, ViewState, read_cut


@dataclass(frozen=True)
class Record:
    name: ViewName
    spans: tuple[tuple[Seq, Seq], ...] = ()
    at: Mapping[SourceName, Position] = field(default_factory=dict)


def test_what_goes_in_comes_out() -> None:
    record = Record(ViewName('über "alles"\n😀'), ((Seq(1), Seq(2**62)),), {SourceName("q'"): Position("")})
    assert decode(encode(record), Record, "it") == record


def test_fields_that_came_later_have_their_default_and_those_that_went_are_passed_over() -> None:
    assert decode('{"name": "v", "gone": [1, {}]}', Record, "it") == Record(ViewName("v"))


@pytest.mark.parametrize("damaged", [b"", b"{", b'{"name": 3}', b"[]", b'{"spans": []}', b"\xff\xfe"])
def test_what_does_not_fit_is_refused_by_name(damaged: bytes) -> None:
    with pytest.raises(WarehouseError, match=r"^cuts/3 cannot be read") as refused:
        decode(damaged, Record, "cuts/3")
    assert refused.value.fix


def test_a_mapping_from_tables_keeps_schemas_apart() -> None:
    rows = {TableName(SourceName("s"), "t", "a.b"): 1, TableName(SourceName("s"), "b.t", "a"): 2}
    assert of_tables(by_table(rows)) == rows


def test_a_cut_comes_back_whole() -> None:
    state = ViewState("f", 3, -1, Seq(5), Seq(0), "complete", "x", (SourceName("s"),), ahead=((Seq(6), Seq(7)),))
    cut = Cut(4, Seq(5), {SourceName("s"): Position("1:2:")}, views={ViewName("v"): state}, at=1.5, fence=2)
    assert read_cut(encode(cut).decode()) == cut


def test_a_view_state_of_version_0_1_holds_what_it_shows() -> None:
    raw = json.loads(encode(Cut(1, views={ViewName("v"): ViewState("f", 3, -1, Seq(5), Seq(0), "strong", "x")})))
    del raw["views"]["v"]["through"]
    assert read_cut(json.dumps(raw)).views[ViewName("v")].through == 5
