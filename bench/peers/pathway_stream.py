"""Pathway (differential dataflow) maintaining the view, fed in one of three ways.

files    signed rows (a, b, weight) in CSV files of watched folders: the base first, then one file per relation with all
         changes. The multiplicity is a column, and a row of the view weighs the product of its four.
python   the Python connector, with Pathway's own retractions: the base in one commit, all changes in another.
each     the same with a commit after every transaction, so that each is a state of the view.

The output is the count and the checksum of the view, kept up to date by the dataflow: it ends at the change. The burst
runs from the moment the changes are released until the output has the right final value.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("PATHWAY_THREADS", "2")

import contract
import numpy as np
import pathway as pw
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from chain_sql import K, P

PATIENCE_S = 300
"""How long to wait for a right answer before a wrong one is reported."""

NOTES = {
    "files": "one batch from CSV files in watched folders; multiplicities as a column",
    "python": "one batch through the Python connector, its own retractions",
    "each": "through the Python connector, a commit after every transaction",
}

Release = Callable[[], None]
"""Lets the waiting changes go."""


class Watch:
    """Sees every state of the output and notes when the two right answers appeared."""

    def __init__(self, dataset: contract.Dataset) -> None:
        self._dataset = dataset
        self.loaded, self.done = threading.Event(), threading.Event()
        self.states = 0
        self.value = self.before = self.after = (0, 0)
        self.loaded_at = self.done_at = 0.0

    def on_change(self, key: pw.Pointer, row: dict[str, Any], time: int, is_addition: bool) -> None:
        if is_addition:
            self.value = (row["n"], row["checksum"])

    def on_time_end(self, moment: int) -> None:
        if self.loaded.is_set():
            self.states += 1
            if self.value == self._dataset.after:
                self.finish()
        elif self.value == self._dataset.before:
            self.before, self.loaded_at = self.value, time.perf_counter()
            self.loaded.set()

    def finish(self) -> None:
        """Take what is there as the final answer, right or wrong."""
        if not self.done.is_set():
            self.after, self.done_at = self.value, time.perf_counter()
            self.done.set()


def signed_changes(dataset: contract.Dataset) -> pa.Table:
    """The transactions as signed rows (tx, relation, a, b, weight), the old row before the new one."""
    t = pq.read_table(dataset.folder / "transactions.parquet")

    def paired(old: str, new: str) -> np.ndarray:
        return np.stack([t[name].fill_null(-1).to_numpy() for name in (old, new)], axis=1).ravel()

    columns = {name: paired(name, name) for name in ("tx", "relation")}
    columns |= {"a": paired("old_a", "new_a"), "b": paired("old_b", "new_b"), "weight": np.tile([-1, 1], len(t))}
    return pa.table(columns).filter(pc.field("a") >= 0)


def base_rows(dataset: contract.Dataset, index: int) -> pa.Table:
    return pq.read_table(dataset.folder / f"r{index + 1}.parquet")


def chain_join(r: list[pw.Table]) -> pw.Table:
    """The view a1..a4, with `weight` = the product of the weights of its four rows."""
    v = r[0].join(r[1], r[0].a == r[1].b).select(a1=r[0].a, a2=r[1].a, weight=r[0].weight * r[1].weight)
    v = v.join(r[2], v.a2 == r[2].b).select(v.a1, v.a2, a3=r[2].a, weight=v.weight * r[2].weight)
    return v.join(r[3], v.a3 == r[3].b).select(v.a1, v.a2, v.a3, a4=r[3].a, weight=v.weight * r[3].weight)


def answer(v: pw.Table) -> pw.Table:
    x = (((v.a1 * K + v.a2) % P * K + v.a3) % P * K + v.a4) % P
    hashed = v.select(v.weight, hash=v.weight * (x * x % P))
    return hashed.reduce(n=pw.reducers.sum(hashed.weight), checksum=pw.reducers.sum(hashed.hash))


class SignedRow(pw.Schema):
    a: int
    b: int
    weight: int


def from_files(dataset: contract.Dataset) -> tuple[list[pw.Table], Release]:
    changes = signed_changes(dataset)
    relations, moves = [], []
    for index in range(4):
        watched = dataset.scratch / f"pathway-r{index + 1}"
        watched.mkdir()
        base = base_rows(dataset, index)
        pa.csv.write_csv(base.append_column("weight", pa.array(np.ones(len(base), np.int64))), watched / "base.csv")
        waiting = dataset.scratch / f"pathway-changes-{index + 1}.csv"
        pa.csv.write_csv(changes.filter(pc.field("relation") == index).select(["a", "b", "weight"]), waiting)
        moves.append((waiting, watched / "changes.csv"))
        relations.append(pw.io.csv.read(str(watched), schema=SignedRow, mode="streaming", autocommit_duration_ms=100))

    def release() -> None:
        for waiting, target in moves:
            waiting.rename(target)

    return relations, release


class KeyedRow(pw.Schema):
    """A row that is its own key: a retraction finds what an earlier change inserted."""

    relation: int = pw.column_definition(primary_key=True)
    a: int = pw.column_definition(primary_key=True)
    b: int = pw.column_definition(primary_key=True)


class Feed(pw.io.python.ConnectorSubject):
    """All relations through one connector, so that transactions keep their order: the base, a pause, the changes."""

    def __init__(self, dataset: contract.Dataset, released: threading.Event, every_transaction: bool) -> None:
        super().__init__()
        self._dataset, self._released, self._every = dataset, released, every_transaction
        self._changes = [column.to_pylist() for column in signed_changes(dataset).columns]

    def run(self) -> None:
        for index in range(4):
            base = base_rows(self._dataset, index)
            for a, b in zip(base["a"].to_pylist(), base["b"].to_pylist(), strict=True):
                self.next(relation=index, a=a, b=b)
        self.commit()
        self._released.wait()
        last = 0
        for tx, relation, a, b, weight in zip(*self._changes, strict=True):
            if self._every and tx != last:
                self.commit()
                last = tx
            # Two plain calls: Pathway reads this source text to learn whether the feed deletes.
            if weight > 0:
                self.next(relation=relation, a=a, b=b)
            else:
                self.delete(relation=relation, a=a, b=b)
        self.commit()


def from_python(dataset: contract.Dataset, every_transaction: bool) -> tuple[list[pw.Table], Release]:
    released = threading.Event()
    rows = pw.io.python.read(Feed(dataset, released, every_transaction), schema=KeyedRow, autocommit_duration_ms=None)
    relations = [rows.filter(pw.this.relation == i).select(pw.this.a, pw.this.b, weight=1) for i in range(4)]
    return relations, released.set


def _run_dataflow(watch: Watch) -> None:
    try:
        pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    finally:
        # A dataflow that died before the right answers leaves wrong ones, and nobody waiting.
        watch.loaded.set()
        watch.finish()


def run(dataset: contract.Dataset, variant: str) -> contract.Outcome:
    """Run the dataflow in a thread, wait for the base, release the changes, wait for the final answer."""
    relations, release = from_files(dataset) if variant == "files" else from_python(dataset, variant == "each")
    watch = Watch(dataset)
    pw.io.subscribe(answer(chain_join(relations)), on_change=watch.on_change, on_time_end=watch.on_time_end)
    start = time.perf_counter()
    threading.Thread(target=_run_dataflow, args=(watch,), daemon=True).start()
    watch.loaded.wait(PATIENCE_S)
    released_at = time.perf_counter()
    release()
    watch.done.wait(PATIENCE_S)
    watch.finish()
    return contract.Outcome(
        peer=f"pathway-{variant}",
        version=pw.__version__,
        load_s=watch.loaded_at - start,
        burst_s=watch.done_at - released_at,
        ends_at="change",
        states="every update" if variant == "each" else "one batch",
        before=watch.before,
        after=watch.after,
        note=f"{NOTES[variant]}; {watch.states} states of the output seen",
    )


if __name__ == "__main__":
    contract.main(run)
