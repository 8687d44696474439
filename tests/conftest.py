"""Fixtures that several folders of tests share."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import mysql_server as mysql_servers
from headwater.runtime.compute.spark import start_spark
from headwater.runtime.project import secrets
from headwater.runtime.project.config import Config
from mariadb_server import MariadbServer, find, mariadb_server
from postgres_server import PostgresServer, postgres_server

os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m")
"""A JVM here lives for seconds or minutes: its second compiler took two fifths of its time and never paid off. Without
it a JVM keeps 48 MB of compiled code, which many views fill; then it compiles nothing any more."""


LONG = (
    "test_whole",
    "test_trees",
    "test_strategies",
    "test_chaos",
    "test_trouble",
    "test_many_views",
    "test_views_agree",
)
"""Files that take minutes: they come first, so that no process is left alone with one of them at the end. `make test`
ends with the tests that took longest."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def place(item: pytest.Item) -> tuple[int, bool]:
        return (LONG.index(item.path.stem) if item.path.stem in LONG else len(LONG)), "spark" not in item.keywords

    items.sort(key=place)  # files stay together, and in their order


@pytest.fixture(autouse=True)
def _own_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one test calls a password is an ordinary word in the next."""
    monkeypatch.setattr(secrets, "_known", set(secrets._known))


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A real PostgreSQL, one per run. Not in pytest's own folders: runs beside this one may clear those away."""
    folder = tempfile.TemporaryDirectory(prefix="headwater-postgres-", ignore_cleanup_errors=True)
    with folder as path, postgres_server(path) as server:
        yield server


@pytest.fixture(scope="session")
def postgres_untimed() -> Iterator[PostgresServer]:
    """Another one, which does not keep commit times."""
    folder = tempfile.TemporaryDirectory(prefix="headwater-postgres-", ignore_cleanup_errors=True)
    with folder as path, postgres_server(path, timed=False) as server:
        yield server


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariadbServer]:
    """A real MariaDB, one per run, where there is one."""
    if find() is None:
        assert "mariadb" not in os.environ.get("HEADWATER_TESTS_NEED", ""), "there is no MariaDB server"
        pytest.skip("there is no MariaDB server: install mariadb-server, or run 'make mariadb'")
    folder = tempfile.TemporaryDirectory(prefix="headwater-mariadb-", ignore_cleanup_errors=True)
    with folder as path, mariadb_server(path) as server:
        yield server


@pytest.fixture(scope="session")
def mariadb_bare() -> Iterator[MariadbServer]:
    """Another one, which keeps no log."""
    if find() is None:
        assert "mariadb" not in os.environ.get("HEADWATER_TESTS_NEED", ""), "there is no MariaDB server"
        pytest.skip("there is no MariaDB server: install mariadb-server, or run 'make mariadb'")
    folder = tempfile.TemporaryDirectory(prefix="headwater-mariadb-", ignore_cleanup_errors=True)
    with folder as path, mariadb_server(path, {"skip-log-bin": "1"}) as server:
        yield server


@pytest.fixture(scope="session")
def mysql() -> Iterator[MariadbServer]:
    """A real MySQL, one per run, where there is one."""
    if mysql_servers.find() is None:
        assert "mysql" not in os.environ.get("HEADWATER_TESTS_NEED", ""), "there is no MySQL server"
        pytest.skip("there is no MySQL server: run 'make mysql' on a Debian")
    folder = tempfile.TemporaryDirectory(prefix="headwater-mysql-", ignore_cleanup_errors=True)
    with folder as path, mysql_servers.mysql_server(path) as server:
        yield server


@pytest.fixture(scope="session")
def spark() -> SparkSession:
    """The one Spark session of the run."""
    return start_spark(Config(folder=Path(), sources={}, warehouse="", views=Path(), spark_master="local[2]"))
