"""PVM CC's commit queue (section 4.2, figure 17): batches may finish in any order, their effects are committed in the
order of their transactions.

Pure: batches go in, results arrive, `released` says what may be committed now. Views that only promise convergence do
not wait for their turn, so they do not stand in this queue.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from headwater.model.names import Seq, ViewName

Result = TypeVar("Result")


@dataclass
class _Waiting(Generic[Result]):
    hi: Seq
    missing: set[ViewName]
    results: dict[ViewName, Result] = field(default_factory=dict)


class CommitQueue(Generic[Result]):
    """Batches under way, oldest first."""

    def __init__(self) -> None:
        self._batches: list[_Waiting[Result]] = []

    def __len__(self) -> int:
        return len(self._batches)

    def start(self, hi: Seq, views: Iterable[ViewName]) -> None:
        """A batch that ends at `hi` is under way for these views."""
        assert not self._batches or hi > self._batches[-1].hi, "batches start in order"
        self._batches.append(_Waiting(hi, set(views)))

    def finish(self, hi: Seq, view: ViewName, result: Result | None) -> None:
        """A view's part of a batch is computed; None if the view dropped out."""
        batch = next(b for b in self._batches if b.hi == hi)
        batch.missing.discard(view)
        if result is not None:
            batch.results[view] = result

    def released(self) -> tuple[Seq, dict[ViewName, Result]] | None:
        """The oldest batch, if all its views are done; call again for the next."""
        if self._batches and not self._batches[0].missing:
            batch = self._batches.pop(0)
            return batch.hi, batch.results
        return None

    @property
    def batches(self) -> list[Seq]:
        """The batches under way, by the transaction each ends with."""
        return [batch.hi for batch in self._batches]

    @property
    def finished(self) -> list[bool]:
        """Of each of them, whether all its views are done: it waits for those before it."""
        return [not batch.missing for batch in self._batches]
