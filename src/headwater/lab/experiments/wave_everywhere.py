"""The wave beside the published algorithms, in the settings of all papers: questions, messages, bytes, time, level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import mean

from headwater.lab.checker.levels import Consistency
from headwater.lab.checker.verdict import check
from headwater.lab.experiment import Claim, Experiment, Findings, Panel, Run
from headwater.lab.experiments.tid_several_tables import several
from headwater.lab.histories.history import History
from headwater.lab.settings.cluster import EVEN, RELATIONS, waiting
from headwater.lab.settings.mobile import MobileLoad, conditions, mobile_world
from headwater.lab.settings.pvm import PvmLoad as PvmLoad
from headwater.lab.settings.pvm import busy as pvm_world
from headwater.lab.simulation.network import Link, Network, exponential, uniform
from headwater.lab.simulation.simulator import Capacity, Conditions, simulate
from headwater.lab.worlds.workload import Mix, chain, every, in_turn, updates
from headwater.lab.worlds.world import World
from headwater.maintenance.strategies.contract import Factory
from headwater.maintenance.strategies.equal_partition import equal_partition
from headwater.maintenance.strategies.frequency_partition import frequency_partition
from headwater.maintenance.strategies.nested_sweep import nested_sweep
from headwater.maintenance.strategies.posse import posse
from headwater.maintenance.strategies.pull_push import pull_push
from headwater.maintenance.strategies.pure_push import pure_push
from headwater.maintenance.strategies.pvm import pvm
from headwater.maintenance.strategies.pvm_cc import pvm_cc
from headwater.maintenance.strategies.simple_parallel import simple_parallel
from headwater.maintenance.strategies.sweep import sweep
from headwater.maintenance.strategies.tid_rules import tid_rules
from headwater.maintenance.strategies.waves import wave

OURS = "our wave"
PIPELINED = "our wave, p = 4"
"""Four batches under way at once."""
CENTRAL: Mapping[str, Factory] = {
    "SWEEP": sweep, "Nested SWEEP": nested_sweep(8), "PVM": pvm(8), "PVM CC": pvm_cc(8), "POSSE": posse(),
    "TID rules": tid_rules(4.0), OURS: wave(), PIPELINED: wave(p=4),
}  # fmt: skip


@dataclass(frozen=True)
class Place:
    """A setting: the world, how it goes, and who is there."""

    name: str
    world: World
    conditions: Conditions
    algorithms: Mapping[str, Factory]


def places(seed: int) -> Sequence[Place]:
    """The papers' settings."""
    burst, steady = pvm_world(PvmLoad(4, 60), seed), pvm_world(PvmLoad(4, 80, interval=1.5), seed)
    dense = chain(4, 12, 6, seed)
    crowded = updates(dense, 80, in_turn(dense.sources), every(1.5), seed, Mix(0.5, domain=6))
    tables = several(3, seed)
    tables = updates(tables, 40, in_turn(tables.sources), every(2.0), seed, Mix(0.5, 2, 6))
    mobile = MobileLoad.at_rate(0.5, 4, 40.0, 0.65).over(mobile_world(4, seed), seed)
    one = Conditions(capacity=Capacity(1, exponential(1.0)), local=0.01)
    unordered = Conditions(Network(Link(uniform(0.1, 3.0), fifo=False)), Capacity(1, exponential(1.0)))
    single = {name: f for name, f in CENTRAL.items() if name != "Nested SWEEP"}
    cluster = {
        "SWEEP": sweep, "simple parallel": simple_parallel(8), "equal partition": equal_partition(8),
        "frequency partition": frequency_partition(8, [1.0] * RELATIONS), OURS: wave(),
    }  # fmt: skip
    push = {
        "Nested SWEEP": nested_sweep(8), "Pure-Push": pure_push(0.5, 0.5), "Pull-Push": pull_push(0.5), OURS: wave(),
    }  # fmt: skip
    return (
        Place("PVM: 60 updates at once, 4 sources", burst, one, CENTRAL),
        Place("PVM: one update every 1.5, 4 sources", steady, one, CENTRAL),
        Place("TID: 9 tables at 3 sources", tables, one, single),
        Place("TID: channels without order", crowded, unordered, CENTRAL),
        Place("Cluster: 64 updates, 16 sources", waiting(seed), EVEN, cluster),
        Place("Pull-Push: V4, interfering updates", mobile, conditions(mobile, 60.0, seed), push),
    )


