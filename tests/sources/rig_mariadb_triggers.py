"""MariaDB without a log in the contract suite: captured by triggers, transactions in the order in which polls see
them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from headwater.model.names import SourceName
from headwater.model.source import CAPTURE, Source, SourceSpec
from mariadb_server import MariadbServer

from .rig_mariadb import MariadbRig, _databases
from .rigs import RIGS, Rig


class TriggerRig(MariadbRig):
    """Each transaction has its state where someone looks between two; what overlaps shares one."""

    name = "mariadb-triggers"
    orders_what_overlaps = False

    def __init__(self, server: MariadbServer, database: str) -> None:
        super().__init__(server, database)
        self.spec = SourceSpec(SourceName("src"), self.spec.url, ((CAPTURE, "triggers"),))

    def source(self) -> Source:
        from headwater.sources.mariadb.triggers.adapter import TriggerSource

        return TriggerSource(self.spec)


@contextmanager
def open_mariadb_triggers(request: pytest.FixtureRequest) -> Iterator[Rig]:
    server: MariadbServer = request.getfixturevalue("mariadb_bare")
    rig = TriggerRig(server, f"rig_{next(_databases)}")
    try:
        yield rig
    finally:
        rig.close()


RIGS.append(pytest.param(open_mariadb_triggers, id="mariadb-triggers", marks=pytest.mark.mariadb))
