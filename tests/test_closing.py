"""A warehouse that is closed holds nothing of its sources, and can go on."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import headwater


def held(file: Path) -> int:
    """How many open files of this process are this one."""
    targets = (Path(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd"))
    return sum(os.path.realpath(target) == str(file) for target in targets)


def test_a_closed_warehouse_holds_no_source_and_can_go_on(tmp_path: Path) -> None:
    file = tmp_path.resolve() / "shop.db"
    with closing(sqlite3.connect(file)) as shop, shop:
        shop.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
    (tmp_path / "views").mkdir()
    (tmp_path / "views" / "v.sql").write_text("CREATE MATERIALIZED VIEW v AS SELECT id FROM shop.orders;")
    (tmp_path / "headwater.toml").write_text(f'[sources.shop]\nurl = "sqlite:///{file}"\n')
    with headwater.open(tmp_path) as warehouse:
        assert warehouse.setup()["shop"]
        assert held(file)
    assert not held(file)
    assert not warehouse.setup()["shop"]
    warehouse.close()
    warehouse.close()
    assert not held(file)
