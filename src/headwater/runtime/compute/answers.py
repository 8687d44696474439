"""Answers that views share: who asks the same table by the same columns as of the same position is told what another
has been told.

Views over one table are in one group, and a change of what they join it with makes each of them ask for the same keys.
The first asks, for the columns that any of them needs; the others wait for its answer and take their part of it.

Invariant: an answer as of a position never changes, and its rows are found by key; so the rows of some of its keys and
columns are the answer to the question about those. What is remembered only saves asking: nothing found, or a question
that failed for the other, means to ask oneself.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from headwater.maintenance.keys import key_set
from headwater.model.changelog import COUNT
from headwater.model.conditions import Condition
from headwater.model.errors import HeadwaterError
from headwater.model.names import Position, TableName
from headwater.model.schema import Identities
from headwater.model.source import ORDINAL, Question, SourceSpec

MOST_BYTES = 32_000_000
"""So much is remembered; what was asked for longest ago is forgotten first."""


@dataclass(frozen=True)
class Signature:
    """What answers must agree in to be shared. `meant`: which columns were checked to be the ones that views mean."""

    source: SourceSpec
    position: Position
    table: TableName
    key: tuple[str, ...]
    conditions: tuple[Condition, ...]
    meant: str


@dataclass(frozen=True)
class Wider:
    """What the views of a group need of a table under the same conditions: columns, and which ones they mean."""

    columns: pa.Schema
    identities: Identities

    @property
    def meant(self) -> str:
        return repr(sorted(self.identities.items()))


@dataclass(eq=False)
class _Told:
    """A question that was asked, or is being asked."""

    question: Question
    answer: Future[pa.Table] = field(default_factory=Future)

    def covers(self, question: Question) -> np.ndarray[tuple[int], np.dtype[np.int64]] | None:
        """The number of each asked key among these, if all are, and all columns."""
        if not set(question.columns) <= set(self.question.columns):
            return None
        known, (numbers,) = key_set([[self.question.keys.column(k) for k in question.key]])
        place = np.full(len(known), -1)
        place[numbers] = np.arange(len(numbers))
        found = known.numbers([question.keys.column(k) for k in question.key])
        return place[found] if (found >= 0).all() else None

    @property
    def size(self) -> int:
        return int(self.question.keys.nbytes + (self.answer.result().nbytes if self.answer.done() else 0))


Ask = Callable[[Question], pa.Table]


class Answers:
    """Those of one process. Called by many threads."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most = most_bytes
        self._told: OrderedDict[Signature, list[_Told]] = OrderedDict()
        self._lock = threading.Lock()

    def answer(self, signature: Signature, question: Question, wider: Question, ask: Ask) -> tuple[pa.Table, bool]:
        """The answer, and whether somebody else had asked. `wider` asks for the same keys and more columns."""
        with self._lock:
            for told in self._told.get(signature, ()):
                places = told.covers(question)
                if places is not None:
                    break
            else:
                told, places = _Told(wider), None
                self._told.setdefault(signature, []).append(told)
            self._told.move_to_end(signature)
        if places is None:
            return self._asked(signature, told, question, ask), False
        try:
            found = told.answer.result()
        except HeadwaterError:  # it may have been about a column that this question does not want
            return ask(question), False
        return _part(found, places, told.question.keys.num_rows, question), True

    def _asked(self, signature: Signature, told: _Told, question: Question, ask: Ask) -> pa.Table:
        try:
            rows = ask(told.question)
        except BaseException as error:
            self._forget(signature, told)
            told.answer.set_exception(error if isinstance(error, HeadwaterError) else HeadwaterError(str(error)))
            if isinstance(error, HeadwaterError) and told.question.columns != question.columns:
                return ask(question)
            raise
        told.answer.set_result(rows)
        self._shrink()
        return rows.select([ORDINAL, *question.columns, COUNT])

    def _forget(self, signature: Signature, told: _Told) -> None:
        with self._lock:
            rest = [other for other in self._told.get(signature, ()) if other is not told]
            self._told[signature] = rest
            if not rest:
                del self._told[signature]

    def _shrink(self) -> None:
        with self._lock:
            total = sum(told.size for tolds in self._told.values() for told in tolds)
            while total > self._most and self._told:
                _, tolds = self._told.popitem(last=False)
                total -= sum(told.size for told in tolds)


def _part(
    rows: pa.Table, places: np.ndarray[tuple[int], np.dtype[np.int64]], keys: int, question: Question
) -> pa.Table:
    """Of the answer about so many keys, what this question asks for, under its own ordinals."""
    ordinal = np.full(keys, -1)
    ordinal[places] = np.arange(len(places))
    mine = ordinal[rows.column(ORDINAL).to_numpy()]
    rows = rows.select([ORDINAL, *question.columns, COUNT]).set_column(0, ORDINAL, pa.array(mine))
    return rows.filter(pa.array(mine >= 0))


ANSWERS = Answers()
"""This process's."""
