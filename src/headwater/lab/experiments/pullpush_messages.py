"""Pull-Push, figures 8 and 9: messages per update batch, the more nodes are off."""

from __future__ import annotations

from itertools import pairwise
from math import log
from typing import Any

from headwater.lab.experiment import Claim, Experiment, Findings, Panel, Run
from headwater.lab.intervals import Decision, decide, interval, within
from headwater.lab.settings.outages import (
    COMPARED,
    INTERVAL,
    PILING,
    F,
    OutageRun,
    Outages,
    Reading,
    TimeScale,
    difference,
    played,
)

RUNS = 12
SCALE, PAPERS = TimeScale(1_000.0, 40.0), TimeScale(10_000.0, 1800.0)
"""With the paper's times a node changes five or six times in a run; with ours about 25 times, and 300 times in the runs
of a point together."""
ASLEEP = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9)
WHO = (("sources", "figure 8"), ("warehouse", "figure 9"))
HALF, MOST = 0.5, ASLEEP[-1]
PUBLISHED = ("Nested SWEEP", "Pure-Push", "Pull-Push")
PUSHING = PUBLISHED[1:]
ALIKE = 1.25
"""A pattern is the same if its increases are within this factor."""


def messages(run: OutageRun) -> float:
    return run.messages


def left(run: OutageRun) -> float:
    return run.left


COUNTS = ((messages, "every try"), (left, "tries of nodes that were on"))


def run(run: Run) -> Findings:
    outages, papers = Outages(), Outages()
    points = [(who, p, a) for who, _ in WHO for p in ASLEEP for a in COMPARED if p or who == WHO[0][0]]
    scaled = [(outages, SCALE, *point) for point in points]
    scaled += [(papers, PAPERS, "sources", p, a) for p in (0.0, HALF) for a in COMPARED if a.name != "our wave"]
    for into, scale, who, asleep, algorithm in run.each(scaled):
        seeds = range(1000 * run.seed, 1000 * run.seed + RUNS)
        into.add(who, asleep, algorithm.name, [played(algorithm, who, asleep, scale, seed) for seed in seeds])
    panels = [_panel(outages, who, figure, reading, title) for reading, title in COUNTS for who, figure in WHO]
    rows = [_row(outages, who, p, a.name) for who, _ in WHO for p in ASLEEP for a in COMPARED]
    return Findings(rows, panels, _claims(outages), [_note(outages), _readings(outages), _as_papers(papers)])


def _row(outages: Outages, who: str, asleep: float, algorithm: str) -> dict[str, Any]:
    runs = outages.at(who, asleep, algorithm)
    row: dict[str, Any] = {"off": who, "probability": asleep, "algorithm": algorithm, "runs": len(runs)}
    readings: dict[str, Reading] = {"messages": messages, "left": left, "arrived": lambda run: run.arrived}
    for name, reading in readings.items():
        found = interval(outages.values(who, asleep, algorithm, reading))
        row |= {name: found.mean, f"{name} ±": found.half}
    off = interval([r.off for r in runs])
    return {**row, "off in fact": off.mean, "off in fact ±": off.half, "status changes": sum(r.changes for r in runs)}


def _panel(outages: Outages, who: str, figure: str, reading: Reading, title: str) -> Panel:
    found = {a.name: [interval(outages.values(who, p, a.name, reading)) for p in ASLEEP] for a in COMPARED}
    return Panel(
        f"{who} off ({figure}): {title}",
        "probability that a source is off" if who == "sources" else "probability that the warehouse is off",
        "messages per update batch, 95 % intervals",
        {name: [(p, one.mean) for p, one in zip(ASLEEP, line, strict=True)] for name, line in found.items()},
        {name: [one.half for one in line] for name, line in found.items()},
        log_y=True,
    )


# ── what the paper says ──────────────────────────────────────────────────────────────────────────────────────────


