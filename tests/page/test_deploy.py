"""deploy/: the alert rules and the dashboard speak of metrics that there are, and Prometheus understands them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from cli.small import small_project
from headwater.page.look import Look
from headwater.page.metrics import StoredBytes, exposition
from headwater.runtime.project.config import load_config
from headwater.runtime.project.project import Project
from headwater.warehouse.verdicts import Verdict, record_verdicts
from page.told import running

DEPLOY = Path(__file__).parent.parent.parent / "deploy"
RULES, DASHBOARD = DEPLOY / "alerts.yml", DEPLOY / "grafana-dashboard.json"
NAME = re.compile(r"\bheadwater_\w+")


@pytest.fixture(scope="module")
def exposed(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Everything that a run and its page tell Prometheus."""
    folder = small_project(tmp_path_factory.mktemp("deploy") / "small")
    with (folder / "headwater.toml").open("a") as settings:
        settings.write("[views.people]\nfreshness = '5 s'\n")
    project = Project(load_config(folder))
    with running(folder) as storage:
        record_verdicts(storage, [Verdict("people", 3, 5.0, True, 1)])
        return exposition(Look(project).now, project.config, StoredBytes(project.storage))


@pytest.fixture(scope="module")
def known(exposed: bytes) -> set[str]:
    families = text_string_to_metric_families(exposed.decode())
    return {sample.name for family in families for sample in family.samples}


def expressions(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [value["expr"]] if "expr" in value else []
        return own + [e for v in value.values() for e in expressions(v)]
    return [e for v in value for e in expressions(v)] if isinstance(value, list) else []


def test_alerts_speak_of_metrics_that_there_are(known: set[str]) -> None:
    said = re.findall(r"^ +expr: (.*)$", RULES.read_text(), re.MULTILINE)
    assert len(said) >= 8
    assert {name for expression in said for name in NAME.findall(expression)} <= known
    assert RULES.read_text().count("summary:") == RULES.read_text().count("- alert:") == len(said)


def test_the_dashboard_speaks_of_metrics_that_there_are(known: set[str]) -> None:
    board = json.loads(DASHBOARD.read_text())
    said = expressions(board)
    assert len(said) >= 15
    assert {name for expression in said for name in NAME.findall(expression)} <= known
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    places = [panel["gridPos"] for panel in board["panels"]]
    assert all(place["x"] + place["w"] <= 24 for place in places)


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not here (Debian: prometheus)")
def test_prometheus_understands_the_rules_and_the_metrics(exposed: bytes, tmp_path: Path) -> None:
    checked = subprocess.run(["promtool", "check", "rules", str(RULES)], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    linted = subprocess.run(["promtool", "check", "metrics"], input=exposed, capture_output=True, check=False)
    assert linted.returncode == 0, linted.stdout + linted.stderr
    board = expressions(json.loads(DASHBOARD.read_text()))
    rules = [{"record": f"panel:{n}", "expr": e.replace("$__rate_interval", "5m")} for n, e in enumerate(board)]
    (tmp_path / "board.yml").write_text(json.dumps({"groups": [{"name": "board", "rules": rules}]}))
    checked = subprocess.run(
        ["promtool", "check", "rules", str(tmp_path / "board.yml")], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


RING = {
    "HeadwaterNotRunning": ([("headwater_running", "0x20")], "6m"),
    "HeadwaterRunSilent": ([("headwater_running", "1x20"), ("headwater_run_report_time_seconds", "0x20")], "4m"),
    "HeadwaterViewHalted": ([('headwater_view_halted{view="v"}', "0x3 1x20")], "6m"),
    "HeadwaterViewLate": (
        [
            ('headwater_view_lag_seconds{view="v"}', "30x20"),
            ('headwater_view_freshness_target_seconds{view="v"}', "5x20"),
        ],
        "4m",
    ),
    "HeadwaterViewWrong": ([('headwater_view_verified{view="v"}', "0x20")], "1m"),
    "HeadwaterViewNotVerified": ([('headwater_view_verified_time_seconds{view="v"}', "0x200")], "8d"),
    "HeadwaterSourceDown": ([('headwater_source_up{source="s"}', "1x2 0x20")], "9m"),
    "HeadwaterBatchesFail": ([("headwater_batch_retries_total", "0+30x40")], "25m"),
}
"""For each alert: series as promtool writes them, a value a minute, and when it must ring."""
WELL = [
    ("headwater_running", "1x100"), ("headwater_run_report_time_seconds", "0+60x100"),
    ('headwater_view_halted{view="v"}', "0x100"), ('headwater_view_lag_seconds{view="v"}', "1x100"),
    ('headwater_view_freshness_target_seconds{view="v"}', "5x100"), ('headwater_view_verified{view="v"}', "1x100"),
    ('headwater_view_verified_time_seconds{view="v"}', "0+60x100"), ('headwater_source_up{source="s"}', "1x100"),
    ("headwater_batch_retries_total", "3x100"),
]  # fmt: skip
"""As it should be."""


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not here (Debian: prometheus)")
def test_alerts_ring_when_they_should_and_not_before(tmp_path: Path) -> None:
    known = set(re.findall(r"- alert: (\w+)", RULES.read_text()))
    assert known == set(RING), "every alert has its case here"
    cases = [_case(series, [(at, name)]) for name, (series, at) in RING.items()]
    cases.append(_case(WELL, [(at, "") for at in ("1m", "10m", "90m")]))
    (tmp_path / "test.yml").write_text(json.dumps({"rule_files": [str(RULES)], "tests": cases}))
    told = subprocess.run(
        ["promtool", "test", "rules", str(tmp_path / "test.yml")], capture_output=True, text=True, check=False
    )
    assert told.returncode == 0, told.stdout + told.stderr


def _case(series: list[tuple[str, str]], moments: list[tuple[str, str]]) -> dict[str, Any]:
    """At each moment one alert rings, "" for none."""
    asked = [
        {
            "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
            "eval_time": at,
            "exp_samples": [{"labels": f'{{alertname="{name}"}}', "value": 1}] if name else [],
        }
        for at, name in moments
    ]
    values = [{"series": name, "values": said} for name, said in series]
    interval = "1h" if moments[0][0].endswith("d") else "1m"
    return {"interval": interval, "input_series": values, "promql_expr_test": asked}
