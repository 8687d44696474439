"""Pull-Push, sections 3 and 4: how many messages the batches of n sources take."""

from __future__ import annotations

from typing import Any

from headwater.lab.experiment import Claim, Experiment, Findings, Panel, Run, identity
from headwater.lab.histories.history import History
from headwater.lab.settings.mobile import ALGORITHMS, MobileAlgorithm, tries
from headwater.lab.simulation.network import Link, Network, constant
from headwater.lab.simulation.simulator import Capacity, Conditions, simulate
from headwater.lab.worlds.workload import chain, every, in_turn, updates

SOURCES = range(1, 9)


def run(run: Run) -> Findings:
    rows: list[dict[str, Any]] = []
    for n in run.each(SOURCES):
        for algorithm in ALGORITHMS:
            one, of_each = _counted(algorithm, n, 1, run.seed), _counted(algorithm, n, n, run.seed)
            rows.append(
                {
                    "n": n,
                    "algorithm": algorithm.name,
                    "one batch": one["counted"],
                    "a batch of each source": of_each["counted"],
                    "requests": of_each["request"],
                    "empty batches": one["empty batch"],
                    "acknowledgements": of_each["acknowledgement"],
                    "broadcasts": of_each["applied"],
                }
            )
    panels = [
        Panel(title, "sources, n", "messages", {a.name: _line(rows, a.name, column) for a in ALGORITHMS})
        for title, column in (
            ("One source has a batch", "one batch"),
            ("Each of n sources has a batch", "a batch of each source"),
        )
    ]
    return Findings(rows, panels, _claims(rows))


def _counted(algorithm: MobileAlgorithm, n: int, batches: int, seed: int) -> dict[str, int]:
    """`batches` sources commit one update each, all in one interval; one window, nothing is lost."""
    world = chain(n, rows=20, domain=20, seed=seed)
    world = updates(world, batches, in_turn(world.sources), every(0.01), seed)
    # One window: the pushing algorithms go on for ever, and what comes after the first is another batch's.
    conditions = Conditions(Network(Link(constant(0.001))), Capacity(service=constant(0.001)), until=1.9)
    return _by_kind(simulate(world, algorithm.make(1.0), conditions, seed))


def _by_kind(history: History) -> dict[str, int]:
    kinds = history.kinds()
    empty = sum(1 for m in history.messages if m.kind == "batch" and not m.about)
    counted = len(tries(history)) - kinds["request"] - empty
    return {
        "counted": counted,
        "request": kinds["request"],
        "empty batch": empty,
        "acknowledgement": kinds["acknowledgement"],
        "applied": kinds["applied"],
    }


def _line(rows: list[dict[str, Any]], algorithm: str, column: str) -> list[tuple[int, float]]:
    return [(row["n"], row[column]) for row in rows if row["algorithm"] == algorithm]


def _claims(rows: list[dict[str, Any]]) -> list[Claim]:
    def counts(algorithm: str, column: str) -> list[int]:
        return [int(y) for _, y in _line(rows, algorithm, column)]

    one, each = "one batch", "a batch of each source"
    pure, pure_each, pull = counts("Pure-Push", one), counts("Pure-Push", each), counts("Pull-Push", each)
    pull_one, requests = counts("Pull-Push", one), counts("Pull-Push", "requests")
    sooner = [n for n, p, q in zip(SOURCES, pull_one, pure, strict=True) if p < q]
    cheaper = [n for n, p, q in zip(SOURCES, pull, pure_each, strict=True) if p < q]
    return [
        identity(
            "Pure-Push: the cost of an update batch of one source is n messages",
            f"n = 1 … 8: {pure}",
            pure == list(SOURCES),
            "it is sent on to each of the others, and then to the warehouse",
        ),
        identity(
            "Pure-Push: n² messages for the update batches of the n sources",
            f"n = 1 … 8: {pure_each}",
            pure_each == [n * n for n in SOURCES],
            "n batches of n messages",
        ),
        identity(
            "Pull-Push: 2n messages for the batches of the n sources",
            f"n = 1 … 8: {pull}, and {max(requests)} requests",
            pull == [2 * n for n in SOURCES],
            "each source sends two on; the paper does not count the requests",
        ),
        identity(
            "Pull-Push takes fewer messages than Pure-Push",
            f"with a batch of each source for n = {cheaper}; with a batch of one source for n = {sooner or 'none'}",
            cheaper == [n for n in SOURCES if n > 2],
            "2n is less than n² from three sources on, if all of them have something to send. A window of Pull-Push "
            "costs 2n whatever is in it: while fewer than two sources have a batch in each, Pure-Push sends less",
        ),
    ]


EXPERIMENT = Experiment(
    name="pullpush-counts",
    paper="Pull-Push",
    shows="sections 3 and 4, the counts of messages",
    title="n, n² and 2n messages",
    did="The paper counts the messages of its two algorithms by hand: a batch of one source travels through all n "
    "sources (Pure-Push), or two messages collect the batches of all sources (Interleaved Pull-Push).",
    found="n messages per batch and n² for the batches of n sources with Pure-Push; 2n with Pull-Push.",
    here="Counted in a run over a chain of 1 to 8 sources where nothing is lost, once with a batch of one source and "
    "once with a batch of each. Requests, acknowledgements, broadcasts of t_v and Pure-Push's empty batches (a source "
    "must say that it has nothing, or the warehouse would wait for it) are counted apart, since the paper's numbers "
    "leave them out. Nested SWEEP and our wave are shown beside them; both count the notices of the sources.",
    run=run,
)