def _claims(outages: Outages) -> list[Claim]:
    def amounts(who: str, p: float, reading: Reading = messages) -> str:
        return ", ".join(f"{a} {interval(outages.more(who, p, a, reading)):+.1f}" for a in PUBLISHED)

    start = ", ".join(f"{a} {interval(outages.values('sources', 0.0, a, messages)):.1f}" for a in PUBLISHED)
    steps = {
        f"{a}, {who} off, {p} to {q}": difference(
            outages.values(who, q, a, messages), outages.values(who, p, a, messages)
        )
        for who, _ in WHO
        for a in PUBLISHED
        for p, q in pairwise(ASLEEP)
    }
    times = {
        (who, a, p): interval(outages.times(who, p, a, messages))
        for who, _ in WHO
        for a in (*PUBLISHED, PILING.name)
        for p in (HALF, MOST)
    }
    patterns = [_ratio(outages, a, p) for a in PUSHING for p in (HALF, MOST)]
    worse = [
        difference(outages.times("warehouse", p, "Nested SWEEP", messages), outages.times("warehouse", p, a, messages))
        for p in (HALF, MOST)
        for a in PUSHING
    ]
    return [
        _decided(
            "the number of messages increases with the rate of disconnection of the sources or the warehouse",
            f"from never off ({start}) to off {MOST:.0%} of the time: sources {amounts('sources', MOST)}; warehouse "
            f"{amounts('warehouse', MOST)}; {_steps(steps)}",
            decide(list(steps.values())),
            "Held if each step is up. Where one is not: if the warehouse goes off while a Pull-Push window is on its "
            "way, the window's two last messages are repeated as long as it is off, and otherwise only the requests "
            "are; with sources off most of the time nothing gets far along the chain, and what is not sent on is "
            "not repeated.",
        ),
        *(
            _decided(
                f"Interleaved Pull-Push shows the least amount of increase in the number of messages ({who} off)",
                f"off half of the time: {amounts(who, HALF)}; {MOST:.0%}: {amounts(who, MOST)}; only what nodes that "
                f"are on send, half of the time: {amounts(who, HALF, left)}; {_beside(outages, who)}",
                decide(_leads(outages, who, messages)),
                why,
            )
            for who, why in (
                (
                    "sources",
                    "Held if it is so at each probability. The notes have the other readings. Nested SWEEP has one "
                    "message under way for each source, and takes whatever has piled up in one sweep; Pull-Push's 2n "
                    "messages and two requests are paid for each window, and each of its links has one that is "
                    "repeated.",
                ),
                (
                    "warehouse",
                    "Two sources send to the warehouse and it sends to two; with the others all n send to it.",
                ),
            )
        ),
        _decided(
            "Pure-Push and Pull-Push follow the same pattern whether the sources or the warehouse are off",
            "; ".join(
                f"{a}: "
                + " and ".join(
                    f"×{times['sources', a, p]:.1f} and ×{times['warehouse', a, p]:.1f} at {p}" for p in (HALF, MOST)
                )
                for a in PUSHING
            ),
            within(patterns, log(ALIKE)),
            f"Held if the increases are within a factor of {ALIKE}. There are n sources and one warehouse: with the "
            "same probability something on the way is off more often.",
        ),
        _decided(
            "Nested SWEEP deteriorates very rapidly with the disconnection of the warehouse",
            "; ".join(
                f"{a} ×{times['warehouse', a, HALF]:.1f} and ×{times['warehouse', a, MOST]:.1f}"
                for a in (*PUBLISHED, PILING.name)
            )
            + f" at {HALF} and {MOST}",
            decide(worse),
            "Held if it grows by a larger factor than either of the others, over the same channels. There one message "
            "to each node is repeated and the rest wait behind it, and what has piled up is handled by one sweep. Over "
            "channels that repeat every message on its own it deteriorates as the paper says.",
        ),
    ]


