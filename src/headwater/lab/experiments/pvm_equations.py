"""PVM, equations 6, 7 and 16: messages and local joins, counted in real runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from headwater.lab.experiment import Claim, Experiment, Findings, Panel, Run, identity
from headwater.lab.settings.cost_model import (
    local_queries,
    local_queries_of,
    local_share,
    most_updates,
    printed_local_queries_of,
    remote_queries,
)
from headwater.lab.settings.pvm import EVEN, LOCAL, REMOTE, PvmLoad, history
from headwater.maintenance.strategies.nested_sweep import nested_sweep
from headwater.maintenance.strategies.pvm import pvm
from headwater.maintenance.strategies.pvm_cc import pvm_cc
from headwater.maintenance.strategies.sweep import sweep
from headwater.maintenance.strategies.waves import wave

LOADS = (
    *(PvmLoad(m, n * m) for m in (2, 3, 4, 5) for n in (2, 5, 10)),
    PvmLoad(3, 10),
    PvmLoad(3, 30, c=5),
    PvmLoad(4, 22),
)
"""Two of them do not have the same number of updates at each source: equation 6 is not exact there."""
COUNTED = (("SWEEP", sweep), ("PVM", pvm(4)), ("PVM CC", pvm_cc(4)))
BESIDES = (("Nested SWEEP", nested_sweep()), ("our wave", wave()))
EXAMPLE = PvmLoad(10, 200)
"""The example at the end of section 5.3."""


def run(run: Run) -> Findings:
    rows: list[dict[str, float]] = []
    for m, n, c, _ in run.each(LOADS):
        row: dict[str, float] = {
            "m": m,
            "n": n,
            "c": c,
            "remote, equation 7": remote_queries(m, n),
            "local, equation 6": local_queries(m, n),
        }
        for name, factory in COUNTED + BESIDES:
            happened = history(PvmLoad(m, n, c), factory, EVEN, run.seed)
            row[f"{name} remote"] = happened.questions
            row[f"{name} local"] = happened.local_joins
        rows.append(row)
    example = history(EXAMPLE, sweep, EVEN, run.seed)
    share = example.local_joins * LOCAL / (example.questions * REMOTE)
    even = [row for row in rows if row["n"] % row["m"] == 0 and row["c"] == 1]
    names = [name for name, _ in COUNTED + BESIDES]

    def points(column: str) -> list[tuple[str, float]]:
        return [(f"{row['m']}, {row['n']}", row[column]) for row in even]

    panels = [
        Panel(
            f"{kind[0].upper()}{kind[1:]} queries",
            "m, n",
            "number",
            {f"equation {number}": points(f"{kind}, equation {number}"), **{a: points(f"{a} {kind}") for a in names}},
            kind="bars",
            log_y=True,
        )
        for kind, number in (("remote", 7), ("local", 6))
    ]
    return Findings(rows, panels, [*_counted(rows), *_example(share)])


def _summed(of: Callable[[int, int, int, int], int], row: Mapping[str, float]) -> int:
    """All entries of matrix 3."""
    m, n = int(row["m"]), int(row["n"])
    return sum(of(i, j, m, n) for i in range(1, n + 1) for j in range(1, m + 1))


def _counted(rows: list[dict[str, float]]) -> list[Claim]:
    names = [name for name, _ in COUNTED]
    remote = [(row, name) for row in rows for name in names if row[f"{name} remote"] != row["remote, equation 7"]]
    same = [row for row in rows if row["n"] % row["m"] == 0]
    local = [(row, name) for row in same for name in names if row[f"{name} local"] != row["local, equation 6"]]
    matrix = [row for row in same if _summed(local_queries_of, row) != row["local, equation 6"]]
    rest = [row for row in rows if row["n"] % row["m"]]
    off = [row["SWEEP local"] / row["local, equation 6"] - 1 for row in rest]
    printed = [_summed(printed_local_queries_of, row) / row["local, equation 6"] - 1 for row in same]
    fewest = min(row["Nested SWEEP remote"] / row["SWEEP remote"] for row in rows)
    return [
        identity(
            "SWEEP, PVM and PVM CC ask (m − 1)n remote queries (equation 7)",
            f"{len(remote)} of {len(rows) * len(names)} counts differ",
            not remote,
            "each of the n updates is a loop over the other m − 1 sources",
        ),
        Claim(
            "they need (m − 1)/(2m) · n² local ones (equation 6)",
            f"{len(local)} of {len(same) * len(names)} counts differ where every source has n/m updates",
            not local,
            "It is exact there, whatever p and c are: each pair of updates of different sources is one local join, "
            "when the earlier one is handled. The sum in the middle of equation 6 must run over i, not n.",
        ),
        identity(
            "equation 6 is the sum of matrix 3",
            f"{len(matrix)} of {len(same)} sums differ",
            not matrix,
            "arithmetic: both count the pairs of updates of different sources",
        ),
        Claim(
            "where m does not divide n, equation 6 is an approximation",
            "counted against equation 6: "
            + ", ".join(f"{o:+.1%} (m = {r['m']}, n = {r['n']})" for o, r in zip(off, rest, strict=True)),
            all(0 < abs(o) < 0.05 for o in off),
        ),
        Claim(
            "equation 4 gives the entries of matrix 3",
            f"summed as printed, it is between {min(printed):+.0%} and {max(printed):+.0%} off equation 6",
            all(abs(p) < 1e-9 for p in printed),
            "A misprint: the conditions must count the updates of source j before update i. As printed, update 2 meets "
            "n/m later updates of source 1; the matrix has n/m − 1, since update 1 came before.",
        ),
        Claim(
            "Nested SWEEP reuses query results",
            f"it asks as little as {fewest:.0%} of the remote queries of SWEEP when all updates happen at once",
            fewest < 0.5,
        ),
    ]


def _example(share: float) -> list[Claim]:
    m, n = EXAMPLE.m, EXAMPLE.n
    most = most_updates(m, LOCAL / REMOTE, 0.1)
    return [
        identity(
            "C_local/C_remote = 0.01, 10 sources: local joins take less than a tenth up to 200 updates (equation 16)",
            f"the equation allows {most:.0f}; SWEEP with {n} updates spent {share:.4f} of the remote time on local "
            f"joins, equation 16 says {local_share(m, n, LOCAL / REMOTE):.4f}",
            abs(most - 200) < 1e-9 and abs(share - 0.1) < 1e-9,
            "equation 16 is equation 6 over equation 7, times C_local/C_remote, which is set to 0.01 here as well",
        )
    ]


EXPERIMENT = Experiment(
    name="pvm-equations",
    paper="PVM",
    shows="equations 4 to 7 and 16, section 5",
    title="Messages and local joins, counted",
    did="The cost model counts the queries to sources and the local joins of n updates at m sources that all happen "
    "before the first is handled. From these it derives when local joins can be ignored.",
    found="SWEEP and PVM ask (m − 1)n remote queries and make (m − 1)/(2m)·n² local joins. With local joins a hundred "
    "times as fast and ten sources, they can be ignored up to 200 updates.",
    here="Counted in real runs instead of derived, also where sources have different numbers of updates, and beside "
    "the equations as printed.",
    run=run,
)
