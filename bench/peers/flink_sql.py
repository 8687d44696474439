"""Flink SQL maintaining the view as a streaming query, state on the heap.

Each relation is its base (a bounded CSV file) UNION ALL its changes (a watched folder of Debezium change records, into
which one file with all changes is moved once the base is loaded). The query's output is the count and the checksum of
the view, kept up to date by Flink: it ends at the change. The burst runs from the moment the changes are released until
the output has the right final value; Flink's collector asks for new output every 0.1 s or so, which is part of it.

Flink keeps no order between its four inputs, so what it shows on the way is no state of the sources: it converges.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import contract
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
from pyflink.table import EnvironmentSettings, TableEnvironment
from pyflink.version import __version__

from chain_sql import answer_sql, view_sql

SETTINGS = {
    "parallelism.default": "2",
    "table.exec.state.ttl": "0",
    # Bundles of records per operator step: what Flink's own tuning guide advises for joins and aggregates.
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "100 ms",
    "table.exec.mini-batch.size": "20000",
    "table.optimizer.agg-phase-strategy": "TWO_PHASE",
}


def run(dataset: contract.Dataset, variant: str) -> contract.Outcome:
    environment = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    for key, value in SETTINGS.items():
        environment.get_config().set(key, value)
    moves = [_declare(environment, dataset, index) for index in range(1, 5)]
    view = view_sql([f"r{index}" for index in range(1, 5)])
    start = time.perf_counter()
    with environment.execute_sql(answer_sql(f"({view})")).collect() as rows:
        answers = ((row[0], row[1]) for row in rows)
        before = _until(answers, dataset.before)
        loaded = time.perf_counter()
        for waiting, target in moves:
            waiting.rename(target)
        after = _until(answers, dataset.after)
        done = time.perf_counter()
    return contract.Outcome(
        peer="flink",
        version=__version__,
        load_s=loaded - start,
        burst_s=done - loaded,
        ends_at="change",
        states="one batch",
        before=before,
        after=after,
        note="changelog stream from files, mini-batches, heap state; intermediate output mixes states of the sources",
    )


def _until(answers: Iterator[tuple[int, int]], wanted: tuple[int, int]) -> tuple[int, int]:
    """Follow the output until it is right; one that never is runs into the runner's time limit."""
    return next(answer for answer in answers if answer == wanted)


def _declare(environment: TableEnvironment, dataset: contract.Dataset, index: int) -> tuple[Path, Path]:
    """Declare relation r<index>; returns where its changes wait and where to move them."""
    base, watched = dataset.scratch / f"flink-base-{index}", dataset.scratch / f"flink-changes-{index}"
    base.mkdir()
    watched.mkdir()
    rows = pq.read_table(dataset.folder / f"r{index}.parquet")
    pa.csv.write_csv(rows, base / "rows.csv", pa.csv.WriteOptions(include_header=False))
    waiting = dataset.scratch / f"flink-changes-{index}.json"
    _write_changes(dataset, index, waiting)
    _source(environment, f"base{index}", base, "'format' = 'csv'")
    _source(environment, f"changes{index}", watched, "'format' = 'debezium-json', 'source.monitor-interval' = '50 ms'")
    environment.execute_sql(
        f"CREATE VIEW r{index} AS SELECT a, b FROM base{index} UNION ALL SELECT a, b FROM changes{index}"
    )
    return waiting, watched / "changes.json"


def _source(environment: TableEnvironment, name: str, folder: Path, options: str) -> None:
    environment.execute_sql(
        f"CREATE TABLE {name} (a BIGINT, b BIGINT)"
        f" WITH ('connector' = 'filesystem', 'path' = '{folder.as_uri()}', {options})"
    )


def _write_changes(dataset: contract.Dataset, index: int, path: Path) -> None:
    """Debezium's envelope: op c, d or u, with the row before and after."""
    transactions = pq.read_table(dataset.folder / "transactions.parquet")
    mine = transactions.filter(pc.field("relation") == index - 1)
    names = ("op", "old_a", "old_b", "new_a", "new_b")
    with path.open("w") as file:
        for op, old_a, old_b, new_a, new_b in zip(*(mine[name].to_pylist() for name in names), strict=True):
            file.write(f'{{"before":{_record(old_a, old_b)},"after":{_record(new_a, new_b)},"op":"{"cdu"[op]}"}}\n')


def _record(a: int | None, b: int | None) -> str:
    return "null" if a is None else f'{{"a":{a},"b":{b}}}'


if __name__ == "__main__":
    contract.main(run)
