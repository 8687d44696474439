"""PVM's figures 8 to 12: commits out of order, and the negative counter; and what the commit queue makes of it."""

from __future__ import annotations

from headwater.lab.experiment import Experiment, Findings, Run
from headwater.lab.settings.figures import played


def run(run: Run) -> Findings:
    return played(run, ("pvm-fig9", "pvm-fig12", "pvm-fig9-ordered"))


EXPERIMENT = Experiment(
    name="pvm-fig8-12",
    paper="PVM",
    shows="figures 8-12, section 4.2",
    title="Commits out of order, and the negative counter",
    did="DW = A × B. DU1 adds 3 to B, DU2 deletes 1 from A; both effects are right, but DU2's is committed first.",
    found="A warehouse without negative counts ends with the faulty tuple (1, 3); with them (1, 3)[-1] remembers what "
    "must go, and the end is right. Committing in the order of arrival (PVM CC) is complete.",
    here="The same steps three times: without negative counts, with them, and with the commit queue.",
    run=run,
)
