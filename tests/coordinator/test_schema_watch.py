"""Columns that change while views are maintained: what is harmless is let pass and remembered, what is not halts."""

from __future__ import annotations

import itertools
from concurrent.futures import Executor, Future
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa

from headwater.model.errors import SchemaChanged
from headwater.model.names import SourceName, TableName
from headwater.model.schema import Column, Identity, TableSchema
from headwater.model.source import Capture, Held
from headwater.runtime.intake.schema_watch import Present, SchemaWatch

SHOP = SourceName("shop")
TABLE = TableName(SHOP, "t")
SCHEMA = TableSchema(TABLE, tuple(Column(name, pa.int64(), "bigint") for name in ("x", "other")))
LOADED = Identity("1.2.3", definition="d1", storage="s1")


class Here(Executor):
    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_result(fn(*args, **kwargs))
        return done


class Shop:
    """A source whose one column is what a test says."""

    name = SHOP

    def __init__(self) -> None:
        self.now, self.gone, self.held = LOADED, "", Held(0, 10)

    def identities(self, tables: dict[TableName, list[str]]) -> Any:
        if self.gone in tables[TABLE]:
            raise SchemaChanged(f"{TABLE} has no column {self.gone!r}")
        return {TABLE: dict.fromkeys(tables[TABLE], self.now)}

    def look(self, source: SourceName) -> Present:
        capture = Capture("1", frozenset({TABLE}), {}, held=self.held)
        return Present(cast(Any, self), {TABLE: SCHEMA}, capture)


def watched() -> tuple[SchemaWatch, Shop]:
    shop = Shop()
    watch = SchemaWatch(shop.look, Here())
    view = SimpleNamespace(base_tables=(TABLE,))
    plan = SimpleNamespace(view=view, schemas={TABLE: pa.schema([("x", pa.int64())])}, fingerprint="f", sources=(SHOP,))
    watch.add(cast(Any, plan), {TABLE: {"x": LOADED}})
    return watch, shop


def looked(watch: SchemaWatch) -> list[str]:
    watch.ask(SHOP)
    return [halt.reason for halt in watch.step([SHOP]).values()]


def test_harmless_changes_one_after_the_other_are_no_rewrite() -> None:
    watch, shop = watched()
    shop.now = replace(shop.now, storage="s2")  # VACUUM FULL
    assert looked(watch) == []
    assert watch.expected(SHOP) == {TABLE: {"x": shop.now}}
    assert watch.moved([]) == {}
    assert watch.moved(["f"]) == {"f": {TABLE: {"x": shop.now}}}
    assert watch.moved(["f"]) == {}
    shop.now = replace(shop.now, definition="d2")  # SET DEFAULT
    assert looked(watch) == []
    shop.now = replace(shop.now, labels=("1=a",))
    assert looked(watch) == []


def test_both_at_once_are() -> None:
    watch, shop = watched()
    shop.now = replace(shop.now, storage="s2", definition="d2")
    assert looked(watch) == ["column x of shop.t was rewritten (ALTER COLUMN … TYPE)"]
    assert watch.moved(["f"]) == {}


def test_a_rewrite_after_a_harmless_change_is_one() -> None:
    watch, shop = watched()
    shop.now = replace(shop.now, storage="s2")
    assert looked(watch) == []
    shop.now = replace(shop.now, storage="s3", definition="d2")
    assert looked(watch) == ["column x of shop.t was rewritten (ALTER COLUMN … TYPE)"]


def test_a_column_that_goes_while_its_table_is_looked_at_concerns_who_uses_it() -> None:
    watch, shop = watched()
    shop.gone = "other"
    assert looked(watch) == []
    shop.gone = "x"
    assert looked(watch) == ["shop.t has no column 'x'"]


def test_a_server_that_keeps_its_log_for_us_is_warned_of_once() -> None:
    """Also while all views over it are halted: nobody reads it then."""
    watch, shop = watched()
    looked(watch)
    assert watch.warnings() == []
    watch.broke(["f"])
    shop.held = Held(6, 10)
    looked(watch)
    shop.held = Held(7, 10)
    looked(watch)
    assert len(watch.warnings()) == 1
    shop.held = Held(1, 10)
    looked(watch)
    shop.held = Held(8, 10)
    looked(watch)
    (said,) = watch.warnings()
    assert said.startswith("source shop: the server keeps 8 bytes of its log")
    times = itertools.count(0.0, 100.0)
    watch._clock = cast(Any, SimpleNamespace(monotonic=lambda: next(times)))
    watch._last.clear()
    shop.held = Held(1, 10)
    for _ in range(3):
        watch.step([SHOP])
    assert watch.looked(SHOP) > 5
