"""What a peer gets and what it gives back.

A peer is a script that runs in a virtual environment of its own: `python peer.py --data FOLDER [--variant NAME]`.
FOLDER holds the data set in neutral formats (written by run_peers.py):

    dataset.json            n, u, seed and the right answers {before, after: {count, checksum}}
    r1.parquet .. r4.parquet    base rows (a, b)
    transactions.parquet    tx, relation, op, old_a, old_b, new_a, new_b
    before/r1.db ..         the base in SQLite files
    after/r1.db ..          the same files with all transactions applied
    scratch/                for whatever the peer writes

It prints its row as the last line of its output. Only pyarrow may be assumed here, besides the standard library.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

EndsAt = Literal["change", "visible", "full view"]
States = Literal["one batch", "every update"]


@dataclass(frozen=True)
class Dataset:
    folder: Path
    n: int
    u: int
    seed: int
    before: tuple[int, int]
    after: tuple[int, int]

    @property
    def scratch(self) -> Path:
        return self.folder / "scratch"


@dataclass(frozen=True)
class Outcome:
    """What a peer measured. The answers are (count, checksum) as the peer computed them."""

    peer: str
    version: str
    load_s: float
    burst_s: float
    ends_at: EndsAt
    states: States
    before: tuple[int, int]
    after: tuple[int, int]
    note: str


def main(run: Callable[[Dataset, str], Outcome]) -> None:
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with the data set")
    parser.add_argument("--variant", default="", help="which way to run this peer, where it has several")
    options = parser.parse_args()
    dataset = open_dataset(options.data)
    dataset.scratch.mkdir(exist_ok=True)
    print(json.dumps(row_of(run(dataset, options.variant), dataset)), flush=True)


def open_dataset(folder: Path) -> Dataset:
    facts = json.loads((folder / "dataset.json").read_text())
    answers = {when: (facts[when]["count"], facts[when]["checksum"]) for when in ("before", "after")}
    return Dataset(folder.resolve(), facts["n"], facts["u"], facts["seed"], **answers)


def row_of(outcome: Outcome, dataset: Dataset) -> dict[str, Any]:
    """The row of the result table; peak memory is added by the runner, which sees the whole process tree."""
    row = asdict(outcome)
    right = (row.pop("before"), row.pop("after")) == (dataset.before, dataset.after)
    seconds = {name: round(row[name], 3) for name in ("load_s", "burst_s")}
    rate = round(dataset.u / outcome.burst_s, 1)
    return {**row, **seconds, "n": dataset.n, "u": dataset.u, "updates_per_s": rate, "correct": right}
