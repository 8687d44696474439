"""A session after its log-in: messages in, messages out.

Every Query message, and every stretch of messages up to a Sync, reads one cut (`scope`). An error in the extended
protocol skips what follows up to the Sync. Nothing is ever written.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

from headwater.serve import messages
from headwater.serve.answers import Answer, Asked, Limits
from headwater.serve.cursors import Fetched, declared, fetched
from headwater.serve.errors import Refused, explained
from headwater.serve.messages import Bind, Body, Malformed, Parse
from headwater.serve.portals import Bound, Known, Prepared
from headwater.serve.scope import FAILED, IDLE, OPEN, Scope
from headwater.serve.statements import Query, Statement, split, translated
from headwater.serve.states import States, halted
from headwater.serve.stopping import Stopped
from headwater.serve.types import read_parameter

log = logging.getLogger(__name__)


class Ended(Exception):
    """The client says good-bye."""


class Session:
    """One client."""

    def __init__(self, states: States, limits: Limits, said: dict[str, str]) -> None:
        self._states, self._limits, self.stopped = states, limits, Stopped()
        self._scope, self._skipping = Scope(states, said), False
        self._known = Known()

    def close(self) -> None:
        self._known.close()
        self._scope.end()

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
        self._scope.failed()
        return messages.error("ERROR", told.state, told.what, told.fix)

    def _synced(self) -> bytes:
        self._skipping = False
        if self._scope.status == IDLE:
            self._known.close()
            self._scope.end()
        return messages.ready(self._scope.status)

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
                yield self._completed(answer)
        yield self._synced()

    def _completed(self, tag: str) -> bytes:
        told = (messages.parameter(name, value) for name, value in self._scope.changed())
        return b"".join([*told, messages.complete(tag)])

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
        self._known.prepare(said.name, Prepared(statement, said.types))
        yield messages.PARSED

    def _bind(self, body: Body) -> Iterator[bytes]:
        said = Bind.read(body)
        prepared = self._known.statement(said.statement)
        oids = prepared.oids
        values = [
            None
            if value is None
            else read_parameter(oids[n] if n < len(oids) else 0, messages.format_of(said.formats, n), value)
            for n, value in enumerate(said.values)
        ]
        statement = prepared.statement
        if statement is None:
            self._known.keep(said.portal, None)
        elif not (statement.reads or statement.verb in ("SHOW", "FETCH")):
            self._known.keep(said.portal, Bound(statement, values, oids))
        else:
            found = self._run(statement, values, oids, said.answer_formats)
            assert isinstance(found, Answer)
            self._known.keep(said.portal, found)
            yield from self._warnings(statement)
        yield messages.BOUND

    def _describe(self, body: Body) -> Iterator[bytes]:
        kind, name = body.byte(), body.text()
        if kind == b"P":
            portal = self._known.portal(name)
            yield portal.description() if isinstance(portal, Answer) else messages.NO_DATA
            return
        if kind != b"S":
            raise Malformed("only statements and portals are described")
        prepared = self._known.statement(name)
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
        shown.close()

    def _execute(self, body: Body) -> Iterator[bytes]:
        name, most = body.text(), body.int32()
        portal = self._known.portal(name)
        if portal is None:
            yield messages.EMPTY
        elif isinstance(portal, Answer):
            yield from self._rows(portal, max(most, 0))
        else:
            answer = self._run(portal.statement, portal.values, portal.oids, ())
            assert isinstance(answer, str)
            yield self._completed(answer)

    def _close(self, body: Body) -> Iterator[bytes]:
        kind, name = body.byte(), body.text()
        if kind not in (b"S", b"P"):
            raise Malformed("only statements and portals are closed")
        if kind == b"S":
            self._known.prepared.pop(name, None)
        else:
            self._known.drop(name)
        yield messages.CLOSED

    # Statements

    def _run(
        self, statement: Statement, values: list[str | None], oids: tuple[int, ...], formats: tuple[int, ...]
    ) -> Answer | str:
        """The rows of a statement, or the tag of one that has none."""
        verb = statement.verb
        if self._scope.status == FAILED and verb not in ("ROLLBACK", "ABORT", "COMMIT", "END"):
            raise Refused(
                "25P02", "current transaction is aborted, commands ignored until end of transaction block", "ROLLBACK"
            )
        statement.check()
        if statement.reads:
            return self._asked(translated(statement.text), values, oids, formats)
        if verb == "SHOW":
            return self._scope.show(statement, formats)
        if verb == "FETCH":
            name, most = fetched(statement.text)
            portal = self._known.portal(name)
            if not isinstance(portal, Answer):
                raise Refused("34000", f'"{name}" is no cursor', "DECLARE one")
            return Fetched(portal, most)
        if verb == "DECLARE":
            return self._declare(statement, values, oids)
        if verb in _TRANSACTIONS:
            self._known.close()
        if verb not in _COMMANDS:
            raise Refused("42601", f'syntax error at or near "{statement.words[0]}"', "ask a SELECT")
        return _COMMANDS[verb](self, statement)

    def _asked(self, query: Query, values: list[str | None], oids: tuple[int, ...], formats: tuple[int, ...]) -> Answer:
        found = self._scope.asked(query, values, oids)
        return Asked(found, formats, self._scope.allowed(self._limits), self.stopped)

    def _warnings(self, statement: Statement) -> Iterator[bytes]:
        """What a reader of halted views is told."""
        cut = self._scope.cut
        if statement.reads and cut is not None and any(s.state != "live" for s in cut.views.values()):
            reading = self._states.reading(translated(statement.text), cut, None)
            for what, fix in halted(cut, tuple(reading.views)):
                yield messages.warning(what, fix)

    def _deallocate(self, statement: Statement) -> str:
        name = statement.words[-1]
        if name.upper() == "ALL":
            self._known.prepared.clear()
        elif self._known.prepared.pop(name, None) is None:
            raise Refused("26000", f'prepared statement "{name}" does not exist')
        return "DEALLOCATE"

    def _discard(self, statement: Statement) -> str:
        self._known.prepared.clear()
        self._scope.forget_settings()
        return "DISCARD ALL"

    def _declare(self, statement: Statement, values: list[str | None], oids: tuple[int, ...]) -> str:
        name, text = declared(statement.text)
        if self._scope.status != OPEN:
            raise Refused("25P01", "DECLARE CURSOR can only be used in transaction blocks", "BEGIN first")
        self._known.keep(name, self._asked(translated(text), values, oids, ()))
        return "DECLARE CURSOR"

    def _close_cursor(self, statement: Statement) -> str:
        name = statement.words[-1]
        if name.upper() == "ALL":
            self._known.close()
        elif not self._known.drop(name):
            raise Refused("34000", f'cursor "{name}" does not exist')
        return "CLOSE CURSOR"


_EXTENDED: dict[bytes, Callable[[Session, Body], Iterator[bytes]]] = {
    b"P": Session._parse,
    b"B": Session._bind,
    b"D": Session._describe,
    b"E": Session._execute,
    b"C": Session._close,
}
_TRANSACTIONS = ("COMMIT", "END", "ABORT")
_COMMANDS: dict[str, Callable[[Session, Statement], str]] = {
    "BEGIN": lambda session, statement: session._scope.begin(statement),
    "START": lambda session, statement: session._scope.begin(statement),
    "COMMIT": lambda session, statement: session._scope.commit(statement),
    "END": lambda session, statement: session._scope.commit(statement),
    "ROLLBACK": lambda session, statement: session._scope.rollback(statement),
    "ABORT": lambda session, statement: session._scope.commit(statement),
    "SAVEPOINT": lambda session, statement: statement.verb,
    "RELEASE": lambda session, statement: statement.verb,
    "LISTEN": lambda session, statement: statement.verb,
    "UNLISTEN": lambda session, statement: statement.verb,
    "SET": lambda session, statement: session._scope.set(statement),
    "RESET": lambda session, statement: session._scope.set(statement),
    "DEALLOCATE": Session._deallocate,
    "DISCARD": Session._discard,
    "CLOSE": Session._close_cursor,
}
