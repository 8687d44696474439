"""The views over Arrow Flight SQL, as ADBC and pyarrow see them."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import adbc_driver_manager
import pyarrow as pa
import pytest
from adbc_driver_flightsql import dbapi
from pyarrow import flight

from cli.small import ANNE, halt_people, small_project
from headwater.model.changelog import COUNT, SEQ
from headwater.runtime.project.config import load_config
from headwater.runtime.project.project import Project
from headwater.serve.answers import Limits
from headwater.serve.flight import wire
from headwater.serve.flight.service import Service
from headwater.serve.flight.statements import Asked
from headwater.serve.flight.values import numbered, sized
from headwater.serve.messages import Malformed
from headwater.serve.states import States
from headwater.storage import Storage
from headwater.warehouse.sessions import pins
from serve.conftest import ACCOUNT, PASSWORD
from serve.test_serve import write

WHO = {"username": "headwater", "password": PASSWORD}
AT = "adbc.flight.sql.rpc.call_header.headwater.at"


@contextmanager
def flying(folder: Path, limits: Limits | None = None, tls: tuple[bytes, bytes] | None = None) -> Iterator[Service]:
    states = States(Project(load_config(folder)))
    location = f"grpc{'+tls' if tls else ''}://127.0.0.1:0"
    service = Service(location, states, ACCOUNT, limits or Limits(seconds=20), tls)
    try:
        yield service
    finally:
        service.close()
        states.close()


@pytest.fixture(scope="module")
def flown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = small_project(tmp_path_factory.mktemp("flight") / "small")
    with flying(folder) as service:
        yield service


def connect(service: Service, **more: str) -> dbapi.Connection:
    return dbapi.connect(f"grpc://127.0.0.1:{service.port}", db_kwargs={**WHO, **more}, autocommit=True)


@pytest.fixture
def client(flown: Service) -> Iterator[dbapi.Connection]:
    with connect(flown) as connection:
        yield connection


def ask(client: dbapi.Connection, query: str, *values: Any) -> list[Any]:
    with client.cursor() as cursor:
        cursor.execute(query, values or None)
        return [tuple(row.values()) for row in cursor.fetch_arrow_table().to_pylist()]


def refused(client: dbapi.Connection, query: str, *values: Any) -> str:
    with pytest.raises(adbc_driver_manager.Error) as raised:
        ask(client, query, *values)
    assert "Traceback" not in str(raised.value)
    return str(raised.value)


def test_rows_are_those_of_the_view_with_its_types(client: dbapi.Connection) -> None:
    with client.cursor() as cursor:
        cursor.execute("SELECT * FROM people WHERE id = 1")
        table = cursor.fetch_arrow_table()
    assert [tuple(row.values())[:6] for row in table.to_pylist()] == [ANNE[:6], ANNE[:6]]
    assert table.schema.field("amount").type == pa.decimal128(20, 4)
    assert table.schema.field("at").type == pa.timestamp("us", "UTC")
    assert ask(client, "SELECT count(*), max(id) FROM public.people") == [(3, 2)]


def test_parameters(client: dbapi.Connection) -> None:
    for _ in range(4):  # by the engine, then by key
        assert ask(client, "SELECT id, name FROM people WHERE id = ?", 1) == [(1, "Anne")] * 2
    assert ask(client, "SELECT count(*) FROM people WHERE name = ? AND at = ?", "Anne", ANNE[4]) == [(2,)]
    assert ask(client, "SELECT ? || '?' AS v", "it's ½") == [("it's ½?",)]
    assert ask(client, "SELECT count(*) FROM people WHERE ratio = ? OR raw = ?", 0.1, b"\x00\xff") == [(3,)]
    with client.cursor() as cursor:
        cursor.adbc_prepare("SELECT name FROM people WHERE id = ?")
        for n, many in ((1, 2), (2, 1), (3, 0)):
            cursor.execute("SELECT name FROM people WHERE id = ?", (n,))
            assert len(cursor.fetchall()) == many
        assert cursor.adbc_execute_schema("SELECT id FROM people").names == ["id"]
    assert numbered("SELECT ?, '?', \"?\" -- ?\n, ?") == "SELECT $1, '?', \"?\" -- ?\n, $2"


def test_what_clients_browse(client: dbapi.Connection) -> None:
    (found,) = client.adbc_get_objects(depth="all").read_all().to_pylist()
    (schema,) = found["catalog_db_schemas"]
    (table,) = schema["db_schema_tables"]
    assert (found["catalog_name"], schema["db_schema_name"], table["table_name"]) == ("headwater", "public", "people")
    assert [c["column_name"] for c in table["table_columns"]][:2] == ["id", "name"]
    assert client.adbc_get_table_types() == ["TABLE"]
    assert client.adbc_get_info()["vendor_name"] == "Headwater"
    assert client.adbc_get_table_schema("people").names[0] == "id"
    none = client.adbc_get_objects(depth="tables", table_name_filter="x%").read_all().to_pylist()
    assert not none[0]["catalog_db_schemas"][0]["db_schema_tables"]


def test_nothing_is_written_and_errors_say_what_to_do(client: dbapi.Connection) -> None:
    assert "read-only" in refused(client, "DELETE FROM people")
    assert "read-only" in refused(client, "WITH x AS (DELETE FROM people RETURNING *) SELECT * FROM x")
    assert "did you mean 'people'?" in refused(client, "SELECT * FROM poeple")
    assert "42703" in refused(client, "SELECT nope FROM people")
    assert "ask a SELECT" in refused(client, "BEGIN")
    assert "one statement" in refused(client, "SELECT 1; SELECT 2")
    refused(client, "SELECT * FROM read_text('/etc/hostname')")
    with pytest.raises(adbc_driver_manager.Error), client.cursor() as cursor:
        cursor.adbc_ingest("people", pa.table({"id": [1]}), mode="append")
    assert ask(client, "SELECT 1") == [(1,)]


def test_who_may_ask(flown: Service) -> None:
    for changes in ({"password": "wrong"}, {"username": "other"}):
        with pytest.raises(adbc_driver_manager.Error, match="wrong") as raised:
            connect(flown, **changes)
        assert PASSWORD not in str(raised.value)
    bare = flight.connect(f"grpc://127.0.0.1:{flown.port}")
    command = flight.FlightDescriptor.for_command(wire.any_of("CommandStatementQuery", (1, b"SELECT 1")))
    for headers in ([], [(b"authorization", b"Bearer x")], [(b"authorization", b"Basic !!")]):
        with pytest.raises(flight.FlightUnauthenticatedError):
            bare.get_flight_info(command, flight.FlightCallOptions(headers=headers))
        with pytest.raises(flight.FlightUnauthenticatedError):
            bare.do_get(flight.Ticket(b"x"), flight.FlightCallOptions(headers=headers)).read_all()
    bare.close()


def test_pyarrow_asks_by_itself(flown: Service) -> None:
    bare = flight.connect(f"grpc://127.0.0.1:{flown.port}")
    options = flight.FlightCallOptions(headers=[bare.authenticate_basic_token("headwater", PASSWORD)])
    query = wire.any_of("CommandStatementQuery", (1, b"SELECT id, name FROM people WHERE id = 2"))
    descriptor = flight.FlightDescriptor.for_command(query)
    info = bare.get_flight_info(descriptor, options)
    assert info.schema.names == ["id", "name"] == bare.get_schema(descriptor, options).schema.names
    ticket = info.endpoints[0].ticket
    assert bare.do_get(ticket, options).read_all().num_rows == 1
    with pytest.raises(flight.FlightServerError, match="not known"):
        bare.do_get(ticket, options).read_all()
    token = bare.authenticate_basic_token("headwater", PASSWORD)
    older = flight.FlightCallOptions(headers=[(b"headwater.at", b"1"), token])
    info = bare.get_flight_info(descriptor, older)
    assert bare.do_get(info.endpoints[0].ticket, older).read_all().num_rows == 0
    for junk in (b"", b"x", b"\xff" * 40, wire.any_of("CommandSubstrait", (1, b"")), wire.message((1, b"other"))):
        with pytest.raises(flight.FlightError) as raised:
            bare.get_flight_info(flight.FlightDescriptor.for_command(junk), options)
        assert "Traceback" not in str(raised.value)
        with pytest.raises(flight.FlightError):
            bare.do_get(flight.Ticket(junk), options).read_all()
        with pytest.raises(flight.FlightError):
            list(bare.do_action(flight.Action("CreatePreparedStatement", junk), options))
    bare.close()


def test_a_statement_reads_one_cut_and_a_transaction_too(tmp_path: Path) -> None:
    folder = small_project(tmp_path / "small")
    write(folder, "moving", pa.table({"n": [1], COUNT: [1], SEQ: [4]}), 4)
    storage, count = Storage(str(folder / "warehouse")), "SELECT count(*) FROM moving"
    with flying(folder) as service:
        with connect(service) as client, connect(service, **{AT: "4"}) as older:
            pinned = dbapi.connect(f"grpc://127.0.0.1:{service.port}", db_kwargs=WHO)  # a transaction begins
            assert ask(pinned, count) == [(1,)]
            with client.cursor() as cursor:
                cursor.execute("SELECT n FROM moving")
                write(folder, "moving", pa.table({"n": [2], COUNT: [1], SEQ: [5]}), 5)
                assert cursor.fetch_arrow_table().num_rows == 1  # as of when it was asked
            assert ask(client, count) == [(2,)]
            assert ask(pinned, count) == [(1,)]
            assert ask(older, count) == [(1,)]
            assert any(pin.cut.number == 2 for pin in pins(storage))
            pinned.commit()
            assert ask(pinned, count) == [(2,)]
            pinned.close()
        with connect(service, **{AT: "99"}) as never:
            assert "the newest one is 5" in refused(never, count)
        with connect(service, **{AT: "long ago"}) as never:
            refused(never, count)
    assert pins(storage) == []


def test_large_answers_are_streamed_and_end_in_time(flown: Service, tmp_path: Path) -> None:
    with connect(flown) as client, client.cursor() as cursor:
        cursor.execute("SELECT range AS n, repeat('x', 200) AS t FROM range(300000)")
        sizes = [batch.nbytes for batch in cursor.fetch_record_batch()]
        assert len(sizes) > 5
        assert max(sizes) < 10_000_000
        cursor.execute("SELECT range FROM range(100000000000)")  # it would not fit
        assert next(iter(cursor.fetch_record_batch())).num_rows > 0
    folder = small_project(tmp_path / "small")
    with flying(folder, Limits(seconds=0.3, rows=10)) as strict, connect(strict) as client:
        endless = "SELECT count(*) FROM range(1000000) a, range(1000000) b WHERE a.range * b.range = 7"
        assert "57014" in refused(client, endless)
        assert "54000" in refused(client, "SELECT * FROM range(11)")
        assert len(ask(client, "SELECT * FROM range(10)")) == 10


ENDLESS = "SELECT count(*) FROM range(10000000) a, range(10000000) b WHERE a.range * b.range = 7"


def asked_bare(service: Service, query: str) -> tuple[flight.FlightClient, flight.FlightInfo, flight.FlightCallOptions]:
    client = flight.connect(f"grpc://127.0.0.1:{service.port}")
    options = flight.FlightCallOptions(headers=[client.authenticate_basic_token(*WHO.values())])
    command = wire.any_of("CommandStatementQuery", (1, query.encode()))
    return client, client.get_flight_info(flight.FlightDescriptor.for_command(command), options), options


def until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_so_many_statements_at_once(tmp_path: Path) -> None:
    folder = small_project(tmp_path / "small")
    with flying(folder, Limits(seconds=60, connections=2)) as service:
        client, info, options = asked_bare(service, "SELECT range FROM range(100000000)")
        first = client.do_get(info.endpoints[0].ticket, options)
        first.read_chunk()
        with connect(service) as other:
            second = other.cursor()
            second.execute("SELECT range FROM range(100000000)")
            reader = second.fetch_record_batch()
            next(iter(reader))
            assert "53300" in refused(other, "SELECT 1")
            first.cancel()
            until(lambda: len(service._running._streams) == 1)
            assert ask(other, "SELECT 1") == [(1,)]
        waiting = [asked_bare(service, "SELECT 1") for _ in range(2)]  # never fetched
        with pytest.raises(flight.FlightError, match="53400"):
            asked_bare(service, "SELECT 1")
        assert waiting


def test_a_stream_that_is_never_read_holds_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its client may be gone before the first row is made."""
    ended: list[Asked] = []
    monkeypatch.setattr(Asked, "end", lambda asked: ended.append(asked))
    with flying(small_project(tmp_path / "small")) as service:
        _, info, _ = asked_bare(service, "SELECT 1")
        stream = service.do_get(None, info.endpoints[0].ticket)
        assert not ended
        del stream
        gc.collect()
        assert len(ended) == 1


