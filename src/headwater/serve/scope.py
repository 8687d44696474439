"""What a session's statements read: the cut, how long it stays the same, and the settings that were said.

Outside of a transaction the cut is the one that was newest when the message began (or the stretch of messages up to a
Sync). BEGIN takes the newest cut and pins it; COMMIT and ROLLBACK let it go.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace

from headwater.serve import catalog, settings
from headwater.serve.answers import Answer, Limits, Told
from headwater.serve.batches import Batches
from headwater.serve.errors import Refused
from headwater.serve.statements import Query, Statement
from headwater.serve.states import States
from headwater.warehouse.cuts import Cut

IDLE, OPEN, FAILED = b"I", b"T", b"E"


class Scope:
    """`status` is what a client is told of its transaction."""

    def __init__(self, states: States, said: dict[str, str]) -> None:
        self._states, self._settings, self._local = states, dict(catalog.SHOWN), dict[str, str]()
        self._settings["application_name"] = said.get("application_name", "")
        self.status, self._hold = IDLE, ExitStack()
        self.cut: Cut | None = None
        self._told: list[str] = []

    def current(self) -> Cut:
        """The cut that is read now."""
        if self.cut is None:
            cut = self._states.newest()
            self._hold.enter_context(self._states.held(cut))
            self.cut = cut
        return self.cut

    def asked(self, query: Query, values: list[str | None], oids: tuple[int, ...]) -> Batches:
        """The rows of a query, at the state that is read now."""
        cut = self.current()
        reading = self._states.reading(query, cut, settings.state(self.said(settings.AT)))
        if reading.seq is not None:
            self._hold.enter_context(self._states.held(cut, reading.seq))
        return self._states.asked(query, reading, values, oids)

    def end(self) -> None:
        """Whatever was read is let go."""
        self._local.clear()
        self.cut, self.status = None, IDLE
        self._hold.close()
        self._hold = ExitStack()

    def failed(self) -> None:
        """An error in a transaction spoils it until its end."""
        if self.status == OPEN:
            self.status = FAILED

    def allowed(self, limits: Limits) -> Limits:
        wanted = settings.seconds(self.said("statement_timeout"))
        return replace(limits, seconds=min(wanted, limits.seconds)) if wanted else limits

    def said(self, name: str) -> str:
        return self._local.get(name, self._settings.get(name, ""))

    # What statements say of it

    def begin(self, statement: Statement) -> str:
        if self.status == IDLE:
            self.end()  # what was read before in this message was read before
            self.current()
            self.status = OPEN
        return "BEGIN"

    def commit(self, statement: Statement) -> str:
        failed = self.status == FAILED
        self.end()
        return "ROLLBACK" if failed or statement.verb in ("ROLLBACK", "ABORT") else "COMMIT"

    def rollback(self, statement: Statement) -> str:
        if "TO" in (word.upper() for word in statement.words):
            if self.status == IDLE:
                raise Refused("25P01", "ROLLBACK TO SAVEPOINT can only be used in transaction blocks")
            self.status = OPEN
            return "ROLLBACK"
        return self.commit(statement)

    def set(self, statement: Statement) -> str:
        for change in settings.changes(statement.verb, statement.text):
            value = settings.checked(change)
            kept = self._local if change.local else self._settings
            if value is not None:
                kept[change.name] = value
            elif change.name in catalog.SHOWN:
                kept[change.name] = catalog.SHOWN[change.name]
            else:
                kept.pop(change.name, None)
            if change.name == "application_name":
                self._told.append(change.name)
        return statement.verb

    def changed(self) -> list[tuple[str, str]]:
        """Settings that clients are told of when they change."""
        names, self._told = self._told, []
        return [(name, self.said(name)) for name in names]

    def show(self, statement: Statement, formats: tuple[int, ...]) -> Answer:
        name = settings.name_shown(statement.text)
        if name == "all":
            rows = [(n, self.said(n), "") for n in sorted({*self._settings, settings.AT})]
            return Told(("name", "setting", "description"), rows, "SHOW", formats)
        if name in settings.TOLD:
            cut = self.current()
            value = str(cut.number if name == "headwater.cut" else cut.seq)
        else:
            value = self.said(name) or ("newest" if name == settings.AT else "")
        return Told((name,), [(value,)], "SHOW", formats)

    def forget_settings(self) -> None:
        self._settings = {**catalog.SHOWN, "application_name": self._settings["application_name"]}
