"""Pull-Push, figures 4 and 5: the update propagation time and its four parts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from headwater.lab.experiment import Claim, Experiment, Findings, Panel, Run, identity
from headwater.lab.settings.mobile import (
    ALGORITHMS,
    AWAKE,
    INTERFERENCE,
    MobileAlgorithm,
    MobileLoad,
    Sleep,
    Upt,
    account,
    conditions,
    mobile_world,
)
from headwater.lab.simulation.tries import tallied

F = 0.1
INTERVAL = 0.3
DURATION = 10_000.0
MEAN = 1800.0
ALL_ON = 0.1
"""Of the duration; where nothing is ever off a tenth of it says the same."""
WAVES = 0.1
"""Of duration and mean, for our wave: it computes with the engine's own code, which takes its time."""
SCALES = (0.01, 0.1, 1.0)
VIEWS = (1, 2, 3, 4)
LOADS = (("non-interfering", 0.0), ("interfering", INTERFERENCE))
NODES = (("mobile", Sleep(sources=0.1, warehouse=0.1, mean=MEAN)), ("stationary", AWAKE))
PARTS = ("network", "computation", "query", "inner")
SHORT = {"Nested SWEEP": "NS", "Pure-Push": "PP", "Pull-Push": "IPP", "our wave": "wave"}


def run(run: Run) -> Findings:
    rows: list[dict[str, Any]] = []
    smaller: dict[str, list[float]] = {a.name: [] for a in ALGORITHMS}
    points = [(w, u, n, a, _scale(w[1], a)) for w in NODES for u in LOADS for n in VIEWS for a in ALGORITHMS]
    checks = [(NODES[0], LOADS[1], VIEWS[-1], a, s) for a in ALGORITHMS for s in SCALES if s < _scale(NODES[0][1], a)]
    for (nodes, sleep), (updates, probability), n, algorithm, scale in run.each([*points, *checks]):
        upt = _measured(algorithm, n, probability, sleep, scale, run.seed)
        if len(rows) == len(points):
            smaller[algorithm.name].append(upt.total)
            continue
        rows.append(
            {
                "nodes": nodes,
                "updates": updates,
                "view": f"V{n}",
                "algorithm": algorithm.name,
                **{part: getattr(upt, part) for part in PARTS},
                "UPT": upt.total,
                "network, mean of both ways": upt.halves,
                "commit to view": upt.elapsed,
                "duration": DURATION * scale,
            }
        )
    panels = [
        Panel(
            f"{updates} updates, {nodes} nodes",
            "NS Nested SWEEP, PP Pure-Push, IPP Pull-Push; the wave: shorter run",
            "seconds per update",
            {
                f"t_{part}": [
                    (f"{r['view']} {SHORT[r['algorithm']]}", r[part])
                    for r in rows
                    if (r["nodes"], r["updates"]) == (nodes, updates)
                ]
                for part in PARTS
            },
            kind="stacked",
        )
        for nodes, _ in NODES
        for updates, _ in LOADS
    ]
    return Findings(rows, panels, _claims(rows), [_scales(rows, smaller)])


def _measured(algorithm: MobileAlgorithm, n: int, probability: float, sleep: Sleep, scale: float, seed: int) -> Upt:
    """`scale`: of the duration and of the intervals after which nodes change."""
    duration = DURATION * scale
    world = MobileLoad.at_rate(F, n, duration, probability).over(mobile_world(n, seed), seed)
    how = conditions(world, duration, seed, replace(sleep, mean=sleep.mean * scale))
    return account(algorithm, tallied(world, algorithm.make(INTERVAL), how, seed).run())


def _scale(sleep: Sleep, algorithm: MobileAlgorithm) -> float:
    return ALL_ON if sleep == AWAKE else WAVES if algorithm.name == "our wave" else 1.0


def _scales(rows: list[dict[str, Any]], smaller: dict[str, list[float]]) -> str:
    """V4 with interference and nodes that sleep, at smaller scales."""
    found = []
    for name, upts in smaller.items():
        point = ("mobile", "interfering", f"V{VIEWS[-1]}", name)
        full = [r["UPT"] for r in rows if (r["nodes"], r["updates"], r["view"], r["algorithm"]) == point]
        found.append(f"{name} {', '.join(f'{upt:.2f}' for upt in (*upts, *full))} s")
    scales = ", ".join(f"{DURATION * scale:,.0f} s ({MEAN * scale:,.0f} s)" for scale in SCALES)
    return (
        f"The UPT of V4 with interference and nodes that sleep at three scales, of {scales}: {'; '.join(found)}. The "
        "wave has the first two, so its bars are of a smaller scale than the others'. Outages do not count in the UPT; "
        "what they change is how many updates wait together when a node comes back. Nested SWEEP takes them all in one "
        "sweep, whose messages are as large as that; Pure-Push's batches queue for the sources, one query each; "
        "Pull-Push's windows are asked for one by one."
    )


