"""PVM, figure 23: the number of sources, m, and of updates handled at the same time, p."""

from __future__ import annotations

from headwater.lab.experiment import Claim, Experiment, Findings, Panel, Run, identity
from headwater.lab.settings.cost_model import pvm_time_simplified, update_time
from headwater.lab.settings.pvm import REMOTE, PvmLoad, even, varying
from headwater.maintenance.strategies.nested_sweep import nested_sweep
from headwater.maintenance.strategies.pvm import pvm
from headwater.maintenance.strategies.pvm_cc import pvm_cc
from headwater.maintenance.strategies.waves import wave

SOURCES = range(2, 7)
PARALLEL = range(1, 11)
PER_SOURCE = 10
BOTH = ("PVM, even", "PVM")
"""Section 7.3 reads its observations off both charts, so both kinds of sources judge them."""
BESIDES = (("Nested SWEEP", nested_sweep()), ("our wave", wave()))


def run(run: Run) -> Findings:
    rows = []
    for m in run.each(SOURCES):
        load = PvmLoad(m, PER_SOURCE * m)
        flat = {name: varying(load, factory, run.seed) for name, factory in BESIDES}
        for p in PARALLEL:
            rows.append(
                {
                    "m": m,
                    "p": p,
                    "model": pvm_time_simplified(load.n, min(p, m), update_time(m, REMOTE)),
                    "PVM": varying(load, pvm(p), run.seed),
                    "PVM, even": even(load, pvm(p), run.seed),
                    "PVM CC, even": even(load, pvm_cc(p), run.seed),
                    **flat,
                }
            )
    x, y = "size of the PPU, p", "T (seconds)"
    panels = [
        Panel(title, x, y, {f"m = {m}": [(row["p"], row[name]) for row in rows if row["m"] == m] for m in SOURCES})
        for title, name in (
            ("Cost model, equation 15", "model"),
            ("Measured, varying sources", "PVM"),
            ("Measured, even sources", "PVM, even"),
            ("PVM CC, even sources", "PVM CC, even"),
        )
    ]
    most = PARALLEL[-1]
    others = {name: [(row["m"], row[name]) for row in rows if row["p"] == most] for name in ("PVM", *dict(BESIDES))}
    panels.append(Panel(f"PVM at p = {most} beside others, varying sources", "sources, m", y, others))
    return Findings(rows, panels, _claims(rows))


def _claims(rows: list[dict[str, float]]) -> list[Claim]:
    at = {(int(row["m"]), int(row["p"])): row for row in rows}

    def speedup(m: int, p: int, name: str) -> float:
        return at[m, 1][name] / at[m, p][name]

    halves = {name: [speedup(m, 2, name) for m in SOURCES] for name in BOTH}
    # T(p)·p / T(1) for p up to m: 1 is a drop at rate 1/p
    rates = {name: [p / speedup(m, p, name) for m in SOURCES for p in range(1, m + 1)] for name in BOTH}
    turning = {name: {m: _turning_point([at[m, p][name] for p in PARALLEL]) for m in SOURCES} for name in BOTH}
    best = {name: {m: max(speedup(m, p, name) for p in PARALLEL) for m in SOURCES} for name in BOTH}
    behind = {m: max(speedup(m, p, "PVM") for p in PARALLEL) / m for m in SOURCES}
    return [
        Claim(
            "p decreases T by 1/p, whatever the number of sources",
            "p·T(p)/T(1) for p ≤ m is between "
            + " with even sources, between ".join(f"{min(r):.2f} and {max(r):.2f}" for r in rates.values())
            + " with varying ones",
            all(max(r) < 1.5 and min(r) > 0.85 for r in rates.values()),
            "Above 1 is what blocking costs where p is close to m, more the more the time of a question varies; below "
            "1, local joins are done while sources work. Up to 1.5 counts as this.",
        ),
        Claim(
            "the second thread halves T, for every m",
            f"T(1)/T(2) for m = {SOURCES[0]} … {SOURCES[-1]}: "
            + ", ".join(f"{h:.2f}" for h in halves["PVM, even"])
            + " with even sources, "
            + ", ".join(f"{h:.2f}" for h in halves["PVM"])
            + " with varying ones",
            all(min(h) > 1.8 for h in halves.values()),
            "Held if it is above 1.8 with both. Two updates block each other more often when the time of a question "
            "varies.",
        ),
        Claim(
            "each line has a turning point, where it flattens: at the query capability, p = m",
            "within 5 % of its lowest T from p = "
            + " with even sources, from p = ".join(
                ", ".join(f"{p if p in PARALLEL else 'none'} (m = {m})" for m, p in turns.items())
                for turns in turning.values()
            )
            + " with varying ones",
            all(m <= p <= m + 3 for turns in turning.values() for m, p in turns.items()),
            "Up to m + 3 counts as this: some more than m in the PPU help a little, since one can wait at each source "
            "while another is worked on. The paper's own measured curve for m = 4 falls until p = 7.",
        ),
        identity(
            "the query capability of the sources limits what can be gained: m-fold",
            "best T(1)/T(p): "
            + " with even sources, ".join(
                ", ".join(f"{b:.1f} (m = {m})" for m, b in folds.items()) for folds in best.values()
            )
            + " with varying ones",
            all(b <= 1.15 * m for folds in best.values() for m, b in folds.items()),
            "m sources that work on one question each work on m at once, and SWEEP keeps one busy. Slightly more than "
            "m-fold is possible: T(1) holds local joins, which are done beside the sources' work for p > 1",
        ),
        Claim(
            "the measured trends reflect the expected ones, with some overhead",
            "varying sources reach this share of the m-fold: "
            + ", ".join(f"{share:.0%} (m = {m})" for m, share in behind.items()),
            all(0.6 < share < 1.0 for share in behind.values()),
        ),
    ]


def _turning_point(times: list[float]) -> int:
    """The first p from which on T stays within 5 % of the lowest."""
    enough = 1.05 * min(times)
    last_above = max((p for p, time in zip(PARALLEL, times, strict=True) if time > enough), default=0)
    return last_above + 1


EXPERIMENT = Experiment(
    name="pvm-fig23",
    paper="PVM",
    shows="figure 23, section 7.3",
    title="How many sources",
    did="As figure 21, for 2 to 6 sources with 10 updates each: the time until all updates are handled, for p from 1 "
    "to 10 updates at the same time.",
    found="Every line falls like 1/p and flattens where p reaches the number of sources. More sources take longer in "
    "all, but leave more to gain.",
    here="Virtual time; even and varying sources as in figure 21. PVM CC is shown for even sources.",
    run=run,
)
