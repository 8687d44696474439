"""A small warehouse, and its page, without a JVM."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from cli.small import add_view, small_project
from headwater.page.server import application
from headwater.runtime.project.config import load_config
from headwater.runtime.project.project import Project

Page = Callable[..., TestClient]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two views: `people`, and `late`, which was loaded at transaction 3."""
    found = small_project(tmp_path / "small")
    add_view(found, "late")
    return found


@pytest.fixture
def project(folder: Path) -> Project:
    return Project(load_config(folder))


@pytest.fixture(scope="session")
def unchanged(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The same, for tests that only read."""
    found = small_project(tmp_path_factory.mktemp("page") / "small")
    add_view(found, "late")
    return Project(load_config(found))


@pytest.fixture
def page(unchanged: Project) -> Iterator[Page]:
    """Asks the page, as a browser on this machine would."""
    yield from pages(unchanged)


@pytest.fixture
def changing(project: Project) -> Iterator[Page]:
    """The page of a warehouse of one's own."""
    yield from pages(project)


def pages(project: Project) -> Iterator[Page]:
    opened: list[TestClient] = []

    def make(token: str = "", host: str = "127.0.0.1:7411") -> TestClient:
        client = TestClient(application(project, token), base_url=f"http://{host}", raise_server_exceptions=False)
        opened.append(client)
        return client

    yield make
    for client in opened:
        client.close()
