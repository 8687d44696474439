"""PVM's figures 6 and 7: a concurrent update that is missed, and caught."""

from __future__ import annotations

from headwater.lab.experiment import Experiment, Findings, Run
from headwater.lab.settings.figures import played


def run(run: Run) -> Findings:
    return played(run, ("pvm-fig6", "pvm-fig7"))


EXPERIMENT = Experiment(
    name="pvm-fig6-7",
    paper="PVM",
    shows="figures 6 and 7",
    title="A concurrent update that is missed, and caught by the retained set",
    did="Two updates at two sources. DU2 is handled faster than DU1 and has left the system when the answer to DU1, "
    "which contains DU2, arrives.",
    found="Checking the queue (UMQ) and the updates under way (PPU) is not enough; updates that are done must be kept "
    "(RPU) while an earlier one is not.",
    here="Both figures are histories that can be read: `headwater lab check pvm-fig6`. The figure gives no rows; these "
    "are the smallest that show it. Figure 7 is played with PVM, figure 6 with PVM whose RPU is emptied.",
    run=run,
)
