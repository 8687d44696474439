"""The service: what a client of Arrow Flight SQL calls, answered.

GetFlightInfo says what the columns are and gives a ticket, DoGet streams the rows, DoAction prepares, ends and cancels,
DoPut takes the values of parameters. Rows are made as they are fetched, so that no answer is whole in memory; a client
that reads slowly slows only itself. Nothing is ever written.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from pyarrow import flight

from headwater.model.changelog import COUNT, SEQ
from headwater.serve.answers import Limits
from headwater.serve.errors import Refused, explained
from headwater.serve.flight import catalogue, wire
from headwater.serve.flight.login import Call, Doorkeeper, Handshake
from headwater.serve.flight.running import Running, Stream
from headwater.serve.flight.statements import Asked, Prepared, Statements
from headwater.serve.flight.values import given, one_line, parameter_schema, sized
from headwater.serve.flight.wire import Fields
from headwater.serve.login import Account
from headwater.serve.messages import Malformed
from headwater.serve.states import States

log = logging.getLogger(__name__)

BATCH = 128 * 1024
MOST_BYTES = 8 * 1024 * 1024
"""Of one message; some clients take no more than 16 MB."""
_TICKET = "TicketStatementQuery"


class Service(flight.FlightServerBase):  # type: ignore[misc] # pyarrow has no types
    """At one address, until it is shut down."""

    def __init__(
        self, location: str, states: States, account: Account, limits: Limits, tls: tuple[bytes, bytes] | None = None
    ) -> None:
        self._states, self._limits = states, limits
        self._statements, self._running = Statements(states, limits.connections), Running(limits.connections)
        super().__init__(
            location,
            auth_handler=Handshake(),
            middleware={"headwater": Doorkeeper(account)},
            tls_certificates=[tls] if tls else None,
        )

    def close(self) -> None:
        self._running.close()
        self.shutdown()
        self._statements.close()

    def get_flight_info(self, context: Any, descriptor: Any) -> flight.FlightInfo:
        with _explained():
            name, said = wire.command(bytes(descriptor.command or b""))
            if name in catalogue.COMMANDS:
                schema, ticket, told = self._browsed(name, said).schema, bytes(descriptor.command), ""
            else:
                asked = self._asked(name, said, _call(context).at)
                try:
                    schema = asked.batches.schema()
                    ticket, told = wire.any_of(_TICKET, (1, self._statements.asked.keep(asked))), asked.told
                except BaseException:
                    asked.end()
                    raise
            endpoint = flight.FlightEndpoint(ticket, [])
            return flight.FlightInfo(schema, descriptor, [endpoint], app_metadata=told.encode())

    def get_schema(self, context: Any, descriptor: Any) -> flight.SchemaResult:
        with _explained():
            name, said = wire.command(bytes(descriptor.command or b""))
            if name in catalogue.COMMANDS:
                return flight.SchemaResult(self._browsed(name, said).schema)
            asked = self._asked(name, said, _call(context).at)
            try:
                return flight.SchemaResult(asked.batches.schema())
            finally:
                asked.end()

    def do_get(self, context: Any, ticket: Any) -> flight.FlightDataStream:
        with _explained():
            name, said = wire.command(bytes(ticket.ticket))
            if name in catalogue.COMMANDS:
                return flight.RecordBatchStream(self._browsed(name, said))
            if name != _TICKET:
                raise Refused("0A000", f"{name} is no ticket of this server", "ask for it by GetFlightInfo")
            handle = said.bytes(1) or b""
            rows = self._rows(context, handle, self._statements.asked.take(handle))
            return flight.GeneratorStream(next(rows), rows)

    def do_put(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        with _explained():
            name, said = wire.command(bytes(descriptor.command or b""))
            if name != "CommandPreparedStatementQuery":
                raise Refused("25006", "nothing is written here", "views change with their sources only")
            handle = said.bytes(1) or b""
            prepared = self._statements.prepared.get(handle)
            prepared.values, prepared.oids = given(reader.read_all())
            writer.write(wire.message((1, handle)))

    def do_action(self, context: Any, action: Any) -> Iterator[flight.Result]:
        with _explained():
            if action.type not in _ACTIONS:
                raise Refused(
                    "0A000", f"there is no action {action.type[:80]!r} here", f"there are {', '.join(_ACTIONS)}"
                )
            body = action.body.to_pybytes()
            said = wire.Fields.read(body) if action.type == _CANCEL else wire.command(body)[1]
            found = _ACTIONS[action.type](self, said, _call(context).at)
            return iter([] if found is None else [flight.Result(found)])

    def list_actions(self, context: Any) -> list[tuple[str, str]]:
        return [(name, "") for name in _ACTIONS]

    def list_flights(self, context: Any, criteria: Any) -> Iterator[flight.FlightInfo]:
        return iter(())

    # Statements

    def _asked(self, name: str, said: Fields, at: str) -> Asked:
        if name == "CommandStatementQuery":
            query = self._statements.query(said.text(1) or "")
            return self._statements.ask(Prepared(query, said.bytes(2) or b""), at)
        if name == "CommandPreparedStatementQuery":
            return self._statements.ask(self._statements.prepared.get(said.bytes(1) or b""), at)
        if "Update" in name or "Ingest" in name:
            raise Refused("25006", "nothing is written here", "views change with their sources only")
        raise Refused("0A000", f"{name} is not answered here", "ask a query")

    def _rows(self, context: Any, handle: bytes, asked: Asked) -> Iterator[Any]:
        """The columns, and then the rows. Whoever takes it on asks for the columns first: a generator that was begun
        ends what it holds even if nobody is there for the first row; one that was not does nothing at all."""
        seen = 0
        try:
            yield asked.batches.schema()
            with _explained(), self._running.one(handle, Stream(context, self._limits.seconds)) as stream:
                while (batch := stream.more(asked.batches, BATCH)) is not None:
                    seen += batch.num_rows
                    if self._limits.rows and seen > self._limits.rows:
                        said = f"the answer has more than {self._limits.rows:,} rows"
                        raise Refused("54000", said, "ask for less, or raise [serve] rows")
                    yield from sized(batch, MOST_BYTES)
        finally:
            asked.end()

    def _browsed(self, name: str, said: Fields) -> pa.Table:
        cut = self._states.newest()
        views = {str(view): _shown(self._states.schema(cut, view)) for view in cut.views}
        return catalogue.COMMANDS[name](said, views)

    def _prepare(self, said: Fields, at: str) -> bytes:
        query = self._statements.query(said.text(1) or "")
        prepared = Prepared(query, said.bytes(2) or b"")
        prepared.values = [None] * query.parameters  # to know its columns
        asked = self._statements.ask(prepared, at)
        try:
            schema = asked.batches.schema()
        finally:
            asked.end()
        prepared.values = []
        fields = [(1, self._statements.prepared.keep(prepared)), (2, schema.serialize().to_pybytes())]
        if query.parameters:
            fields.append((3, parameter_schema(query.parameters).serialize().to_pybytes()))
        return wire.any_of("ActionCreatePreparedStatementResult", *fields)

    def _close_prepared(self, said: Fields, at: str) -> None:
        self._statements.prepared.drop(said.bytes(1) or b"")

    def _cancel(self, said: Fields, at: str) -> bytes:
        """One that waits to be fetched is gone; one that is being fetched ends with an error, soon."""
        info = Fields.read(said.bytes(1) or b"")
        status = _NOT_CANCELLABLE
        for endpoint in info.messages(_ENDPOINT):
            ticket = Fields.read(endpoint.bytes(1) or b"").bytes(1) or b""
            name, told = wire.command(ticket)
            handle = told.bytes(1) or b""
            if name == _TICKET and self._statements.asked.drop(handle):
                status = _CANCELLED
            elif name == _TICKET and self._running.cancel(handle):
                status = _CANCELLING
        return wire.number((1, status))

    def _cancel_query(self, said: Fields, at: str) -> bytes:
        """The same, as older clients say it."""
        return wire.packed("ActionCancelQueryResult", self._cancel(said, at))

    def _begin(self, said: Fields, at: str) -> bytes:
        return wire.any_of("ActionBeginTransactionResult", (1, self._statements.begin()))

    def _end(self, said: Fields, at: str) -> None:
        handle = said.bytes(1) or b""
        self._statements.transactions.get(handle)
        self._statements.transactions.drop(handle)


_CANCEL = "CancelFlightInfo"
"""An action of Flight itself: it comes without the name of a command."""
_ENDPOINT = 3
"""Of a FlightInfo: where its rows are to be fetched."""
_CANCELLED, _CANCELLING, _NOT_CANCELLABLE = 1, 2, 3

_ACTIONS: dict[str, Callable[[Service, Fields, str], bytes | None]] = {
    "CreatePreparedStatement": Service._prepare,
    "ClosePreparedStatement": Service._close_prepared,
    "BeginTransaction": Service._begin,
    "EndTransaction": Service._end,
    _CANCEL: Service._cancel,
    "CancelQuery": Service._cancel_query,
}


def _call(context: Any) -> Call:
    found: Call = context.get_middleware("headwater")
    return found


def _shown(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field for field in schema if field.name not in (COUNT, SEQ)])


@contextmanager
def _explained() -> Iterator[None]:
    """Errors as clients see them: one line. Of those that are not Flight's own, Arrow would tell the traceback."""
    try:
        yield
    except flight.FlightError:
        raise
    except Malformed as error:
        raise flight.FlightServerError(error.what) from None
    except Exception as error:
        told = explained(error)
        if told.state == "XX000":
            log.error("a call failed", exc_info=error)
        said = one_line(f"{told.what}. {told.fix}" if told.fix else told.what)
        raise _KINDS.get(told.state, flight.FlightServerError)(f"{said} [{told.state}]") from None


_KINDS = {
    "25006": flight.FlightUnauthorizedError,
    "57014": flight.FlightTimedOutError,
    "XX000": flight.FlightInternalError,
}