def test_a_client_that_goes_away_stops_its_statement(tmp_path: Path) -> None:
    with flying(small_project(tmp_path / "small"), Limits(seconds=600)) as service:
        client, info, options = asked_bare(service, ENDLESS)
        reader = client.do_get(info.endpoints[0].ticket, options)
        until(lambda: len(service._running._streams) == 1)
        time.sleep(0.3)  # the engine is at it
        reader.cancel()
        until(lambda: not service._running._streams)


@pytest.mark.parametrize("action", ["CancelFlightInfo", "CancelQuery"])
def test_statements_are_cancelled(tmp_path: Path, action: str) -> None:
    def cancel(info: flight.FlightInfo) -> int:
        said = (1, info.serialize())
        body = wire.message(said) if action == "CancelFlightInfo" else wire.any_of("ActionCancelQueryRequest", said)
        (found,) = client.do_action(flight.Action(action, body), options)
        told = found.body.to_pybytes()
        fields = wire.Fields.read(told) if action == "CancelFlightInfo" else wire.command(told)[1]
        return fields.whole(1)

    with flying(small_project(tmp_path / "small"), Limits(seconds=600)) as service:
        client, info, options = asked_bare(service, ENDLESS)
        reader = client.do_get(info.endpoints[0].ticket, options)
        until(lambda: len(service._running._streams) == 1)
        assert cancel(info) == 2
        with pytest.raises(flight.FlightTimedOutError, match="a client asked to stop it"):
            reader.read_all()
        until(lambda: not service._running._streams)
        assert cancel(info) == 3
        client, info, options = asked_bare(service, "SELECT 1")
        assert cancel(info) == 1
        with pytest.raises(flight.FlightError, match="26000"):
            client.do_get(info.endpoints[0].ticket, options).read_all()


