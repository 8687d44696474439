"""status: lag from commit to visible, sources as they are, rows without reading every view."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headwater as hw
from cli.conftest import Headwater
from cli.small import CRM, add_view, halt_people, small_project
from headwater.integrator.numbering import number
from headwater.model.changelog import COUNT, SEQ
from headwater.model.names import Position, Seq, TableName, ViewName
from headwater.model.source import ORDINAL, TRANSACTIONS, Poll
from headwater.runtime.progress import Meter
from headwater.runtime.report import FILE
from headwater.storage import Storage
from headwater.warehouse import reading
from headwater.warehouse.cuts import Cut, CutLog
from headwater.warehouse.lock import Lock


def write(file: Path, statement: str) -> None:
    """As an application would: from another process, its transaction marked as one."""
    code = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); [*map(c.execute, sys.argv[2:])]; c.commit()"
    mark = "INSERT INTO _headwater_transaction (tag) VALUES (NULL)"
    subprocess.run([sys.executable, "-c", code, str(file), mark, statement], check=True)


def show_cut(folder: Path, **changes: Any) -> None:
    cuts = CutLog(Storage(str(folder / "warehouse")))
    cut = cuts.newest()
    cuts.append(replace(cut, number=cut.number + 1, **changes))


@pytest.fixture
def captured(headwater: Headwater, tmp_path: Path) -> Path:
    """The small project, captured, its cut at the position where the source is now."""
    folder = small_project(tmp_path / "small")
    assert headwater("setup", "-p", folder).exit_code == 0
    source = hw.open(folder).catalog.source("crm")
    capture = source.capture()
    assert capture is not None
    show_cut(folder, positions={CRM: source.position()}, generations={CRM: capture.generation})
    source.close()
    return folder


@pytest.fixture
def running(captured: Path) -> Iterator[Path]:
    """The same, as if a run maintained it."""
    lock = Lock(Storage(str(captured / "warehouse")), "headwater run")
    lock.acquire()
    yield captured
    lock.release()


def report(folder: Path, **facts: Any) -> None:
    whole = {"at": time.time(), "numbered": 3, "views": [], "groups": [], "building": None, "sources": facts}
    Storage(str(folder / "warehouse")).put(FILE, json.dumps(whole).encode())


def status(headwater: Headwater, folder: Path, *more: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(headwater("status", "-p", folder, "--json", *more).stdout)
    return found


def source(headwater: Headwater, folder: Path) -> dict[str, Any]:
    (found,) = status(headwater, folder)["sources"]
    return dict(found)


def test_lag_is_the_age_of_the_oldest_change_not_of_the_cut(headwater: Headwater, captured: Path) -> None:
    assert source(headwater, captured)["waiting"] == 0
    write(captured / "crm.db", "INSERT INTO people VALUES (8, 'old')")
    time.sleep(1.0)
    write(captured / "crm.db", "INSERT INTO people VALUES (9, 'new')")
    show_cut(captured)  # a cut of just now, without them
    found = source(headwater, captured)
    assert (found["state"], found["waiting"]) == ("ok", 2)
    assert 1.0 <= found["lag_seconds"] < 30


def test_what_is_numbered_and_not_shown_waits_too(headwater: Headwater, captured: Path) -> None:
    people = CutLog(Storage(str(captured / "warehouse"))).newest().views[ViewName("people")]
    show_cut(captured, seq=Seq(2), views={ViewName("people"): replace(people, seq=Seq(2))})
    assert source(headwater, captured)["lag_seconds"] > 365 * 86400  # transaction 3 is of 2024


def test_a_view_without_that_source_does_not_make_it_wait(headwater: Headwater, captured: Path) -> None:
    views = CutLog(Storage(str(captured / "warehouse"))).newest().views
    people = replace(views[ViewName("people")], sources=(CRM,))
    slow = replace(people, seq=Seq(1), sources=())
    show_cut(captured, seq=Seq(1), views={ViewName("people"): people, ViewName("slow"): slow})
    found = source(headwater, captured)
    assert (found["waiting"], found["lag_seconds"]) == (0, None)


def test_while_nothing_waits_it_is_what_the_run_measured(headwater: Headwater, running: Path) -> None:
    report(running, crm={"state": "ok", "reason": "", "since": 0, "numbered": "", "lag": 0.35})
    found = source(headwater, running)
    assert (found["state"], found["waiting"], found["lag_seconds"]) == ("ok", 0, 0.35)
    assert "350 ms" in headwater("status", "-p", running).stdout


def test_a_source_that_the_run_cannot_read_is_failing(headwater: Headwater, running: Path) -> None:
    report(running, crm={"state": "failing", "reason": "column at was retyped", "since": 0, "numbered": "", "lag": 0.3})
    found = source(headwater, running)
    assert (found["state"], found["reason"]) == ("failing", "column at was retyped")
    shown = headwater("status", "-p", running).stdout
    assert "failing" in shown
    assert "column at was retyped" in shown
    assert headwater("status", "-p", running, "--strict").exit_code == 1


def test_a_silent_run_is_said_to_be_silent(headwater: Headwater, running: Path) -> None:
    whole = {"at": time.time() - 90, "numbered": 3, "views": [], "groups": [], "building": None, "sources": {}}
    Storage(str(running / "warehouse")).put(FILE, json.dumps(whole).encode())
    assert "told nothing for 90 s" in headwater("status", "-p", running).stdout


def test_capture_that_was_removed_is_not_captured(headwater: Headwater, captured: Path) -> None:
    assert source(headwater, captured)["state"] == "ok"
    headwater("teardown", "--yes", "-p", captured)
    found = source(headwater, captured)
    assert found["state"] == "not captured"
    assert "headwater setup" in found["reason"]
    headwater("setup", "-p", captured)
    again = source(headwater, captured)
    assert again["state"] == "failing"
    assert "installed anew" in again["reason"]


def test_strict_is_for_programs(headwater: Headwater, captured: Path, tmp_path: Path) -> None:
    good = headwater("status", "-p", captured, "--strict", "--json")
    assert good.exit_code == 0
    assert (json.loads(good.stdout)["ok"], json.loads(good.stdout)["troubles"]) == (True, [])
    halt_people(captured)
    assert headwater("status", "-p", captured).exit_code == 0
    bad = headwater("status", "-p", captured, "--strict", "--json")
    assert bad.exit_code == 1
    assert json.loads(bad.stdout)["troubles"] == ["view people is halted"]
    (tmp_path / "headwater.toml").write_text('[sources.a]\nurl = "sqlite:///a.db"\n')
    empty = headwater("status", "-p", tmp_path, "--strict", "--json")
    assert empty.exit_code == 1
    assert json.loads(empty.stdout)["troubles"][0] == "nothing is maintained yet"
    assert headwater("status", "-p", captured, "--strict", "--watch").exit_code == 2


def test_rows_of_long_histories_are_counted_on_request(
    headwater: Headwater, captured: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_view(captured, "small")
    monkeypatch.setattr("headwater.runtime.reading.status.COUNTED", 3)  # people has four entries
    assert {v["name"]: v["rows"] for v in status(headwater, captured)["views"]} == {"people": None, "small": 1}
    assert "--rows" in headwater("status", "-p", captured).stdout
    assert {v["name"]: v["rows"] for v in status(headwater, captured, "--rows")["views"]} == {"people": 3, "small": 1}


def test_status_folds_no_view(headwater: Headwater, captured: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def folded(*_: object) -> None:
        raise AssertionError("status read a whole view")

    monkeypatch.setattr(reading, "run_sql", folded)
    assert status(headwater, captured)["views"][0]["rows"] == 3


def test_the_meter_knows_each_source_s_lag() -> None:
    meter, now = Meter(), time.time()
    names = ("slow", "fast")
    polls = {}
    for name, age in zip(names, (5.0, 1.0), strict=True):
        when = pa.array([round((now - age) * 1e6)], pa.int64()).cast(TRANSACTIONS.field(1).type)
        empty = [pa.nulls(1, pa.string()), pa.nulls(1, pa.int32())]
        rows = pa.table({"id": [1], COUNT: [1], ORDINAL: [0]})
        transactions = pa.table([pa.array([name]), when, *empty], TRANSACTIONS)
        polls[name] = Poll(Position("1"), transactions, {TableName(name, "t"): rows})  # type: ignore[arg-type]
    numbered = number(Seq(0), {}, polls)  # type: ignore[arg-type]
    assert SEQ in numbered.transactions.column_names
    meter.took_in(numbered)
    meter.shown(Cut(1, Seq(2)))
    assert meter.of_source("slow") == (1, pytest.approx(5.0, abs=0.5))
    assert meter.of_source("fast") == (1, pytest.approx(1.0, abs=0.5))
    assert meter.lags[-1][1] == pytest.approx(5.0, abs=0.5)
