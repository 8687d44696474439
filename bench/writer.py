"""The application, in a process of its own: two copies of the SQLite library in one process lose each other's locks.

python bench/writer.py FOLDER N U SEED FIRST LAST PER_SECOND RELATION
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import chain_sqlite
from chain import Chain


def write(
    folder: Path, chain: Chain, first: int, last: int, per_second: float = 0, relation: int = -1
) -> subprocess.Popen[bytes]:
    """Start applying transactions first … last−1 of a chain; at a steady rate, or of one relation only, if given."""
    words = [folder, chain.n, chain.u, chain.seed, first, last, per_second, relation]
    return subprocess.Popen([sys.executable, __file__, *map(str, words)])


def applied(folder: Path, chain: Chain, first: int, last: int, relation: int = -1) -> None:
    """Apply them and wait."""
    if write(folder, chain, first, last, relation=relation).wait():
        raise RuntimeError("the writer failed")


def main() -> None:
    folder = Path(sys.argv[1])
    n, u, seed, first, last = map(int, sys.argv[2:7])
    per_second = float(sys.argv[7])
    transactions = Chain(n, u, seed).transactions[first:last]
    relation = int(sys.argv[8])
    if relation >= 0:
        transactions = transactions[transactions.relation == relation]
    if not per_second:
        chain_sqlite.apply(folder, transactions)
        return
    with chain_sqlite.Writer(folder) as writer:
        begun = time.monotonic()
        for i in range(len(transactions)):
            time.sleep(max(0.0, begun + i / per_second - time.monotonic()))
            writer.apply(transactions[i : i + 1], commit_every=1)


if __name__ == "__main__":
    main()
