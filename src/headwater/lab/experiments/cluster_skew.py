"""Cluster, section 5: what happens when some sources are updated much more often than others."""

from __future__ import annotations

from random import Random

from headwater.lab.experiment import Claim, Experiment, Findings, Panel, Run, identity
from headwater.lab.settings.cluster import DOMAIN, EVEN, RELATIONS, UPDATES, line
from headwater.lab.simulation.simulator import simulate
from headwater.lab.worlds.workload import Mix, every, updates, weighted
from headwater.lab.worlds.world import World
from headwater.maintenance.strategies.auxiliary import equal_groups
from headwater.maintenance.strategies.contract import Factory
from headwater.maintenance.strategies.equal_partition import equal_partition
from headwater.maintenance.strategies.frequency_partition import frequency_partition
from headwater.maintenance.strategies.simple_parallel import simple_parallel
from headwater.maintenance.strategies.tree_partition import Groups, appro_partition, join_graph
from headwater.maintenance.strategies.waves import wave

K = 4
EXPONENTS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0)
RUNS = 4


def algorithms(frequencies: list[float]) -> tuple[tuple[str, Factory], ...]:
    return (
        ("simple parallel", simple_parallel(K)),
        ("equal partition", equal_partition(K)),
        ("frequency partition", frequency_partition(K, frequencies)),
        ("our wave", wave()),
    )


def run(run: Run) -> Findings:
    rows: list[dict[str, float]] = []
    for exponent in run.each(EXPONENTS):
        runs = [_measured(exponent, run.seed * 100 + r) for r in range(RUNS)]
        rows.append({"exponent": exponent} | {name: sum(m[name] for m in runs) / RUNS for name in runs[0]})
    names = [name for name, _ in algorithms([1.0] * RELATIONS)]
    panels = [
        Panel(
            f"Time to handle {UPDATES} updates, K = {K}",
            "Zipf exponent of the frequencies",
            "time",
            {name: [(row["exponent"], row[name]) for row in rows] for name in names},
        ),
        Panel(
            "Busiest group, times the average: its updates, and its questions",
            "Zipf exponent of the frequencies",
            "busiest / average",
            {
                f"{what}, {name}": [(row["exponent"], row[f"{name}, {what}"]) for row in rows]
                for name in ("equal", "frequency")
                for what in ("updates", "questions")
            },
        ),
    ]
    return Findings(rows, panels, _claims(rows))


def _measured(exponent: float, seed: int) -> dict[str, float]:
    """The ranks of the frequencies are dealt to the relations at random."""
    random = Random(seed)
    frequencies = [1.0 / (rank + 1) ** exponent for rank in random.sample(range(RELATIONS), RELATIONS)]
    world = line(RELATIONS, seed)
    origins = weighted(world.sources, frequencies, random)
    world = updates(world, UPDATES, origins, every(0.0), seed, Mix(0.5, 1, DOMAIN))
    times = {name: simulate(world, factory, EVEN, seed).finished for name, factory in algorithms(frequencies)}
    setting = world.setting()
    chosen = appro_partition(frequencies, join_graph(setting.view, setting.tables), K)
    return (
        times
        | {f"equal, {what}": load for what, load in _imbalance(world, equal_groups(RELATIONS, K)).items()}
        | {f"frequency, {what}": load for what, load in _imbalance(world, chosen).items()}
    )


def _imbalance(world: World, groups: Groups) -> dict[str, float]:
    """Of the updates that happen: how many the busiest PC has, and how many questions they need, against the average
    PC."""
    homes = world.setting().homes
    counts = [sum(1 for t in world.transactions if homes.index(t.source) in group) for group in groups]
    questions = [count * (len(group) - 1) for count, group in zip(counts, groups, strict=True)]
    return {
        "updates": max(counts) * len(groups) / sum(counts),
        "questions": max(questions) * len(groups) / max(1, sum(questions)),
        "critical": float(max(questions)),
    }


def _claims(rows: list[dict[str, float]]) -> list[Claim]:
    def each(name: str) -> str:
        return ", ".join(f"{row[name]:.0f}" for row in rows)

    worst, first = rows[-1], rows[0]
    skewed = [row for row in rows if row["exponent"] > 0]
    gains = [row["equal partition"] / row["frequency partition"] for row in skewed]
    exponents = ", ".join(f"{row['exponent']:g}" for row in rows)
    some = f"exponents from {skewed[0]['exponent']:g}"
    balance = [(row["equal, updates"], row["frequency, updates"]) for row in skewed]
    return [
        Claim(
            "the performance of the equal partition deteriorates when the update frequencies of some auxiliary views "
            "are extremely high",
            f"time of the equal partition for exponents {exponents}: {each('equal partition')}",
            worst["equal partition"] > 1.5 * first["equal partition"],
        ),
        Claim(
            "each auxiliary view of the frequency partition has equal update frequency aggregately",
            f"busiest group's updates, times the average, equal / frequency partition, {some}: "
            + ", ".join(f"{e:.2f} / {f:.2f}" for e, f in balance),
            all(f < 1.25 for _, f in balance),
            "A single relation can be busier than 1/K of all updates, and no partition of relations divides it. "
            "The max-min partition makes the idlest group as busy as possible, not the busiest one less busy.",
        ),
        Claim(
            "the frequency partition improves performance even when update frequencies are heavily imbalanced",
            f"time of the equal / that of the frequency partition, {some}: " + ", ".join(f"{g:.2f}" for g in gains),
            all(g > 1.0 for g in gains),
            "Equal frequencies are not equal work: an update of a group of g relations asks g − 1 sources. Busy "
            "relations get small groups, idle ones a large group, whose few updates are then slow. Busiest PC's "
            f"questions for {some}, equal / frequency partition: "
            + ", ".join(f"{row['equal, critical']:.0f} / {row['frequency, critical']:.0f}" for row in skewed)
            + ".",
        ),
        identity(
            "the simple algorithm keeps the work load of all PCs even",
            f"time of the simple parallel algorithm for exponents {exponents}: {each('simple parallel')}",
            max(r["simple parallel"] for r in rows) < 1.1 * min(r["simple parallel"] for r in rows),
            "an update takes n − 1 questions of the same time wherever it is from, and goes to whichever PC is next",
        ),
    ]


EXPERIMENT = Experiment(
    name="cluster-skew",
    paper="Cluster",
    shows="section 5",
    title="When some sources change more often",
    did="The paper argues that the equal partition deteriorates when some auxiliary views are updated very often, and "
    "chooses groups of about equal update frequency instead.",
    found="The frequency partition improves the performance of the entire system, even when frequencies are heavily "
    "imbalanced.",
    here=f"{RELATIONS} relations in a chain, K = {K}, {UPDATES} updates that are all there at the start. Frequencies "
    f"follow Zipf's law, dealt to the relations at random; means over {RUNS} deals. The frequency partition is given "
    "the true frequencies.",
    run=run,
)
