"""The data set in formats that every peer can read: the folder that `peers/contract.py` describes."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import chain_sqlite
from chain import Chain


def folder(chain: Chain, cache: Path) -> Path:
    """The data set's folder, built if the cache has none yet; `dataset.json` is written last and marks it complete."""
    target = cache / f"chain-n{chain.n}-seed{chain.seed}" / f"u{chain.u}"
    if not (target / "dataset.json").exists():
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        _build(chain, cache, target)
    shutil.rmtree(target / "scratch", ignore_errors=True)
    return target


def _build(chain: Chain, cache: Path, target: Path) -> None:
    base = chain_sqlite.base_files(chain, cache)
    for index, relation in enumerate(chain.base, 1):
        pq.write_table(pa.table({"a": relation.a, "b": relation.b}), target / f"r{index}.parquet")
    pq.write_table(chain.transactions.to_arrow(), target / "transactions.parquet")
    chain_sqlite.working_copy(base, target / "before")
    chain_sqlite.apply(chain_sqlite.working_copy(base, target / "after"), chain.transactions)
    facts = {"n": chain.n, "u": chain.u, "seed": chain.seed}
    answers = {"before": asdict(chain.answer_before()), "after": asdict(chain.answer_after())}
    (target / "dataset.json").write_text(json.dumps({**facts, **answers}, indent=1) + "\n")
