"""PVM, table 4: the algorithms beside each other.

Consistency and quiescence are measured. What an algorithm is made of (keys, local compensation, how much it does at
once, one question to each other source) is its own code: an identity.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from headwater.lab.checker.levels import Consistency
from headwater.lab.experiment import Claim, Experiment, Findings, Panel, Run, identity
from headwater.lab.settings.features import HISTORIES, SOURCES, STEADY, UPDATES, FeatureRun, M, measure
from headwater.lab.settings.table4 import ALGORITHMS, P


class Cell(NamedTuple):
    """What table 4 says of an algorithm, what was found, and whether that is the same. `by` says by which construction
    it is, for cells that cannot be otherwise."""

    column: str
    said: str
    found: Callable[[FeatureRun], str]
    same: Callable[[FeatureRun], bool]
    why: str = ""
    by: str = ""

    def claim(self, name: str, m: FeatureRun) -> Claim:
        said = f"{name}, {self.column.lower()}: {self.said}"
        if self.by:
            return identity(said, self.found(m), self.same(m), self.by)
        return Claim(said, self.found(m), self.same(m), self.why)


def _level(said: Consistency, why: str = "") -> Cell:
    def found(m: FeatureRun) -> str:
        return f"{m.level.value}; {m.complete} of {HISTORIES} histories complete"

    return Cell("Consistency", said.value.split()[0].capitalize(), found, lambda m: m.level is said, why)


def _asked(m: FeatureRun) -> str:
    return f"{', '.join(f'{x:.2g}' for x in m.asked)} questions per update at {SOURCES[0]} … {SOURCES[-1]} sources"


def _steady(m: FeatureRun) -> str:
    return f"{m.steady} states before the last of {STEADY} inserts"


def _at_once(m: FeatureRun) -> str:
    return f"at once, at most: questions {m.questions_at_once}, view changes {m.changes_at_once}"


LINEAR = Cell("Message cost", "O(n)", _asked, lambda m: m.linear)
EACH_ONCE = LINEAR._replace(by="it asks each other source once at most for an update, whatever comes in between")
FACTORIAL = Cell("Message cost", "O(n!)", _asked, lambda m: m.factorial)
REQUIRED = Cell("Quiescence", "Required", _steady, lambda m: m.steady == m.steady_at_one == 0)
NOT_REQUIRED = Cell(
    "Quiescence",
    "Not required",
    lambda m: f"{_steady(m)}, {m.steady_mixed} if a fifth are deletes",
    lambda m: min(m.steady, m.steady_at_one, m.steady_mixed) > 0,
)
NONINTERFERENCE = Cell(
    "Quiescence",
    "Not required but requires noninterference",
    lambda m: f"{_steady(m)} at all sources, {m.steady_at_one} at one source, where none interferes",
    lambda m: m.steady == 0 and m.steady_at_one > 0,
)
KEYS = Cell(
    "Key points", "Unique key assumption", lambda m: f"{'refuses' if m.keys else 'takes'} a view without keys",
    lambda m: m.keys, by="the refusal is written into it",
)  # fmt: skip
LOCAL = Cell(
    "Key points", "Local compensation", lambda m: f"{m.local_joins:.2f} local joins per update",
    lambda m: m.local_joins > 0, by="it is how the algorithm corrects an answer",
)  # fmt: skip
CONCURRENT = Cell(
    "Key points", "Full concurrency", lambda m: f"{_at_once(m)} ({M} sources)",
    lambda m: (m.questions_at_once, m.changes_at_once) == (M - 1, 1),
    by="it asks all other sources at the same time, for one update at a time",
)  # fmt: skip
PARALLEL = Cell(
    "Key points", "Parallel execution", lambda m: f"{_at_once(m)} (p = {P})", lambda m: m.changes_at_once == P,
    by="p is the option that says how many",
)  # fmt: skip
_HOW = "how many questions it asks before an answer has come is its own loop"
SINGLE = Cell("Execution", "Single-thread", _at_once, lambda m: m.questions_at_once == 1, by=_HOW)
MULTI = Cell("Execution", "Multithread", _at_once, lambda m: m.questions_at_once > 1, by=_HOW)

PVM_ROW = (EACH_ONCE, NOT_REQUIRED, PARALLEL, MULTI)
TABLE4: dict[str, tuple[Cell, ...]] = {
    "Strobe": (_level(Consistency.STRONG), EACH_ONCE, REQUIRED, KEYS, MULTI),
    "C-Strobe": (_level(Consistency.COMPLETE), FACTORIAL, NOT_REQUIRED, KEYS, MULTI),
    "SWEEP": (_level(Consistency.COMPLETE), EACH_ONCE, NOT_REQUIRED, LOCAL, SINGLE),
    "Nested SWEEP": (_level(Consistency.STRONG), LINEAR, NONINTERFERENCE, LOCAL, SINGLE),
    "POSSE": (_level(Consistency.COMPLETE), EACH_ONCE, NOT_REQUIRED, CONCURRENT, MULTI),
    "PVM": (
        _level(
            Consistency.COMPLETE,
            "Plain PVM commits effects as they come: convergence, as its section 4.2 says. The table means PVM CC.",
        ),
        *PVM_ROW,
    ),
    "PVM CC": (_level(Consistency.COMPLETE), *PVM_ROW),
}
"""The table; PVM CC, which the paper's last row speaks of as well, is a row of its own here."""


