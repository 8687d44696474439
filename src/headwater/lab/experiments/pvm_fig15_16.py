"""PVM, figures 15 and 16: the order of source states, and the five levels of consistency, each by a history that has it
and no more."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from headwater.algebra.bag import Bag
from headwater.lab.checker.lattice import Lattice, Vector
from headwater.lab.checker.levels import Consistency
from headwater.lab.checker.verdict import check
from headwater.lab.experiment import Claim, Experiment, Findings, Panel, Run, identity
from headwater.lab.histories.history import History, State
from headwater.lab.worlds.world import World, after, table_name
from headwater.maintenance.strategies.contract import Label, Update

UPDATES = "xyz"
"""One update at each of three sources, which are called X, Y and Z."""


class Illustration(NamedTuple):
    """A part of figure 16: what the warehouse shows, state by state, as the updates that are in."""

    part: str
    level: Consistency
    shows: tuple[str, ...]
    idea: str


LEAKED = "x+y(z)"
"""x, and the effect of y as it is once z has happened: z leaked into an answer, which its own commit makes up for."""

FIGURE_16 = (
    Illustration("a", Consistency.CONVERGENCE, ("", "x", LEAKED, "xyz"), "one state in the middle is no source state"),
    Illustration("b", Consistency.WEAK, ("", "xy", "x", "xyz"), "source states, but not in their order"),
    Illustration("c", Consistency.CONSISTENCY, ("", "x", "xy"), "in order, but the end is never shown"),
    Illustration("d", Consistency.STRONG, ("", "x", "xyz"), "in order and up to the end; one is left out"),
    Illustration("e", Consistency.COMPLETE, ("", "x", "xy", "xyz"), "every source state on one legal path"),
)


def run(run: Run) -> Findings:
    world, transactions = _world(), _transactions()
    lattice = Lattice(transactions)
    levels, orders = _levels(lattice), _orders(lattice, lattice.bottom)
    contents = {_name(v): _view(world, transactions, v) for v in lattice.all()}
    contents[LEAKED] = contents["x"] + (contents["xyz"] - contents["xz"])

    rows = [_row("15", _shown(_name(v)), f"{n} in") for n, states in enumerate(levels) for v in states]
    claims = [
        identity(
            "“The second level shows three possible states … The third level shows the next three possible states … "
            "The fourth level shows the leaf node.”",
            f"{len(contents) - 1} states, on levels of {', '.join(str(len(states)) for states in levels)}",
            [len(states) for states in levels] == [1, 3, 3, 1],
            "the subsets of three independent updates, by size",
        ),
        identity(
            "“There are six possible legal orders of information source space states.”",
            f"{len(orders)} ways from the bottom to the top: {', '.join(orders)}",
            len(orders) == 6,
            "the orders of three independent updates: 3!",
        ),
    ]
    for part, level, shows, idea in run.each(FIGURE_16):
        verdict = check(_history(world, transactions, [contents[s] for s in shows]))
        why = verdict.witness.sentence if verdict.witness else ""
        rows.append(_row(f"16{part}", " → ".join(map(_shown, shows)), level.value, verdict.level.value, why))
        claims.append(
            Claim(
                f"Figure 16{part} illustrates {level.value}: {idea}.",
                f"the checker says {verdict.level.value}" + (f"; no more, since {why}" if why else ""),
                verdict.level is level and not verdict.undecided,
            )
        )
    diagram = [["updates in", "source states", "legal orders through each"]]
    for n, states in enumerate(levels):
        through = [sum(set(order[:n]) == set(_name(v)) for order in orders) for v in states]
        diagram.append([str(n), "  ".join(_shown(_name(v)) for v in states), "  ".join(map(str, through))])
    verdicts = [["", "the warehouse shows", "verdict", "why no more"]]
    verdicts += [[r["figure"], r["shows"], r["verdict"], r["why"]] for r in rows if r["verdict"]]
    panels = [
        Panel("Fig. 15: the state order diagram of x, y, z", kind="grid", cells=diagram),
        Panel("Fig. 16: one history for each level", kind="grid", cells=verdicts),
    ]
    return Findings(rows, panels, claims)


def _row(figure: str, shows: str, drawn: str, verdict: str = "", why: str = "") -> dict[str, str]:
    return {"figure": figure, "shows": shows, "drawn as": drawn, "verdict": verdict, "why": why}


def _shown(name: str) -> str:
    return name or "∅"


def _world() -> World:
    """A view to which each update adds something, whatever is in already: no two source states look the same."""
    tables = {f"{u.upper()}.{u}": ("k", "n") for u in UPDATES}
    select = "SELECT x.n AS x, y.n AS y, z.n AS z FROM X.x JOIN Y.y ON x.k = y.k JOIN Z.z ON y.k = z.k"
    return World.of(tables, {"V": select}, {name: [(1, 0)] for name in tables})


def _transactions() -> list[Update]:
    """Each inserts a row."""
    return [
        Update(Label(u.upper(), 1), {table_name(f"{u.upper()}.{u}"): Bag.of([(1, 1)])}, float(n), u)
        for n, u in enumerate(UPDATES)
    ]


def _levels(lattice: Lattice) -> list[list[Vector]]:
    """The states by how many updates are in."""
    levels: list[list[Vector]] = []
    for vector in lattice.all():
        n = sum(vector)
        if n == len(levels):
            levels.append([])
        levels[n].append(vector)
    return levels


def _orders(lattice: Lattice, vector: Vector) -> list[str]:
    """All ways up from here, as the updates in their order."""
    if vector == lattice.top:
        return [""]
    return [lattice.between(vector, up)[0].tid + rest for up in lattice.steps(vector) for rest in _orders(lattice, up)]


def _name(vector: Vector) -> str:
    return "".join(u for u, n in zip(UPDATES, vector, strict=True) if n)


def _view(world: World, transactions: Sequence[Update], vector: Vector) -> Bag:
    return world.compiled[0].evaluate(after(world.initial, [u for u in transactions if u.tid in _name(vector)]))


def _history(world: World, transactions: Sequence[Update], contents: Sequence[Bag]) -> History:
    history = History(world.columns, world.views, world.initial, {"V": contents[0]}, list(transactions))
    for n, (old, new) in enumerate(pairwise(contents), len(transactions)):
        history.states.append(State(float(n), (("V", new - old),), ()))
    return history


EXPERIMENT = Experiment(
    name="pvm-fig15-16",
    paper="PVM",
    shows="figures 15 and 16, section 4.1",
    title="Which states a warehouse may show, and the five levels of consistency",
    did="The paper takes three updates x, y, z at three sources and draws every state that the sources can be in, and "
    "which follows from which (figure 15). Then it draws five warehouses, one for each level of consistency, with "
    "lines from their states to those of the sources (figure 16).",
    found="There are eight states and six legal orders. The levels form a hierarchy: convergence, weak consistency, "
    "consistency, strong consistency, complete consistency. Each of the five warehouses has its level and not the "
    "next.",
    here="The diagram is computed: it is the lattice that the checker works on. The five warehouses are small "
    "histories that do not say which updates a state brings in; the checker finds that out by itself. The figure has "
    "only circles and boxes, so the rows are ours. In (a), the state that is no source state is what is left by an "
    "update that leaked into an answer.",
    run=run,
)
