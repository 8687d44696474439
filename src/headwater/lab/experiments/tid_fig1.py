"""The TID paper's figure 1: compensation by order of arrival fails on a reliable, ordered network."""

from __future__ import annotations

from headwater.algebra.bag import Bag
from headwater.lab.checker.levels import Consistency
from headwater.lab.checker.verdict import check
from headwater.lab.experiment import Claim, Experiment, Findings, Run
from headwater.lab.settings.figures import played
from headwater.lab.simulation.simulator import Conditions, simulate
from headwater.lab.worlds.world import PlannedUpdate, World, table_name
from headwater.maintenance.strategies.tid_rules import tid_rules


def run(run: Run) -> Findings:
    findings = played(run, ("tid-fig1", "tid-fig1-wave"))
    history = simulate(_world(), tid_rules(3.0), Conditions(until=40.0), run.seed)
    verdict = check(history)
    rules = Claim(
        "The TID rules maintain the view without detecting any interference.",
        f"the same three transactions under the TID rules: {verdict}",
        Consistency.STRONG in verdict.holds,
    )
    return Findings(findings.rows, findings.panels, [*findings.claims, rules])


def _world() -> World:
    """Figure 1's transactions, one after the other while a session runs."""
    world = World.of(
        {"Sn.N": ("A",), "Si.R": ("X",)},
        {"V": "SELECT N.A, R.X FROM Sn.N CROSS JOIN Si.R"},
        {"Sn.N": [(1,)], "Si.R": [(1,), (2,)]},
    )
    n, r = table_name("Sn.N"), table_name("Si.R")
    return world.having(
        [
            PlannedUpdate(2.5, "Sn", {n: Bag({(7,): 1})}),
            PlannedUpdate(4.5, "Si", {r: Bag({(2,): -1, (20,): 1})}),
            PlannedUpdate(5.5, "Si", {r: Bag({(1,): -1, (10,): 1})}),
        ]
    )


EXPERIMENT = Experiment(
    name="tid-fig1",
    paper="TID",
    shows="figure 1",
    title="Compensation by order of arrival fails; the TID rules do not",
    did="A query under read committed reads one row before a transaction and another row after a second one. The "
    "warehouse is told of the first transaction before it gets the answer, of the second after it.",
    found="Although the network loses nothing and keeps order, one interfering update is not detected and another is "
    "taken for one. Labelling changes with transaction ids needs no detection.",
    here="SWEEP plays the figure step by step (`headwater lab check tid-fig1`); the wave plays the same transactions, "
    "asking as of a position. The TID rules run beside it in virtual time; like the wave they need a source that "
    "evaluates one question, tables and delta tables together, on one state.",
    run=run,
)
