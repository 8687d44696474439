"""The consistency levels of a warehouse, as data: what each asks for, what it implies, and where it is defined.

    complete ⇒ strong ⇒ consistency ⇒ weak
               strong ⇒ convergence

The papers differ. These are PVM's levels (section 4.1), made exact:

- A *source state* is a vector: how many transactions of each source are in. Transactions of different sources commute,
  so every interleaving is an equivalent serial schedule, and every vector is a source state (PVM, section 2.4,
  definition 2). A transaction over several sources is one step: vectors that hold a part of it are no source states.
- The source states form a lattice, PVM's state order diagram (definition 1). A way up through it is a legal order
  (definition 2).
- A warehouse state is what a reader sees: rows with counts below one are not there. The initial state is one of them.
  At the end no count may be below zero (PVM, lemma 7): the next insert of such a row would be lost.
- With several views, a warehouse state is the content of all of them together (MVC, section 2.3).
- Weak consistency says nothing of the end, as in PVM; in Cluster (section 2.2) it includes convergence.
- A transaction that does not change the views needs no warehouse state of its own, and a warehouse state that repeats
  the one before needs no transaction: consecutive equal contents count as one. The papers do not say. Taken literally,
  MVC's and Cluster's mapping from warehouse states onto source states would ask for an empty commit.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum


class Consistency(Enum):
    """The levels, each stronger than those before it; but weak consistency and consistency do not imply convergence."""

    NONE = "no consistency"
    CONVERGENCE = "convergence"
    WEAK = "weak consistency"
    CONSISTENCY = "consistency"
    STRONG = "strong consistency"
    COMPLETE = "complete consistency"

    @property
    def rank(self) -> int:
        return _RANKS[self]

    @property
    def adjective(self) -> str:
        """What a history is called that has it."""
        return ADJECTIVES[self]

    @property
    def meaning(self) -> str:
        """The definition in words, as it is checked here."""
        return MEANINGS[self]

    @property
    def citation(self) -> str:
        return CITATIONS[self]

    @property
    def implies(self) -> frozenset[Consistency]:
        """Every level that holds where this one does, itself included."""
        implied = {self}
        for weaker in _IMPLIES[self]:
            implied |= weaker.implies
        return frozenset(implied)


_RANKS = {level: rank for rank, level in enumerate(Consistency)}

ADJECTIVES: dict[Consistency, str] = {
    Consistency.NONE: "anything",
    Consistency.CONVERGENCE: "convergent",
    Consistency.WEAK: "weakly consistent",
    Consistency.CONSISTENCY: "consistent",
    Consistency.STRONG: "strongly consistent",
    Consistency.COMPLETE: "complete",
}

MEANINGS: dict[Consistency, str] = {
    Consistency.NONE: "nothing is promised",
    Consistency.CONVERGENCE: "the last warehouse state is the views over the last source state, nothing is hidden",
    Consistency.WEAK: "every warehouse state is the views over some source state",
    Consistency.CONSISTENCY: "one way up through the source states passes all warehouse states, in their order",
    Consistency.STRONG: "consistency, and convergence",
    Consistency.COMPLETE: "strong consistency, and every source state on the way, step by step, is a warehouse state",
}

CITATIONS: dict[Consistency, str] = {
    Consistency.NONE: "",
    Consistency.CONVERGENCE: "PVM section 4.1 definition 3 and section 2.4 definition 3; Cluster section 2.2 (1)",
    Consistency.WEAK: "PVM section 4.1 definition 3 and section 2.4 definition 2; Cluster section 2.2 (2) differs",
    Consistency.CONSISTENCY: "PVM section 4.1 definitions 1-3",
    Consistency.STRONG: "PVM section 4.1 definition 3; MVC sections 2.2 and 2.3; Cluster section 2.2 (3)",
    Consistency.COMPLETE: "PVM section 4.1 definition 3; MVC sections 2.2 and 2.3; Cluster section 2.2 (4)",
}

_IMPLIES: dict[Consistency, tuple[Consistency, ...]] = {
    Consistency.NONE: (),
    Consistency.CONVERGENCE: (Consistency.NONE,),
    Consistency.WEAK: (Consistency.NONE,),
    Consistency.CONSISTENCY: (Consistency.WEAK,),
    Consistency.STRONG: (Consistency.CONSISTENCY, Consistency.CONVERGENCE),
    Consistency.COMPLETE: (Consistency.STRONG,),
}


def strongest(holds: Iterable[Consistency]) -> Consistency:
    """The strongest of these levels; NONE if there is none."""
    return max(holds, key=lambda level: level.rank, default=Consistency.NONE)
