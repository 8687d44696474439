"""DuckDB recomputing the view from the SQLite files, through its own SQLite scanner.

First load = the recomputation over the base files, burst = the same over the changed files (each time into a fresh
DuckDB table, the full view). How the changes got into the files is the application's business and not timed.
"""

from __future__ import annotations

import time
from importlib.metadata import distribution
from pathlib import Path

import contract
import duckdb

from chain_sql import answer_sql, view_sql


def run(dataset: contract.Dataset, variant: str) -> contract.Outcome:
    load_s, before = _recompute(dataset.folder / "before")
    burst_s, after = _recompute(dataset.folder / "after")
    return contract.Outcome(
        peer="duckdb-recompute",
        version=duckdb.__version__,
        load_s=load_s,
        burst_s=burst_s,
        ends_at="full view",
        states="one batch",
        before=before,
        after=after,
        note="recomputes from the SQLite files; no history; connecting not timed",
    )


def _recompute(folder: Path) -> tuple[float, tuple[int, int]]:
    with duckdb.connect(config={"allow_unsigned_extensions": "true"}) as connection:
        connection.execute(f"LOAD '{_scanner()}'")
        start = time.perf_counter()
        for i in range(1, 5):
            connection.execute(f"ATTACH '{folder / f'r{i}.db'}' AS s{i} (TYPE sqlite, READ_ONLY)")
        connection.execute(f"CREATE TABLE v AS {view_sql([f's{i}.r{i}' for i in range(1, 5)])}")
        seconds = time.perf_counter() - start
        row = connection.execute(answer_sql("v")).fetchone()
        assert row is not None
        return seconds, (int(row[0]), int(row[1]))


def _scanner() -> Path:
    """The extension as its wheel ships it, so that nothing is downloaded at run time."""
    files = distribution("duckdb-extension-sqlite-scanner").files or []
    return next(Path(str(file.locate())) for file in files if file.name.endswith(".duckdb_extension"))


if __name__ == "__main__":
    contract.main(run)
