"""ECA, the eager compensating algorithm (Zhuge, Garcia-Molina, Hammer, Widom, SIGMOD 1995; PVM, section 8, names
it).

One source holds all relations. Every update Ui is answered with one question, evaluated there on one state:

    Qi = V⟨Ui⟩ − Σ Qj⟨Ui⟩, over the questions Qj in UQS          V⟨U⟩: the view with U in place of its relation

A question that has no answer yet will be evaluated on a state that has Ui in it already. What Ui adds to its answer is
Qj⟨Ui⟩, and the new question takes it out beforehand. So questions are signed sums of terms; a term is the view with
some occurrences replaced by changes.

Invariant: view + COLLECT + the answers to UQS, evaluated now, is the view of all updates received. So when UQS is
empty, COLLECT may be installed, and not earlier. This needs a channel that keeps its order: an update that an answer
has seen must be here before the answer. Strong: every state is a state of the source, but some of those are skipped,
and all of them while updates do not pause.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from headwater.algebra.bag import Bag
from headwater.algebra.spj import Partial, Spj, weight
from headwater.maintenance.strategies.contract import (
    WAREHOUSE,
    Answer,
    Ask,
    Commit,
    Database,
    Effect,
    Effects,
    Label,
    Node,
    Strategy,
    StrategySetting,
    Update,
)
from headwater.maintenance.strategies.sweep import changed
from headwater.model.errors import HeadwaterError


def eca(setting: StrategySetting) -> Strategy:
    if len(setting.sources) != 1:
        raise HeadwaterError(
            f"ECA knows one source; {setting.view.name} reads {', '.join(setting.sources)}",
            "use Strobe or SWEEP for several sources",
        )
    return Strategy({WAREHOUSE: Eca(setting)})


class Term(NamedTuple):
    """The view with changes in place of some occurrences, times `sign`."""

    sign: int
    bound: tuple[tuple[int, Bag], ...]

    def minus(self, i: int, change: Bag) -> Term | None:
        """−T⟨U⟩, where U changes occurrence i; None if that is empty: a relation is replaced once only."""
        if any(j == i for j, _ in self.bound):
            return None
        return Term(-self.sign, (*self.bound, (i, change)))


@dataclass(frozen=True, slots=True)
class QuerySum:
    """A question: a sum of terms, all evaluated on the same state. The answer is rows of the view."""

    view: Spj
    terms: tuple[Term, ...]

    @property
    def weight(self) -> int:
        return sum(weight(change) for term in self.terms for _, change in term.bound)

    def evaluate(self, database: Database) -> Bag:
        total = Bag()
        for term in self.terms:
            rows = self.view.finish(_joined(self.view, dict(term.bound), database))
            total = total + rows if term.sign > 0 else total - rows
        return total


def _joined(view: Spj, bound: dict[int, Bag], database: Database) -> Partial:
    """All occurrences joined: the bound ones as given, the others as they are at the source."""
    first = next(iter(bound))
    partial = Partial((first,), bound[first])
    for j in [*range(first - 1, -1, -1), *range(first + 1, view.n)]:
        if j in bound:
            partial = view.merge(partial, Partial((j,), bound[j]))
        else:
            far = view.raw_positions(j, view.join(partial.over, j).far)
            partial = view.extend(partial, j, view.as_occurrence(j, database.find(view.tables[j], far)))
    return partial


def compensated(view: Spj, update: Update, unanswered: Iterable[Term]) -> tuple[Term, ...]:
    """V⟨U⟩ − Σ Q⟨U⟩. A transaction that changes several relations is several updates, one after the other: its first
    terms are unanswered when the next are made."""
    waiting, terms = list(unanswered), list[Term]()
    for i in changed(view, update):
        change = view.reduced(i, update.changes[view.tables[i]])
        errors = [term.minus(i, change) for term in (*waiting, *terms)]
        terms += [Term(1, ((i, change),)), *(term for term in errors if term is not None)]
    return tuple(terms)


class Eca:
    """The warehouse."""

    def __init__(self, setting: StrategySetting) -> None:
        self.setting = setting
        self.uqs: dict[int, tuple[Term, ...]] = {}
        """The unanswered query set, by ticket."""
        self.collect = Bag()
        self._covers: list[Label] = []
        self._tickets = 0

    def start(self) -> Effects:
        return ()

    def receive(self, sender: Node, body: Any, now: float) -> Effects:
        if isinstance(body, Answer):
            if self.uqs.pop(body.ticket, None) is None:
                return []  # the same answer twice
            self.collect = self.collect + body.value
            return self._install()
        return [*self._ask(body), *self._install()]

    def _ask(self, update: Update) -> list[Effect]:
        self._covers.append(update.label)
        view = self.setting.view
        terms = compensated(view, update, [term for question in self.uqs.values() for term in question])
        if not terms:
            return []
        self._tickets += 1
        self.uqs[self._tickets] = terms
        return [Ask(update.source, QuerySum(view, terms), self._tickets, (update.label,))]

    def _install(self) -> list[Effect]:
        """COLLECT into the view, if nothing is unanswered."""
        if self.uqs or not self._covers:
            return []
        commit = Commit(((self.setting.view.name, self.collect),), tuple(self._covers))
        self.collect, self._covers = Bag(), []
        return [commit]