def test_many_at_once(flown: Service) -> None:
    failed = list[str]()

    def many() -> None:
        with connect(flown) as client:
            for n in range(15):
                if ask(client, "SELECT count(*) FROM people WHERE id >= ?", n % 3) != [(3 if n % 3 < 2 else 1,)]:
                    failed.append(str(n))

    threads = [threading.Thread(target=many) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_readers_of_a_halted_view_are_told(tmp_path: Path) -> None:
    folder = small_project(tmp_path / "small")
    halt_people(folder)
    with flying(folder) as service:
        bare = flight.connect(f"grpc://127.0.0.1:{service.port}")
        options = flight.FlightCallOptions(headers=[bare.authenticate_basic_token("headwater", PASSWORD)])
        query = wire.any_of("CommandStatementQuery", (1, b"SELECT * FROM people"))
        info = bare.get_flight_info(flight.FlightDescriptor.for_command(query), options)
        assert b"people is halted" in info.app_metadata
        bare.close()


def test_connections_can_be_encrypted(tmp_path: Path) -> None:
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *names]
    subprocess.run([*made, "-keyout", tmp_path / "key", "-out", tmp_path / "pem"], capture_output=True, check=True)
    pem = (tmp_path / "pem").read_bytes()
    with flying(small_project(tmp_path / "small"), tls=(pem, (tmp_path / "key").read_bytes())) as service:
        secured = {**WHO, "adbc.flight.sql.client_option.tls_root_certs": pem.decode()}
        with dbapi.connect(f"grpc+tls://127.0.0.1:{service.port}", db_kwargs=secured, autocommit=True) as client:
            assert ask(client, "SELECT count(*) FROM people") == [(3,)]


