"""What a command loads before it answers: the start of a process is most of what a short command costs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.compute
import pytest

from cli.small import add_view, small_project
from headwater.cli.commands import PLACES

ENGINES = {"deltalake", "duckdb", "pandas", "py4j", "pyspark", "sqlglot", "obstore"}
OTHERS = {"adbc_driver_manager", "psycopg", "pymysql", "starlette", "urllib3", "uvicorn"}
LOADED = """
import json, os, sys
def tell():
    with open(os.environ["TOLD"], "w") as file:
        json.dump(sorted(sys.modules), file)
import atexit; atexit.register(tell)
from headwater.cli.main import main; main()
"""


def loaded(told: Path, *words: str) -> set[str]:
    """The modules that a process of the command had in the end."""
    env = {**os.environ, "TOLD": str(told), "COVERAGE_PROCESS_START": ""}
    done = subprocess.run([sys.executable, "-c", LOADED, *words], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return set(json.loads(told.read_text()))


def tops(modules: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in modules}


def test_the_version_is_told_without_the_rest(tmp_path: Path) -> None:
    found = loaded(tmp_path / "told", "--version")
    assert not tops(found) & {*ENGINES, *OTHERS, "numpy", "pyarrow", "pydantic", "rich"}
    assert not {name for name in found if name.startswith("headwater.cli.") and name.split(".")[2] in
                {place.module for place in PLACES.values()}}  # fmt: skip


@pytest.mark.parametrize("said", [["id=1"], ["day=2024-02-29", "--json"]])
def test_a_row_is_looked_up_without_an_engine(tmp_path: Path, project: Path, said: list[str]) -> None:
    found = loaded(tmp_path / "told", "read", "people", "--where", *said, "-p", str(project))
    assert "pyarrow" in found
    unwanted = tops(found) & {*ENGINES, *OTHERS, "rich"}
    assert not unwanted
    assert not {"headwater.api", "headwater.runtime.project.catalog", "headwater.integrator"} & found


def test_a_row_of_many_is_looked_up_without_what_arrow_loads_for_many(tmp_path: Path) -> None:
    """The second time: the first makes the index."""
    project = small_project(tmp_path / "project")
    rows = pa.table({"id": range(30_000), "name": [f"n{i}" for i in range(30_000)]})
    add_view(project, "many", rows=rows)
    for column in ("id", "name"):
        said = ("read", "many", "--where", "id=17" if column == "id" else "name=n17", "-p", str(project))
        loaded(tmp_path / "first", *said)
        found = loaded(tmp_path / "told", *said)
        unwanted = {"pyarrow.compute", "pyarrow.parquet", "numpy.ma", "headwater.warehouse.table"}
        unwanted |= {"dateutil", "pandas", "pydantic"}
        assert not unwanted & found


def test_what_is_loaded_later_is_there() -> None:
    from headwater.model.arrow import pc

    assert pc.equal is pyarrow.compute.equal


def test_a_view_is_read_without_an_engine(tmp_path: Path, project: Path) -> None:
    assert not tops(loaded(tmp_path / "told", "read", "people", "-p", str(project))) & {*OTHERS, *ENGINES - {"duckdb"}}


def test_status_starts_no_engine(tmp_path: Path, project: Path) -> None:
    assert not tops(loaded(tmp_path / "told", "status", "-p", str(project))) & {"pandas", "pyspark", "py4j", "sqlglot"}


def test_every_command_is_where_it_is_looked_for() -> None:
    from headwater.cli.commands import Commands

    made = Commands()
    assert {name: made[name].name for name in made} == {name: name for name in PLACES}