def _claims(rows: list[dict[str, Any]]) -> list[Claim]:
    table = {(r["nodes"], r["updates"], r["view"], r["algorithm"]): r for r in rows}

    def of(part: str, algorithm: str, view: str = "V4", updates: str = "non-interfering", nodes: str = "mobile") -> Any:
        return table[nodes, updates, view, algorithm][part]

    def grows(part: str, algorithm: str) -> list[float]:
        return [of(part, algorithm, f"V{n}", nodes="mobile") for n in VIEWS]

    def share(part: str, of_what: str, view: str, nodes: str) -> float:
        return float(of(part, "Pull-Push", view, nodes=nodes) / of("network", of_what, view, nodes=nodes))

    def more(view: str, algorithm: str, part: str = "query", nodes: str = "mobile") -> float:
        plain, mixed = (of(part, algorithm, view, updates, nodes) for updates, _ in LOADS)
        return float(mixed / plain - 1)

    def shares(of_what: str) -> str:
        return "; ".join(
            f"{nodes}: V3 {share('network', of_what, 'V3', nodes):.0%}, V4 {share('network', of_what, 'V4', nodes):.0%}"
            f" (mean of both ways: {share(both, of_what, 'V3', nodes):.0%}, {share(both, of_what, 'V4', nodes):.0%})"
            for nodes, _ in NODES
        )

    def upts(updates: str, nodes: str = "mobile", part: str = "UPT") -> str:
        return ", ".join(f"{name} {of(part, name, updates=updates, nodes=nodes):.2f} s" for name in published)

    both = "network, mean of both ways"
    published = ("Nested SWEEP", "Pure-Push", "Pull-Push")
    pushing = ("Pure-Push", "Pull-Push")
    inner = {name: grows("inner", name) for name in published}
    computed = {name: grows("computation", name) for name in published}
    rising = {part: all(y[name] == sorted(y[name]) and y[name][-1] > y[name][0] for name in pushing)
              for part, y in (("inner", inner), ("computation", computed))}  # fmt: skip
    steady = max(inner["Nested SWEEP"][1:]) - min(inner["Nested SWEEP"][1:])
    queries = {nodes: [of("query", name, nodes=nodes) for name in published] for nodes, _ in NODES}
    alike = max(queries["stationary"]) / min(queries["stationary"]) - 1
    alike_mobile = max(queries["mobile"]) / min(queries["mobile"]) - 1
    better = {v: 1 - of("UPT", "Pull-Push", v, "interfering") / of("UPT", "Nested SWEEP", v, "interfering")
              for v in ("V3", "V4")}  # fmt: skip
    fastest = min(published, key=lambda name: of("UPT", name, updates="interfering"))
    changed = {part: more("V4", "Pure-Push", part) for part in ("network", "query", "computation", "inner")}
    return [
        identity(
            "t_inner_communication increases with the number of sources for both pushing algorithms",
            "; ".join(f"{name} {inner[name][0]:.3f} to {inner[name][-1]:.3f} s" for name in pushing),
            rising["inner"],
            "nothing of it is measured: 2 hops and another 2 for each query on the way, 5 ms each",
        ),
        Claim(
            "t_computation increases with the number of sources for both pushing algorithms",
            "; ".join(f"{name} {computed[name][0]:.3f} to {computed[name][-1]:.3f} s" for name in pushing),
            rising["computation"],
        ),
        identity(
            "t_inner_communication is almost independent of the number of sources for Nested SWEEP",
            f"it differs by {steady:.3f} s from V2 to V4",
            steady < 0.005,
            "nothing of it is measured: 5 hops, 3 if nothing is asked (V1), 5 ms each",
        ),
        Claim(
            "t_computation is almost independent of the number of sources for Nested SWEEP",
            f"{computed['Nested SWEEP'][1]:.3f} s for V2 to {computed['Nested SWEEP'][-1]:.3f} s for V4",
            computed["Nested SWEEP"][-1] - computed["Nested SWEEP"][1] < 0.02,
        ),
        Claim(
            "without interference t_query is almost identical for the three",
            f"V4: the largest is {alike:.0%} above the least where all nodes stay on, {alike_mobile:.0%} where they "
            "sleep",
            alike_mobile < 0.25,
            "With nodes that sleep updates wait together, and so interfere after all: Nested SWEEP asks more, and "
            "Pure-Push's batches queue at the sources. Of Pull-Push's two ways the longer counts, and only the update "
            "of an end source passes all others one way.",
        ),
        Claim(
            "t_network of Pull-Push is roughly 25 % of Nested SWEEP's",
            shares("Nested SWEEP"),
            0.15 <= share("network", "Nested SWEEP", "V4", "mobile") <= 0.35,
            "With nodes that sleep it depends on how long they do: updates pile up, and Nested SWEEP's messages carry "
            "all of them (see the note on scales). With all nodes on it needs 2n − 1 messages one after the other and "
            "Pull-Push at most n each way. As the mean of both ways a batch travels (n + 1)/2 hops, which goes to 25 % "
            "of 2n − 1; the view waits for the longer.",
        ),
        Claim(
            "t_network of Pull-Push is almost 50 % of Pure-Push's",
            shares("Pure-Push"),
            0.4 <= share("network", "Pure-Push", "V4", "mobile") <= 0.6,
            "The same: (n + 1)/2 of n hops is near one half as the mean of both ways only.",
        ),
        Claim(
            "without interference Pull-Push has the least UPT",
            f"V4: {upts('non-interfering')}; all nodes on: {upts('non-interfering', 'stationary')}, but from commit to "
            f"view {upts('non-interfering', 'stationary', 'commit to view')}",
            min(published, key=lambda name: of("UPT", name)) == "Pull-Push",
            "The four parts begin where the batch joins the messages. A reader of the view also waits for the window, "
            "for the request, and for the messages to come by; Nested SWEEP begins at once.",
        ),
        Claim(
            "with interference t_query of Nested SWEEP rises by almost 160 % for V3 and 170 % for V4",
            f"V3 {more('V3', 'Nested SWEEP'):+.0%}, V4 {more('V4', 'Nested SWEEP'):+.0%}; all nodes on: V3 "
            f"{more('V3', 'Nested SWEEP', nodes='stationary'):+.0%}, V4 "
            f"{more('V4', 'Nested SWEEP', nodes='stationary'):+.0%}",
            all(1.3 <= more(v, "Nested SWEEP") <= 2.0 for v in ("V3", "V4")),
            "It rises, by less: compensation is local and asks nothing, what costs are the nested sweeps, and they "
            "serve two updates at once. With nodes that sleep there was interference before.",
        ),
        Claim(
            "with interference Pull-Push's t_network and t_query increase",
            f"V4: t_network {more('V4', 'Pull-Push', 'network'):+.0%}, t_query {more('V4', 'Pull-Push'):+.0%}; all "
            f"nodes on: {more('V4', 'Pull-Push', 'network', 'stationary'):+.0%} and "
            f"{more('V4', 'Pull-Push', nodes='stationary'):+.0%}",
            more("V4", "Pull-Push", "network") > 0 and more("V4", "Pull-Push") > 0,
        ),
        Claim(
            "with interference Pull-Push is better than Nested SWEEP by 15 %",
            f"V3 {better['V3']:.0%}, V4 {better['V4']:.0%}",
            all(0.1 <= gain <= 0.2 for gain in better.values()),
            "It is better, but by "
            + ("more than that." if min(better.values()) > 0.2 else "another share, which depends on the costs."),
        ),
        Claim(
            "with interference Pure-Push outperforms both",
            f"V4: {upts('interfering')}; all nodes on: {upts('interfering', 'stationary')}",
            fastest == "Pure-Push",
            "What another batch adds to Pull-Push's messages and queries is little at our costs, and its path is "
            "shorter. Why it was otherwise in the paper is open.",
        ),
        Claim(
            "with interference all components of Pure-Push's UPT remain the same",
            "V4: " + ", ".join(f"t_{part} {change:+.0%}" for part, change in changed.items()),
            all(abs(change) < 0.1 for change in changed.values()),
        ),
    ]