def test_the_command_serves_both(tmp_path: Path) -> None:
    folder = small_project(tmp_path / "small")
    (tmp_path / "password").write_text(PASSWORD)
    said = ["--port", "0", "--flight", "0", "--json", "--password-file", str(tmp_path / "password")]
    command = [sys.executable, "-m", "headwater.cli.main", "serve", *said, "--project", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as served:
        try:
            assert served.stdout is not None
            told = json.loads(served.stdout.readline())
            assert told["url"].startswith("postgresql://")
            with dbapi.connect(told["flight"], db_kwargs=WHO, autocommit=True) as client:
                assert ask(client, "SELECT count(*) FROM people") == [(3,)]
        finally:
            served.terminate()
        assert served.wait(20) == 0


def test_messages_are_protobuf() -> None:
    name, said = wire.command(wire.any_of("X", (1, b"a" * 300), (2, b""), (1, "½".encode())))
    assert (name, said.text(1), said.texts(1), said.text(2), said.text(3)) == ("X", "½", ["a" * 300, "½"], "", None)
    assert wire.Fields.read(b"\x08\x96\x01\x12\x02\x01\x7f").wholes(1) == [150]
    assert wire.Fields.read(b"\x08\x96\x01\x12\x02\x01\x7f").wholes(2) == [1, 127]
    for junk in (b"\x08", b"\x12\x05a", b"\x0b", b"\x09\x01", b"\xff" * 12):
        with pytest.raises(Malformed):
            wire.Fields.read(junk)
    batch = pa.record_batch({"t": ["x" * 100] * 1000})
    assert sum(part.num_rows for part in sized(batch, 1000)) == 1000
    assert all(part.num_rows <= 10 for part in sized(batch, 1000))
