"""The lab at the page: plays as JSON, and the report as a page in which nothing runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from page.conftest import Page


@pytest.fixture
def report(folder: Path) -> Path:
    found = folder / "lab-report"
    (found / "pvm-fig21").mkdir(parents=True)
    (found / "report.html").write_text("<h1>Headwater lab</h1>")
    (found / "pvm-fig21" / "plot.svg").write_text("<svg/>")
    return found


def test_plays_are_listed_and_played(page: Page) -> None:
    client = page()
    found = client.get("/api/lab").json()
    assert {"four-sweep", "four-pvm-cc", "four-pull-push", "mvc-example5", "pvm-fig6"} <= {
        one["name"] for one in found["plays"]
    }
    played = client.get("/api/lab/pvm-fig6").json()
    assert played["judgement"]["level"] == "no consistency"
    assert played["frames"][-1]["actors"][0]["tables"][0]["rows"][-1] == "(3, 6)[2]"
    unknown = client.get("/api/lab/four-swep")
    assert (unknown.status_code, "four-sweep" in unknown.json()["fix"]) == (404, True)


def test_the_report_is_shown_where_there_is_one(changing: Page, report: Path) -> None:
    client = changing()
    assert client.get("/api/lab").json()["report"] is True
    answer = client.get("/lab-report/report.html")
    assert (answer.status_code, answer.text) == (200, "<h1>Headwater lab</h1>")
    assert "sandbox" in answer.headers["content-security-policy"]
    assert "script" not in answer.headers["content-security-policy"]
    assert client.get("/lab-report/pvm-fig21/plot.svg").status_code == 200


@pytest.mark.parametrize("path", ["../headwater.toml", "..%2fheadwater.toml", "%2e%2e/headwater.toml", "/etc/passwd"])
def test_nothing_else_is_shown(changing: Page, report: Path, path: str) -> None:
    assert changing().get(f"/lab-report/{path}").status_code in (404, 400)


def test_a_link_out_of_the_report_leads_nowhere(changing: Page, report: Path, folder: Path) -> None:
    (report / "out.txt").symlink_to(folder / "headwater.toml")
    assert changing().get("/lab-report/out.txt").status_code == 404


def test_without_a_report_there_is_none(page: Page, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    client = page()
    answer = client.get("/lab-report/report.html")
    assert answer.status_code == 404
    assert "headwater lab run all" in answer.json()["fix"]
