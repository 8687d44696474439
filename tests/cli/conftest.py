from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from cli.small import small_project
from headwater.cli.main import app

Headwater = Callable[..., Result]


@pytest.fixture
def headwater() -> Headwater:
    """Run a command as if typed; output is piped, not a terminal."""
    return lambda *arguments: CliRunner().invoke(app, [str(a) for a in arguments])


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_project(tmp_path_factory.mktemp("small") / "project")