def run(run: Run) -> Findings:
    measured = {algorithm.name: measure(algorithm, run.seed) for algorithm in run.each(ALGORITHMS)}
    rows = [{"algorithm": name, **_columns(m)} for name, m in measured.items()]
    heading = ["Algorithm", "Consistency", "Messages", "Quiescence", "Keys", "Execution"]
    cells = [heading, *([name, *_summary(m)] for name, m in measured.items())]
    asked = {name: list(zip(SOURCES, m.asked, strict=True)) for name, m in measured.items()}
    panels = [
        Panel("Table 4, as measured", kind="grid", cells=cells),
        Panel("Where updates interfere", "sources, n", "questions per update", asked, log_y=True),
    ]
    claims = [cell.claim(name, m) for name, m in measured.items() for cell in TABLE4.get(name, ())]
    return Findings(rows, panels, claims, [_beyond(measured)])


def _columns(m: FeatureRun) -> dict[str, object]:
    return {
        "level": m.level.value,
        "complete histories": f"{m.complete}/{HISTORIES}",
        "messages per update": round(m.messages, 3),
        **{f"questions per update, n = {n}": round(x, 3) for n, x in zip(SOURCES, m.asked, strict=True)},
        "linear": m.linear,
        "states, never pausing": m.steady,
        "states, never pausing at one source": m.steady_at_one,
        "states, never pausing, a fifth deletes": m.steady_mixed,
        "local joins per update": round(m.local_joins, 3),
        "view changes at once": m.changes_at_once,
        "questions at once": m.questions_at_once,
        "refuses views without keys": m.keys,
    }


def _summary(m: FeatureRun) -> list[str]:
    cost = "O(n)" if m.linear else "O(n!)" if m.factorial else "more than O(n)"
    if m.steady and m.steady_at_one:
        quiet = "not required"
    else:
        quiet = "noninterference required" if m.steady_at_one else "required"
    threads = "single-thread" if m.questions_at_once == 1 else "multithread"
    return [m.level.value, cost, quiet, "required" if m.keys else "not required", threads]


def _beyond(measured: dict[str, FeatureRun]) -> str:
    eca, wave = measured["ECA"], measured["our wave"]
    return (
        f"Beside the table: ECA, on relations of one source, has {eca.level.value} with {eca.asked[-1]:g} question per "
        f"update and {eca.steady} states while updates do not pause. Our wave has {wave.level.value} with "
        f"{wave.asked[-1]:.2f} questions per update at {SOURCES[-1]} sources, where SWEEP has "
        f"{measured['SWEEP'].asked[-1]:g}, and {wave.steady} states while updates do not pause; it needs no keys, but "
        f"sources that answer as of a position."
    )


EXPERIMENT = Experiment(
    name="pvm-table4",
    paper="PVM",
    shows="table 4, section 8",
    title="The algorithms beside each other",
    did="Table 4 compares Strobe, C-Strobe, SWEEP, Nested SWEEP, POSSE and PVM: the consistency they reach, how "
    "messages grow with the number of sources n, whether they need a quiet moment, what they rest on, and whether they "
    "work on several things at the same time. It cites the originals; nothing was measured.",
    found="SWEEP, C-Strobe, POSSE and PVM are complete, Strobe and Nested SWEEP strong. Only C-Strobe needs more than "
    "O(n) messages, only Strobe needs quiescence.",
    here=f"Consistency is what the checker finds in all of {HISTORIES} generated histories of {UPDATES} updates at {M} "
    "sources. Messages are counted where a delete at each other source meets the questions about an insert. Quiescence "
    "is needed if no state appears while updates do not pause. ECA (with one source), PVM CC and our wave are added.",
    run=run,
)
