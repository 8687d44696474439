"""PVM, table 4, message cost: C-Strobe's O(n!) beside O(n)."""

from __future__ import annotations

from itertools import pairwise
from math import perm
from typing import Any

from headwater.lab.experiment import Claim, Experiment, Findings, Panel, Run, identity
from headwater.lab.settings.table4 import DISTANT, Table4Algorithm, interfering, named
from headwater.lab.simulation.simulator import simulate
from headwater.lab.worlds.world import World

ALGORITHMS = named("C-Strobe", "Strobe", "SWEEP", "POSSE", "PVM CC", "our wave")
SOURCES = range(2, 8)
DELETES = range(8)
AT = 4
"""Sources, where the number of deletes is varied."""


def worst(n: int) -> int:
    """Questions of C-Strobe for an insert and a delete at each of the n − 1 others: (n − 1)!/(n − 1 − r)! queries with
    r deleted tuples in place of their relations, which ask the other n − 1 − r sources."""
    return sum(perm(n - 1, r) * (n - 1 - r) for r in range(n))


def run(run: Run) -> Findings:
    rows = []
    for n in run.each(SOURCES):
        rows.append(_row("sources", n, n - 1, interfering(n), run.seed) | {"formula": worst(n)})
    for k in DELETES:
        rows.append(_row("deletes", AT, k, interfering(AT, k), run.seed))
    growing = [row for row in rows if row["varied"] == "sources"]
    further = [row for row in rows if row["varied"] == "deletes"]
    panels = [
        Panel(
            "One delete at each other source",
            "sources, n",
            "questions per update",
            {a.name: [(row["sources"], row[a.name] / row["updates"]) for row in growing] for a in ALGORITHMS},
            log_y=True,
        ),
        Panel(
            f"Deletes in turn at the others of {AT} sources",
            "concurrent deletes",
            "questions per update",
            {a.name: [(row["deletes"], row[a.name] / row["updates"]) for row in further] for a in ALGORITHMS},
            log_y=True,
        ),
    ]
    last = growing[-1]
    note = (
        f"Our wave asks {last['our wave']} questions for the {last['updates']} updates at {last['sources']} sources, "
        f"SWEEP {last['SWEEP']}, C-Strobe {last['C-Strobe']}: a batch costs a poll per source that changed and at "
        f"most 2(n − 1) questions, however many updates are in it. For a single update it asks more than SWEEP does."
    )
    return Findings(rows, panels, _claims(growing, further), [note])


def _row(varied: str, sources: int, deletes: int, world: World, seed: int) -> dict[str, Any]:
    def questions(algorithm: Table4Algorithm) -> int:
        return simulate(world, algorithm.make(world), DISTANT, seed).questions

    counted = {algorithm.name: questions(algorithm) for algorithm in ALGORITHMS}
    return {"varied": varied, "sources": sources, "deletes": deletes, "updates": deletes + 1} | counted


def _claims(growing: list[dict[str, Any]], further: list[dict[str, Any]]) -> list[Claim]:
    asked = [row["C-Strobe"] for row in growing]
    ratios = [b / a for a, b in pairwise(asked)]
    linear = {name: [row[name] / row["updates"] for row in growing] for name in ("Strobe", "SWEEP", "POSSE", "PVM CC")}
    bound = {
        name: max(x / (row["sources"] - 1) for x, row in zip(xs, growing, strict=True)) for name, xs in linear.items()
    }
    return [
        Claim(
            "C-Strobe: O(n!) messages",
            f"{', '.join(map(str, asked))} questions for n = {SOURCES[0]} … {SOURCES[-1]}; each is "
            f"{', '.join(f'{r:.1f}' for r in ratios)} times the one before",
            all(later > earlier for earlier, later in pairwise(ratios[1:]))
            and all(a == row["formula"] for a, row in zip(asked, growing, strict=True)),
            "The ratios grow by about one with each source: factorial. It is the worst case: the delete at each other "
            "source falls between the insert and every answer about it.",
        ),
        *(
            identity(
                f"{name}: O(n) messages",
                f"at most {most:.2f}·(n − 1) questions per update",
                most <= 1,
                "it asks each other source once for an insert, and none for a delete"
                if name == "Strobe"
                else "it asks each other source once for an update, whatever comes in between",
            )
            for name, most in bound.items()
        ),
        Claim(
            "the number of compensation queries can be factorial in the number of sources (TID rules, section 3)",
            f"with {AT} sources and 0 … {DELETES[-1]} deletes: {', '.join(str(row['C-Strobe']) for row in further)}",
            further[-1]["C-Strobe"] > further[-1]["SWEEP"],
            "With the number of sources fixed the growth is polynomial in the number of deletes: a query replaces each "
            "relation once at most.",
        ),
    ]


EXPERIMENT = Experiment(
    name="c-strobe-messages",
    paper="PVM",
    shows="table 4, column message cost",
    title="What C-Strobe asks when deletes come in between",
    did="The paper lists what the algorithms cost in messages to n sources: O(n!) for C-Strobe, O(n) for all others. "
    "It did not measure it.",
    found="C-Strobe asks for what a concurrent delete took away from an answer, and while that is under way the next "
    "delete takes something away from it. SWEEP and its successors correct their answers without asking.",
    here="The worst case is built: one insert, and a delete at each other source before any question about it is "
    "evaluated. C-Strobe asks in every order, as published; asking once per set of deletes would need about 2ⁿ instead "
    "of n!. Questions are counted; each has one answer.",
    run=run,
)
