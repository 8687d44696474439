"""PVM, figure 22: what each source does, tick by tick, while three updates are handled."""

from __future__ import annotations

from headwater.lab.experiment import Claim, Experiment, Findings, Panel, Run
from headwater.lab.histories.history import History
from headwater.lab.simulation.network import constant
from headwater.lab.simulation.simulator import Capacity, Conditions, simulate
from headwater.lab.worlds.workload import Mix, chain, every, in_turn, updates
from headwater.maintenance.strategies.contract import Factory, Label
from headwater.maintenance.strategies.nested_sweep import nested_sweep
from headwater.maintenance.strategies.pvm import pvm
from headwater.maintenance.strategies.pvm_cc import pvm_cc
from headwater.maintenance.strategies.sweep import sweep

SOURCES = 3
TICKS = Conditions(capacity=Capacity(q=1, service=constant(2.0), notice=1.0))
"""A question takes two ticks; an update that happens at tick 0 is received at tick 1; messages take no time."""

ALGORITHMS: tuple[tuple[str, Factory], ...] = (("SWEEP", sweep), ("PVM (p=2)", pvm(2)), ("PVM (p=3)", pvm(3)))
BESIDES: tuple[tuple[str, Factory], ...] = (
    ("PVM CC (p=2)", pvm_cc(2)),
    ("PVM CC (p=3)", pvm_cc(3)),
    ("Nested SWEEP", nested_sweep()),
)

# The paper's figure: tick, then IS1 IS2 IS3 for SWEEP, PVM (p=2), PVM (p=3); "." is an idle source.
PRINTED = """
     0   DU1    DU2    DU3     DU1    DU2    DU3     DU1    DU2    DU3
     1   .      SQ1,2  .       SQ2,1  SQ1,2  .       SQ2,1  SQ1,2  .
     2   .      SQR1,2 .       SQR2,1 SQR1,2 .       SQR2,1 SQR1,2 .
     3   .      .      SQ1,3   .      .      SQ1,3   .      SQ3,2  SQ1,3
     4   .      .      SQR1,3  .      .      SQR1,3  .      SQR3,2 SQR1,3
     5   SQ2,1  .      .       .      SQ3,2  SQ2,3   SQ3,1  .      SQ2,3
     6   SQR2,1 .      .       .      SQR3,2 SQR2,3  SQR3,1 .      SQR2,3
     7   .      .      SQ2,3   SQ3,1  .      .       .      .      .
     8   .      .      SQR2,3  SQR3,1 .      .       .      .      .
     9   .      SQ3,2  .       .      .      .       .      .      .
    10   .      SQR3,2 .       .      .      .       .      .      .
    11   SQ3,1  .      .       .      .      .       .      .      .
    12   SQR3,1 .      .       .      .      .       .      .      .
"""

Grid = list[list[str]]
"""Tick by tick, source by source; "" is an idle source."""


def printed() -> dict[str, Grid]:
    """The paper's grids, by algorithm."""
    lines = [[cell.replace(".", "") for cell in line.split()[1:]] for line in PRINTED.strip().splitlines()]
    return {name: [row[a * SOURCES : (a + 1) * SOURCES] for row in lines] for a, (name, _) in enumerate(ALGORITHMS)}


def grid(history: History, ticks: int) -> Grid:
    """What every source did: SQi,j in the first tick of a question about update i to source j, SQRi,j in the second."""
    cells = [["" for _ in range(SOURCES)] for _ in range(ticks)]
    for update in history.transactions:
        cells[int(update.at)][_number(update.label) - 1] = f"DU{_number(update.label)}"
    for service in history.services:
        i, j, start = _number(service.about[0]), int(service.source.removeprefix("IS")), int(service.start)
        cells[start][j - 1] = f"SQ{i},{j}"
        cells[start + 1][j - 1] = f"SQR{i},{j}"
    return cells


def _number(label: Label) -> int:
    """Update i is the only one of source i."""
    return int(label.source.removeprefix("IS"))


def run(run: Run) -> Findings:
    world = chain(SOURCES, seed=run.seed)
    world = updates(world, SOURCES, in_turn(world.sources), every(0.0), run.seed, Mix(deletes=0.0))
    expected = printed()
    ticks = len(next(iter(expected.values())))
    grids, last = {}, {}
    for name, factory in run.each(ALGORITHMS + BESIDES):
        history = simulate(world, factory, TICKS, run.seed)
        grids[name] = grid(history, ticks)
        last[name] = max(int(s.end) for s in history.services) - 1
    rows = [
        {"tick": tick, "algorithm": name, "source": f"IS{j + 1}", "measured": cell, "paper": in_paper}
        for name, cells in grids.items()
        for tick, line in enumerate(cells)
        for j, cell in enumerate(line)
        for in_paper in [expected[name][tick][j] if name in expected else ""]
    ]
    differing = sum(row["measured"] != row["paper"] for row in rows if row["algorithm"] in expected)
    compared = sum(row["algorithm"] in expected for row in rows)
    claims = [
        *(
            Claim(f"{name} uses {ticks} ticks", f"{last[name]} ticks", last[name] == ticks)
            for name, ticks in (("SWEEP", 12), ("PVM (p=2)", 8), ("PVM (p=3)", 6))
        ),
        Claim("the table itself", f"{differing} of {compared} cells differ", differing == 0),
        Claim(
            "PVM (p=2) is blocked at IS3, where the question about DU2 waits for the one about DU1",
            f"{last['PVM (p=2)']} ticks instead of {last['SWEEP'] // 2}, which is half of SWEEP's",
            last["PVM (p=2)"] > last["SWEEP"] // 2,
        ),
    ]
    notes = [f"Not in the paper: {name} uses {last[name]} ticks." for name, _ in BESIDES]
    return Findings(rows, [_panel(name, cells) for name, cells in grids.items()], claims, notes)


def _panel(name: str, cells: Grid) -> Panel:
    heading = ["Tick", *(f"IS{j + 1}" for j in range(SOURCES))]
    return Panel(name, kind="grid", cells=[heading, *([str(tick), *line] for tick, line in enumerate(cells))])


EXPERIMENT = Experiment(
    name="pvm-fig22",
    paper="PVM",
    shows="figure 22, section 7.2",
    title="Updates block each other at the sources",
    did="Three sources have one update each at tick 0. Every question takes two ticks at its source. The figure writes "
    "down by hand what each source does in each tick, for SWEEP and for PVM with two and three updates at a time.",
    found="SWEEP needs 12 ticks, PVM with p = 2 needs 8 instead of the 6 one might hope for, since two questions meet "
    "at IS3; with p = 3 another update uses the idle IS2 in the meantime, and 6 ticks are enough.",
    here="The same run, for real: the table is what the simulated sources did, and is compared with the printed one "
    "cell by cell. PVM CC and Nested SWEEP are added; a question of Nested SWEEP may be about several updates, and is "
    "named after the one that the sweep began with.",
    run=run,
)
