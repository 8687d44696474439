"""The places a warehouse can be: every test of the contract runs in each of them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headwater.storage import Storage
from warehouse.s3_server import S3Server, s3_server


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if isinstance(item, pytest.Function) and "in_s3" in item.fixturenames:
            item.add_marker(pytest.mark.s3)


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    """A real S3 server, one per run. Not in pytest's own folders: runs beside this one may clear those away."""
    folder = tempfile.TemporaryDirectory(prefix="headwater-s3-", ignore_cleanup_errors=True)
    with folder as path, s3_server(path) as server:
        yield server


@pytest.fixture
def in_s3(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> str:
    """The url of a new place on the S3 server, which the environment says how to reach."""
    for name in [n for n in os.environ if n.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    return s3.new_place()


@pytest.fixture(params=["disk", pytest.param("s3", marks=pytest.mark.s3)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The url of a place where nothing is yet."""
    if request.param == "disk":
        return str(tmp_path / "warehouse")
    url: str = request.getfixturevalue("in_s3")
    return url


@pytest.fixture
def open_storage(place: str) -> Callable[[], Storage]:
    """As many ways to the same place as there are processes that use it."""
    return lambda: Storage(place)


@pytest.fixture
def storage(open_storage: Callable[[], Storage]) -> Storage:
    return open_storage()
