"""What an experiment is: what the paper did and found, and a function that does it again.

An experiment returns *findings*: a table (the CSV), panels (the plot) and claims, the paper's sentences each beside
what was measured. Where a claim does not hold here, `why` says why; nothing is tuned until it fits.

Where a measurement has confidence intervals, a claim may be *undecided*: they allow for both.

A claim is *confirmed* only if it could have failed. One that follows from how the lab is built is an *identity*: the
simulator charges the very formula, the load is defined by what is to be shown, two algorithms are the same code, or it
is arithmetic. No seed and no world can make it false. Identities are shown, and counted apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal, TypeVar

T = TypeVar("T")

PAPERS: Mapping[str, str] = {
    "PVM": "Zhang, Ding, Rundensteiner: Parallel multisource view maintenance",
    "MVC": "Zhuge, Wiener, Garcia-Molina: Multiple view consistency for data warehousing",
    "TID": "Moro, Sartori: Incremental maintenance of multi-source views",
    "Cluster": "Liang, Yu: Parallel maintenance of materialized views on personal computer clusters",
    "Pull-Push": "Adly, Taha, Nagi, Samaan: View maintenance in mobile environments using interleaved Pull-Push",
    "ours": "The wave beside all of them",
}
"""What an experiment's `paper` may be, with its heading in the report; in this order."""

Kind = Literal["lines", "bars", "stacked", "grid"]


@dataclass(frozen=True)
class Panel:
    """One picture of a figure.

    lines     `series`: name → points (x, y); numbers on both axes
    bars      `series`: name → points (category, y); grouped by category
    stacked   `series`: name → points (category, y); on top of each other
    grid      `cells`: rows of text, the first is the heading; a table drawn as one
    """

    title: str
    x: str = ""
    y: str = ""
    series: Mapping[str, Sequence[tuple[Any, float]]] = field(default_factory=dict)
    spread: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """Of lines: how far the confidence interval of each point reaches up and down."""
    kind: Kind = "lines"
    cells: Sequence[Sequence[str]] = ()
    log_y: bool = False
    log_x: bool = False


class ClaimKind(Enum):
    """Could it have come out otherwise?"""

    MEASURED = "measured"
    IDENTITY = "identity"


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, what was measured here, and whether they agree. `why` explains a disagreement, what the
    agreement leaves open, or by which construction an identity is true."""

    said: str
    measured: str
    holds: bool
    why: str = ""
    kind: ClaimKind = ClaimKind.MEASURED
    undecided: bool = False
    """It does not hold, nor does it fail: the confidence intervals do not tell."""

    @property
    def confirmed(self) -> bool:
        """It holds, and might not have."""
        return self.holds and self.kind is ClaimKind.MEASURED


def identity(said: str, measured: str, holds: bool, because: str) -> Claim:
    """A claim that is true by construction. Where it does not hold, the lab is wrong, not the paper."""
    return Claim(said, measured, holds, because, ClaimKind.IDENTITY)


@dataclass(frozen=True)
class Findings:
    rows: Sequence[Mapping[str, Any]]
    panels: Sequence[Panel]
    claims: Sequence[Claim]
    notes: Sequence[str] = ()
    """Paragraphs for the report: what a reader should know, worked examples as text."""


@dataclass
class Run:
    """What an experiment is given: a seed, and somebody to tell how far it has come."""

    seed: int = 0
    tell: Callable[[int, int], None] = lambda done, of: None

    def each(self, items: Iterable[T]) -> Iterator[T]:
        """The items, while the progress bar moves."""
        known = list(items)
        for n, item in enumerate(known):
            self.tell(n, len(known))
            yield item
        self.tell(len(known), len(known))


@dataclass(frozen=True)
class Experiment:
    """`name` is what a person types; `paper` one of PAPERS; `shows` where in it."""

    name: str
    paper: str
    shows: str
    title: str
    did: str
    """What the paper did, with its parameters."""
    found: str
    """What it found."""
    here: str
    """What is different here."""
    run: Callable[[Run], Findings]
