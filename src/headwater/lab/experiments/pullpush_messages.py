"""Pull-Push, figures 8 and 9: messages per update batch, the more nodes are off."""

from __future__ import annotations

from statistics import fmean
from typing import Any

from headwater.lab.experiment import Claim, Experiment, Findings, Panel, Run
from headwater.lab.mobile import (
    ACK_AFTER,
    ALGORITHMS,
    INTERFERENCE,
    Algorithm,
    Load,
    Sleep,
    conditions,
    mobile_world,
    tries,
)
from headwater.lab.propagation import at_the_warehouse, composite
from headwater.lab.simulation import simulate
from headwater.maintenance.strategies.nested_sweep import nested_sweep

N = 3
F = 0.3
INTERVAL = 1.0
DURATION = 200.0
MEAN = 10.0
ASLEEP = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9)
RUNS = 3
WHO = (("sources", "figure 8"), ("warehouse", "figure 9"))
PILING = Algorithm("Nested SWEEP, piling up", lambda interval: nested_sweep(), composite, at_the_warehouse)
"""Over channels that send each lost message again on its own, however many are waiting."""
COMPARED = (*ALGORITHMS, PILING)
COUNTS = (("messages", "every try"), ("left", "tries of nodes that were on"))
SOON = 0.5
"""Up to here most batches arrive; beyond, an algorithm that gets nothing done sends little."""


def run(run: Run) -> Findings:
    rows: list[dict[str, Any]] = []
    for who, asleep in run.each((who, asleep) for who, _ in WHO for asleep in ASLEEP):
        sleep = Sleep(**{who: asleep}, mean=MEAN)
        for algorithm in COMPARED:
            seen = [_counted(algorithm, sleep, run.seed * RUNS + k) for k in range(RUNS)]
            means = {column: fmean(s[column] for s in seen) for column in seen[0]}
            rows.append({"off": who, "probability": asleep, "algorithm": algorithm.name, **means})
    panels = [
        Panel(
            f"{who} off ({figure}): {title}",
            "probability that a source is off" if who == "sources" else "probability that the warehouse is off",
            "messages per update batch",
            {a.name: _line(rows, who, a.name, column) for a in COMPARED},
            log_y=True,
        )
        for column, title in COUNTS
        for who, figure in WHO
    ]
    return Findings(rows, panels, _claims(rows), [_note(rows)])


def _counted(algorithm: Algorithm, sleep: Sleep, seed: int) -> dict[str, float]:
    world = Load.at_rate(F, N, DURATION, INTERFERENCE).over(mobile_world(N, seed), seed)
    how = conditions(world, DURATION, seed, sleep, ACK_AFTER if algorithm is PILING else None)
    history = simulate(world, algorithm.make(INTERVAL), how, seed)
    sent, batches = tries(history), len(world.transactions)
    left = sum(1 for m in sent if how.network.reachable(m.sender, m.sent))
    arrived = sum(len(state.covers) for state in history.states)
    return {"messages": len(sent) / batches, "left": left / batches, "arrived": arrived / batches}


def _line(rows: list[dict[str, Any]], who: str, algorithm: str, column: str) -> list[tuple[float, float]]:
    return [(r["probability"], r[column]) for r in rows if r["off"] == who and r["algorithm"] == algorithm]


def _note(rows: list[dict[str, Any]]) -> str:
    most = ASLEEP[-1]
    arrived = {r["algorithm"]: r["arrived"] for r in rows if (r["off"], r["probability"]) == ("sources", most)}
    shares = ", ".join(f"{name} {share:.0%}" for name, share in arrived.items())
    return (
        f"With sources off {most:.0%} of the time, this much had arrived in the end: {shares}. A message along the "
        "chain needs two neighbours that are on at the same time; the wave and Nested SWEEP need one source at a time, "
        "but Nested SWEEP takes up every update that it meets before it commits anything."
    )


