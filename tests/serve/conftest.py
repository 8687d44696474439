"""A small warehouse behind a server, without a JVM, and clients of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from cli.small import add_view, small_project
from headwater.runtime.listening import listen
from headwater.runtime.project.config import load_config
from headwater.runtime.project.project import Project
from headwater.serve.answers import Limits
from headwater.serve.login import Account
from headwater.serve.server import Server, Terms
from headwater.serve.states import States

PASSWORD = "it's a secret: ½ pfund"
ACCOUNT = Account.of("headwater", PASSWORD)


@dataclass(frozen=True)
class Served:
    """Where a server is."""

    port: int
    folder: Path
    server: Server

    def connect(self, **changes: Any) -> psycopg.Connection[Any]:
        said: dict[str, Any] = {"host": "127.0.0.1", "port": self.port, "user": "headwater", "password": PASSWORD}
        said |= {"dbname": "headwater", "connect_timeout": 10, "autocommit": True}
        return psycopg.connect(**{**said, **changes})


@contextmanager
def serving(folder: Path, terms: Terms | None = None) -> Iterator[Served]:
    listening = listen("127.0.0.1", 0)
    port = listening.getsockname()[1]
    server = Server(listening, States(Project(load_config(folder))), terms or Terms(ACCOUNT, Limits(seconds=20)))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        yield Served(port, folder, server)
    finally:
        server.close()
        thread.join(timeout=5)
        assert not thread.is_alive()


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Two views, `people` and `late`; for tests that only read."""
    folder = small_project(tmp_path_factory.mktemp("serve") / "small")
    add_view(folder, "late")
    with serving(folder) as found:
        yield found


@pytest.fixture
def client(served: Served) -> Iterator[psycopg.Connection[Any]]:
    with served.connect() as found:
        yield found


Restricted = Callable[[Limits], Any]


@pytest.fixture
def restricted(served: Served) -> Restricted:
    """The same warehouse under other limits."""
    terms = Terms(ACCOUNT, Limits())
    return lambda limits: serving(served.folder, replace(terms, limits=limits))
