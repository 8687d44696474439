"""A small world: two SQLite files, a Headwater project over them, a dbt project inside it, and dbt as it is typed."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1")

SHOP = """
PRAGMA journal_mode = WAL;
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER NOT NULL, amount INTEGER, status TEXT);
CREATE INDEX orders_by_customer ON orders (customer);
INSERT INTO orders VALUES (1, 1, 40, 'open'), (2, 1, 2, 'paid'), (3, 2, 25, 'open');
"""
CRM = """
PRAGMA journal_mode = WAL;
CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT, city TEXT);
INSERT INTO customers VALUES (1, 'Ada', 'Ghent'), (2, 'Grace', 'Graz');
"""
MODELS = {
    "open_orders.sql": """
        {{ config(consistency='complete', auxiliary='auto', freshness_target='5 s') }}
        select o.id, c.name, c.city, o.amount
        from {{ source('shop', 'orders') }} o join {{ source('crm', 'customers') }} c on c.id = o.customer
        where o.status = 'open' -- not the paid ones""",
    "dear.sql": "{{ config(materialized='ephemeral') }} select * from {{ ref('open_orders') }} where amount > 10",
    "per_city.sql": """
        {{ config(materialized='materialized_view', consistency='strong') }}
        select city, count(*) as orders, sum(amount) as amount from {{ ref('dear') }} group by city""",
    "schema.yml": """
version: 2
sources:
  - name: shop
    tables:
      - name: orders
        columns: [{name: id, data_tests: [unique, not_null]}]
  - name: crm
    tables: [{name: customers, description: who they are}]
models:
  - name: open_orders
    description: orders that are not paid
    columns:
      - {name: id, description: the number, data_tests: [unique, not_null]}
      - name: city
        data_tests: [{accepted_values: {arguments: {values: [Ghent, Graz]}}}]
  - name: per_city
    columns: [{name: city, data_tests: [unique, {relationships: {arguments: {to: ref('open_orders'), field: city}}}]}]
""",
}
PROFILE = """
tour:
  target: dev
  outputs:
    dev: {type: headwater, project: "..", threads: 3}
"""
PROJECT = """
name: tour
profile: tour
model-paths: [models]
test-paths: [tests]
flags: {send_anonymous_usage_stats: false, require_generic_test_arguments_property: true}
"""


@dataclass(frozen=True)
class World:
    folder: Path

    @property
    def dbt_folder(self) -> Path:
        return self.folder / "dbt"

    def execute(self, database: str, script: str) -> None:
        connection = sqlite3.connect(self.folder / f"{database}.db")
        connection.executescript(script)
        connection.close()

    def model(self, name: str, text: str) -> None:
        (self.dbt_folder / "models" / name).write_text(text)

    def dbt(self, *arguments: str) -> tuple[int, str]:
        command = [str(Path(sys.executable).parent / "dbt"), "--no-use-colors", *arguments, "--profiles-dir", "."]
        done = subprocess.run(command, cwd=self.dbt_folder, capture_output=True, text=True, check=False, timeout=500)
        return done.returncode, done.stdout + done.stderr

    def results(self) -> dict[str, dict[str, Any]]:
        """What the last command did, by the model or the test."""
        found = json.loads((self.dbt_folder / "target" / "run_results.json").read_text())["results"]
        return {result["unique_id"].split(".")[2]: result for result in found}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("world") / "project"
    made = World(folder)
    (made.dbt_folder / "models").mkdir(parents=True)
    (folder / "headwater.toml").write_text(
        '[sources.shop]\nurl = "sqlite:///shop.db"\n[sources.crm]\nurl = "sqlite:///crm.db"\n'
        '[spark]\nmaster = "local[2]"\n'
    )
    made.execute("shop", SHOP)
    made.execute("crm", CRM)
    for name, text in MODELS.items():
        made.model(name, text)
    (made.dbt_folder / "profiles.yml").write_text(PROFILE)
    (made.dbt_folder / "dbt_project.yml").write_text(PROJECT)
    return made
