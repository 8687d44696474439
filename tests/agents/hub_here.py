"""A hub of the test's own process, and agents that are threads of it: real ones, over real sockets."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from headwater.agent.agent import Agent
from headwater.agent.joining import Invitation, join, read_settings
from headwater.hub.enrolment import Enrolment
from headwater.hub.serving import OpenHub, open_hub
from headwater.hub.settings import HubSettings
from headwater.model.errors import HeadwaterError
from headwater.sources.agent.line import HUB, SECRET
from headwater.storage import Storage


class HubHere:
    """A hub of this process, and agents that are threads of it."""

    def __init__(self, folder: Path) -> None:
        self.storage = Storage(str(folder / "warehouse"))
        self.storage.make_folder()
        self.enrolment = Enrolment(self.storage)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.settings = HubSettings("127.0.0.1", port, f"http://127.0.0.1:{port}")
        self.folder = folder
        self.hub: OpenHub | None = None
        self.open()

    def open(self) -> None:
        self.hub = open_hub(self.storage, "a warehouse", self.settings)

    def close(self) -> None:
        assert self.hub is not None
        self.hub.close()

    def options(self) -> dict[str, str]:
        return {HUB: self.settings.address, SECRET: self.enrolment.secret()}

    def invited(self, name: str, database: str) -> Path:
        """The folder of an agent that has joined."""
        folder = self.folder / name
        join(folder, Invitation(name, self.settings.address, self.enrolment.enrol(name)), database)
        return folder


@contextmanager
def running(folder: Path, wait: bool = True) -> Iterator[Agent]:
    """`wait` until it has reached its hub."""
    connected = threading.Event()
    agent = Agent(read_settings(folder), lambda text: connected.set() if text.startswith("connected") else None)

    def live() -> None:
        with suppress(HeadwaterError):  # it was refused: the test says so where it matters
            agent.run()

    thread = threading.Thread(target=live, daemon=True)
    thread.start()
    try:
        assert not wait or connected.wait(10)
        yield agent
    finally:
        agent.stop()
        thread.join(5)