EXPERIMENT = Experiment(
    name="pullpush-upt",
    paper="Pull-Push",
    shows="figures 4 and 5",
    title="Update propagation time in its four parts",
    did="The time for an update batch to reach the warehouse was split into network, computation, queries and "
    "communication between modules, for V1 to V4 over one to four sources. F = 0.1 updates/s, Update_Interval = 0.3 s, "
    "sources and warehouse off for a tenth of the time; updates that do not interfere, or do with probability 0.65.",
    found="Without interference Pull-Push is the fastest, since its messages are small. With interference Nested SWEEP "
    "suffers most, Pull-Push a little, Pure-Push not at all.",
    here="The paper does not print its WHIPS constants. Ours: a message 30 ms and 1 ms per value, a query 100 ms, a "
    "local join 20 ms, a hop between modules 5 ms (5 hops at the warehouse; 2 and another 2 for each source on the way "
    f"with update managers at the sources). {DURATION:,.0f} s, and nodes change after {MEAN:.0f} s on average, as in "
    f"table 1, one run of each: only two or three outages of each node, so that chance has its part in the bars of "
    f"mobile nodes (the verdicts of several seeds are in `tests/lab/verdicts.toml`). Added: "
    f"the same with all nodes on for {DURATION * ALL_ON:,.0f} s, and our wave, for "
    f"{DURATION * WAVES:,.0f} s with nodes that change after {MEAN * WAVES:.0f} s. The parts are summed along an "
    "update's path, queueing at sources included; waiting for the next interval or for a node to wake up is in the "
    "column `commit to view` only. Of Pull-Push's two ways the longer counts. RX … UX stay at the sources, since no "
    "view shows them; in a notice they count as one value.",
    run=run,
)