def run(run: Run) -> Findings:
    rows = []
    for place, name in run.each([(p, name) for p in places(run.seed) for name in p.algorithms]):
        history = simulate(place.world, place.algorithms[name], _ending(place, name), run.seed)
        rows.append({"setting": place.name, "algorithm": name, **_measured(history)})
    return Findings(rows, [_table(rows)], _claims(rows))


def _ending(place: Place, name: str) -> Conditions:
    """Those that wake themselves never end by themselves."""
    if name != "TID rules":
        return place.conditions
    return replace(place.conditions, until=place.world.transactions[-1].at + 60.0)


def _measured(history: History) -> dict[str, float | str]:
    n = len(history.transactions)
    working = [m for m in history.messages if m.kind not in ("update", "acknowledgement", "applied")]
    late = history.staleness()
    return {
        "level": check(history, budget=60_000).level.name.lower(),
        "questions per update": history.questions / n,
        "messages per update": len(working) / n,
        "bytes per update": sum(m.bytes for m in working) / n,
        "time": history.finished - history.transactions[0].at,
        "mean delay": mean(late) if late else float("inf"),
        "local joins per update": history.local_joins / n,
    }


def _table(rows: list[dict[str, float | str]]) -> Panel:
    head = ["setting", "algorithm", "level", "messages / update", "bytes / update", "time", "mean delay"]
    cells = [head]
    last = ""
    for r in rows:
        setting = str(r["setting"])
        cells.append(
            [
                "" if setting == last else setting,
                str(r["algorithm"]),
                str(r["level"]),
                f"{r['messages per update']:.1f}",
                f"{r['bytes per update']:.0f}",
                f"{r['time']:.1f}",
                f"{r['mean delay']:.1f}",
            ]
        )
        last = setting
    return Panel("Every algorithm, every setting", kind="grid", cells=cells)


def _claims(rows: list[dict[str, float | str]]) -> list[Claim]:
    ours = [r for r in rows if r["algorithm"] == OURS]
    settings = [str(r["setting"]) for r in ours]
    return [
        Claim(
            "The wave is complete everywhere, whatever the order of messages.",
            ", ".join(f"{r['setting']}: {r['level']}" for r in ours),
            all(r["level"] == Consistency.COMPLETE.name.lower() for r in ours),
        ),
        _least(rows, settings, "messages per update", "Complete consistency at batch cost, fewest messages of "
               "all that are complete in a setting."),
        _least(rows, settings, "time", "Done first of all that are complete in a setting."),
        _least(rows, settings, "bytes per update", "Fewest bytes of all that are complete in a setting."),
        _least(rows, settings, "mean delay", "Shortest mean delay of all that are complete in a setting."),
    ]  # fmt: skip


def _least(rows: list[dict[str, float | str]], settings: Sequence[str], field: str, said: str) -> Claim:
    """Setting by setting: the wave, if it is complete there itself, against the best of the others that are."""
    parts, wins = [], 0
    for setting in settings:
        here = {str(r["algorithm"]): r for r in rows if r["setting"] == setting}
        complete = Consistency.COMPLETE.name.lower()
        others = {n: float(r[field]) for n, r in here.items() if r["level"] == complete and n not in (OURS, PIPELINED)}
        mine = float(here[OURS][field])
        if not others:
            parts.append(f"{setting}: {mine:.1f}, no other is complete")
            wins += here[OURS]["level"] == complete
            continue
        best = min(others, key=lambda n: others[n])
        parts.append(f"{setting}: {mine:.1f}, best other {best} {others[best]:.1f}")
        wins += here[OURS]["level"] == complete and mine <= others[best]
    why = "" if wins == len(settings) else (
        f"In {wins} of {len(settings)} settings. A wave brings every change of a batch past all others, transaction by "
        "transaction, and waits for the batch before it, unless several are under way (p = 4); alone with one small "
        "update it asks more than a sweep does. Equal partition is faster because it holds copies of all relations in "
        "its auxiliary views (cluster-space)."
    )  # fmt: skip
    return Claim(said, "; ".join(parts), wins == len(settings), why)


EXPERIMENT = Experiment(
    name="wave-everywhere",
    paper="ours",
    shows="docs/decisions/0003",
    title="The wave in the settings of all papers",
    did="Each paper compares its algorithms in a setting of its own.",
    found="Complete algorithms pay per update, batching ones skip states, and all but the TID rules and Pull-Push rely "
    "on the order of messages.",
    here="All settings in one table. The wave polls, numbers what it finds, and asks at most 2(n − 1) questions as "
    "of one position for each batch; every transaction is a state of its own. Messages are questions, answers and what "
    "processes send each other; notifications are not counted, for anyone. The level is that of this one run: where "
    "order matters, an algorithm may be lucky.",
    run=run,
)
