"""What managers have computed: a batch of a view, and what becomes of one that must wait for the batch before it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from headwater.model.written import Written
from headwater.runtime.scheduling.families import Batch
from headwater.runtime.view import ManagedView


@dataclass(frozen=True)
class BatchWork:
    """One batch of one view, with the views that it reads. `unwritten`: by the keys of those that copy a table, what
    they have not handed on yet of the transactions up to the batch's end. `beside`: others over some of its tables.
    `behind`: a batch that it builds on is not computed yet."""

    view: ManagedView
    parents: tuple[ManagedView, ...]
    batch: Batch
    unwritten: Mapping[str, Batch] = field(default_factory=dict)
    beside: tuple[ManagedView, ...] = ()
    behind: bool = False


class Ahead(Protocol):
    """A batch, computed as far as it can be without the one before it. Called in threads of the managers' pool."""

    def finished(self) -> Written:
        """The rest, once the batch before it is computed. Called at most once."""
        ...

    def dropped(self) -> None:
        """Nobody will finish it."""


class Compute(Protocol):
    """Computes a batch, or as much of one that is behind as can be: called in a thread of the managers' pool."""

    def __call__(self, work: BatchWork) -> Written | Ahead: ...
