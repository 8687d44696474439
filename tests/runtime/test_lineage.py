"""OpenLineage events: what a run tells, to a real HTTP server and to a file; an endpoint that is away costs nothing."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headwater
from headwater.model.errors import ConfigError
from headwater.model.names import Seq, SourceName, TableName, ViewName
from headwater.model.source import SourceSpec
from headwater.model.written import DataFile, Tally, Written
from headwater.runtime.lineage.datasets import Dataset, Job, dataset
from headwater.runtime.lineage.outbox import Outbox, to_endpoint, to_file
from headwater.runtime.lineage.telling import Lineage
from headwater.runtime.progress import Meter
from headwater.runtime.project.config import lineage_settings, load_config
from headwater.runtime.project.secrets import without_secrets
from headwater.runtime.snapshot import RunSnapshot
from headwater.warehouse.cuts import Cut, ViewState

V = ViewName("v")
TOKEN = "sesame-open-now"
JOB = Job(Dataset("here", "v", (("id", "int64"),)), (Dataset("sqlite:///a.db", "t"),), "SELECT id FROM a.t", "complete")


class Endpoint:
    """A small HTTP server that remembers what it is told; `answers` are the codes of the next requests."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.tokens: list[str | None] = []
        self.answers: list[int] = []
        self.hangs = threading.Event()
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:  # the library's name
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if endpoint.hangs.is_set():
                    time.sleep(3)
                code = endpoint.answers.pop(0) if endpoint.answers else 201
                if code == 201:
                    endpoint.events.append(json.loads(body))
                    endpoint.tokens.append(self.headers["Authorization"])
                self.send_response(code)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *said: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/api/v1/lineage"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    made = Endpoint()
    yield made
    made.close()


