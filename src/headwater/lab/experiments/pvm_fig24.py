"""PVM, figure 24: updates come in runs of c from the same source."""

from __future__ import annotations

from headwater.lab.experiment import Claim, Experiment, Findings, Panel, Run, identity
from headwater.lab.settings.pvm import PvmLoad, algorithms, times

M, N, P = 3, 30, 5
RUNS_OF = range(1, 11)
BEYOND = (N, 2 * N)
"""All updates from one source: the paper says what happens then, but does not show it."""
ALGORITHMS = algorithms(P)


def run(run: Run) -> Findings:
    rows: list[dict[str, float]] = []
    for c in run.each([*RUNS_OF, *BEYOND]):
        rows.append({"c": c, **times(PvmLoad(M, N, c), ALGORITHMS, run.seed)})
    shown = rows[: len(RUNS_OF)]
    panels = [
        Panel(
            f"Measured, {kind} sources",
            "consecutive updates of a source, c",
            "T (seconds)",
            {name: [(row["c"], row[name + suffix]) for row in shown] for name, _ in ALGORITHMS},
        )
        for kind, suffix in (("varying", ""), ("even", ", even"))
    ]
    alone = rows[len(RUNS_OF)]
    notes = [
        f"Nested SWEEP takes {shown[-1]['Nested SWEEP']:.1f} s for c = {shown[-1]['c']} and "
        f"{alone['Nested SWEEP']:.1f} s for c = {alone['c']}, as SWEEP: a sweep never meets updates of the source that "
        f"its own update is from, unless it meets one of another source first."
    ]
    return Findings(rows, panels, _claims(shown, rows[len(RUNS_OF) :]), notes)


def _claims(rows: list[dict[str, float]], beyond: list[dict[str, float]]) -> list[Claim]:
    first, last = rows[0], rows[-1]
    slower = {suffix: last["PVM" + suffix] / first["PVM" + suffix] - 1 for suffix in ("", ", even")}
    spread = max(row["SWEEP"] for row in rows) / min(row["SWEEP"] for row in rows) - 1
    longer = {suffix: [row["SWEEP" + suffix] / row["PVM" + suffix] - 1 for row in rows] for suffix in ("", ", even")}
    mean = sum(longer[""]) / len(rows)
    one, other = beyond
    return [
        Claim(
            "a larger c makes PVM slower, to a small degree",
            f"c = {last['c']} takes {slower['']:.0%} longer than c = {first['c']} with varying sources, "
            f"{slower[', even']:.0%} with even ones",
            0 < slower[""] < 0.5 and 0 < slower[", even"] < 0.5,
            "Updates of one source all ask the same source first.",
        ),
        identity(
            "c does not affect SWEEP",
            f"its T changes by at most {spread:.1%}",
            spread < 0.02,
            "one question after the other, (m − 1)n of them, which is what the simulator charges (equation 8); only "
            "the number of local joins depends on c",
        ),
        Claim(
            "SWEEP takes 100 % longer than PVM",
            f"{mean:.0%} longer on average over c with varying sources (from {min(longer['']):.0%} to "
            f"{max(longer['']):.0%}), {min(longer[', even']):.0%} to {max(longer[', even']):.0%} with even ones",
            0.7 < mean < 1.3,
            "With even sources PVM comes close to the m-fold speed that equation 15 allows, 200 %.",
        ),
        identity(
            "once c is larger than n, c does not matter any more",
            f"PVM takes {one['PVM']:.2f} s for c = {one['c']} and {other['PVM']:.2f} s for c = {other['c']}",
            abs(one["PVM"] - other["PVM"]) < 1e-9,
            "all updates are of one source then, so the two runs are the same run",
        ),
        Claim(
            "in all cases PVM is significantly better than SWEEP",
            f"at the worst c, SWEEP takes {min(longer[''] + longer[', even']):.0%} longer",
            min(longer[""] + longer[", even"]) > 0.5,
        ),
    ]


EXPERIMENT = Experiment(
    name="pvm-fig24",
    paper="PVM",
    shows="figure 24, section 7.4",
    title="Updates in runs from the same source",
    did="30 updates at 3 sources happen at once, p = 5; c consecutive ones come from the same source before the next "
    "source has its turn, c from 1 to 10. The cost model says nothing about c.",
    found="SWEEP does not mind. PVM becomes a little slower, since consecutive updates ask the same sources at the "
    "same time. SWEEP takes 100 % longer in all cases.",
    here="Virtual time; even and varying sources as in figure 21. c = 30 and 60, where all updates come from one "
    "source, are in the table but not in the plot.",
    run=run,
)
