"""A session after its log-in: messages in, messages out.

Outside of a transaction every Query message, and every stretch of messages up to a Sync, reads the cut that was newest
when it began. BEGIN takes the newest cut, and everything up to COMMIT or ROLLBACK reads that one, whatever happens
meanwhile; it is pinned. An error in a transaction spoils it until its end; one in the extended protocol skips what
follows up to the Sync. Nothing is ever written.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace

from headwater.serve import catalog, messages, settings
from headwater.serve.answers import Answer, Asked, Limits, Stopped, Told
from headwater.serve.errors import Refused, explained
from headwater.serve.messages import Bind, Body, Malformed, Parse
from headwater.serve.statements import Query, Statement, split, translated
from headwater.serve.states import States, halted
from headwater.serve.types import read_parameter
from headwater.warehouse.cuts import Cut

log = logging.getLogger(__name__)

MOST_PREPARED = 1_000
_NAME = r'("(?:[^"]|"")+"|\w+)'
_DECLARE = re.compile(
    rf"DECLARE\s+{_NAME}\s+(.*?)CURSOR\s+(?:WITH(?:OUT)?\s+HOLD\s+)?FOR\s+(.+)", re.IGNORECASE | re.DOTALL
)
_FETCH = re.compile(
    rf"FETCH\s+(?:(?:FORWARD\s+)?(ALL|NEXT|\(?\s*\d+\s*\)?)\s+)?(?:FORWARD\s+)?(?:FROM\s+|IN\s+)?{_NAME}", re.IGNORECASE
)


class Ended(Exception):
    """The client says good-bye."""


@dataclass(frozen=True)
class Prepared:
    """A statement that can be bound again and again; None: an empty one."""

    statement: Statement | None
    oids: tuple[int, ...] = ()


class Session:
    """One client."""

    def __init__(self, states: States, limits: Limits, said: dict[str, str]) -> None:
        self._states, self._limits, self.stopped = states, limits, Stopped()
        self._settings, self._local = dict(catalog.SHOWN), dict[str, str]()
        self._settings["application_name"] = said.get("application_name", "")
        self._status, self._skipping = b"I", False
        self._cut: Cut | None = None
        self._hold = ExitStack()
        self._prepared: dict[str, Prepared] = {}
        self._portals: dict[str, Answer | Statement | None] = {}

    def close(self) -> None:
        self._end()

    def answer(self, kind: bytes, data: bytes) -> Iterator[bytes]:
        """What one message is answered with."""
        if kind == b"X":
            raise Ended
        if self._skipping and kind != b"S":
            return
        try:
            if kind == b"Q":
                yield from self._simple(Body(data).text())
            elif kind == b"S":
                yield self._synced()
            elif kind == b"H":
                pass
            elif kind in _EXTENDED:
                yield from _EXTENDED[kind](self, Body(data))
            else:
                raise Malformed(f"a message {kind!r} is not expected here")
        except (Malformed, Ended, ConnectionError, TimeoutError):
            raise
        except Exception as error:
            yield self._failed(error)
            if kind == b"Q":
                yield self._synced()
            else:
                self._skipping = True

    def _failed(self, error: Exception) -> bytes:
        told = explained(error)
        if told.state == "XX000":
            log.error("a statement failed", exc_info=error)
        if self._status == b"T":
            self._status = b"E"
        return messages.error("ERROR", told.state, told.what, told.fix)

    def _synced(self) -> bytes:
        self._skipping = False
        if self._status == b"I":
            self._end()
        return messages.ready(self._status)

    # The simple protocol

    def _simple(self, sql: str) -> Iterator[bytes]:
        statements = split(sql)
        if not statements:
            yield messages.EMPTY
        for statement in statements:
            answer = self._run(statement, [], (), ())
            if isinstance(answer, Answer):
                yield from self._warnings(statement)
                yield answer.description()
                yield from self._rows(answer, 0)
            else:
                yield messages.complete(answer)
        yield self._synced()

    def _rows(self, answer: Answer, most: int) -> Iterator[bytes]:
        before = answer.sent
        yield from answer.fetch(most)
        if answer.done or not most or answer.sent - before < most:
            tag = answer.tag
            yield messages.complete(f"{tag} {answer.sent - before}" if tag in ("SELECT", "FETCH") else tag)
        else:
            yield messages.SUSPENDED

    # The extended protocol

    def _parse(self, body: Body) -> Iterator[bytes]:
        said = Parse.read(body)
        statements = split(said.sql)
        if len(statements) > 1:
            raise Refused("42601", "cannot insert multiple commands into a prepared statement", "send them one by one")
        statement = statements[0] if statements else None
        if statement is not None:
            statement.check()
            if statement.reads:
                translated(statement.text)
        if said.name and said.name in self._prepared:
            raise Refused("42P05", f'prepared statement "{said.name}" already exists')
        if len(self._prepared) >= MOST_PREPARED:
            raise Refused("53400", f"a session may prepare {MOST_PREPARED:,} statements", "close some: DEALLOCATE ALL")
        self._prepared[said.name] = Prepared(statement, said.types)
        yield messages.PARSED

    def _bind(self, body: Body) -> Iterator[bytes]:
        said = Bind.read(body)
        prepared = self._statement(said.statement)
        oids = prepared.oids
        values = [
            None
            if value is None
            else read_parameter(oids[n] if n < len(oids) else 0, messages.format_of(said.formats, n), value)
            for n, value in enumerate(said.values)
        ]
        statement = prepared.statement
        if statement is None or not (statement.reads or statement.verb in ("SHOW", "FETCH")):
            self._portals[said.portal] = statement
        else:
            found = self._run(statement, values, oids, said.answer_formats)
            assert isinstance(found, Answer)
            yield from self._warnings(statement)
            self._portals[said.portal] = found
        yield messages.BOUND

    def _describe(self, body: Body) -> Iterator[bytes]:
        kind, name = body.byte(), body.text()
        if kind == b"P":
            portal = self._portal(name)
            yield portal.description() if isinstance(portal, Answer) else messages.NO_DATA
            return
        if kind != b"S":
            raise Malformed("only statements and portals are described")
        prepared = self._statement(name)
        statement, oids = prepared.statement, prepared.oids
        if statement is None or not (statement.reads or statement.verb == "SHOW"):
            yield messages.parameter_description(oids)
            yield messages.NO_DATA
            return
        count = translated(statement.text).parameters if statement.reads else 0
        known = tuple(oids[n] if n < len(oids) and oids[n] else 25 for n in range(max(count, len(oids))))
        yield messages.parameter_description(known)
        shown = self._run(statement, [None] * len(known), oids, ())
        assert isinstance(shown, Answer)
        yield shown.description()

    def _execute(self, body: Body) -> Iterator[bytes]:
        name, most = body.text(), body.int32()
        portal = self._portal(name)
        if portal is None:
            yield messages.EMPTY
        elif isinstance(portal, Answer):
            yield from self._rows(portal, max(most, 0))
        else:
            answer = self._run(portal, [], (), ())
            assert isinstance(answer, str)
            yield messages.complete(answer)

    def _close(self, body: Body) -> Iterator[bytes]:
        kind, name = body.byte(), body.text()
        if kind not in (b"S", b"P"):
            raise Malformed("only statements and portals are closed")
        (self._prepared if kind == b"S" else self._portals).pop(name, None)
        yield messages.CLOSED

    def _statement(self, name: str) -> Prepared:
        if name not in self._prepared:
            raise Refused("26000", f'prepared statement "{name}" does not exist', "prepare it first")
        return self._prepared[name]

    def _portal(self, name: str) -> Answer | Statement | None:
        if name not in self._portals:
            raise Refused("34000", f'portal "{name}" does not exist', "outside of BEGIN it ends with its statement")
        return self._portals[name]

    # Statements

    def _run(
        self, statement: Statement, values: list[str | None], oids: tuple[int, ...], formats: tuple[int, ...]
    ) -> Answer | str:
        """The rows of a statement, or the tag of one that has none."""
        verb = statement.verb
        if self._status == b"E" and verb not in ("ROLLBACK", "ABORT", "COMMIT", "END"):
            raise Refused(
                "25P02", "current transaction is aborted, commands ignored until end of transaction block", "ROLLBACK"
            )
        statement.check()
        if statement.reads:
            query = translated(statement.text)
            return self._asked(query, query.bound(values, oids), formats)
        if verb == "SHOW":
            return self._show(settings.name_shown(statement.text), formats)
        if verb == "FETCH":
            return self._fetch(statement)
        if verb not in _COMMANDS:
            raise Refused("42601", f'syntax error at or near "{statement.words[0]}"', "ask a SELECT")
        return _COMMANDS[verb](self, statement)

    def _asked(self, query: Query, sql: str, formats: tuple[int, ...]) -> Answer:
        cut = self._current()
        reading = self._states.reading(query, cut, settings.state(self._said(settings.AT)))
        if reading.seq is not None:
            self._hold.enter_context(self._states.held(cut, reading.seq))
        return Asked(self._states.engine(reading), sql, formats, self._allowed(), self.stopped)

    def _warnings(self, statement: Statement) -> Iterator[bytes]:
        """What a reader of halted views is told."""
        if statement.reads and self._cut is not None and any(s.state != "live" for s in self._cut.views.values()):
            reading = self._states.reading(translated(statement.text), self._cut, None)
            for what, fix in halted(self._cut, reading.views):
                yield messages.warning(what, fix)

    def _allowed(self) -> Limits:
        wanted = settings.seconds(self._said("statement_timeout"))
        return replace(self._limits, seconds=min(wanted or self._limits.seconds, self._limits.seconds))

    def _current(self) -> Cut:
        """The cut that is read now."""
        if self._cut is None:
            cut = self._states.newest()
            self._hold.enter_context(self._states.held(cut))
            self._cut = cut
        return self._cut

    def _end(self) -> None:
        self._portals.clear()
        self._local.clear()
        self._cut, self._status = None, b"I"
        self._hold.close()

    def _said(self, name: str) -> str:
        return self._local.get(name, self._settings.get(name, ""))

    def _show(self, name: str, formats: tuple[int, ...]) -> Answer:
        if name == "all":
            rows = [(n, self._said(n), "") for n in sorted({*self._settings, settings.AT})]
            return Told(("name", "setting", "description"), rows, "SHOW", formats)
        if name in settings.TOLD:
            cut = self._current()
            value = str(cut.number if name == "headwater.cut" else cut.seq)
        else:
            value = self._said(name) or ("newest" if name == settings.AT else "")
        return Told((name,), [(value,)], "SHOW", formats)

    def _set(self, statement: Statement) -> str:
        for change in settings.changes(statement.verb, statement.text):
            value = settings.checked(change)
            kept = self._local if change.local else self._settings
            if value is not None:
                kept[change.name] = value
            elif change.name in catalog.SHOWN:
                kept[change.name] = catalog.SHOWN[change.name]
            else:
                kept.pop(change.name, None)
        return statement.verb

    def _begin(self, statement: Statement) -> str:
        if self._status == b"I":
            self._end()  # what was read before in this message was read before
            self._current()
            self._status = b"T"
        return "BEGIN"

    def _commit(self, statement: Statement) -> str:
        failed = self._status == b"E"
        self._end()
        return "ROLLBACK" if failed or statement.verb in ("ROLLBACK", "ABORT") else "COMMIT"

    def _rollback(self, statement: Statement) -> str:
        if "TO" in (word.upper() for word in statement.words):
            if self._status == b"I":
                raise Refused("25P01", "ROLLBACK TO SAVEPOINT can only be used in transaction blocks")
            self._status = b"T"
            return "ROLLBACK"
        return self._commit(statement)

    def _deallocate(self, statement: Statement) -> str:
        name = statement.words[-1]
        if name.upper() == "ALL":
            self._prepared.clear()
        elif self._prepared.pop(name, None) is None:
            raise Refused("26000", f'prepared statement "{name}" does not exist')
        return "DEALLOCATE"

    def _discard(self, statement: Statement) -> str:
        self._prepared.clear()
        self._settings = {**catalog.SHOWN, "application_name": self._settings["application_name"]}
        return "DISCARD ALL"

    def _declare(self, statement: Statement) -> str:
        found = _DECLARE.fullmatch(statement.text.strip())
        if found is None:
            raise Refused("42601", "this DECLARE is not understood", "write DECLARE name CURSOR FOR SELECT …")
        if self._status != b"T":
            raise Refused("25P01", "DECLARE CURSOR can only be used in transaction blocks", "BEGIN first")
        if "SCROLL" in found[2].upper() and "NO SCROLL" not in found[2].upper():
            raise Refused("0A000", "cursors only go forward", "leave out SCROLL")
        query = translated(found[3])
        self._portals[_unquoted(found[1])] = self._asked(query, query.bound([], ()), ())
        return "DECLARE CURSOR"

    def _fetch(self, statement: Statement) -> Answer:
        found = _FETCH.fullmatch(statement.text.strip())
        if found is None:
            raise Refused("0A000", "this FETCH is not understood", "write FETCH 100 FROM name: cursors only go forward")
        portal = self._portal(_unquoted(found[2]))
        assert isinstance(portal, Answer)
        count = (found[1] or "1").strip("() ").upper()
        most = {"ALL": 0, "NEXT": 1}.get(count)
        return _Fetched(portal, int(count) if most is None else most)

    def _close_cursor(self, statement: Statement) -> str:
        name = statement.words[-1]
        if name.upper() == "ALL":
            self._portals.clear()
        elif self._portals.pop(name, None) is None:
            raise Refused("34000", f'cursor "{name}" does not exist')
        return "CLOSE CURSOR"

    def _nothing(self, statement: Statement) -> str:
        return statement.verb


class _Fetched(Answer):
    """The next rows of a cursor, as an answer of their own."""

    def __init__(self, cursor: Answer, most: int) -> None:
        super().__init__(cursor.columns, (), (), "FETCH")
        self._cursor, self._most = cursor, most
        self.formats = cursor.formats

    def fetch(self, most: int = 0) -> Iterator[bytes]:
        before = self._cursor.sent
        for some in self._cursor.fetch(self._most):
            self.sent = self._cursor.sent - before
            yield some
        self.sent, self.done = self._cursor.sent - before, True


def _unquoted(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name.lower()


_EXTENDED: dict[bytes, Callable[[Session, Body], Iterator[bytes]]] = {
    b"P": Session._parse,
    b"B": Session._bind,
    b"D": Session._describe,
    b"E": Session._execute,
    b"C": Session._close,
}
_COMMANDS: dict[str, Callable[[Session, Statement], str]] = {
    "BEGIN": Session._begin,
    "START": Session._begin,
    "COMMIT": Session._commit,
    "END": Session._commit,
    "ROLLBACK": Session._rollback,
    "ABORT": Session._commit,
    "SAVEPOINT": Session._nothing,
    "RELEASE": Session._nothing,
    "LISTEN": Session._nothing,
    "UNLISTEN": Session._nothing,
    "SET": Session._set,
    "RESET": Session._set,
    "DEALLOCATE": Session._deallocate,
    "DISCARD": Session._discard,
    "DECLARE": Session._declare,
    "CLOSE": Session._close_cursor,
}
