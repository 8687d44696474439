"""Sets of transactions as MySQL writes them: `3e11fa47-…:1-5:7, 3e11fa47-…:tag:1-3`.

A transaction is named by the server that it was first committed at, perhaps a tag, and a number: `3e11fa47-…:23`.

**What is in `gtid_executed` is committed in the tables**, and every snapshot that is opened later shows it: the server
adds a transaction to it after the engine has committed it, whether commits are in the order of the log
(`binlog_order_commits`) or not. What is in the log is either there or, until then, in `gtid_owned`: a transaction gets
its name before it is written to the log.
"""

from __future__ import annotations

import bisect
import time
from collections.abc import Mapping
from dataclasses import dataclass

from headwater.model.errors import SourceRefused, SourceUnavailable
from headwater.sources.mariadb.connection import Connection, rows

_PATIENCE = 10.0
"""Seconds to wait for commits that are under way."""


@dataclass(frozen=True)
class Gtids:
    """Per server and tag: numbers from … to, both within, in order and apart."""

    spans: Mapping[str, tuple[tuple[int, int], ...]]

    @classmethod
    def parse(cls, text: str) -> Gtids:
        found: dict[str, list[tuple[int, int]]] = {}
        for listed in text.replace("\n", "").split(","):
            server, *parts = listed.strip().split(":")
            name = server
            for part in parts:
                if part[0].isdigit():
                    first, _, last = part.partition("-")
                    found.setdefault(name, []).append((int(first), int(last or first)))
                else:
                    name = f"{server}:{part}"
        return cls({name: tuple(sorted(spans)) for name, spans in found.items()})

    def __contains__(self, name: object) -> bool:
        server, _, number = str(name).rpartition(":")
        return bool(server) and self._holds(server, int(number), int(number))

    def includes(self, other: Gtids) -> bool:
        return all(self._holds(server, *span) for server, spans in other.spans.items() for span in spans)

    def _holds(self, server: str, first: int, last: int) -> bool:
        spans = self.spans.get(server, ())
        at = bisect.bisect_right(spans, (first, 1 << 64)) - 1
        return at >= 0 and spans[at][0] <= first and last <= spans[at][1]


def executed(connection: Connection) -> Gtids:
    ((text,),) = rows(connection, "SELECT @@GLOBAL.gtid_executed")
    return Gtids.parse(str(text))


def _owned(connection: Connection) -> set[str]:
    """Transactions that have a name and are not done: in the log perhaps, in the tables perhaps not yet."""
    ((text,),) = rows(connection, "SELECT @@GLOBAL.gtid_owned")
    found = set()
    for listed in str(text or "").replace("\n", "").split(","):
        server, *parts = listed.strip().split(":")
        name = server
        for part in parts:
            if part[0].isdigit():
                found.add(f"{name}:{part.partition('#')[0]}")
            else:
                name = f"{server}:{part}"
    return found


def settled(connection: Connection, source: str) -> Gtids:
    """Wait until all that the log holds at this moment is committed in the tables; what is executed then."""
    ((mode,),) = rows(connection, "SELECT @@GLOBAL.gtid_mode")
    if mode != "ON":
        raise SourceRefused(
            f"source {source}: gtid_mode is {mode}, and without it nobody knows which transactions a snapshot holds",
            "'headwater plan' says how it is turned on",
        )
    waiting, deadline = _owned(connection), time.monotonic() + _PATIENCE
    while waiting:
        if time.monotonic() > deadline:
            raise SourceUnavailable(
                f"source {source}: transaction {min(waiting)} has been under way for {_PATIENCE:g} seconds, and it may"
                " be in the log already",
                "it goes on when that has been committed",
            )
        time.sleep(0.001)
        waiting &= _owned(connection)
    return executed(connection)