class Kept:
    """Where events go in tests of what is told."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def put(self, event: dict[str, Any]) -> None:
        self.events.append(event)

    def close(self) -> None: ...

    def told(self) -> list[tuple[str, str]]:
        return [(e["eventType"], e["run"]["facets"]["headwater"]["kind"]) for e in self.events]


class Ticking:
    def __init__(self) -> None:
        self.now = 1_000.0

    def time(self) -> float:
        return self.now

    monotonic = time


def state(seq: int, folder: str = "views/v/1", ahead: tuple[tuple[Seq, Seq], ...] = ()) -> ViewState:
    return ViewState(folder, 1, -1, Seq(seq), Seq(0), "complete", "x", ahead=ahead)


def cut(number: int, seq: int, **more: Any) -> Cut:
    return Cut(number, Seq(seq), views={V: state(seq, **more)})


def wrote(rows: int) -> Written:
    return Written((DataFile("f", 1, rows, 1, 2),), (), Tally())


def facet(event: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = event["run"]["facets"]["headwater"]
    return found


# ------------------------------------------------------------------------------------------------------ what is told


def test_a_load_begins_and_completes_when_it_is_shown() -> None:
    kept = Kept()
    lineage = Lineage(kept, lambda view: JOB, 10, "1.0", Ticking())
    lineage.load_began([V])
    lineage.loaded(V, 17)
    assert kept.told() == [("START", "load")]
    lineage.shown(cut(3, 5))
    assert kept.told() == [("START", "load"), ("COMPLETE", "load")]
    start, end = kept.events
    assert start["run"]["runId"] == end["run"]["runId"]
    assert end["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"] == 17
    assert (facet(end)["cut"], facet(end)["seq"], facet(end)["consistency"]) == (3, 5, "complete")
    assert end["outputs"][0]["facets"]["schema"]["fields"] == [{"name": "id", "type": "int64"}]
    assert (end["inputs"][0]["namespace"], end["inputs"][0]["name"]) == ("sqlite:///a.db", "t")
    assert end["job"]["facets"]["sql"]["query"] == "SELECT id FROM a.t"


def test_a_view_loaded_anew_completes_with_its_new_rows_and_not_before() -> None:
    kept = Kept()
    lineage = Lineage(kept, lambda view: JOB, 10, "1.0", Ticking())
    lineage.shown(cut(1, 1))
    lineage.load_began([V])
    lineage.shown(cut(2, 2))
    assert kept.told() == [("START", "load")]
    lineage.shown(cut(3, 3, folder="views/v/2"))
    assert kept.told()[-1] == ("COMPLETE", "load")


def test_batches_that_are_shown_within_some_seconds_are_one_run() -> None:
    kept, clock = Kept(), Ticking()
    lineage = Lineage(kept, lambda view: JOB, 10, "1.0", clock)
    lineage.shown(cut(1, 4))
    lineage.turn()
    for lo in (4, 6, 8):
        clock.now += 1
        lineage.computed(V, (Seq(lo), Seq(lo + 2)), wrote(5))
        lineage.turn()
    lineage.shown(cut(2, 8))
    lineage.turn()
    assert kept.events == [], "it is not time yet"
    clock.now += 10
    lineage.turn()
    assert kept.told() == [("START", "batches"), ("COMPLETE", "batches")]
    start, end = kept.events
    assert (facet(end)["after"], facet(end)["seq"], facet(end)["batches"], facet(end)["cut"]) == (4, 8, 2, 2)
    assert end["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"] == 10
    assert start["eventTime"] < end["eventTime"]
    clock.now += 10
    lineage.turn()
    assert len(kept.events) == 2, "the third batch is not shown"
    lineage.shown(cut(3, 10))
    lineage.close()
    assert (facet(kept.events[-1])["after"], facet(kept.events[-1])["seq"]) == (8, 10)


def test_a_convergent_view_shows_batches_ahead() -> None:
    kept = Kept()
    lineage = Lineage(kept, lambda view: JOB, 0, "1.0", Ticking())
    lineage.computed(V, (Seq(6), Seq(8)), wrote(1))
    lineage.shown(cut(1, 4, ahead=((Seq(6), Seq(8)),)))
    lineage.turn()
    assert facet(kept.events[-1])["seq"] == 8


def test_what_fails_is_told_without_secrets() -> None:
    kept = Kept()
    lineage = Lineage(kept, lambda view: JOB if view == V else None, 10, "1.0", Ticking())
    lineage.load_began([V, ViewName("unknown")])
    lineage.not_built([V], "postgresql://me:hunter2-and-more@db/x is away")
    lineage.shown(cut(1, 4))
    lineage.computed(V, (Seq(4), Seq(5)), wrote(1))
    lineage.halted(V, "column x was dropped")
    assert kept.told() == [("START", "load"), ("FAIL", "load"), ("START", "batches"), ("FAIL", "batches")]
    assert "hunter2" not in json.dumps(kept.events)
    assert kept.events[-1]["run"]["facets"]["errorMessage"]["message"] == "column x was dropped"
    lineage.load_began([V])
    lineage.close()
    assert kept.told()[-1] == ("FAIL", "load")
    runs = [event["run"]["runId"] for event in kept.events]
    assert all(runs.count(run) == 2 for run in runs), "one START and one end each"


def test_what_a_run_counts_is_heard() -> None:
    kept, clock = Kept(), Ticking()
    meter = Meter(clock=clock)
    meter.heard_by(Lineage(kept, lambda view: JOB, 0, "1.0", clock))
    meter.loading([V])
    meter.loaded(V, 17)
    meter.shown(cut(1, 4))
    assert kept.events[-1]["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"] == 17
    meter.computed(V, (Seq(4), Seq(6)), wrote(3))
    meter.shown(cut(2, 6))
    meter.turn(RunSnapshot)
    assert facet(kept.events[-1])["seq"] == 6
    meter.halted(V, "a reason")
    meter.loading([V])
    meter.not_built([V], "another")
    told = [("START", "load"), ("COMPLETE", "load"), ("START", "batches"), ("COMPLETE", "batches")]
    assert kept.told() == [*told, ("START", "batches"), ("FAIL", "batches"), ("START", "load"), ("FAIL", "load")]


@pytest.mark.parametrize(
    ("url", "options", "named"),
    [
        ("postgresql://me:pw-secret@db.example/shop", (), ("postgres://db.example:5432", "shop.public.t")),
        ("postgresql://", (("host", "h"), ("port", "99"), ("database", "d"), ("password", "pw-secret")),
         ("postgres://h:99", "d.public.t")),
        ("postgresql://me:pw-secret@/shop?host=/run/pg", (), ("postgres:///run/pg", "shop.public.t")),
        ("mariadb://me:pw-secret@m.example:3307/crm", (), ("mysql://m.example:3307", "crm.public.t")),
        ("sqlite:////data/a%20b.db", (), ("sqlite:////data/a b.db", "public.t")),
        ("agent://laptop7", (("hub_secret", "pw-secret"),), ("agent://shop", "public.t")),
    ],
)  # fmt: skip
def test_tables_are_called_as_others_call_them(
    url: str, options: tuple[tuple[str, str], ...], named: tuple[str, str]
) -> None:
    found = dataset(SourceSpec(SourceName("shop"), url, options), TableName(SourceName("shop"), "t", "public"))
    assert (found.namespace, found.name) == named
    assert "secret" not in str(found)


# --------------------------------------------------------------------------------------------------------- it is sent


def sent(endpoint: Endpoint, wanted: int, seconds: float = 10) -> None:
    until = time.monotonic() + seconds
    while len(endpoint.events) < wanted and time.monotonic() < until:
        time.sleep(0.01)


def test_events_reach_an_endpoint_with_its_token(endpoint: Endpoint) -> None:
    outbox = Outbox(to_endpoint(endpoint.url, TOKEN))
    for number in range(3):
        outbox.put({"n": number})
    outbox.close()
    assert [event["n"] for event in endpoint.events] == [0, 1, 2]
    assert endpoint.tokens == [f"Bearer {TOKEN}"] * 3
    assert (outbox.sent, outbox.dropped) == (3, 0)


def test_an_endpoint_that_comes_back_is_told_what_it_missed(
    endpoint: Endpoint, caplog: pytest.LogCaptureFixture
) -> None:
    endpoint.answers = [503, 429, 201]
    with caplog.at_level(logging.INFO, logger="headwater"):
        outbox = Outbox(to_endpoint(endpoint.url))
        outbox.put({"n": 0})
        sent(endpoint, 1)
        outbox.close()
    assert (len(endpoint.events), outbox.sent, outbox.dropped) == (1, 1, 0)
    told = [getattr(record, "event", "") for record in caplog.records]
    assert told == ["lineage.away", "lineage.back", "lineage.ended"], "said once, however often it was tried"


def test_what_is_refused_is_dropped_and_does_not_hold_up_the_rest(endpoint: Endpoint) -> None:
    endpoint.answers = [400, 201]
    outbox = Outbox(to_endpoint(endpoint.url))
    outbox.put({"n": 0})
    outbox.put({"n": 1})
    outbox.close()
    assert [event["n"] for event in endpoint.events] == [1]
    assert (outbox.sent, outbox.dropped) == (1, 1)


@pytest.mark.parametrize("how", ["away", "hangs"])
def test_nobody_waits_for_an_endpoint(endpoint: Endpoint, how: str) -> None:
    endpoint.hangs.set()
    url = endpoint.url if how == "hangs" else "http://127.0.0.1:1/lineage"
    outbox = Outbox(to_endpoint(url), most=10)
    begun = time.monotonic()
    for number in range(5_000):
        outbox.put({"n": number})
    assert time.monotonic() - begun < 1
    assert outbox.dropped >= 4_980
    outbox.close(0.3)
    assert time.monotonic() - begun < 3
    assert outbox.sent + outbox.dropped >= 4_999


def test_to_a_file(tmp_path: Path) -> None:
    file = tmp_path / "lineage.jsonl"
    file.write_bytes(b'{"n": -1}\n')
    outbox = Outbox(to_file(file))
    outbox.put({"n": 0, "ü": "a\nb"})
    outbox.close()
    assert [json.loads(line)["n"] for line in file.read_text().splitlines()] == [-1, 0]


# ------------------------------------------------------------------------------------------------------- its settings


def settings(folder: Path, said: str) -> Any:
    (folder / "headwater.toml").write_text(f'[sources.a]\nurl = "sqlite:///a.db"\n[lineage]\n{said}\n')
    return lineage_settings(load_config(folder))


def test_it_is_off_unless_it_says_where_to(tmp_path: Path) -> None:
    assert settings(tmp_path, 'namespace = "x"') is None


def test_a_token_is_a_variable_and_is_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = 'url = "https://l.example/x"\ntoken = "${LINEAGE_TOKEN}"'
    with pytest.raises(ConfigError, match="LINEAGE_TOKEN is not set"):
        settings(tmp_path, said)
    monkeypatch.setenv("LINEAGE_TOKEN", TOKEN)
    assert settings(tmp_path, said).token == TOKEN
    assert TOKEN not in without_secrets(f"it said {TOKEN}")
    monkeypatch.delenv("LINEAGE_TOKEN")
    assert load_config(tmp_path).lineage.url, "it matters to those who send only"
    with pytest.raises(ConfigError, match="LINEAGE_TOKEN is not set"):
        headwater.open(tmp_path).check_free()  # before Spark starts


@pytest.mark.parametrize("said", ['url = "ftp://x"', 'url = "http://x"\nfile = "y"'])
def test_what_cannot_be_meant(tmp_path: Path, said: str) -> None:
    with pytest.raises(ConfigError, match="lineage"):
        settings(tmp_path, said)


def test_types_of_columns_are_told() -> None:
    from headwater.runtime.lineage.datasets import fields

    assert fields(pa.schema([("a", pa.int64()), ("b", pa.decimal128(4, 1))])) == (
        ("a", "int64"), ("b", "decimal128(4, 1)"),
    )  # fmt: skip
