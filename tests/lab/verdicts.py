"""What each claim of each experiment came to, seed by seed: `verdicts.toml`, and how it is written.

    python tests/lab/verdicts.py                  run all experiments with all seeds and write the file: half an hour
    python tests/lab/verdicts.py pvm-fig21 …      only these; the others stay as they are
    SEEDS=1 python tests/lab/verdicts.py NAME     with fewer seeds

A verdict is "holds", "fails", "undecided" (the confidence intervals do not tell), "identity" (true by construction) or,
where it depends on the seed, "varies 1 of 3: yes no undecided", in the order of its seeds. Whoever changes one looks at
why, and says so in the commit.
"""

from __future__ import annotations

import json
import os
import sys
import tomllib
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from headwater.lab.experiment import Claim, ClaimKind, Run
from headwater.lab.experiments import all_experiments

FILE = Path(__file__).with_name("verdicts.toml")
SEEDS = tuple(range(int(os.environ.get("SEEDS", "3"))))
HEAD = """# What each claim of each experiment came to, seed by seed.
# Written by tests/lab/verdicts.py, compared by tests/lab/test_verdicts.py.
"""

Verdicts = dict[str, str]
"""By what a claim says."""


@dataclass(frozen=True)
class Pinned:
    """What an experiment came to with these seeds; `verdicts` are of all of them together."""

    seeds: tuple[int, ...]
    verdicts: Verdicts

    def of(self, seed: int) -> Verdicts:
        return {said: of_seed(verdict, self.seeds.index(seed)) for said, verdict in self.verdicts.items()}


def verdict(claim: Claim) -> str:
    """Of one seed."""
    if not claim.holds:
        return "undecided" if claim.undecided else "fails"
    return "holds" if claim.kind is ClaimKind.MEASURED else "identity"


def found(name: str, seed: int) -> Verdicts:
    claims = all_experiments()[name].run(Run(seed)).claims
    verdicts = {claim.said: verdict(claim) for claim in claims}
    assert len(verdicts) == len(claims), f"{name}: two claims say the same"
    return verdicts


def expected() -> dict[str, Pinned]:
    """By experiment."""
    tables = tomllib.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    return {name: Pinned(tuple(table.pop("seeds")), table) for name, table in tables.items()}


def of_seed(recorded: str, place: int) -> str:
    """What a recorded verdict says of the seed at this place."""
    if not recorded.startswith("varies"):
        return recorded
    return _SAID[recorded.partition(": ")[2].split()[place]]


_SAID = {"yes": "holds", "no": "fails", "undecided": "undecided"}


def together(by_seed: Sequence[str]) -> str:
    """One verdict for all seeds."""
    if len(set(by_seed)) == 1:
        return by_seed[0]
    words = {verdict: word for word, verdict in _SAID.items()}
    said = [words.get(verdict, "yes") for verdict in by_seed]
    return f"varies {said.count('yes')} of {len(said)}: {' '.join(said)}"


def merged(by_seed: Sequence[Verdicts]) -> Verdicts:
    return {said: together([verdicts[said] for verdicts in by_seed]) for said in by_seed[0]}


def write(pinned: Mapping[str, Pinned]) -> None:
    parts = [HEAD]
    for name in all_experiments():
        if name in pinned:
            verdicts = pinned[name].verdicts.items()
            lines = [f"{json.dumps(said, ensure_ascii=False)} = {json.dumps(verdict)}" for said, verdict in verdicts]
            parts.append("\n".join([f"[{name}]", f"seeds = {list(pinned[name].seeds)}", *lines, ""]))
    FILE.write_text("\n".join(parts), encoding="utf-8")


def main(names: Sequence[str]) -> None:
    pinned = expected()
    with ProcessPoolExecutor() as pool:
        jobs = {name: [pool.submit(found, name, seed) for seed in SEEDS] for name in names or all_experiments()}
        for name, runs in jobs.items():
            pinned[name] = Pinned(SEEDS, merged([run.result() for run in runs]))
            write(pinned)
            print(name, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
