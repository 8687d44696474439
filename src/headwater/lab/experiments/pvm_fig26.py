"""PVM, figure 26: the interval between updates, i."""

from __future__ import annotations

from itertools import pairwise

from headwater.lab.experiment import Claim, Experiment, Findings, Panel, Run, identity
from headwater.lab.settings.cost_model import arriving_time, pvm_time_simplified, sweep_time_without_local, update_time
from headwater.lab.settings.pvm import REMOTE, PvmLoad, algorithms, times

M, N, P = 2, 40, 5
INTERVALS = range(0, 1601, 100)
"""Milliseconds."""
ALGORITHMS = algorithms(P)
LINEAR = 800
"""From here on, well after its turning point, PVM's curve is judged."""


def run(run: Run) -> Findings:
    t = update_time(M, REMOTE)
    at_once = {"SWEEP": sweep_time_without_local(M, N, REMOTE), "PVM": pvm_time_simplified(N, min(P, M), t)}
    rows: list[dict[str, float]] = []
    for i in run.each(INTERVALS):
        load = PvmLoad(M, N, interval=i / 1000)
        model = {f"{name}, model": arriving_time(time, N, t, i / 1000) for name, time in at_once.items()}
        rows.append({"i": i, **model, **times(load, ALGORITHMS, run.seed)})
    x, y = "interval between updates, i (ms)", "T (seconds)"

    def lines(suffix: str, names: list[str]) -> dict[str, list[tuple[float, float]]]:
        return {name: [(row["i"], row[name + suffix]) for row in rows] for name in names}

    every_one = [name for name, _ in ALGORITHMS]
    panels = [
        Panel("Cost model", x, y, lines(", model", list(at_once))),
        Panel("Measured, varying sources", x, y, lines("", every_one)),
        Panel("Measured, even sources", x, y, lines(", even", every_one)),
    ]
    return Findings(rows, panels, _claims(rows))


def _claims(rows: list[dict[str, float]]) -> list[Claim]:
    def gain(row: dict[str, float], suffix: str) -> float:
        return row["SWEEP" + suffix] / row["PVM" + suffix] - 1

    turns = {
        suffix: {name: _turning_point([(r["i"], r[name + suffix]) for r in rows]) for name in ("SWEEP", "PVM")}
        for suffix in ("", ", even")
    }
    folds = {suffix: turn["SWEEP"] / turn["PVM"] for suffix, turn in turns.items()}
    first, last = rows[0], rows[-1]
    same = [row["i"] for row in rows if gain(row, ", even") < 0.01]
    late = pairwise(row for row in rows if row["i"] >= LINEAR)
    slopes = [1000 * (b["PVM, even"] - a["PVM, even"]) / (b["i"] - a["i"]) / (N - 1) for a, b in late]
    line = max(abs(slope - 1) for slope in slopes)
    return [
        Claim(
            "the larger the interval, the less PVM gains over SWEEP",
            f"from {gain(first, ''):.0%} at {first['i']} ms to {gain(last, ''):.0%} at {last['i']} ms with varying "
            f"sources, from {gain(first, ', even'):.0%} to {gain(last, ', even'):.0%} with even ones",
            gain(last, "") < 0.25 * gain(first, "") and gain(last, ", even") < 0.25 * gain(first, ", even"),
        ),
        identity(
            "when the interval is longer than it takes to handle one update, PVM is the same as SWEEP",
            f"even sources: the same from {same[0]:.0f} ms on, one update takes {update_time(M, REMOTE) * 1000:.0f} ms"
            if same
            else "never the same",
            bool(same) and abs(same[0] / 1000 - update_time(M, REMOTE)) <= 0.2,
            "an update is done before the next one comes, and PVM with one update at a time is SWEEP",
        ),
        identity(
            "then T grows linearly with the interval",
            f"even sources: above {LINEAR} ms T of PVM grows by 1 s per 1 s and update, to {line:.1%}",
            line < 0.01,
            "the last of n updates comes at (n − 1)·i, and T ends when it is handled",
        ),
        Claim(
            "PVM's turning point is roughly min(p, m) = 2 times earlier than SWEEP's",
            f"{turns['']['PVM']:.0f} and {turns['']['SWEEP']:.0f} ms, {folds['']:.1f} times, with varying sources; "
            f"{turns[', even']['PVM']:.0f} and {turns[', even']['SWEEP']:.0f} ms, {folds[', even']:.1f} times, with "
            f"even ones",
            1.5 <= folds[""] <= 2.5 and 1.5 <= folds[", even"] <= 2.5,
            "A turning point is read off as the first interval where T is a tenth above that of updates at once. The "
            "paper speaks of intervals larger than the total time for all updates; it must mean the time for one.",
        ),
    ]


def _turning_point(points: list[tuple[float, float]]) -> float:
    """The first interval at which T is a tenth above that of all updates at once."""
    return next((i for i, time in points if time > 1.1 * points[0][1]), points[-1][0])


EXPERIMENT = Experiment(
    name="pvm-fig26",
    paper="PVM",
    shows="figure 26, section 7.6",
    title="How often updates come",
    did="40 updates at 2 sources, p = 5, one every i milliseconds, i from 0 to 1600. The time from the first update "
    "until all are handled was measured for SWEEP and PVM, and compared with the cost model.",
    found="The time is flat as long as updates come faster than they are handled, and grows with i then. PVM's curve "
    "turns earlier than SWEEP's, min(p, m) times; beyond SWEEP's turning point both are the same.",
    here="The paper gives no C_remote. A question takes one second here, so that one update of SWEEP takes 1000 ms and "
    "both turning points, at about 500 and 1000 ms, are in the picture. The cost model has no i; the left panel is the "
    "longer one of equation 11 or 15 and of the time until the last update has come and been handled.",
    run=run,
)
