"""A run at one moment, as frozen values: what displays and the report are given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headwater.model.names import Seq, ViewName


@dataclass(frozen=True)
class Loading:
    """A first load under way; `total` rows are expected, None if that is not known."""

    views: Sequence[ViewName]
    started: float
    rows: int = 0
    total: int | None = None
    step: str = "copying"


@dataclass(frozen=True)
class SourceNow:
    """`numbered` is where it was with everything of it that has a number; `lag` how long its last transactions took
    to be shown."""

    name: str
    state: str
    reason: str
    since: float
    position: str
    numbered: str
    transactions: int
    lag: float | None


@dataclass(frozen=True)
class ViewNow:
    """A view that is shown."""

    name: str
    state: str
    reason: str
    seq: int
    level: str
    rows_changed: int


@dataclass(frozen=True)
class FreshnessNow:
    """How fresh a view is shown, from commit to visible: its `last` measurement, and the oldest commit that it does not
    show yet (`since`, seconds since 1970; None: it shows everything). `seconds` and `buckets` (counts, by
    `freshness.BOUNDS`) are of all measurements since the run began."""

    last: float | None
    since: float | None
    seconds: float
    buckets: Sequence[int]


@dataclass(frozen=True)
class ManagerNow:
    """A view that is maintained, `shown` or not yet: how far it is computed, what it waits for and since when. What it
    asked since the run began: `questions` of sources, `saved` of views that are kept, or what another view had asked
    already; `rows_changed` is what came of it."""

    name: str
    shown: bool
    computed: int
    waits: str
    since: float
    questions: int = 0
    saved: int = 0
    rows_changed: int = 0
    freshness: FreshnessNow | None = None


@dataclass(frozen=True)
class RowNow:
    """A row of a view update table: `entries` are colour and state per view, `actions` the views whose lists wait."""

    lo: int
    hi: int
    about: Sequence[str]
    since: float
    entries: Mapping[str, Sequence[str | int]]
    actions: Sequence[str]


@dataclass(frozen=True)
class GroupNow:
    """One merge process: `waiting` rows in its table (the first of them in `rows`), `committing` transactions."""

    algorithm: str
    sources: Sequence[str]
    views: Mapping[str, str]
    rows: Sequence[RowNow]
    waiting: int
    committing: int


@dataclass(frozen=True)
class ChangeNow:
    """Views being built and dropped."""

    views: Sequence[str]
    drop: Sequence[str]
    phase: str


@dataclass(frozen=True)
class LegNow:
    """A batch (lo, hi] of a view on its way: the oldest commit in it (`first`, at `source`; 0 if not known), when it
    was numbered, begun and handed on; `asking` is the time of all its `questions`. Times are seconds since 1970."""

    view: str
    lo: int
    hi: int
    source: str
    first: float
    numbered: float
    begun: float
    computed: float
    questions: int
    asking: float


@dataclass(frozen=True)
class MomentNow:
    """A cut, and what it waited for: of its `batches` those that were computed last, the last one first."""

    cut: int
    at: float
    batches: int
    legs: Sequence[LegNow]


@dataclass(frozen=True)
class Counts:
    """What has passed so far. `batches` are cuts; `computed` are batches of single views, `retries` those that could
    not be computed at first; `bytes` are of questions and answers."""

    transactions: int
    changes: int
    batches: int
    questions: int
    keys: int
    scans: int
    computed: int = 0
    retries: int = 0
    halts: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class Totals:
    """`lag` is that of the newest batch, `lag_p50` the median of the last minute's: seconds from the commit of a
    batch's oldest transaction at its source until the cut that shows it."""

    seconds: float
    counts: Counts
    lag: float | None
    lag_p50: float | None


@dataclass(frozen=True)
class RunSnapshot:
    """Everything that can be said of a run at one moment. `numbered` is the newest transaction that has a number."""

    at: float
    cut: int
    seq: Seq
    numbered: Seq
    totals: Totals
    load: Loading | None
    sources: Sequence[SourceNow]
    views: Sequence[ViewNow]
    managers: Sequence[ManagerNow]
    groups: Sequence[GroupNow]
    building: ChangeNow | None
    not_built: Mapping[str, str]
    missing: Sequence[Mapping[str, object]]
    """Global transactions that lack parts."""
    torn: Sequence[str]
    moments: Sequence[MomentNow] = ()
    """What the newest cuts waited for, oldest first."""
    merging_seconds: float = 0.0
    """Time the merge processes spent deciding."""
