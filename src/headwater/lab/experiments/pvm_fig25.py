"""PVM, figure 25: the number of updates, n."""

from __future__ import annotations

from headwater.lab.experiment import Claim, Experiment, Findings, Panel, Run, identity
from headwater.lab.settings.cost_model import (
    most_updates,
    pvm_time_simplified,
    sweep_time,
    sweep_time_without_local,
    update_time,
)
from headwater.lab.settings.pvm import LOCAL, REMOTE, PvmLoad, algorithms, times

M, P = 2, 5
PER_SOURCE = range(4, 41, 4)
ALGORITHMS = algorithms(P)
TENTH = 0.1
"""The share of the time up to which local joins are ignored."""


def run(run: Run) -> Findings:
    rows: list[dict[str, float]] = []
    for each in run.each(PER_SOURCE):
        n = M * each
        model = {
            "n/m": each,
            "SWEEP, equation 11": sweep_time_without_local(M, n, REMOTE),
            "SWEEP, equation 8": sweep_time(M, n, REMOTE, LOCAL),
            "PVM, equation 15": pvm_time_simplified(n, min(P, M), update_time(M, REMOTE)),
        }
        rows.append(model | times(PvmLoad(M, n), ALGORITHMS, run.seed))
    x, y = "updates per source, n/m", "T (seconds)"

    def line(name: str) -> list[tuple[float, float]]:
        return [(row["n/m"], row[name]) for row in rows]

    panels = [
        Panel("Cost model", x, y, {name: line(name) for name in rows[0] if "equation" in name}),
        Panel("Measured, varying sources", x, y, {name: line(name) for name, _ in ALGORITHMS}),
        Panel("Measured, even sources", x, y, {name: line(f"{name}, even") for name, _ in ALGORITHMS}),
    ]
    return Findings(rows, panels, _claims(rows))


def _claims(rows: list[dict[str, float]]) -> list[Claim]:
    ratios = {suffix: [row["SWEEP" + suffix] / row["PVM" + suffix] for row in rows] for suffix in ("", ", even")}
    means = {suffix: sum(values) / len(rows) for suffix, values in ratios.items()}
    off = max(abs(row["SWEEP, even"] / row["SWEEP, equation 8"] - 1) for row in rows)
    first, last = rows[0], rows[-1]
    share = [row["SWEEP, even"] / row["SWEEP, equation 11"] - 1 for row in (first, last)]
    return [
        Claim(
            "T of SWEEP is about min(p, m) = 2 times that of PVM",
            f"{means['']:.2f} times on average with varying sources ({min(ratios['']):.2f} to {max(ratios['']):.2f}), "
            f"{means[', even']:.2f} with even ones",
            1.7 < means[""] < 2.3 and 1.7 < means[", even"] < 2.3,
            "Growing with n where sources are even: SWEEP pays for its local joins, PVM does them while sources work.",
        ),
        identity(
            "equation 8: T of SWEEP, local joins included",
            f"even sources differ from it by at most {off:.2%}",
            off < 0.01,
            "it is what the simulator charges: C_remote for a question, C_local for a local join, one after the other",
        ),
        identity(
            "for a small number of updates local joins can be ignored (equation 9)",
            f"they make T of SWEEP {share[0]:.0%} longer for n = {M * int(first['n/m'])}, {share[1]:.0%} for "
            f"n = {M * int(last['n/m'])}",
            share[0] < TENTH,
            "equation 8 over equation 9, with C_local/C_remote set to 0.01; equation 16 puts the limit, a tenth, at "
            f"{most_updates(M, LOCAL / REMOTE, TENTH):.0f} updates here",
        ),
    ]


EXPERIMENT = Experiment(
    name="pvm-fig25",
    paper="PVM",
    shows="figure 25, section 7.5",
    title="How many updates",
    did="4 to 40 updates at each of 2 sources happen at once, p = 5. The time until all are handled was measured for "
    "SWEEP and PVM, and compared with the cost model.",
    found="Both grow with the number of updates; SWEEP takes about twice as long, which is the smaller one of p and "
    "the number of sources.",
    here="Virtual time; even and varying sources as in figure 21. PVM CC, Nested SWEEP and our wave are added. Nested "
    "SWEEP and the wave hardly grow: they take what has happened together.",
    run=run,
)
