"""The anomaly that ECA was made for (Zhuge et al. 1995, examples 2 and 3), as PVM restates it in section 2.2."""

from __future__ import annotations

from typing import Any

from headwater.algebra.bag import Bag
from headwater.lab.experiment import Claim, Experiment, Findings, Panel, Run
from headwater.lab.histories.history import History
from headwater.lab.simulation.network import Link, Network, constant
from headwater.lab.simulation.simulator import Capacity, Conditions, simulate
from headwater.lab.worlds.world import PlannedUpdate, World, after, table_name
from headwater.maintenance.strategies.contract import (
    WAREHOUSE,
    Answer,
    Ask,
    Commit,
    Effects,
    Factory,
    Node,
    Strategy,
    StrategySetting,
)
from headwater.maintenance.strategies.eca import QuerySum, compensated, eca
from headwater.maintenance.strategies.waves import wave
from headwater.model.names import TableName

SLOW = Conditions(Network(Link(constant(1.0))), Capacity(2, constant(0.25)))
"""A message takes a second: U2, a second and a half after U1, meets Q1 on its way."""
R1, R2 = table_name("S.R1"), table_name("S.R2")


def naive(setting: StrategySetting) -> Strategy:
    """Incremental maintenance as within one database: V⟨U⟩ is asked, and its answer added to the view."""
    return Strategy({WAREHOUSE: _Naive(setting)})


class _Naive:
    def __init__(self, setting: StrategySetting) -> None:
        self.setting = setting
        self._asked = 0

    def start(self) -> Effects:
        return ()

    def receive(self, sender: Node, body: Any, now: float) -> Effects:
        view = self.setting.view
        if isinstance(body, Answer):
            return [Commit(((view.name, body.value),), body.about)]
        self._asked += 1
        return [Ask(body.source, QuerySum(view, compensated(view, body, ())), self._asked, (body.label,))]


ALGORITHMS: tuple[tuple[str, Factory], ...] = (("naive", naive), ("ECA", eca), ("our wave", wave()))


def example2() -> World:
    """R1 = ([1,2]), R2 = ∅, V = π_W(R1 ⋈ R2). U1 inserts [2,3] into R2, U2 inserts [4,2] into R1."""
    return _world("R1.W", {"S.R1": [(1, 2)]}, Bag({(2, 3): 1}), Bag({(4, 2): 1}), first=R2)


def example3() -> World:
    """R1 = ([1,2]), R2 = ([2,3]), V = π_W,Y(R1 ⋈ R2). U1 deletes [1,2] from R1, U2 deletes [2,3] from R2."""
    held = {"S.R1": [(1, 2)], "S.R2": [(2, 3)]}
    return _world("R1.W, R2.Y", held, Bag({(1, 2): -1}), Bag({(2, 3): -1}), first=R1)


def _world(select: str, held: dict[str, list[tuple[int, int]]], u1: Bag, u2: Bag, first: TableName) -> World:
    tables = {"S.R1": ("W", "X"), "S.R2": ("X", "Y")}
    world = World.of(tables, {"V": f"SELECT {select} FROM S.R1 JOIN S.R2 ON R1.X = R2.X"}, held)
    second = R1 if first == R2 else R2
    return world.having([PlannedUpdate(0.0, "S", {first: u1}), PlannedUpdate(1.5, "S", {second: u2})])


def written(bag: Bag) -> str:
    """As the paper writes a relation: ([1],[4],[4])."""
    rows = [row for row, count in sorted(bag) for _ in range(count)]
    return f"({','.join('[' + ','.join(map(str, row)) + ']' for row in rows)})" if rows else "∅"


def run(run: Run) -> Findings:
    rows, panels, finals = [], [], {}
    for title, world in run.each((("example 2", example2()), ("example 3", example3()))):
        cells = [["algorithm", "at the beginning", "then"]]
        right = world.compiled[0].evaluate(after(world.initial, world.transactions))
        finals[title, "right"] = right
        for name, factory in ALGORITHMS:
            history = simulate(world, factory, SLOW, run.seed)
            finals[title, name] = history.final()["V"]
            states = _states(history)
            cells.append([name, states[0][1], " → ".join(f"{text} at {at:g} s" for at, text in states[1:])])
            rows += [{"example": title, "algorithm": name, "at": at, "view": text} for at, text in states]
        cells.append(["right", written(world.compiled[0].evaluate(world.initial)), written(right)])
        panels.append(Panel(f"{title.capitalize()}: states of the view", kind="grid", cells=cells))
    return Findings(rows, panels, _claims(finals))


def _states(history: History) -> list[tuple[float, str]]:
    times = [0.0, *(state.at for state in history.states)]
    return [(at, written(content["V"])) for at, content in zip(times, history.contents(), strict=True)]


def _claims(finals: dict[tuple[str, str], Bag]) -> list[Claim]:
    claims = []
    for title, wrong in (("example 2", Bag({(1,): 1, (4,): 2})), ("example 3", Bag({(1, 3): 1}))):
        found, right = finals[title, "naive"], finals[title, "right"]
        claims.append(
            Claim(
                f"{title}: without compensation the view ends as {written(wrong)} instead of {written(right)}",
                written(found),
                found == wrong,
            )
        )
        installed = finals[title, "ECA"]
        claims.append(Claim(f"{title}: ECA ends with {written(right)}", written(installed), installed == right))
    return claims


EXPERIMENT = Experiment(
    name="eca-anomaly",
    paper="PVM",
    shows="section 2.2, after ECA's example",
    title="The anomaly of a concurrent update",
    did="A source has R1(W, X) and R2(X, Y), the warehouse a view of their join. While the question about a first "
    "update is on its way, a second update happens at the source. ECA's paper shows it with two inserts (example 2) "
    "and with two deletes (example 3).",
    found="The answer to the first question holds the second update already. An algorithm that just adds the answers "
    "counts the pair of inserts twice, and never deletes what two deletes removed together. ECA subtracts the error in "
    "its second question.",
    here="The same rows, with messages that take a second. Every state of the view is shown. Our wave asks as of a "
    "position, so that its answers hold nothing later.",
    run=run,
)
