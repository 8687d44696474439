"""What the parts of the page show, from real warehouses, as JSON values."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cli.small import halt_people
from headwater.model.errors import HistoryGone, UnknownName
from headwater.model.names import Seq, SourceName, ViewName
from headwater.page.detail import Sizes, detail
from headwater.page.freshness import Committed, Past, Shown, freshness, of_view
from headwater.page.look import Look
from headwater.page.overview import overview, patch
from headwater.page.painting import painting
from headwater.page.travel import ticks, travel
from headwater.page.trust import trust
from headwater.runtime.project.config import load_config
from headwater.runtime.project.project import Project
from headwater.storage import Storage
from headwater.warehouse.cuts import CutLog
from headwater.warehouse.verdicts import Verdict, record_verdicts
from page.told import running


def look(folder: Path) -> Look:
    return Look(Project(load_config(folder)))


def seen(folder: Path) -> dict[str, Any]:
    looked = look(folder)
    return overview(looked.now(), looked.project.config)


def view(found: dict[str, Any], name: str) -> dict[str, Any]:
    return next(dict(one) for one in found["views"] if one["name"] == name)


def test_while_nothing_runs_it_says_so_and_knows_the_last_cut(folder: Path) -> None:
    found = seen(folder)
    assert (found["running"], found["cut"]["number"], found["cut"]["seq"]) == (None, 2, 3)
    assert [(v["name"], v["word"]) for v in found["views"]] == [("people", "idle"), ("late", "idle")]
    assert [(s["name"], s["kind"], s["word"]) for s in found["sources"]] == [("crm", "sqlite", "idle")]
    assert found["findings"] == []


def test_before_anything_was_maintained(tmp_path: Path) -> None:
    (tmp_path / "headwater.toml").write_text('[sources.a]\nurl = "sqlite:///a.db"\n')
    found = seen(tmp_path)
    assert (found["cut"], found["views"]) == (None, [])
    with pytest.raises(HistoryGone, match="nothing is maintained yet"):
        travel(look(tmp_path), "v", None)
    assert trust(look(tmp_path).now()) == {"views": []}
    assert ticks(look(tmp_path)) == []


def test_a_run_is_told_of(folder: Path) -> None:
    (folder / "headwater.toml").write_text(
        (folder / "headwater.toml").read_text() + "[views.late]\nfreshness = '5 s'\n[views.people]\nfreshness = 1\n"
    )
    with running(folder):
        found = seen(folder)
    assert found["running"]["pid"] > 0
    assert found["numbered"] == 5
    assert found["totals"]["counts"]["questions"] == 10
    assert (view(found, "people")["word"], view(found, "people")["last"]) == ("live", 0.4)
    assert (view(found, "late")["word"], view(found, "late")["grade"]) == ("late", "warn")
    (finding,) = found["findings"]
    assert finding["what"].startswith("view late is 9.")
    assert "its target is 5.0 s" in finding["what"]


def test_the_worst_comes_first_with_what_to_do(folder: Path) -> None:
    storage = Storage(str(folder / "warehouse"))
    cut = CutLog(storage).newest()
    halted = replace(cut.views[ViewName("people")], state="halted", reason="column name was dropped", fix="mend it")
    CutLog(storage).append(replace(cut, number=3, views={**cut.views, ViewName("people"): halted}))
    record_verdicts(storage, [Verdict("late", 3, time.time(), False, 1, 2)])
    sources = [replace_source("unreachable", "postgresql://me:hunter2@host refused")]
    with running(folder, sources=sources, not_built={"new": "no such table"}):
        found = seen(folder)
    words = [finding["word"] for finding in found["findings"]]
    assert sorted(words) == ["halted", "not built", "unreachable", "wrong"]
    assert "hunter2" not in str(found)
    assert view(found, "late")["word"] == "wrong"
    assert any("headwater verify late" in finding["fix"] for finding in found["findings"])


def replace_source(state: str, reason: str) -> Any:
    from headwater.runtime.snapshot import SourceNow

    return SourceNow("crm", state, reason, time.time() - 30, "3", "5", 5, 0.4)


def test_a_run_that_is_silent_is_said_to_be(folder: Path) -> None:
    with running(folder, at=time.time() - 60):
        assert [f["word"] for f in seen(folder)["findings"]] == ["silent"]


def test_a_patch_holds_what_changed(folder: Path) -> None:
    before = seen(folder)
    assert patch(before, before) == {}
    late = {**view(before, "late"), "seq": 4}
    after = {**before, "numbered": 9, "views": [view(before, "people"), late]}
    assert patch(before, after) == {"numbered": 9, "views": [late]}
    fewer = {**before, "views": [late]}
    assert patch(before, fewer) == {"all_views": [late]}


def test_nothing_is_read_twice_that_has_not_changed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked = look(folder)
    first = looked.now()
    looked._looked = 0.0
    assert looked.now() is first
    read: list[str] = []
    get = Storage.get
    monkeypatch.setattr(Storage, "get", lambda self, name: read.append(name) or get(self, name))  # type: ignore[func-returns-value]
    halt_people(folder)
    looked._looked = 0.0
    assert looked.now().cut.number == 3
    assert not [name for name in read if name.endswith("view.json")]


def test_painting_names_colours_and_who_is_ready(folder: Path) -> None:
    with running(folder):
        found = painting(look(folder).now())
    (group,) = found["groups"]
    assert group["views"] == ["people", "late"]
    (row,) = group["rows"]
    assert (row["first"], row["last"], row["ready"]) == (4, 5, [0])
    assert [entry["color"] for entry in row["entries"]] == ["red", "white"]
    assert painting(look(folder).now())["groups"] == []


def test_time_travel(folder: Path) -> None:
    now = travel(look(folder), "PEOPLE", None)
    assert (now["at"], now["oldest"], now["newest"], now["next"]) == (3, 1, 3, None)
    assert [row[1] for row in now["table"]["rows"]] == ["Anne", "Anne", "tab\tand\nline"]
    assert now["table"]["rows"][0][2] == "12345678901234.5000"
    assert [c["count"] for c in now["change"]["rows"]] == [-2, 2]
    (cause,) = now["change"]["transactions"]
    assert (cause["source"], cause["transaction"]) == ("crm", "c")
    assert [(c["count"], dict(c["row"])["name"]) for c in cause["changes"]] == [(-1, "Ann"), (1, "Anne")]
    then = travel(look(folder), "people", "2")
    assert (then["at"], then["next"], then["previous_change"]) == (2, 3, None)
    assert [row[1] for row in then["table"]["rows"]] == ["Ann", "Ann", "tab\tand\nline"]
    with pytest.raises(HistoryGone, match="older than its history"):
        travel(look(folder), "people", "0")
    with pytest.raises(UnknownName, match="view"):
        travel(look(folder), "poeple", None)
    assert [tick["seq"] for tick in ticks(look(folder))] == [3, 3]


def test_one_view_in_full(folder: Path) -> None:
    looked = look(folder)
    found = detail(looked, Sizes(looked.project.storage), "people")
    assert (found["rows"], found["files"], found["level"]) == (3, 1, "complete")
    assert found["columns"][2] == {"name": "amount", "type": "decimal128(20, 4)", "kind": "number"}


def test_rows_are_counted_by_what_changed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from headwater.warehouse.changes import open_changelog
    from warehouse.test_changes import grow

    storage = Storage(str(folder / "warehouse"))
    sizes = Sizes(storage)

    def rows() -> int | None:
        state = CutLog(storage).newest().views[ViewName("late")]
        return sizes.rows(state.folder, open_changelog(storage, f"{state.folder}/log", state.version), state.seq)

    assert rows() == 1
    grow(folder, "late", 4, (8, 3), (7, -1))
    import pyarrow.parquet as pq

    read: list[str] = []
    table = pq.read_table
    monkeypatch.setattr(pq, "read_table", lambda path, **how: read.append(path) or table(path, **how))  # type: ignore[func-returns-value]
    assert rows() == 3
    assert len(read) == 1


def test_freshness_is_cut_less_commit_of_what_the_view_reads() -> None:
    a, b, v = SourceName("a"), SourceName("b"), ViewName("v")
    cuts = [Shown(1, 0, 0.0, {v: 0}), Shown(2, 2, 10.0, {v: 1}), Shown(3, 3, 20.0, {v: 3})]
    committed = Committed(np.array([1, 2, 3]), np.array([8.0, 9.0, 15.0]), np.array([a, b, a], object))
    own = freshness(cuts, committed, v, [a])["points"]
    assert [(p["at"], p["p50"], p["transactions"]) for p in own] == [(10.0, 2.0, 1), (20.0, 5.0, 1)]
    together = freshness(cuts, committed, None, ())["points"]
    assert [(p["p50"], p["transactions"]) for p in together] == [(1.5, 2), (5.0, 1)]
    assert freshness([], committed, None, ()) == {"points": [], "all": {"p50": None, "p99": None}}


def test_freshness_of_a_real_warehouse_reads_what_is_new(folder: Path) -> None:
    looked = look(folder)
    past = Past(looked)
    assert of_view(looked, past, "people")["points"][-1]["transactions"] == 0
    cuts = CutLog(looked.project.storage)
    cut = cuts.newest()
    cuts.append(replace(cut, number=3, seq=Seq(3)))
    looked._looked = 0.0
    assert len(of_view(looked, past, None)["points"]) == 2


def test_trust_is_promise_and_history(folder: Path) -> None:
    storage = Storage(str(folder / "warehouse"))
    record_verdicts(storage, [Verdict("people", 2, 1.0, True, 3)])
    record_verdicts(storage, [Verdict("people", 3, 2.0, False, 3, 1)])
    people, late = trust(look(folder).now())["views"]
    assert [v["ok"] for v in people["verdicts"]] == [True, False]
    assert "every source transaction" in people["promise"]
    assert late["verdicts"] == []


def test_the_page_starts_no_spark() -> None:
    code = "import headwater.page.server, sys; sys.exit('pyspark' in sys.modules or 'py4j' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