def _decided(said: str, measured: str, decision: Decision, why: str) -> Claim:
    undecided = decision is Decision.UNDECIDED
    return Claim(
        said,
        measured + ("; the intervals allow for both" if undecided else ""),
        decision is Decision.HOLDS,
        why,
        undecided=undecided,
    )


def _leads(outages: Outages, who: str, reading: Reading) -> list[list[float]]:
    """By how much Pull-Push's increase is smaller than that of each other, at each probability."""
    return [
        difference(outages.more(who, p, other, reading), outages.more(who, p, "Pull-Push", reading))
        for p in ASLEEP[1:]
        for other in PUBLISHED
        if other != "Pull-Push"
    ]


def _ratio(outages: Outages, algorithm: str, p: float) -> list[float]:
    """log of the increase with sources off over that with the warehouse off."""
    pair = (outages.times(who, p, algorithm, messages) for who, _ in WHO)
    return [log(a / b) for a, b in zip(*pair, strict=True)]


def _steps(steps: dict[str, list[float]]) -> str:
    """Which steps are not up."""
    found = {name: interval(samples) for name, samples in steps.items()}
    down = [f"{name} ({one:+.1f})" for name, one in found.items() if one.high < 0]
    level = [f"{name} ({one:+.1f})" for name, one in found.items() if one.low <= 0 <= one.high]
    return f"steps down: {', '.join(down) or 'none'}; neither up nor down: {', '.join(level) or 'none'}"


def _beside(outages: Outages, who: str) -> str:
    """Where Pull-Push's increase is smaller than the others', and where it is larger."""
    words = []
    for other in PUBLISHED:
        if other == "Pull-Push":
            continue
        found = {
            p: decide([difference(outages.more(who, p, other, messages), outages.more(who, p, "Pull-Push", messages))])
            for p in ASLEEP[1:]
        }
        said = {Decision.HOLDS: "less", Decision.FAILS: "more", Decision.UNDECIDED: "not decided"}
        places = {text: [str(p) for p, one in found.items() if one is decision] for decision, text in said.items()}
        words.append(f"than {other} " + ", ".join(f"{t} at {' '.join(ps)}" for t, ps in places.items() if ps))
    return f"its increase is, each with its own interval, {'; '.join(words)}"


# ── notes ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _note(outages: Outages) -> str:
    shares = ", ".join(f"{a.name} {_mean(outages, MOST, a.name, lambda r: r.arrived):.0%}" for a in COMPARED)
    fact = {who: [interval([r.off for r in outages.at(who, p, "Pull-Push")]).mean for p in ASLEEP] for who, _ in WHO}
    least = {who: min(sum(r.changes for r in outages.at(who, p, "Pull-Push")) for p in ASLEEP[1:]) for who, _ in WHO}
    off = {who: ", ".join(f"{share:.0%}" for share in shares) for who, shares in fact.items()}
    return (
        f"With sources off {MOST:.0%} of the time, this much had arrived in the end: {shares}. A message along the "
        "chain needs two neighbours that are on at the same time, and whoever only waits sends one message again and "
        f"again. The {RUNS} runs of a point had together at least {least['sources']} changes of the four sources and "
        f"{least['warehouse']} of the warehouse; off in fact were the sources {off['sources']} of the time and the "
        f"warehouse {off['warehouse']}."
    )


def _mean(outages: Outages, p: float, algorithm: str, reading: Reading) -> float:
    return interval(outages.values("sources", p, algorithm, reading)).mean


def _readings(outages: Outages) -> str:
    """The claim about the least increase, read in other ways."""
    texts = []
    for who, _ in WHO:
        for reading, title in COUNTS:
            for measure, words in ((Outages.more, "difference"), (Outages.times, "ratio")):
                firsts = []
                for p in ASLEEP[1:]:
                    found = {a: measure(outages, who, p, a, reading) for a in PUBLISHED}
                    first = min(found, key=lambda a: sum(found[a]))  # used at once
                    others = [difference(found[a], found[first]) for a in PUBLISHED if a != first]
                    firsts.append(first if decide(others) is Decision.HOLDS else f"{first} (not decided)")
                texts.append(f"{who} off, {title}, {words}: {', '.join(firsts)}")
    probabilities = ", ".join(str(p) for p in ASLEEP[1:])
    return f"Who has the least increase at {probabilities}, in other readings. " + "; ".join(texts) + "."


