"""tail and check: streams that can be taken up again, and exit codes for cron."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from cli.conftest import Headwater
from cli.small import add_view, halt_people, small_project
from headwater.model.names import ViewName
from headwater.storage import Storage
from headwater.warehouse.cuts import CutLog
from headwater.warehouse.verdicts import Verdict, record_verdicts
from page.told import running
from warehouse.test_changes import grow


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return small_project(tmp_path / "small")


def seqs(text: str) -> list[int]:
    return [json.loads(line)["seq"] for line in text.splitlines()]


def test_tail_goes_on_after_the_transaction_it_is_given(headwater: Headwater, folder: Path) -> None:
    whole = headwater("tail", "people", "-p", folder, "--from", 1, "--json")
    assert seqs(whole.stdout) == [2, 3]
    first = json.loads(whole.stdout.splitlines()[0])
    assert first["transactions"][0] | {"committed_at": ""} == {
        "source": "crm", "transaction": "b", "committed_at": "", "global": None,
    }  # fmt: skip
    assert first["changes"][0]["row"]["name"] == "tab\tand\nline"
    assert seqs(headwater("tail", "people", "-p", folder, "--from", 2, "--json").stdout) == [3]
    assert seqs(headwater("tail", "people", "-p", folder, "--from", 3, "--json").stdout) == []
    assert seqs(headwater("tail", "people", "-p", folder, "--json").stdout) == [2, 3]
    assert headwater("tail", "people", "-p", folder, "--from", 0).exit_code == 2
    assert headwater("tail", "nobody", "-p", folder).exit_code == 2


def test_tail_in_a_pipe_is_a_line_per_row(headwater: Headwater, folder: Path) -> None:
    head, *lines = headwater("tail", "people", "-p", folder, "--from", 2).stdout.splitlines()
    assert head.split("\t") == ["seq", "count", "source", "transaction", "row"]
    assert sorted(line.split("\t")[:4] for line in lines) == [["3", "-2", "crm", "c"], ["3", "2", "crm", "c"]]


def test_tail_follows_and_after_a_kill_goes_on_where_it_was(folder: Path) -> None:
    add_view(folder, "many")

    def follow(after: int) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "headwater.cli.main", "tail", "many", "--from", str(after), "-f", "--json"]
        return subprocess.Popen([*command, "-p", str(folder)], stdout=subprocess.PIPE, text=True)

    told: list[int] = []
    with follow(3) as tail:
        assert tail.stdout is not None
        for seq in (4, 5, 6):
            grow(folder, "many", seq, (seq, 1))
            told.append(json.loads(tail.stdout.readline())["seq"])
        tail.kill()
    grow(folder, "many", 7, (7, 1))  # while nobody listens
    with follow(told[-1]) as tail:
        assert tail.stdout is not None
        grow(folder, "many", 8, (8, 1))
        assert [*told, *(json.loads(tail.stdout.readline())["seq"] for _ in range(2))] == [4, 5, 6, 7, 8]
        tail.send_signal(signal.SIGINT)
        assert tail.wait(5) == 0


@pytest.fixture
def well(headwater: Headwater, folder: Path) -> Path:
    """A project that is captured and maintained up to now."""
    import headwater as hw

    assert headwater("setup", "-p", folder).exit_code == 0
    source = hw.open(folder).catalog.source("crm")
    capture = source.capture()
    assert capture is not None
    cuts = CutLog(Storage(str(folder / "warehouse")))
    cut = cuts.newest()
    views = {name: replace(state, sources=("crm",)) for name, state in cut.views.items()}
    position, generation = {"crm": source.position()}, {"crm": capture.generation}
    cuts.append(replace(cut, number=2, positions=position, generations=generation, views=views))  # type: ignore[arg-type]
    source.close()
    return folder


def found(headwater: Headwater, folder: Path) -> tuple[int, list[str]]:
    result = headwater("check", "-p", folder, "--json")
    return result.exit_code, [finding["word"] for finding in json.loads(result.stdout)["findings"]]


def test_check_is_well(headwater: Headwater, well: Path) -> None:
    assert found(headwater, well) == (0, [])
    assert headwater("check", "-p", well).stdout == "all is well: 1 view at transaction 3\n"


def test_check_finds_a_halted_view(headwater: Headwater, well: Path) -> None:
    halt_people(well)
    assert found(headwater, well) == (1, ["halted"])
    assert "column name was dropped" in headwater("check", "-p", well).stdout


def test_check_finds_what_verify_found(headwater: Headwater, well: Path) -> None:
    storage = Storage(str(well / "warehouse"))
    record_verdicts(storage, [Verdict("people", 3, time.time(), False, 3, 2)])
    assert found(headwater, well) == (1, ["wrong"])
    record_verdicts(storage, [Verdict("people", 3, time.time(), True, 3)])
    assert found(headwater, well) == (0, [])


def test_check_finds_a_late_view(headwater: Headwater, well: Path) -> None:
    with (well / "headwater.toml").open("a") as settings:
        settings.write("[views.people]\nfreshness = '1 s'\n[views.gone]\nfreshness = '1 s'\n")
    assert found(headwater, well) == (1, ["unknown"])
    from cli.test_status import write

    write(well / "crm.db", "INSERT INTO people VALUES (8, 'old')")
    time.sleep(1.1)
    assert found(headwater, well) == (1, ["late", "unknown"])
    shown = headwater("status", "-p", well)
    assert " / 1.0 s" in shown.stdout


def test_check_asks_the_run_how_late_a_view_is(headwater: Headwater, well: Path) -> None:
    with (well / "headwater.toml").open("a") as settings:
        settings.write("[views.people]\nfreshness = '300 ms'\n")
    with running(well):
        code, words = found(headwater, well)
    assert (code, words) == (1, ["late"])


def test_check_where_nothing_is_maintained(headwater: Headwater, tmp_path: Path) -> None:
    (tmp_path / "headwater.toml").write_text('[sources.a]\nurl = "sqlite:///a.db"\n')
    code, words = found(headwater, tmp_path)
    assert (code, words[0]) == (1, "nothing")


def test_ui_says_what_is_wrong(headwater: Headwater, tmp_path: Path) -> None:
    from headwater.runtime.listening import listen

    assert "no headwater.toml" in headwater("ui", "-p", tmp_path).stderr
    folder = small_project(tmp_path / "small")
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        refused = headwater("ui", "-p", folder, "--port", port)
    assert refused.exit_code == 1
    assert f"port {port} of 127.0.0.1 is taken" in refused.stderr


def test_a_page_beside_a_run_ends_with_it(tmp_path: Path) -> None:
    from headwater.cli.beside import page_beside
    from headwater.model.errors import HeadwaterError
    from headwater.runtime.listening import listen

    folder = small_project(tmp_path / "small")
    with page_beside(folder, "127.0.0.1", 0) as url:
        import httpx2

        assert httpx2.get(f"{url}api/overview").json()["cut"]["seq"] == 3
    with pytest.raises(httpx2.ConnectError):
        httpx2.get(url)
    refused = pytest.raises(HeadwaterError, match="did not start: port")
    with listen("127.0.0.1", 0) as taken, refused, page_beside(folder, "127.0.0.1", taken.getsockname()[1]):
        pass


def test_metrics_of_a_run(tmp_path: Path) -> None:
    import httpx2

    from headwater.model.errors import UsageError
    from headwater.page.metrics import serving_metrics
    from headwater.runtime.project.config import load_config
    from headwater.runtime.project.project import Project

    project = Project(load_config(small_project(tmp_path / "small")))
    with serving_metrics(project, "0") as url:
        assert 'headwater_view_transaction{view="people"} 3.0' in httpx2.get(url).text
    with pytest.raises(UsageError), serving_metrics(project, "here"):
        pass


def test_a_target_is_a_span_of_time(folder: Path) -> None:
    from headwater.model.errors import ConfigError, UnknownName
    from headwater.runtime.project.config import load_config

    file = folder / "headwater.toml"
    plain = file.read_text()
    for said, seconds in (('"5 s"', 5), ('"500 ms"', 0.5), ('"2 minutes"', 120), ("1.5", 1.5), ('"1 h"', 3600)):
        file.write_text(f"{plain}[views.people]\nfreshness = {said}\n")
        assert load_config(folder).freshness == {ViewName("people"): seconds}
    for said in ('"soon"', "0", '"-1 s"', "true", '"5 parsecs"'):
        file.write_text(f"{plain}[views.people]\nfreshness = {said}\n")
        with pytest.raises(ConfigError, match="must be a span of time"):
            load_config(folder)
    file.write_text(f"{plain}[views.people]\nfreshnes = '5 s'\n")
    with pytest.raises(UnknownName, match="freshnes"):
        load_config(folder)
