"""Cluster, section 4: the space that auxiliary views take, against K."""

from __future__ import annotations

from headwater.lab.experiment import Claim, Experiment, Findings, Panel, Run
from headwater.lab.settings.cluster import line
from headwater.lab.worlds.workload import chain
from headwater.lab.worlds.world import World
from headwater.maintenance.strategies.auxiliary import equal_groups, materialized

RELATIONS = 8
PCS = (1, 2, 3, 4, 8)
ROWS, DOMAIN = 60, 40
"""Of the denser world: a row has one and a half partners in each neighbour, on average."""


def run(run: Run) -> Findings:
    worlds = {
        "one partner": line(RELATIONS, run.seed),
        "1.5 partners": chain(RELATIONS, ROWS, DOMAIN, run.seed),
        "0.5 partners": chain(RELATIONS, ROWS // 3, DOMAIN, run.seed),
    }
    rows: list[dict[str, float | str]] = []
    for (name, world), k in run.each([(item, k) for item in worlds.items() for k in PCS]):
        rows.append({"world": name, "K": k, **_space(world, k)})

    def lines(column: str) -> dict[str, list[tuple[int, float]]]:
        return {name: [(int(row["K"]), float(row[column])) for row in rows if row["world"] == name] for name in worlds}

    panels = [
        Panel("Rows in all auxiliary views", "PCs, K", "rows", lines("rows"), log_y=True),
        Panel("Values in all auxiliary views", "PCs, K", "values", lines("values"), log_y=True),
        Panel("Values, times those of the view", "PCs, K", "", lines("times the view"), log_y=True),
    ]
    return Findings(rows, panels, _claims(rows))


def _space(world: World, k: int) -> dict[str, float]:
    setting = world.setting()
    held = [materialized(setting, group) for group in equal_groups(RELATIONS, k)]
    view = sum(len(row) * count for row, count in setting.content())
    used = [setting.view.reduced(i, setting.tables[table]) for i, table in enumerate(setting.view.tables)]
    base = sum(len(row) * count for bag in used for row, count in bag)
    values = sum(len(row) * count for av in held for row, count in av.bag)
    return {
        "rows": sum(av.bag.total() for av in held),
        "values": values,
        "times the view": values / max(1, view),
        "times the tables": values / base,
    }


def _claims(rows: list[dict[str, float | str]]) -> list[Claim]:
    def of(world: str, column: str) -> dict[int, float]:
        return {int(row["K"]): float(row[column]) for row in rows if row["world"] == world}

    times = {world: of(world, "times the view") for world in dict.fromkeys(str(row["world"]) for row in rows)}
    at_n = {world: of(world, "times the tables")[RELATIONS] for world in times}
    dense = of("1.5 partners", "values")
    return [
        Claim(
            "fewer accesses are obtained at the expense of more space for accommodating auxiliary views",
            "values in view and auxiliary views together, times those of the view alone, "
            f"K = {PCS[1]} … {PCS[-1]}: "
            + "; ".join(
                f"{world}: {1 + min(t[k] for k in PCS[1:]):.2f} to {1 + max(t[k] for k in PCS[1:]):.2f}"
                for world, t in times.items()
            ),
            all(1 + t[k] > 1.05 for t in times.values() for k in PCS[1:]),
            "How much depends on the joins, not on K alone. Where joins grow, the auxiliary views of large groups are "
            "the large ones: more PCs need less space. Where joins shrink it is the other way round.",
        ),
        Claim(
            "full replication, where all of the sources is copied to the warehouse, is inefficient in storage space "
            "(section 1.1)",
            "K = n is full replication: auxiliary views hold "
            + ", ".join(f"{t:.0%} ({world})" for world, t in at_n.items())
            + f" of what the view uses of the tables. With 1.5 partners that is {dense[RELATIONS]:.0f} values, against "
            f"{dense[PCS[1]]:.0f} for K = {PCS[1]}",
            all(values[RELATIONS] == max(values.values()) for values in (of(world, "values") for world in times)),
            "Full replication is the fastest case of cluster-speedup, too: nothing is asked. It takes the most space "
            "only where joins shrink.",
        ),
    ]


EXPERIMENT = Experiment(
    name="cluster-space",
    paper="Cluster",
    shows="section 4.2",
    title="The space of auxiliary views",
    did="The paper names the price of auxiliary views, more space, and gives no numbers.",
    found="An algorithm that asks ⌈n/K⌉ sources instead of n, at the expense of space.",
    here=f"Views over {RELATIONS} relations in a chain, in which a row has 0.5, 1 or 1.5 partners in the next relation "
    "on average. Rows and values of all auxiliary views of the equal partition at the beginning; K = 1 is the join "
    "itself, all of its columns.",
    run=run,
)
