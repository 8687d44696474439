"""Readers never see two views disagree: while sources change, views come and go, and runs are killed."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import headwater
from headwater.runtime.engine import Engine
from postgres_server import PostgresServer
from runtime.bank import Bank, busy, check_bank

pytestmark = [pytest.mark.spark, pytest.mark.postgres]


@pytest.fixture
def bank(tmp_path: Path, postgres: PostgresServer, request: pytest.FixtureRequest, spark: SparkSession) -> Bank:
    return Bank(tmp_path / "bank", postgres.create_database(f"b{abs(hash(request.node.nodeid))}"))


def test_readers_never_see_views_disagree(bank: Bank) -> None:
    warehouse = headwater.open(bank.folder)
    warehouse.setup()
    warehouse.run(until_caught_up=True)
    with Engine(warehouse.config, warehouse.spark, warehouse.catalog) as engine:
        engine.start(warehouse.plans())
        assert sorted(len(g.views) for g in engine.merging.groups) == [1, 10]  # notes go their own way
        with busy(bank) as found:
            end = time.monotonic() + 20
            while time.monotonic() < end and "wrong" not in found:
                engine.step()
        engine.catch_up()
    assert len(found["cuts"]) > 3
    with warehouse.session() as session:
        check_bank(session)
    assert all(v.ok for v in warehouse.verify())