def _as_papers(papers: Outages) -> str:
    """Sources off half of the time, for as long at a time as in the paper."""
    names = [a.name for a in COMPARED if a.name != "our wave"]
    found = {name: interval(papers.values("sources", HALF, name, messages)) for name in names}
    one_run = {name: found[name].half * RUNS**0.5 for name in names}
    changes = sum(r.changes for r in papers.at("sources", HALF, "Pull-Push"))
    leads = [
        difference(papers.more("sources", HALF, other, messages), papers.more("sources", HALF, "Pull-Push", messages))
        for other in PUBLISHED
        if other != "Pull-Push"
    ]
    words = {Decision.HOLDS: "has the least increase", Decision.FAILS: "has not the least increase"}
    decided = words.get(decide(leads), "cannot be told apart from the others")
    wide = ", ".join(f"{name} ± {half:.1f}" for name, half in one_run.items())
    return (
        f"As in the paper, {PAPERS.duration:,.0f} s with changes after {PAPERS.mean:,.0f} s on average, sources off "
        f"half of the time: messages per batch {', '.join(f'{name} {one:.1f}' for name, one in found.items())}, over "
        f"{RUNS} runs with {changes} changes of the four sources together; Pull-Push {decided}. One run alone, as the "
        f"paper's figures may be, varies about so much: {wide}. Where one message is repeated at a time the number "
        "depends on how much of the time nodes are off, and little on how long they are at a time; where messages pile "
        "up it grows with it."
    )


EXPERIMENT = Experiment(
    name="pullpush-messages",
    paper="Pull-Push",
    shows="figures 8 and 9",
    title="Messages per update batch, with nodes that are off",
    did="With interfering updates, the sources (figure 8) or the warehouse (figure 9) were off for a fraction of 0 to "
    "0.9 of the time, changing after 1800 s on average; a message without an acknowledgement was sent again after "
    "0.2 s. 10,000 units of time; a confidence interval of 0.95 was obtained, but none is printed.",
    found="All need more messages the more is off. Pull-Push's number grows least; Nested SWEEP deteriorates very "
    "rapidly when it is the warehouse that is off.",
    here=f"V4 (table 1: n = 4), {F} updates/s at each source, windows of {INTERVAL:.0f} s (both in table 1's ranges; "
    f"the text does not say which), {RUNS} independent runs for each point, each of {SCALE.duration:,.0f} s with nodes "
    f"that change after {SCALE.mean:.0f} s on average: about 25 changes of each node in a run, where the paper's times "
    "leave five or six; the notes have those, too. Intervals are Student's, at 95 %, over the runs; all algorithms "
    "are given the same updates and the same outages in a run, so increases and differences are taken within a run. A "
    "claim about several differences at once holds if all of them are above zero, at 95 % together (Bonferroni), fails "
    "if one is below, and is undecided otherwise. A node sends one message to each other node at a time and repeats it "
    "until it is acknowledged (figure 1's loop). Nested SWEEP and our wave run over the same channels; Nested SWEEP "
    "also over channels that repeat every message on its own, where the tries of an outage are counted at once instead "
    "of made. Counted per batch committed, without acknowledgements and broadcasts, Pure-Push's empty batches "
    "included: first every try, as the loop makes them, then only those of nodes that were on. The column `arrived` "
    "says which share of the batches the warehouse had in the end. `python bench/pull_push.py` has the counts of the "
    "engine's own agents for the same outages.",
    run=run,
)
