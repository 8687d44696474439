"""When each agent was last heard of, and what it said then: kept in the warehouse, for those who ask later."""

from __future__ import annotations

import datetime as dt
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from headwater.model.errors import HeadwaterError
from headwater.model.logged import event
from headwater.storage import Storage
from headwater.storage.records import decode, encode

log = logging.getLogger(__name__)

_FOLDER = "hub/contacts"
_EVERY = 10.0
"""A sign of life is written down no more often than this."""


@dataclass(frozen=True)
class Contact:
    """`waits` changes had not been asked for when the agent last spoke; None: it could not tell."""

    at: float
    version: str = ""
    database: str = ""
    waits: int | None = None


class Contacts:
    def __init__(self, storage: Storage, now: Callable[[], float] = time.time) -> None:
        self._storage, self._now = storage, now
        self._written: dict[str, float] = {}

    def heard(self, agent: str, about: object, at_once: bool = False) -> None:
        now = self._now()
        if not at_once and now - self._written.get(agent, 0.0) < _EVERY:
            return
        self._written[agent] = now
        said = about if isinstance(about, dict) else {}
        version, database = (str(said.get(key, ""))[:200] for key in ("version", "database"))
        waits = said.get("waits")
        contact = Contact(now, version, database, waits if isinstance(waits, int) else None)
        try:
            self._storage.make_folder(_FOLDER)
            self._storage.put(f"{_FOLDER}/{agent}.json", encode(contact))
        except (HeadwaterError, OSError) as error:  # a full disk is no reason to send agents away
            facts = event("agent.not_recorded", agent=agent)
            log.warning("that agent %s is here could not be written down: %s", agent, error, extra=facts)

    def words(self, agent: str) -> str:
        """When it was last heard of, as a sentence goes on."""
        last = self.last(agent)
        if last is None:
            return "it was never here"
        at = dt.datetime.fromtimestamp(last.at).astimezone().isoformat(" ", "seconds")
        waits = "" if last.waits is None else f", when {last.waits:,} changes waited there"
        return f"it was last heard of at {at}{waits}"

    def last(self, agent: str) -> Contact | None:
        data = self._storage.get(f"{_FOLDER}/{agent}.json")
        return None if data is None else decode(data, Contact, self._storage.uri(_FOLDER))
