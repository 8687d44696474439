"""`lab record`, `lab check` and `lab judge` of a project whose databases have agents: copies, visits and chains."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from agents.hub_here import running
from headwater.cli.main import app
from runtime.test_agents import Far
from runtime.test_chains import JOIN, Fleet

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


def lab(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["lab", *arguments])
    return done.exit_code, done.output


def broken(path: Path, kind: str) -> Path:
    """The same history, but one change of its states, or of its cuts, never came."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    told = [line["state"] if kind == "state" else line["changes"] for line in lines if kind in line]
    changes = [rows for views in told for rows in views.values() if rows]
    changes[len(changes) // 2].pop()
    other = path.with_name("broken.jsonl")
    other.write_text("\n".join(json.dumps(line) for line in lines), encoding="utf-8")
    return other


@pytest.mark.parametrize("questions", ["copy", pytest.param("visit", marks=pytest.mark.soak)])
def test_a_source_behind_an_agent(tmp_path: Path, spark: SparkSession, questions: str) -> None:
    far = Far(tmp_path, questions)
    far.join(far.port)
    warehouse, path = far.open(), tmp_path / "run.jsonl"
    with running(far.laptop, wait=False):
        warehouse.setup()
        warehouse.run(until_caught_up=True)
        for n in range(2):
            far.write("crm", f"INSERT INTO customers VALUES ({50 + n}, 'c{n}')")
            far.write("crm", f"UPDATE customers SET city = 'moved {n}' WHERE id = 1")
            far.write("shop", f"INSERT INTO orders VALUES ({100 + n}, 1, 7)", "UPDATE orders SET qty = 50 WHERE id = 3")
            warehouse.run(until_caught_up=True)
        code, said = lab("record", "--out", str(path), "--project", str(far.folder))
        assert code == 0, said
        code, said = lab("judge", "located", "--project", str(far.folder))
        assert (code, "complete consistency" in said) == (0, True), said
    code, said = lab("check", str(path), "--at-least", "complete")
    assert code == 0, said
    assert "cuts: " in said
    code, said = lab("check", str(broken(path, "state")), "--at-least", "weak")
    assert code != 0, said
    code, said = lab("check", str(broken(path, "cut")), "--at-least", "strong")
    assert code != 0, said
    warehouse.project.close()


CHAINED = f"""
CREATE MATERIALIZED VIEW sold WITH (consistency = 'strong', maintenance = 'HOW', window = '200 ms') AS
SELECT s.id, i.title, k.name, s.qty * (100 + k.tax) AS due FROM {JOIN} WHERE s.qty > 0 AND s.qty + k.tax < 900;
CREATE MATERIALIZED VIEW per_kind WITH (consistency = 'strong', maintenance = 'HOW', window = '200 ms') AS
SELECT k.name, COUNT(*) AS n, SUM(s.qty) AS qty FROM {JOIN} GROUP BY k.name;
"""


@pytest.mark.parametrize("how", ["pull-push", pytest.param("pure-push", marks=pytest.mark.soak)])
def test_a_chain(tmp_path: Path, spark: SparkSession, how: str) -> None:
    fleet, path = Fleet(tmp_path, how, CHAINED), tmp_path / "run.jsonl"
    warehouse = fleet.open()
    with fleet.agents():
        warehouse.setup()
        warehouse.run(until_caught_up=True)
        for n in range(2):
            fleet.write(
                "till", f"INSERT INTO sales VALUES ({100 + n}, 1, 4, 'y')", "UPDATE sales SET qty = 9 WHERE id = 8"
            )
            fleet.write("store", f"UPDATE items SET kind = {n} WHERE id = 1")
            fleet.write("office", f"UPDATE kinds SET tax = {n}, name = 'other {n}' WHERE id = 2")
            warehouse.run(until_caught_up=True)
        code, said = lab("record", "--out", str(path), "--project", str(fleet.folder))
        assert code == 0, said
        for view in ("sold", "per_kind"):
            code, said = lab("judge", view, "--project", str(fleet.folder))
            assert code == 0, said
    code, said = lab("check", str(path), "--at-least", "strong")  # beside the agents' own answers as of a window
    assert code == 0, said
    code, said = lab("check", str(broken(path, "cut")), "--at-least", "strong")
    assert code != 0, said
    warehouse.project.close()
