"""Figures as an experiment: each figure's file says what should be seen, and at which level; both are claims."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.lab.algorithms import factory
from headwater.lab.checker.levels import Consistency
from headwater.lab.checker.verdict import check
from headwater.lab.experiment import Claim, Findings, Panel, Run
from headwater.lab.histories.figures import figure
from headwater.lab.histories.player import play, shown
from headwater.lab.histories.script import read_script


def played(run: Run, names: Sequence[str], notes: Sequence[str] = ()) -> Findings:
    """Play these figures, step by step; a claim for each."""
    rows, claims, panels = [], [], []
    for name in run.each(names):
        script = read_script(figure(name))
        result = play(script, factory(script.strategy, script.options))
        verdict = check(result.history)
        expected = Consistency[script.expected.upper()]
        views = [str(v.name) for v in script.world.views]
        cells = [["step", "what happens", *views]]
        cells.append(["", f"(strategy {script.strategy})", *(shown(b) for b in result.history.content.values())])
        for number, seen in enumerate(result.seen, 1):
            held = [shown(bag) for bag in seen.views.values()]
            cells.append([str(number), seen.step.text, *held])
            rows.append({"figure": name, "step": number, "what": seen.step.text, **dict(zip(views, held, strict=True))})
        panels.append(Panel(f"{script.title}: {verdict.level.value}", kind="grid", cells=cells))
        right = len(result.seen) - len(result.surprises)
        claims.append(
            Claim(
                script.title,
                f"{right} of {len(result.seen)} steps as the figure has them; {result.named(str(verdict))}",
                verdict.level is expected and not result.surprises,
            )
        )
    return Findings(rows, panels, claims, notes)
