"""Cluster, section 3.1: the speedup of K PCs; and, of section 4, what auxiliary views add to it."""

from __future__ import annotations

from headwater.lab.experiment import Claim, Experiment, Findings, Panel, Run, identity
from headwater.lab.settings.cluster import (
    ALONE,
    EVEN,
    INSIDE,
    PCS,
    RELATIONS,
    REMOTE,
    SERVICE,
    UPDATES,
    cluster,
    parallel,
    waiting,
)
from headwater.lab.simulation.network import constant, exponential
from headwater.lab.simulation.simulator import simulate
from headwater.maintenance.strategies.simple_parallel import simple_parallel

VARYING = cluster(exponential(SERVICE))
BUSY = cluster(constant(SERVICE), 1)


def run(run: Run) -> Findings:
    world = waiting(run.seed)
    alone = {name: simulate(world, factory, EVEN, run.seed).finished for name, factory in ALONE}
    rows = []
    for k in run.each(PCS):
        times = {name: simulate(world, factory, EVEN, run.seed).finished for name, factory in parallel(k)}
        varying = simulate(world, simple_parallel(k), VARYING, run.seed).finished
        busy = simulate(world, simple_parallel(k), BUSY, run.seed).finished
        rows.append(
            {"K": k, **alone, **times, "simple parallel, varying": varying, "simple parallel, sources of q = 1": busy}
        )
    names = [name for name in rows[0] if name != "K"]
    simple = [name for name in names if name.startswith("simple")]
    panels = [
        Panel(
            f"Time to handle {UPDATES} updates",
            "PCs, K",
            "time",
            {name: [(row["K"], row[name]) for row in rows] for name in names if "," not in name},
            log_x=True,
            log_y=True,
        ),
        Panel(
            "Speedup of the simple parallel algorithm",
            "PCs, K",
            "T(1) / T(K)",
            {
                **{name: [(row["K"], rows[0][name] / row[name]) for row in rows] for name in simple},
                "K": [(row["K"], row["K"]) for row in rows],
            },
        ),
    ]
    return Findings(rows, panels, _claims(rows))


def _claims(rows: list[dict[str, float]]) -> list[Claim]:
    def speedups(name: str) -> list[float]:
        return [rows[0][name] / row[name] for row in rows]

    def listed(values: list[float]) -> str:
        return ", ".join(f"{value:.2f} (K = {row['K']})" for value, row in zip(values, rows, strict=True))

    ideal, varying = speedups("simple parallel"), speedups("simple parallel, varying")
    busy = speedups("simple parallel, sources of q = 1")
    several = [row for row in rows if row["K"] > 1]
    gain = [row["simple parallel"] / row["equal partition"] for row in several]
    same = [row["frequency partition"] / row["equal partition"] for row in rows]
    return [
        Claim(
            "the speedup of the simple parallel algorithm is almost K in an ideal case, where every PC is busy",
            f"T(1)/T(K), every question taking the same time: {listed(ideal)}",
            all(s > 0.9 * row["K"] for s, row in zip(ideal, rows, strict=True)),
        ),
        Claim(
            "the work load of all PCs is even: at a given time each PC deals with an update",
            f"T(1)/T(K) when the time of a question varies: {listed(varying)}; when a source works on one at a time: "
            f"{listed(busy)}",
            all(s > 0.9 * row["K"] for s, row in zip(varying, rows, strict=True)),
            "Only the first K updates of the queue are given out. A PC that is done behind a slow head is idle until "
            "the head is merged. A source with one question at a time makes the others wait.",
        ),
        Claim(
            "the partition-based algorithms improve the maintenance time dramatically, compared with the simple one",
            "simple / equal partition for K = "
            + ", ".join(f"{row['K']}: {g:.1f}" for row, g in zip(several, gain, strict=True)),
            min(gain) > 1.5,
            "Here updates of different groups are evaluated at the same time; with K = n nothing is asked at all, and "
            "the time is that of the ring. The paper follows one update at a time.",
        ),
        identity(
            "with equal frequencies the frequency partition is as good as the equal one",
            f"frequency / equal partition: {listed(same)}",
            all(0.8 < s < 1.25 for s in same),
            f"K divides {RELATIONS} here: the best partition of the chain is that of the equal partition, so both are "
            "the same run",
        ),
    ]


EXPERIMENT = Experiment(
    name="cluster-speedup",
    paper="Cluster",
    shows="sections 3.1 and 4.2",
    title="The speedup of K machines",
    did="The paper has no measurements. It argues that K PCs which evaluate one update each are almost K times as "
    "fast as one, and that auxiliary views save most of the questions to the sources besides.",
    found="A speedup of almost K in an ideal case, and a dramatic improvement with auxiliary views.",
    here=f"A view over {RELATIONS} relations in a chain, {UPDATES} updates that are all there at the start. Virtual "
    f"time: {INSIDE} between two PCs, {REMOTE} to or from a source, {SERVICE} for a question there. The simple "
    "parallel algorithm with K = 1 is SWEEP. The wave runs on one machine, whatever K is.",
    run=run,
)