def _claims(rows: list[dict[str, Any]]) -> list[Claim]:
    def at(who: str, algorithm: str, p: float, column: str = "messages") -> float:
        return dict(_line(rows, who, algorithm, column))[p]

    def growth(who: str, algorithm: str, p: float, column: str = "messages") -> float:
        return at(who, algorithm, p, column) / at(who, algorithm, 0.0, column)

    def all_of(who: str, p: float, column: str = "messages") -> str:
        return ", ".join(f"{name} ×{growth(who, name, p, column):.1f}" for name in published)

    published = ("Nested SWEEP", "Pure-Push", "Pull-Push")
    more = {
        (who, name): [y for _, y in _line(rows, who, name, "messages")] for who, _ in WHO for name in published
    }  # fmt: skip
    rises = all(y[ASLEEP.index(SOON)] > y[1] > y[0] for y in more.values())
    least = {
        (who, column): all(
            growth(who, "Pull-Push", SOON, column) <= growth(who, other, SOON, column) for other in published
        )
        for who, _ in WHO
        for column, _ in COUNTS
    }
    pattern = {
        name: (growth("sources", name, SOON), growth("warehouse", name, SOON)) for name in ("Pure-Push", "Pull-Push")
    }
    same = all(abs(a - b) / min(a, b) < 0.25 for a, b in pattern.values())
    worst = growth("warehouse", "Nested SWEEP", 0.9) > max(
        growth("warehouse", name, 0.9) for name in ("Pure-Push", "Pull-Push")
    )
    arrived = ", ".join(
        f"{name} ×{growth('sources', name, SOON) / growth('sources', name, SOON, 'arrived'):.1f}" for name in published
    )
    absolute = ", ".join(f"{name} {at('sources', name, 0.0):.1f}" for name in published)
    return [
        Claim(
            "the number of messages increases with the rate of disconnection of the sources or the warehouse",
            f"from never off to off half of the time: sources {all_of('sources', SOON)}; warehouse "
            f"{all_of('warehouse', SOON)}",
            rises,
        ),
        Claim(
            "Interleaved Pull-Push shows the least increase (sources off)",
            f"off half of the time: {all_of('sources', SOON)}; per batch that arrived: {arrived}; counting only what "
            f"nodes that are on send: {all_of('sources', SOON, 'left')}",
            least["sources", "messages"],
            "Against Nested SWEEP it is a near thing, which depends on who is off when. Per batch Pull-Push starts "
            f"highest ({absolute} when nothing is off): its 2n messages and two requests are paid for each window, and "
            "about one batch is in a window here. If a sleeping node's own tries are left out, its increase is "
            + ("the least as well." if least["sources", "left"] else "not the least: see the second row of panels."),
        ),
        Claim(
            "Interleaved Pull-Push shows the least increase (warehouse off)",
            f"off half of the time: {all_of('warehouse', SOON)}; counting only what nodes that are on send: "
            f"{all_of('warehouse', SOON, 'left')}",
            least["warehouse", "messages"],
            "Two sources send to the warehouse, and one message each at a time is sent again.",
        ),
        Claim(
            "Pure-Push and Pull-Push follow the same pattern whether the sources or the warehouse are off",
            "; ".join(f"{name}: ×{a:.1f} and ×{b:.1f}" for name, (a, b) in pattern.items()) + " at one half",
            same,
            "There are n sources and one warehouse: with the same probability something on the way is off more often.",
        ),
        Claim(
            "Nested SWEEP deteriorates very rapidly with the disconnection of the warehouse",
            f"off nine tenths of the time: {all_of('warehouse', 0.9)}; Nested SWEEP whose lost messages pile up: "
            f"×{growth('warehouse', PILING.name, 0.9):.1f}",
            worst,
            "Over the same channels as the others, where one message to each node is repeated and the rest wait behind "
            "it, it does not: what has piled up is handled by one sweep. Over channels that repeat every lost message "
            "on its own it does, as the paper says; but these do not keep the order that SWEEP needs.",
        ),
    ]


EXPERIMENT = Experiment(
    name="pullpush-messages",
    paper="Pull-Push",
    shows="figures 8 and 9",
    title="Messages per update batch, with nodes that are off",
    did="With interfering updates, the sources (figure 8) or the warehouse (figure 9) were off for a fraction of 0 to "
    "0.9 of the time, changing after 1800 s on average; a message without an acknowledgement was sent again after "
    "0.2 s. 10,000 units of time.",
    found="All need more messages the more is off. Pull-Push's number grows least; Nested SWEEP deteriorates very "
    "rapidly when it is the warehouse that is off.",
    here=f"V3, {F} updates/s at each source, windows of {INTERVAL:.0f} s; {RUNS} runs of {DURATION:.0f} s with nodes "
    f"that change after {MEAN:.0f} s on average. The scale is smaller and the ratios are the same (they were up to a "
    "mean of 150 s): a node sends one message to each other node at a time (figure 1's loop) and repeats it until it "
    "is acknowledged, so messages per batch depend on how much of the time is spent waiting, not on how long one wait "
    "is. That is not so where messages pile up: there longer waits cost more. Nested SWEEP and our wave run "
    "over the same acknowledged channels; Nested SWEEP also over channels that repeat every lost message on its own. "
    "Counted per batch committed, without acknowledgements and broadcasts, Pure-Push's empty batches included: first "
    "every try, as the loop makes them, then only those of nodes that were on. The column `arrived` says which share "
    "of the batches the warehouse had in the end: the more sources are off the fewer get through, and whoever only "
    "waits sends little.",
    run=run,
)
