"""The second soak: twelve views that must agree, writers that never rest, runs that are killed (-9), also while views
are being built."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import headwater
from postgres_server import PostgresServer
from runtime.bank import Bank, busy, check_bank

pytestmark = [pytest.mark.spark, pytest.mark.postgres, pytest.mark.soak]

KILLS = 2
NEW = """
CREATE MATERIALIZED VIEW kill{n} AS SELECT name, n FROM by_owner;
CREATE MATERIALIZED VIEW kept{n} WITH (consistency = 'strong') AS
  SELECT a.id, a.amount FROM east.accounts a JOIN west.accounts w ON w.id = a.id;
"""


def command(bank: Bank, *words: str) -> list[str]:
    return [sys.executable, "-m", "headwater.cli.main", *words, "--project", str(bank.folder)]


def until_shown(warehouse: headwater.Warehouse, run: subprocess.Popen[bytes]) -> None:
    """Spark starts slowly: wait until every view has moved on, two minutes at most."""
    before, end = warehouse.cut().seq, time.monotonic() + 120
    while warehouse.cut().seq <= before and run.poll() is None and time.monotonic() < end:
        time.sleep(0.2)


@pytest.mark.timeout(600)
def test_killed_while_views_come(tmp_path: Path, postgres: PostgresServer, spark: SparkSession) -> None:
    bank = Bank(tmp_path / "bank", postgres.create_database("bank_soak"))
    warehouse = headwater.open(bank.folder)
    warehouse.setup()
    warehouse.run(until_caught_up=True)
    pick, reached = random.Random(3), [warehouse.cut().seq]
    with busy(bank):
        for kill in range(KILLS):
            with (tmp_path / f"run{kill}.log").open("wb") as log:
                run = subprocess.Popen(command(bank, "run"), stdout=log, stderr=log)
                until_shown(warehouse, run)
                (bank.folder / "views" / f"new{kill}.sql").write_text(NEW.format(n=kill))
                apply = subprocess.Popen(command(bank, "apply", "--yes"), stdout=log, stderr=log)
                time.sleep(pick.uniform(4, 10))
                assert run.poll() is None, (tmp_path / f"run{kill}.log").read_text()
                run.send_signal(signal.SIGKILL)
                run.wait()
                apply.kill()  # it may have found nobody running, and be at work itself
                apply.wait()
            with warehouse.session() as session:
                check_bank(session)
            reached.append(warehouse.cut().seq)
    assert reached[-1] > reached[0], "it made progress between kills"
    last = headwater.open(bank.folder)
    last.run(until_caught_up=True)
    assert {f"kill{n}" for n in range(KILLS)} | {f"kept{n}" for n in range(KILLS)} <= set(last.cut().views)
    with last.session() as session:
        check_bank(session)
    assert [v.view for v in last.verify() if not v.ok] == []
